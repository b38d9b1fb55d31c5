//! A server's life.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use insta::assert_snapshot;
use rustix::process::Signal;

use crate::world::World;

#[test]
fn a_server_answers_until_it_is_told_to_stop() {
    let world = World::new();
    let server = world.serve(&[]);
    assert!(server.get("/healthz").ends_with("\r\n\r\nalive\n"));
    assert!(server.get("/readyz").ends_with("\r\n\r\nready\n"));
    assert_snapshot!(without_date(&server.get("/nowhere?email=ada@example.org")));
    assert_snapshot!(without_date(
        &server.send("POST /healthz HTTP/1.0\r\nx-request-id: r-2\r\n\r\n")
    ));

    let metrics = server.get("/metrics");
    for expected in [
        "tidings_http_requests_total{method=\"GET\",route=\"/readyz\",status=\"200\"} 1",
        "tidings_http_requests_total{method=\"GET\",route=\"unmatched\",status=\"404\"} 1",
        "tidings_http_request_duration_seconds_bucket{method=\"GET\",route=\"/healthz\",status=\"200\",le=\"0.001\"}",
        "tidings_swept_items_total 0",
    ] {
        assert!(metrics.contains(expected), "{expected} is not in {metrics}");
    }
    server.stop();
}

#[test]
fn the_log_is_for_machines_if_wanted_and_never_has_addresses() {
    let world = World::new();
    let mut server = world.serve(&["--set", "log.format=json"]);
    server.get("/nowhere/ada@example.org?email=ada@example.org");
    let line = server.wait_for_line("unmatched");
    let json: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(json["http.status"], 404);
    assert_eq!(json["http.route"], "unmatched");
    assert_eq!(json["request.id"], "r-1");
    server.signal(Signal::INT);
    assert_eq!(server.wait(), Some(0));
    assert!(!server.log.concat().contains("ada@example.org"), "{:#?}", server.log);
}

#[test]
fn a_taken_port_is_refused_with_a_clear_message() {
    let world = World::new();
    let server = world.serve(&[]);
    let ran = World::new().run(&["serve", "--listen", &server.address.to_string()]);
    assert_eq!(ran.code, 1);
    assert_snapshot!(ran.stderr.replace(&server.address.to_string(), "ADDRESS"));
    server.stop();
}

#[test]
fn an_open_connection_does_not_hold_it_back() {
    let world = World::new();
    let mut server = world.serve(&["--set", "http.shutdown_grace=1h"]);
    let mut idle = TcpStream::connect(server.address).unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    idle.read_exact(&mut [0; 15]).unwrap();
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(0), "{:#?}", server.log);
    assert!(server.log.last().unwrap().contains("Stopped"), "{:#?}", server.log);
}

#[test]
fn items_past_their_ttl_are_swept() {
    let world = World::new();
    world.ok(&["items", "put", "main", r#"{"PK":"a","SK":"b","ttl":1}"#]);
    let server = world.serve(&["--set", "sweep.interval=1s"]);
    let swept = (0..10_000).any(|_| server.get("/metrics").contains("tidings_swept_items_total 1"));
    assert!(swept, "{}", server.get("/metrics"));
    server.stop();
}

fn without_date(answer: &str) -> String {
    answer
        .replace('\r', "")
        .lines()
        .filter(|line| !line.starts_with("date:"))
        .collect::<Vec<_>>()
        .join("\n")
}
