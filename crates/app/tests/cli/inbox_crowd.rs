//! One message, marked over many connections at the same moment: it is read once, and counted once.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};

use serde_json::{Value, json};
use tidings_testkit::PostgresDatabase;

use crate::ledger::Ledger;
use crate::world::Server;

const CONNECTIONS: usize = 50;

/// The own messages of one user and those to everyone, at one server or at several.
fn a_mark_over_many_connections_counts_once(ledger: &Ledger, nodes: usize) {
    let world = ledger.store();
    world.ok(&["bootstrap", "--client", "shop"]);
    let of = ["inbox", "publish", "app", "--category", "news", "--title", "Hello"];
    let publish = |to: &[&str]| -> Value {
        serde_json::from_str(&world.ok(&[&of[..], to].concat())).unwrap()
    };
    let marked = [publish(&["--to", "ada"]), publish(&["--everyone"])];
    publish(&["--to", "ada"]);
    publish(&["--everyone"]);
    let servers: Vec<Server> = (0..nodes).map(|_| world.serve(&[])).collect();
    let token: Value = serde_json::from_str(&world.ok(&["inbox", "token", "ada"])).unwrap();
    let token = token["token"].as_str().unwrap();

    let body = json!({"ids": marked.each_ref().map(|post| &post["id"])}).to_string();
    let request = format!(
        "PUT /inbox/v1/app/messages/read HTTP/1.0\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // Nothing begins before the last byte is there, which comes to all of them together.
    let (before, last) = request.split_at(request.len() - 1);
    let asked = (0..CONNECTIONS).map(|number| servers[number % nodes].begin(before));
    let mut asked: Vec<_> = asked.collect();
    asked.iter_mut().for_each(|stream| stream.write_all(last.as_bytes()).unwrap());
    let mut read_at = BTreeSet::new();
    for mut stream in asked {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 200"), "{answer}");
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["counts"]["unread"], 2, "{body}");
        assert_eq!(body["receipts"].as_array().unwrap().len(), 2, "{body}");
        read_at.insert(body["receipts"].to_string());
    }
    assert_eq!(read_at.len(), 1, "the first has read them: {read_at:?}");

    let counts: Value =
        serde_json::from_str(&world.ok(&["inbox", "counts", "app", "ada"])).unwrap();
    let both = json!({"total": 4, "unread": 2});
    assert_eq!((&counts["unread"], &counts["categories"]["news"]), (&json!(2), &both));
    servers.into_iter().for_each(Server::stop);
    let verified: Value = serde_json::from_str(&world.ok(&["inbox", "verify"])).unwrap();
    assert_eq!((&verified["drifts"], &verified["unsettled"]), (&json!(0), &json!(0)));
}

#[test]
fn a_mark_over_many_connections_counts_once_on_sqlite() {
    a_mark_over_many_connections_counts_once(&Ledger::File, 1);
}

#[test]
fn a_mark_over_many_connections_counts_once_on_postgres_with_two_nodes() {
    a_mark_over_many_connections_counts_once(&Ledger::Postgres(PostgresDatabase::schema()), 2);
}
