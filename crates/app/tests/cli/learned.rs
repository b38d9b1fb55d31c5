//! What was learned of a person, his numbers, and rules of memory in a folder.

use serde_json::{Value, json};

use crate::world::World;

const ADA: &str = "ada@example.org";

fn begun() -> World {
    let world = World::new();
    world.ok(&["bootstrap"]);
    world.ok(&["contacts", "set", ADA]);
    world
}

fn json_of(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// Puts an event on the timeline of the first contact, as ingestion does.
fn happens(world: &World, id: &str, kind: &str, payload: &Value) {
    let at = format!("2026-06-0{id}T10:00:00.000Z");
    let event = json!({
        "lead_organization_id": "1",
        "occurred_at#id": format!("{at}#{id}"),
        "event_type#occurred_at": format!("{kind}#{at}"),
        "event_type": kind, "source_type": "test", "source": "test", "external_event_id": id,
        "received_at": at, "payload": payload,
    });
    world.ok(&["items", "put", "event", &event.to_string()]);
    let guard = json!({
        "lead_organization_id": "IDEMPOTENCY#test", "occurred_at#id": id,
        "event_lead_organization_id": "1", "event_key": format!("{at}#{id}"),
    });
    world.ok(&["items", "put", "event", &guard.to_string()]);
}

#[test]
fn a_timeline_is_a_story_and_people_can_be_joined_and_taken_apart() {
    let world = begun();
    world.ok(&["contacts", "set", "ada@example.com"]);
    happens(&world, "1", "purchase_completed", &json!({"amount": 12.5, "currency": "EUR"}));
    happens(&world, "2", "email.opened", &json!({"subject": "Welcome", "kind": "campaign"}));
    let story = world.ok(&["contact", "timeline", ADA]);
    let lines: Vec<_> = story.lines().collect();
    assert_eq!(lines.len(), 2, "{story}");
    assert!(lines[0].ends_with("  2026-06-02 10:00  opened  “Welcome”"), "{story}");
    assert!(lines[1].ends_with("  2026-06-01 10:00  purchase completed  12.5 EUR"), "{story}");
    let one = world.ok(&["contact", "timeline", "1", "--json", "--type", "email.opened"]);
    assert_eq!(json_of(&one)["payload"]["subject"], "Welcome");
    assert_eq!(world.ok(&["contact", "event", "test", "2"]), one);
    let none = world.run(&["contact", "event", "test", "3"]);
    assert!(none.code != 0 && none.stderr.contains("test told no event 3"), "{}", none.stderr);
    let merged = json_of(&world.ok(&["contact", "merge", "ada@example.com", ADA]));
    assert_eq!((&merged["contact_id"], &merged["merged_id"]), (&json!(1), &json!(2)));
    let known = json_of(&world.ok(&["contact", "identities", "ada@example.com"]));
    assert_eq!(known["identities"][1]["is"], "SUB#ada@example.com");
    assert_eq!(known["merged"], json!([2]));
    assert!(world.ok(&["contact", "timeline", "ada@example.com"]).contains("Welcome"));
    assert_eq!(world.run(&["contact", "merge", "1", "2"]).code, 2);
    world.ok(&["contact", "unmerge", "1"]);
    assert!(json_of(&world.ok(&["contact", "merges"]))["undone_at"].is_string());
    assert_eq!(world.ok(&["contact", "timeline", "ada@example.com"]), "");
    assert_eq!(world.ok(&["contact", "flags"]), "");
    assert_eq!(
        json_of(&world.ok(&["settings", "identity"])),
        json!({"shared_identities": "merge"})
    );
    let set = json_of(&world.ok(&["settings", "identity", "flag"]));
    assert_eq!(set, json!({"shared_identities": "flag"}));
    assert_eq!(world.run(&["contact", "dismiss", "1"]).code, 2);
    assert_ne!(world.run(&["contact", "timeline", "nobody@example.org"]).code, 0);
}

#[test]
fn what_somebody_is_not_known_by_is_detached() {
    let world = begun();
    let detach = |what: &str| world.run(&["contact", "detach", ADA, what]);
    let ran = detach("phone=+493012345");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"detached\":false}\n"), "{}", ran.stderr);
    for (what, told) in [
        ("email=ada@example.org", "an address stays"),
        ("ada@example.org", "use channel=value"),
        ("fax=1", "use email, phone"),
    ] {
        let ran = detach(what);
        assert!(ran.code == 2 && ran.stderr.contains(told), "{what}: {}", ran.stderr);
    }
}

#[test]
fn memory_and_features_are_rebuilt_shown_and_stated() {
    let world = begun();
    happens(&world, "1", "purchase_completed", &json!({"amount": "12.50", "product": "tea"}));
    happens(&world, "2", "preference_set", &json!({"preference": "colour", "value": "red"}));
    let rebuilt = json_of(&world.ok(&["contact", "rebuild", ADA]));
    assert_eq!(rebuilt, json!({"memories_changed": 2, "features": "computed"}));
    let again = json_of(&world.ok(&["contact", "rebuild", "1"]));
    assert_eq!(again["memories_changed"], 0);
    let known = world.ok(&["contact", "memory", ADA, "--type", "preference"]);
    assert_eq!(json_of(&known)["value"], "red");
    assert_eq!(world.ok(&["contact", "memory", "1"]).lines().count(), 2);

    let said = ["contact", "remember", ADA, "preference", "size", "42", "--expires-after", "30d"];
    let said = json_of(&world.ok(&said));
    assert_eq!((&said["value"], &said["source"]), (&json!(42), &json!("cli")));
    let forget = ["contact", "forget-memory", ADA, "preference", "size"];
    assert_eq!(json_of(&world.ok(&forget)), json!({"forgotten": true, "left": null}));
    assert!(world.run(&forget).stderr.contains("nothing like this was stated"));
    let now = json_of(&world.ok(&["contact", "features", ADA]));
    assert_eq!(now["features"]["monetary_total"], json!(12.5));
    let then = ["contact", "features", ADA, "--as-of", "2026-05-01T00:00:00Z"];
    assert_eq!(json_of(&world.ok(&then))["features"]["has_purchased"], json!(false));
    assert_eq!(world.ok(&["contact", "rebuild", "--all"]), "{\"begun\":true}\n");
    for (arguments, told) in [
        (vec!["contact", "memory", "bob@example.org"], "there is no such contact"),
        (vec!["contact", "memory", "user_id=7"], "there is no such contact"),
        (vec!["contact", "features", ADA, "--as-of", "2999-01-01T00:00:00Z"], "a moment to come"),
        (vec!["contact", "remember", ADA, "Bad", "x", "1"], "lower-case letters"),
        (vec!["contact", "remember", ADA, "a", "x", "1", "--confidence", "7"], "at most 1"),
        (vec!["contact", "rebuild"], "--all"),
    ] {
        let ran = world.run(&arguments);
        assert_ne!(ran.code, 0, "{arguments:?}");
        assert!(ran.stderr.contains(told), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn a_file_of_events_is_told_and_what_is_wrong_is_named_by_its_line() {
    let world = begun();
    let event = |id: &str| {
        let who = json!([{"channel": "email", "value": ADA}]);
        json!({"event_type": "seen", "external_event_id": id, "identities": who}).to_string()
    };
    let tell = |lines: &[String]| {
        world.write("events.jsonl", &lines.join("\n"));
        let file = world.path("events.jsonl");
        world.run(&["contact", "tell", file.to_str().unwrap(), "--source", "shop"])
    };
    // More than are taken at once.
    let many: Vec<String> = (0..501).map(|id| event(&id.to_string())).collect();
    let told = tell(&many);
    assert_eq!((told.code, told.stdout.as_str()), (0, "{\"told\":501}\n"), "{}", told.stderr);
    let from_stdin =
        world.run_with_input(&["contact", "tell", "-"], &format!("\n{}\n", event("x")));
    assert_eq!(from_stdin.stdout, "{\"told\":1}\n");
    let other = |from: &str, to: &str| event("y").replace(from, to);
    for (line, told) in [
        ("nonsense".to_owned(), "line 2: expected ident"),
        (other("identities", "identity"), "line 2: unknown field `identity`"),
        (other(ADA, "ada"), "line 2: identities[0].value: "),
        (other("email", "fax"), "line 2: identities[0].channel: "),
        (other("seen", "segment.entered"), "line 2: event_type: "),
    ] {
        let ran = tell(&[event("z"), line]);
        assert_eq!(ran.code, 2);
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
        assert!(ran.stderr.contains("nothing was told"), "{}", ran.stderr);
    }
    let ran = tell(&[many, vec!["{".to_owned()]].concat());
    assert!(
        ran.stderr.contains("line 502: ") && ran.stderr.contains("first 500 events"),
        "{}",
        ran.stderr
    );
}

#[test]
fn rules_of_a_folder_are_checked_and_applied() {
    let world = begun();
    std::fs::create_dir_all(world.path("mail/memory-rules")).unwrap();
    let rules = "description: Shop\nrules:\n  - name: plan\n    on: plan_changed\n    type: plan\n    key: current\n    value: $.plan\n";
    world.write("mail/memory-rules/shop.yaml", rules);
    let added = json_of(&world.ok(&["apply", "mail", "--yes"]));
    assert_eq!(added, json!({"kind": "memory_rules", "key": "shop", "change": "added"}));
    let again = json_of(&world.ok(&["apply", "mail", "--yes"]));
    assert_eq!(again["change"], "unchanged");
    happens(&world, "1", "plan_changed", &json!({"plan": "pro"}));
    world.ok(&["contact", "rebuild", ADA]);
    let known = json_of(&world.ok(&["contact", "memory", ADA]));
    assert_eq!((&known["value"], &known["source"]), (&json!("pro"), &json!("rule:plan")));

    world.write(
        "mail/memory-rules/shop.yaml",
        "rules:\n  - name: plan\n    on: x\n    typ: a\n    key: k\n    value: $.\n",
    );
    world.write("mail/memory-rules/Bad Name.yaml", rules);
    let refused = world.run(&["apply", "mail", "--yes"]);
    assert_eq!(refused.code, 1);
    insta::assert_snapshot!("memory_rules_refused", refused.stderr);
}
