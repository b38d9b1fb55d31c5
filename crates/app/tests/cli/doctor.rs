//! What the doctor sees.

use std::net::TcpListener;

use crate::world::{Ran, World};

/// The state of a check, as a program reads it.
fn state(ran: &Ran, check: &str) -> Vec<String> {
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .filter(|finding| finding["check"] == check)
        .map(|finding| {
            let state = finding["state"].as_str().unwrap();
            assert_eq!(finding["remedy"].is_null(), state == "ok", "{finding}");
            state.to_owned()
        })
        .collect()
}

#[test]
fn a_healthy_installation_is_all_right() {
    let world = World::new();
    world.ok(&["items", "put", "main", r#"{"PK":"a","SK":"b"}"#]);
    let ran = world.run(&["doctor", "--json", "--set", "http.listen=127.0.0.1:0"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for check in ["config", "permissions", "store", "schema", "clock", "port"] {
        assert_eq!(state(&ran, check), ["ok"], "{check}: {}", ran.stdout);
    }
    // It leaves nothing behind.
    assert_eq!(world.ok(&["items", "scan", "main"]).lines().count(), 1);
    assert!(world.ok(&["doctor", "--set", "http.listen=127.0.0.1:0"]).contains("ok    store"));
}

#[test]
fn a_running_server_is_no_fault() {
    let world = World::new();
    let server = world.serve(&[]);
    let listen = format!("http.listen={}", server.address);
    let ran = world.run(&["doctor", "--json", "--set", &listen]);
    assert_eq!((ran.code, state(&ran, "port")), (0, vec!["ok".to_owned()]), "{ran:?}");
    server.stop();
}

#[test]
fn a_database_that_is_not_there_yet_is_not_made() {
    let world = World::new();
    let ran = world.run(&["doctor", "--json", "--set", "http.listen=127.0.0.1:0"]);
    assert_eq!((ran.code, state(&ran, "store")), (0, vec!["warn".to_owned()]), "{ran:?}");
    assert!(!world.path("tidings.db").exists());
}

#[test]
fn what_is_wrong_is_told_with_its_remedy() {
    let world = World::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("http.listen={}", taken.local_addr().unwrap());
    // Nobody accepts there, and so nobody says that he is tidings.
    let ran = world.run(&["doctor", "--json", "--set", &listen]);
    assert_eq!((ran.code, state(&ran, "port")), (1, vec!["fail".to_owned()]), "{ran:?}");

    let no_folder =
        ["--set", "embedded.path=missing/tidings.db", "--set", "http.listen=127.0.0.1:0"];
    let ran = world.run(&[&["doctor", "--json"][..], &no_folder].concat());
    assert_eq!((ran.code, state(&ran, "disk")), (1, vec!["fail".to_owned()]), "{ran:?}");

    world.write("foreign.db", "this is no database, but long enough to look at");
    let foreign = ["--set", "embedded.path=foreign.db", "--set", "http.listen=127.0.0.1:0"];
    let ran = world.run(&[&["doctor", "--json"][..], &foreign].concat());
    assert_eq!((ran.code, state(&ran, "store")), (1, vec!["fail".to_owned()]), "{ran:?}");
}

#[cfg(unix)]
#[test]
fn files_that_everybody_can_read_are_noticed() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    world.ok(&["items", "put", "main", r#"{"PK":"a","SK":"b"}"#]);
    world.write("tidings.toml", "postgres.url = \"postgres://ada:hunter2@db/tidings\"\n");
    for file in ["tidings.toml", "tidings.db"] {
        let everybody = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(world.path(file), everybody).unwrap();
    }
    let ran = world.run(&["doctor", "--json", "--set", "http.listen=127.0.0.1:0"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(state(&ran, "config"), ["warn"]);
    assert_eq!(state(&ran, "permissions"), ["warn"]);
}
