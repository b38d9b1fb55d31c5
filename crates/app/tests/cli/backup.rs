//! Copies of the database, taken and put back.

use insta::assert_snapshot;

use crate::world::World;

#[test]
fn a_backup_taken_from_a_running_server_can_be_restored() {
    let world = World::new();
    let server = world.serve(&[]);
    let items: String =
        (0..300).map(|n| format!("{{\"PK\":\"P{n:03}\",\"SK\":\"S\"}}\n")).collect();
    assert_eq!(world.run_with_input(&["items", "put", "main"], &items).code, 0);
    world.ok(&["backup", "copy.db"]);
    let before = world.ok(&["items", "scan", "main"]);
    world.ok(&["items", "put", "main", r#"{"PK":"later","SK":"S"}"#]);

    let in_use = world.run(&["restore", "--force", "copy.db"]);
    assert_eq!(in_use.code, 1);
    assert_snapshot!(in_use.stderr);
    server.stop();

    let there = world.run(&["restore", "copy.db"]);
    assert_eq!(there.code, 2);
    assert_snapshot!(there.stderr);
    world.ok(&["restore", "--force", "copy.db"]);
    assert_eq!(world.ok(&["items", "scan", "main"]), before);
    assert_eq!(before.lines().count(), 300);

    // And into a place where there is nothing yet.
    world.ok(&["restore", "copy.db", "--set", "embedded.path=new.db"]);
    assert_eq!(world.ok(&["items", "scan", "main", "--set", "embedded.path=new.db"]), before);
}

#[cfg(unix)]
#[test]
fn a_backup_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new();
    world.ok(&["items", "put", "main", r#"{"PK":"a","SK":"b"}"#]);
    world.ok(&["backup", "copy.db"]);
    let mode = std::fs::metadata(world.path("copy.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn nothing_is_replaced_by_mistake() {
    let world = World::new();
    let mut told = String::new();
    let mut check = |arguments: &[&str], code: i32| {
        let ran = world.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.stderr);
        told.push_str(&format!("$ tidings {}\n{}\n", arguments.join(" "), ran.stderr));
    };
    check(&["backup", "copy.db"], 1);
    world.ok(&["items", "put", "main", r#"{"PK":"a","SK":"b"}"#]);
    check(&["backup", "tidings.db", "--force"], 2);
    world.write("copy.db", "precious");
    check(&["backup", "copy.db"], 2);
    check(&["restore", "copy.db", "--force"], 1);
    check(&["restore", "nowhere.db", "--force"], 2);
    check(&["restore", "tidings.db", "--force"], 2);
    check(&["backup", "x.db", "--set", "store.engine=postgres"], 2);
    check(&["restore", "x.db", "--set", "store.engine=aws"], 2);
    assert_snapshot!(told);
    assert_eq!(std::fs::read_to_string(world.path("copy.db")).unwrap(), "precious");
    assert_eq!(world.ok(&["items", "scan", "main"]).lines().count(), 1);
}
