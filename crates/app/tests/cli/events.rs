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

#[test]
fn a_mail_out_of_a_file_is_a_reply_and_is_kept_for_as_long_as_was_said() {
    let mut world = World::new();
    world.set("TIDINGS_DATA__TTL_DAYS", "30");
    world.ok(&["bootstrap", "--client", "shop"]);
    world.ok(&["contacts", "set", "ada@example.org"]);
    let mail = "From: ada@example.org\r\nTo: shop@example.org\r\nMessage-ID: <a@example.org>\r\n\
                Subject: Hello\r\n\r\nYes, please.\r\n";
    world.write("mail.eml", mail);
    let take = || json(world.ok(&["events", "inbound", "mail.eml"]).trim());
    assert_eq!(take()["status"], "reply");
    assert_eq!(take()["status"], "duplicate");
    let events = world.ok(&["events", "list", "--contact", "ada@example.org"]);
    assert_eq!(json(events.trim())["type"], "reply");
    let items = world.ok(&["items", "scan", "events"]);
    assert!(items.lines().count() > 1, "{items}");
    assert!(items.lines().all(|item| item.contains("\"ttl\"")), "{items}");
    let from_nobody =
        world.run_with_input(&["events", "inbound", "-"], &mail.replace("ada", "eve"));
    assert!(from_nobody.stdout.contains("unknown_sender"), "{}", from_nobody.stdout);
}

#[test]
fn what_a_workspace_and_its_people_want_is_set_by_the_command_line() {
    let world = World::new();
    world.ok(&["bootstrap", "--client", "shop"]);
    assert_eq!(json(world.ok(&["settings", "replies"]).trim())["forward_to"], "default");
    for word in ["off", "support@example.org", "default"] {
        let set = world.ok(&["settings", "replies", word]);
        assert_eq!(json(set.trim())["forward_to"], word);
    }
    world.ok(&["contacts", "set", "ada@example.org"]);
    world.ok(&["topics", "create", "tips"]);
    assert_eq!(json(world.ok(&["topics", "of", "ada@example.org"]).trim())["on"], true);
    let off = world.ok(&["topics", "switch", "ada@example.org", "--off", "tips"]);
    assert_eq!(json(off.trim())["on"], false);
    assert_eq!(world.run(&["topics", "of", "eve@example.org"]).code, 1);
}
