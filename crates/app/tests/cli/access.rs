//! The first key, and what operators do with workspaces, clients and keys.

use insta::assert_snapshot;
use serde_json::Value;

use crate::world::World;

/// A world that has workspace `default`, client `app`, and the key of everything.
fn begun() -> (World, String) {
    let world = World::new();
    let key = world.ok(&["bootstrap"]).trim_end().to_owned();
    (world, key)
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// What differs from run to run: ids and keys made by chance, and times.
fn masked(line: &str) -> String {
    let mut value = json(line);
    let fields = value.as_object_mut().unwrap();
    for (name, mask) in [("public_id", "[id]"), ("key", "[key]")] {
        if let Some(field) = fields.get_mut(name) {
            *field = mask.into();
        }
    }
    for (name, field) in fields {
        if name.ends_with("_at") && !field.is_null() {
            *field = "[time]".into();
        }
    }
    value.to_string()
}

#[test]
fn the_first_key_is_printed_once_and_opens_everything() {
    let world = World::new();
    let first = world.run(&["bootstrap", "--workspace", "acme", "--client", "shop"]);
    assert_eq!(first.code, 0, "{first:?}");
    assert_snapshot!("bootstrap_says", first.stderr);
    let key = first.stdout.trim_end();
    assert_eq!(first.stdout, format!("{key}\n"));

    let server = world.serve(&[]);
    let me = server.get_with(key, "/v1/me");
    assert!(me.contains("\"workspace\":\"acme\",\"client\":\"shop\""), "{me}");
    assert!(server.get("/v1/me").starts_with("HTTP/1.0 401"));
    assert!(server.get("/v1/openapi.json").contains("\"openapi\": \"3.1.0\""));
    server.stop();

    let again = world.run(&["bootstrap"]);
    assert_eq!((again.code, again.stdout.as_str()), (1, ""));
    assert_snapshot!("bootstrap_again", again.stderr);
    let listed = world.ok(&["keys", "list", "--client", "shop", "--workspace", "acme"]);
    assert!(!listed.contains(key.rsplit('_').next().unwrap()), "{listed}");
}

#[test]
fn clients_and_keys_come_and_go_while_the_server_runs() {
    let (world, _) = begun();
    let server = world.serve(&[]);
    let made = world.ok(&["clients", "create", "shop", "--name", "The shop"]);
    assert_snapshot!("client_made", masked(&made));
    let new = ["keys", "create", "--client", "shop", "--name", "live", "--scope", "send"];
    let more =
        ["--scope", "read", "--requests-per-second", "5", "--burst", "9", "--expires", "90d"];
    let made = world.ok(&[&new[..], &more].concat());
    assert_snapshot!("key_made", masked(&made));
    let key = json(&made)["key"].as_str().unwrap().to_owned();
    assert!(server.get_with(&key, "/v1/me").starts_with("HTTP/1.0 200"));

    world.ok(&["clients", "disable", "shop"]);
    assert!(server.get_with(&key, "/v1/me").starts_with("HTTP/1.0 401"));
    world.ok(&["clients", "enable", "shop"]);
    world.ok(&["workspaces", "disable", "default"]);
    assert!(server.get_with(&key, "/v1/me").starts_with("HTTP/1.0 401"));
    world.ok(&["workspaces", "enable", "default"]);
    assert!(server.get_with(&key, "/v1/me").starts_with("HTTP/1.0 200"));
    world.ok(&["keys", "revoke", json(&made)["public_id"].as_str().unwrap()]);
    assert!(server.get_with(&key, "/v1/me").starts_with("HTTP/1.0 401"));
    server.stop();

    let listed = world.ok(&["keys", "list", "--client", "shop"]);
    assert_snapshot!("key_listed", masked(listed.trim_end()));
    assert_eq!(world.ok(&["clients", "list"]).lines().count(), 2);
    assert_snapshot!("workspaces", masked(&world.ok(&["workspaces", "list", "--pretty"])));
}

#[test]
fn what_cannot_be_done_is_told_with_what_to_do() {
    let (world, _) = begun();
    let new = ["keys", "create", "--client", "app", "--scope", "send", "--name"];
    world.ok(&[&new[..], &["live"]].concat());
    for (name, arguments) in [
        ("workspace_missing", &["clients", "list", "--workspace", "nowhere"][..]),
        ("workspace_taken", &["workspaces", "create", "default"]),
        ("workspace_misnamed", &["workspaces", "create", "Acme"]),
        ("client_missing", &["clients", "disable", "shop"]),
        ("client_taken", &["clients", "create", "app"]),
        ("key_missing", &["keys", "revoke", "000000000000"]),
        ("key_no_client", &["keys", "create", "--client", "x", "--scope", "send", "--name", "a"]),
        ("key_taken", &[&new[..], &["live"]].concat()),
        ("key_scope", &["keys", "create", "--client", "app", "--scope", "root", "--name", "a"]),
        ("key_rate", &[&new[..], &["a", "--burst", "0"]].concat()),
        ("key_expiry", &[&new[..], &["a", "--expires", "soon"]].concat()),
        ("key_expired", &[&new[..], &["a", "--expires", "2020-01-01T00:00:00Z"]].concat()),
    ] {
        let ran = world.run(arguments);
        assert_eq!(ran.stdout, "", "{name}");
        assert_snapshot!(name, format!("{}\n{}", ran.code, ran.stderr));
    }
}

#[test]
fn looking_for_keys_in_the_wrong_folder_makes_no_database() {
    let world = World::new();
    for command in
        [&["workspaces", "list"][..], &["clients", "list"], &["keys", "list", "--client", "a"]]
    {
        let ran = world.run(command);
        assert_eq!(ran.code, 1);
        assert!(ran.stderr.contains("there is no database"), "{}", ran.stderr);
    }
    assert!(!world.path("tidings.db").exists());
}

#[test]
fn a_worker_shows_how_it_is_and_nothing_else() {
    let (world, key) = begun();
    let server = world.serve(&["--roles", "worker"]);
    assert!(server.get("/readyz").ends_with("ready\n"));
    assert!(server.get_with(&key, "/v1/me").starts_with("HTTP/1.0 404"));
    server.stop();
}

#[test]
fn on_aws_the_keys_need_postgresql() {
    let mut world = World::new();
    world.set("TIDINGS_STORE__ENGINE", "aws");
    let ran = world.run(&["bootstrap"]);
    assert_eq!(ran.code, 2);
    assert_snapshot!(ran.stderr);
}

#[test]
fn links_are_signed_by_the_newest_key_and_no_secret_is_shown() {
    let (world, _) = begun();
    let first = json(&world.ok(&["links", "list"]));
    let mut shown: Vec<_> = first.as_object().unwrap().keys().collect();
    shown.sort();
    assert_eq!(shown, ["created_at", "id", "revoked_at", "signs"], "no secret");
    assert_eq!((&first["id"], &first["signs"]), (&1.into(), &true.into()));
    let made = world.ok(&["links", "rotate"]);
    assert_eq!((&json(&made)["id"], &json(&made)["signs"]), (&2.into(), &true.into()));
    let listed = world.ok(&["links", "list"]);
    let signs: Vec<_> = listed.lines().map(|line| json(line)["signs"] == true).collect();
    assert_eq!(signs, [false, true]);
    let server = world.serve(&[]);
    assert!(server.get("/u/nonsense").starts_with("HTTP/1.0 404"));
    assert!(server.get("/t/o/nonsense.gif").contains("image/gif"));
    server.stop();
    assert_eq!(world.ok(&["links", "list"]), listed, "a server makes none where there is one");

    let revoked = json(&world.ok(&["links", "revoke", "2"]));
    assert!(revoked["signs"] == false && revoked["revoked_at"].is_string(), "{revoked}");
    let listed = world.ok(&["links", "list"]);
    let signs: Vec<_> = listed.lines().map(|line| json(line)["signs"] == true).collect();
    assert_eq!(signs, [true, false]);
    let only = world.run(&["links", "revoke", "1"]);
    assert_eq!(only.code, 1);
    let refused = "error: key 1 is the only one that is left\n  hint: `tidings links rotate` makes";
    assert!(only.stderr.starts_with(refused), "{}", only.stderr);
}
