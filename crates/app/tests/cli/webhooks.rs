//! Webhooks from the command line, and through the whole program to a server that listens.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use insta::assert_snapshot;
use serde_json::Value;

use crate::world::World;

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// Takes one request, says yes to it, and tells it.
fn take_one(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = String::new();
    let mut part = [0; 4096];
    while !request.ends_with('}') {
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "{request}");
        request.push_str(std::str::from_utf8(&part[..count]).unwrap());
    }
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    stream.write_all(answer).unwrap();
    request
}

#[test]
fn a_test_event_goes_through_the_whole_program() {
    let world = World::new();
    world.ok(&["bootstrap"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hooks", listener.local_addr().unwrap());
    let anywhere = ["--set", "webhooks.allow_private=true"];
    let made = world.ok(&["webhooks", "create", &url, anywhere[0], anywhere[1]]);
    assert!(json(&made)["secret"].as_str().unwrap().starts_with("whsec_"), "{made}");
    assert!(!world.ok(&["webhooks", "show", "1"]).contains("whsec_"));

    let server = world.serve(&anywhere);
    let made = json(&world.ok(&["webhooks", "test", "1"]));
    assert_eq!(made["status"], "pending");
    let request = take_one(&listener);
    assert!(request.starts_with("POST /hooks HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("webhook-signature: v1,"), "{request}");
    assert!(request.contains(made["event_id"].as_str().unwrap()), "{request}");
    assert!(request.contains(r#""type":"webhook.test""#), "{request}");
    // What is under way is finished: afterwards it is written down.
    server.stop();
    let told = json(&world.ok(&["webhooks", "delivery", "1"]));
    assert_eq!(told["status"], "delivered", "{told}");
    assert_eq!(told["tried"][0]["answer"], "ok", "{told}");
    let replayed = world.ok(&["webhooks", "replay", "1"]);
    assert_eq!(json(&replayed)["status"], "pending");
    let failed = world.ok(&["webhooks", "replay-failed", "1", "--since", "2026-01-01T00:00:00Z"]);
    assert_eq!(json(&failed)["replayed"], 0);
    assert_eq!(world.ok(&["webhooks", "deliveries", "1", "--status", "failed"]), "");
    assert_eq!(world.ok(&["webhooks", "deliveries", "1"]).lines().count(), 1);
}

#[test]
fn what_cannot_be_is_refused_with_a_hint() {
    let world = World::new();
    world.ok(&["bootstrap"]);
    let inside = world.run(&["webhooks", "create", "https://169.254.169.254/latest"]);
    assert_eq!(inside.code, 1);
    assert_snapshot!("webhook_inside", inside.stderr);
    let missing = world.run(&["webhooks", "rotate-secret", "7"]);
    assert_snapshot!("webhook_none", missing.stderr);
    assert_eq!(world.run(&["webhooks", "show", "x"]).code, 2);
    assert_eq!(world.run(&["webhooks", "create", "https://a.example/", "--event", "x"]).code, 2);

    world.ok(&["webhooks", "create", "https://93.184.215.14/", "--event", "email.sent"]);
    let changed = world.ok(&["webhooks", "update", "1", "--all-events", "--description", "CRM"]);
    let changed = json(&changed);
    assert_eq!(changed["event_types"], serde_json::json!([]));
    assert_eq!(changed["description"], "CRM");
    world.ok(&["webhooks", "disable", "1"]);
    let disabled = world.run(&["webhooks", "test", "1"]);
    assert_snapshot!("webhook_off", disabled.stderr);
    world.ok(&["webhooks", "enable", "1"]);
    world.ok(&["webhooks", "delete", "1"]);
    assert_eq!(world.ok(&["webhooks", "list"]), "");
}
