//! What people agreed to, by the command line.

use insta::assert_snapshot;
use serde_json::Value;

use crate::world::World;

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn an_operator_subscribes_explains_and_gives_reasons() {
    let world = World::new();
    world.ok(&["bootstrap", "--client", "shop"]);
    let made = json(&world.ok(&["audiences", "create", "news", "--name", "The news"]));
    assert_eq!((&made["slug"], &made["double_opt_in"]), (&"news".into(), &false.into()));
    world.ok(&["topics", "create", "tips"]);
    let ada = "ada@example.org";
    let explain = ["explain", ada, "--kind", "campaign", "--client", "shop", "--audience", "news"];
    assert_eq!(json(&world.ok(&explain))["reason"], "not_subscribed");
    let subscribe = ["subscriptions", "subscribe", ada, "--audience", "news"];
    assert_eq!(json(&world.ok(&subscribe))["subscription"]["status"], "subscribed");
    assert_eq!(json(&world.ok(&explain))["verdict"], "send");
    let leave = ["subscriptions", "unsubscribe", ada, "--scope", "audience", "--audience", "news"];
    assert_eq!(json(&world.ok(&leave))["changed"], true);
    assert_eq!(json(&world.ok(&leave))["changed"], false);
    assert_snapshot!("explained", world.ok(&explain).replace(&left_at(&world), "[time]"));

    let refused = world.run(&subscribe);
    assert_eq!(refused.code, 1);
    assert_snapshot!("subscribe_needs_reason", refused.stderr);
    let with_reason = [&subscribe[..], &["--reason", "asked on the phone"]].concat();
    assert_eq!(json(&world.ok(&with_reason))["subscription"]["status"], "subscribed");
    let proof = world.ok(&["subscriptions", "proof", ada]);
    let actions: Vec<_> = proof.lines().map(|line| json(line)["action"].clone()).collect();
    assert_eq!(actions, ["resubscribed", "unsubscribed", "subscribed"]);

    let missing = world.run(&["subscriptions", "subscribe", ada, "--audience", "none"]);
    assert_snapshot!("audience_missing", missing.stderr);
    let missing = world.run(&["subscriptions", "unsubscribe", ada, "--scope", "client"]);
    assert_eq!(missing.code, 2);
}

fn left_at(world: &World) -> String {
    let listed = json(&world.ok(&["subscriptions", "list", "ada@example.org"]));
    listed["unsubscribed_at"].as_str().unwrap().to_owned()
}

#[test]
fn display_names_are_set_and_shown() {
    let world = World::new();
    world.ok(&["bootstrap"]);
    let none = r#"{"names":{}}"#;
    assert_eq!(world.ok(&["settings", "display-names"]).trim(), none);
    let names = r#"{"names":{"planName":{"pro":"Professional"}}}"#;
    world.write("names.json", names);
    assert_eq!(world.ok(&["settings", "display-names", "names.json"]).trim(), names);
    assert_eq!(world.ok(&["settings", "display-names"]).trim(), names);
    world.write("names.json", r#"{"names":{"plan":{"pro":1}}}"#);
    let refused = world.run(&["settings", "display-names", "names.json"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("with Name at its end"), "{refused:?}");
    assert_eq!(world.ok(&["settings", "display-names"]).trim(), names);
}

#[test]
fn sending_settings_are_set_and_shown() {
    let world = World::new();
    world.ok(&["bootstrap"]);
    let set = ["settings", "sending", "--frequency-cap-count", "3", "--frequency-cap-hours", "24"];
    let quiet =
        ["--quiet-from", "21:00", "--quiet-until", "08:00", "--quiet-zone", "Europe/Berlin"];
    let set = json(&world.ok(&[&set[..], &quiet].concat()));
    assert_eq!((&set["quiet_from"], &set["frequency_cap_hours"]), (&"21:00".into(), &24.into()));
    assert_eq!(json(&world.ok(&["settings", "show"])), set);
    let half = world.run(&["settings", "sending", "--quiet-from", "21:00"]);
    assert_eq!(half.code, 2);
    assert_snapshot!("settings_half", half.stderr);
}

#[test]
fn an_operator_lets_ask_for_a_confirmation_and_tries_the_mail() {
    let world = World::new();
    world.ok(&["bootstrap", "--client", "shop"]);
    world.ok(&["senders", "add", "news", "--client", "shop", "--from", "news@example.org"]);
    let create =
        ["audiences", "create", "news", "--double-opt-in", "--confirm-template", "confirm"];
    let early = world.run(&create);
    assert_eq!(early.code, 2);
    assert!(early.stderr.contains("there is no active template confirm"), "{}", early.stderr);
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("templates")).unwrap();
    let template =
        "---\nsubject = \"Confirm\"\nrequired = [\"confirm_url\"]\n---\n<p>{{ confirm_url }}</p>\n";
    std::fs::write(folder.path().join("templates/confirm.html"), template).unwrap();
    world.ok(&["apply", folder.path().to_str().unwrap(), "--yes"]);
    world.ok(&create);
    let subscribe = ["subscriptions", "subscribe", "ada@example.org", "--audience", "news"];
    for _ in 0..3 {
        let told = json(&world.ok(&subscribe));
        assert_eq!(told["to_confirm"], true);
        assert_eq!(told["confirmation"]["outcome"], "queued", "{told}");
    }
    assert_eq!(json(&world.ok(&subscribe))["confirmation"]["outcome"], "limited");

    let test = ["templates", "test", "confirm", "--to", "Me@example.org", "--to", "me@example.org"];
    let refused = world.run(&test);
    assert_eq!(refused.code, 1, "it has no example for what it needs: {refused:?}");
    let told =
        json(&world.ok(&[&test[..], &["--given", "confirm_url=https://x.example"]].concat()));
    assert_eq!((&told["to"], &told["status"]), (&"me@example.org".into(), &"queued".into()));
    let shown = json(&world.ok(&["messages", "show", &told["id"].to_string()]));
    assert_eq!(shown["metadata"]["test"], true, "{shown}");

    let message = format!("t-{}", told["id"]);
    let decided = json(&world.ok(&["events", "recompute", "--message", &message]));
    assert_eq!((&decided["message"], &decided["changed"]), (&message.into(), &0.into()));
    assert_eq!(world.ok(&["events", "recompute", "--contact", "ada@example.org"]), "");
    assert_eq!(world.run(&["events", "recompute", "--message", "x-1"]).code, 2);
}
