//! The same commands on PostgreSQL.

use insta::assert_snapshot;
use tidings_testkit::PostgresDatabase;

use crate::world::World;

/// A world on the test server, in a place of its own.
fn on_postgres() -> (World, PostgresDatabase) {
    let server = PostgresDatabase::schema();
    let mut world = World::new();
    world.set("TIDINGS_STORE__ENGINE", "postgres");
    world.set("TIDINGS_POSTGRES__URL", &server.url);
    world.set("TIDINGS_POSTGRES__CONNECTIONS", "4");
    (world, server)
}

#[test]
fn items_and_the_doctor_work_on_postgresql() {
    let (world, _server) = on_postgres();
    let items = |arguments: &[&str]| world.ok(&[&["items"][..], arguments].concat());
    let item = r#"{"PK":"a","SK":"b","n":1,"tags":{"$ss":["x"]}}"#;
    items(&["put", "main", item]);
    assert_eq!(items(&["get", "main", "a", "b"]), format!("{item}\n"));
    assert_eq!(items(&["query", "main", "a", "--filter", "n=1"]), format!("{item}\n"));
    assert_eq!(items(&["scan", "main", "--segments", "2"]), format!("{item}\n"));
    assert_eq!(items(&["delete", "main", "a", "b"]), format!("{item}\n"));
    assert_eq!(items(&["scan", "main"]), "");

    let doctor = world.ok(&["doctor", "--set", "http.listen=127.0.0.1:0"]);
    assert!(doctor.contains("as the database says"), "{doctor}");
    let server = world.serve(&[]);
    assert!(server.get("/readyz").ends_with("ready\n"));
    server.stop();
    assert!(!world.path("tidings.db").exists());
}

#[test]
fn keys_work_on_postgresql() {
    let (world, _server) = on_postgres();
    let first = world.ok(&["bootstrap"]);
    let server = world.serve(&[]);
    assert!(server.get_with(first.trim_end(), "/v1/me").starts_with("HTTP/1.0 200"));
    let again = world.run(&["bootstrap"]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("this was done before"), "{}", again.stderr);

    world.ok(&["workspaces", "create", "acme"]);
    let inside = |arguments: &[&str]| world.ok(&[arguments, &["--workspace", "acme"][..]].concat());
    inside(&["clients", "create", "shop"]);
    let new = ["keys", "create", "--client", "shop", "--name", "live", "--scope", "read"];
    let made: serde_json::Value = serde_json::from_str(&inside(&new)).unwrap();
    let key = made["key"].as_str().unwrap();
    let seen = server.get_with(key, "/v1/clients");
    assert!(seen.contains("\"slug\":\"shop\"") && !seen.contains("\"app\""), "{seen}");
    inside(&["keys", "revoke", made["public_id"].as_str().unwrap()]);
    assert!(server.get_with(key, "/v1/clients").starts_with("HTTP/1.0 401"));
    world.ok(&["workspaces", "disable", "default"]);
    assert!(server.get_with(first.trim_end(), "/v1/me").starts_with("HTTP/1.0 401"));
    server.stop();
}

#[test]
fn a_server_that_does_not_answer_is_told_without_its_password() {
    let mut world = World::new();
    world.set("TIDINGS_STORE__ENGINE", "postgres");
    let unset = world.run(&["items", "scan", "main"]);
    assert_eq!(unset.code, 2);
    assert_snapshot!(unset.stderr);
    // Port 1 is nobody's.
    world.set("TIDINGS_POSTGRES__URL", "postgres://ada:hunter2@127.0.0.1:1/tidings");
    let silent = world.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(silent.code, 1);
    assert!(!silent.stderr.contains("hunter2"), "{}", silent.stderr);
    assert!(silent.stderr.contains("is the server running"), "{}", silent.stderr);
}
