//! Configuration through the real binary. The rules themselves are tested in `tidings_app::config`.

use insta::assert_snapshot;

use crate::world::World;

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let mut world = World::new();
    world.write("tidings.toml", "[http]\nlisten = \"127.0.0.1:1\"\n\n[sweep]\nbatch = 7\n");
    world.write("other.toml", "[sweep]\nbatch = 9\n");
    world.set("TIDINGS_HTTP__LISTEN", "127.0.0.1:2");
    world.set("TIDINGS_LOG__LEVEL", "debug");
    let shown = world.ok(&["config", "--set", "log.level=trace"]);
    let changed: Vec<_> = shown.lines().filter(|line| !line.ends_with("# default")).collect();
    assert_snapshot!(changed.join("\n"));

    let json = world.ok(&["config", "--json", "--config", "other.toml"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sweep.batch"]["value"], 9);
    assert_eq!(json["sweep.batch"]["origin"], "other.toml:2");
    assert_eq!(json["http.listen"]["value"], "127.0.0.1:2");

    world.set("TIDINGS_CONFIG", "other.toml");
    assert!(world.ok(&["config"]).contains("sweep.batch = 9"));
}

#[test]
fn mistakes_are_all_told_with_their_place() {
    let mut world = World::new();
    world.write("tidings.toml", "[stoer]\nengine = \"embedded\"\n\n[http]\nlisten = 8080\n");
    world.set("TIDINGS_STOER__PATH", "x.db");
    let ran = world.run(&["items", "scan", "main", "--set", "sweep.batch=none"]);
    assert_eq!(ran.code, 2);
    assert_eq!(ran.stdout, "");
    assert_snapshot!(ran.stderr);
    assert!(!world.path("tidings.db").exists());
}

#[test]
fn secrets_are_not_shown() {
    let mut world = World::new();
    world.write("url", "postgres://ada:hunter2@db.example.org/tidings\n");
    world.set("TIDINGS_POSTGRES__URL_FILE", "url");
    for arguments in [&["config"][..], &["config", "--json"], &["doctor"]] {
        let ran = world.run(arguments);
        assert!(!format!("{ran:?}").contains("hunter2"), "{ran:?}");
    }
    let both = ["config", "--set", "postgres.url=postgres://x", "--set", "postgres.url_file=url"];
    assert_snapshot!(world.run(&both).stderr);
}

#[test]
fn a_missing_file_is_only_wrong_if_it_was_asked_for() {
    let world = World::new();
    world.ok(&["config"]);
    let ran = world.run(&["config", "--config", "nowhere.toml"]);
    assert_eq!(ran.code, 2);
    assert_snapshot!(ran.stderr);
}

#[test]
fn the_template_needs_no_right_configuration() {
    let world = World::new();
    world.write("tidings.toml", "what is this");
    let template = world.ok(&["config", "--template"]);
    world.write("tidings.toml", &template);
    world.ok(&["config"]);
}
