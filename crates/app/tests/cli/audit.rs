//! What somebody on the machine does by hand is in the audit log, and nobody is named there.

use serde_json::{Value, json};

use crate::world::World;

fn begin() -> World {
    let world = World::new();
    world.ok(&["bootstrap", "--client", "shop"]);
    world
}

/// The newest first, without when it was.
fn entries(world: &World, arguments: &[&str]) -> Vec<Value> {
    let printed = world.ok(&[&["audit"][..], arguments].concat());
    assert!(!printed.contains('@') && !printed.contains("Ada"), "{printed}");
    let lines = printed.lines().map(|line| {
        let entry: Value = serde_json::from_str(line).unwrap();
        let of = |name: &str| entry[name].clone();
        assert_eq!(of("actor"), "operator");
        json!([of("action"), of("target_id"), of("before"), of("after")])
    });
    lines.collect()
}

const ADA: &str = r#"{"PK":"SUB#ada@example.org","SK":"PROFILE","name":"Ada"}"#;

#[test]
fn items_that_are_put_and_deleted_by_hand_are_told_of() {
    let world = begin();
    world.ok(&["items", "put", "main", ADA]);
    world.ok(&["items", "put", "main", &ADA.replace(r#""name""#, r#""city":"Bern","name""#)]);
    for _ in 0..2 {
        world.ok(&["items", "delete", "main", "SUB#ada@example.org", "PROFILE"]);
    }
    let many = format!("{ADA}\n{}", ADA.replace("ada@", "bob@"));
    world.run_with_input(&["items", "put", "main"], &many);
    let told = |attributes: Value, bytes: i64| json!({"partition": "SUB#…", "sort": "PROFILE", "attributes": attributes, "bytes": bytes});
    let (first, second) =
        (told(json!(["PK", "SK", "name"]), 37), told(json!(["PK", "SK", "city", "name"]), 45));
    let expected = [
        json!(["items.put", "default/main", null, {"from": "stdin"}]),
        json!(["items.delete", "default/main", second, null]),
        json!(["items.put", "default/main", first, second]),
        json!(["items.put", "default/main", null, first]),
    ];
    assert_eq!(entries(&world, &["--action", "items"]), expected);
}

#[test]
fn items_of_no_workspace_are_told_of_in_the_log_of_the_installation() {
    let world = World::new();
    world.ok(&[
        "items",
        "put",
        "feature",
        r#"{"lead_organization_id":"7"}"#,
        "--workspace",
        "acme",
    ]);
    let after = json!({"partition": "7", "sort": null, "attributes": ["lead_organization_id"], "bytes": 21});
    let expected = [json!(["items.put", "acme/feature", null, after])];
    assert_eq!(entries(&world, &["--installation", "--action", "items"]), expected);
}

#[test]
fn messages_that_are_sent_by_hand_are_counted() {
    let world = begin();
    let probe =
        r#"{"contract":"probe","version":1,"run":"r","number":1,"sent_at":"2026-05-24T12:00:00Z"}"#;
    world.ok(&["queues", "send", "probe", probe]);
    world.run_with_input(&["queues", "send", "probe"], &format!("{probe}\n").repeat(501));
    assert_eq!(world.run(&["queues", "send", "probe", "{}"]).code, 2);
    let sent = |count: i64| json!(["queue.send", "probe", null, {"messages": count}]);
    assert_eq!(
        entries(&world, &["--installation", "--action", "queue"]),
        [sent(1), sent(500), sent(1)]
    );
}

#[test]
fn a_restored_database_says_so() {
    let world = begin();
    world.ok(&["backup", "copy.db"]);
    let size = std::fs::metadata(world.path("copy.db")).unwrap().len();
    let look = ["--installation", "--action", "database"];
    let restored = |replaced: bool| {
        let after = json!({"file": "copy.db", "bytes": size, "replaced": replaced});
        json!(["database.restore", "embedded", null, after])
    };
    world.ok(&["restore", "--force", "copy.db"]);
    assert_eq!(entries(&world, &look), [restored(true)]);
    // What is in the backup is not touched: the second one tells of itself alone.
    let elsewhere = ["--set", "embedded.path=new.db"];
    world.ok(&[&["restore", "copy.db"][..], &elsewhere].concat());
    assert_eq!(entries(&world, &[&look[..], &elsewhere].concat()), [restored(false)]);
}

#[test]
fn counts_that_are_put_right_are_told_of() {
    let world = begin();
    world.ok(&["inbox", "publish", "app", "--to", "ada", "--title", "Hello", "--category", "news"]);
    let printed = world.ok(&["items", "get", "inbox", "t#defaultU#ada#app", "c#*"]);
    let mut counts: Value = serde_json::from_str(&printed).unwrap();
    counts["published"] = json!(7);
    world.ok(&["items", "put", "inbox", &counts.to_string()]);
    world.ok(&["inbox", "verify", "--repair"]);
    world.ok(&["inbox", "verify", "--repair"]);
    let server = world.serve(&[]);
    let look = ["--action", "inbox.repair"];
    world.until(&[&["audit"][..], &look].concat(), |printed| !printed.is_empty());
    server.stop();
    let told = |all: i64| {
        let news = json!({"published": 1, "read": 0});
        json!({"of": "a user", "counts": {"*": {"published": all, "read": 0}, "news": news}})
    };
    assert_eq!(entries(&world, &look), [json!(["inbox.repair", "app", told(7), told(1)])]);
}
