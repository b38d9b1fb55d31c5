//! Telling what happened to people, by the command line.

use insta::assert_snapshot;
use serde_json::Value;

use crate::world::World;

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn an_event_is_told_once_for_each_id() {
    let world = World::new();
    world.ok(&["bootstrap", "--client", "shop"]);
    let send = ["events", "send", "user.signed_up", "--email", "ada@example.org"];
    let data = ["--data", r#"{"plan":"pro"}"#, "--message-id", "m-1"];
    let first = json(&world.ok(&[&send[..], &data].concat()));
    assert_eq!((&first["message_id"], &first["replayed"]), (&"m-1".into(), &false.into()));
    let again = json(&world.ok(&[&send[..], &data].concat()));
    assert_eq!((&again["id"], &again["replayed"]), (&first["id"], &true.into()));
    let other = json(&world.ok(&send));
    assert_ne!(other["id"], first["id"]);
    let queues = world.ok(&["queues", "list"]);
    let waiting = queues.lines().map(json).find(|queue| queue["queue"] == "sequence-events");
    assert_eq!(waiting.unwrap()["ready"], 2, "{queues}");
}

#[test]
fn what_is_wrong_with_an_event_is_said() {
    let world = World::new();
    world.ok(&["bootstrap", "--client", "shop"]);
    let mut told = Vec::new();
    for arguments in [
        &["email.replied"][..],
        &["user.paid", "--data", "[]"],
        &["user.paid", "--data", "{"],
        &["user.paid", "--message-id", " ", "--user-id", " "],
    ] {
        let ran = world.run(&[&["events", "send"][..], arguments].concat());
        told.push(format!("{} {}", ran.code, ran.stderr));
    }
    assert_snapshot!("events_send_wrong", told.join("\n"));
}
