//! Segments on the command line and in a folder.

use serde_json::{Value, json};

use crate::world::World;

fn json_of(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

fn begun() -> World {
    let world = World::new();
    world.ok(&["bootstrap"]);
    for (name, plan) in [("ada", "pro"), ("bob", "free")] {
        let email = format!("{name}@example.org");
        world.ok(&["contacts", "set", &email, "--attribute", &format!("plan={plan}")]);
    }
    world
}

/// The pages of a build, one after the other.
fn build(world: &World, rev: i64, pages: i64) {
    for page in 1..=pages {
        let body = json!({
            "contract": "segment-build", "version": 1, "workspace": "default",
            "segment_id": 1, "rev": rev, "page": page,
        });
        let event = json!({"Records": [{"messageId": "m", "body": body.to_string()}]});
        let ran =
            world.run_with_input(&["worker", "handle", "segment-processing"], &event.to_string());
        assert_eq!(ran.stdout, "{\"batchItemFailures\":[]}\n", "{}", ran.stderr);
    }
}

#[test]
fn a_segment_is_put_built_shown_explained_and_deleted() {
    let world = begun();
    let condition = r#"{"attribute":"plan","equals":"pro"}"#;
    let put = json_of(&world.ok(&["segment", "put", "pros", "--condition", condition]));
    assert_eq!((&put["state"], &put["name"]), (&json!("building"), &json!("pros")));
    build(&world, 1, 2);
    let shown = json_of(&world.ok(&["segment", "show", "pros"]));
    assert_eq!((&shown["state"], &shown["members"]), (&json!("live"), &json!(1)));
    assert_eq!(world.ok(&["segment", "list"]).lines().count(), 1);
    let members = json_of(&world.ok(&["segment", "members", "pros"]));
    assert_eq!(members["email"], "ada@example.org");
    let why = json_of(&world.ok(&["segment", "why", "pros", "bob@example.org"]));
    assert_eq!(
        (&why["in"], &why["explanation"]["fact"]),
        (&json!(false), &json!("it is \"free\""))
    );
    let id = why["contact_id"].to_string();
    assert_eq!(json_of(&world.ok(&["segment", "why", "pros", &id])), why);
    let verified = json_of(&world.ok(&["segment", "verify", "pros"]));
    assert_eq!(verified["right"], true);
    let rebuilt = json_of(&world.ok(&["segment", "rebuild", "pros"]));
    assert_eq!(rebuilt["rev"], 2);
    build(&world, 2, 2);
    assert_eq!(json_of(&world.ok(&["segment", "show", "pros"]))["state"], "live");
    for (arguments, told) in [
        (vec!["segment", "show", "none"], "there is no segment none"),
        (vec!["segment", "put", "x", "--condition", "nonsense"], "this is no JSON"),
        (vec!["segment", "put", "x", "--condition", r#"{"segment":"pros"}"#], "made of segments"),
        (vec!["segment", "put", "x", "--condition", r#"{"tag":1}"#], "condition.tag"),
        (vec!["segment", "why", "pros", "eve@example.org"], "there is no such contact"),
        (vec!["segment", "why", "pros", "user_id=7"], "there is no such contact"),
    ] {
        let ran = world.run(&arguments);
        assert_ne!(ran.code, 0, "{arguments:?}");
        assert!(ran.stderr.contains(told), "{arguments:?}: {}", ran.stderr);
    }
    world.ok(&["segment", "delete", "pros"]);
    assert_eq!(world.ok(&["segment", "list"]), "");
}

#[test]
fn segments_of_a_folder_are_checked_and_applied() {
    let world = begun();
    std::fs::create_dir_all(world.path("mail/segments")).unwrap();
    let vip = "name: Important\ncondition:\n  all:\n    - audience: news\n    - { attribute: plan, equals: pro }\n";
    world.write("mail/segments/vip.yaml", vip);
    world.write("mail/audiences.toml", "[[audiences]]\nslug = \"news\"\nname = \"News\"\n");
    let lines = world.ok(&["apply", "mail", "--yes"]);
    let added = json_of(lines.lines().last().unwrap());
    assert_eq!(added, json!({"kind": "segment", "key": "vip", "change": "added"}));
    let again = world.ok(&["apply", "mail", "--yes"]);
    assert_eq!(json_of(again.lines().last().unwrap())["change"], "unchanged");
    world.ok(&["segment", "put", "other", "--file", "mail/segments/vip.yaml"]);
    assert_eq!(json_of(&world.ok(&["segment", "show", "other"]))["name"], "Important");

    world.write(
        "mail/segments/vip.yaml",
        "nam: x\ntrigger_on_build: 1\ncondition:\n  all:\n    - tag: 1\n    - audience: news\n",
    );
    world.write("mail/segments/Bad Name.yaml", vip);
    world.write("mail/segments/of-others.yaml", "condition: { segment: vip }\n");
    let refused = world.run(&["apply", "mail", "--yes"]);
    assert_eq!(refused.code, 1);
    insta::assert_snapshot!("segments_refused", refused.stderr);
}
