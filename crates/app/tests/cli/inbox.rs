//! Inboxes over the real binary: publishing, looking as a user, settings, tokens and counting anew.

use std::time::Duration;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::world::{World, blocks_of};

fn begin() -> World {
    let world = World::new();
    world.ok(&["bootstrap", "--client", "shop"]);
    world
}

fn line(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|_| panic!("{text}"))
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(line).collect()
}

#[test]
fn a_message_is_published_read_and_taken_away() {
    let world = begin();
    let publish = [
        "inbox",
        "publish",
        "app",
        "--to",
        "ada",
        "--to",
        "bob",
        "--title",
        "Hello",
        "--body",
        "It works.",
        "--category",
        "news",
        "--cta",
        "/news",
        "--key",
        "first",
        "--expires-in",
        "7d",
        "--label",
        "Both of you",
    ];
    let first = line(&world.ok(&publish));
    assert_eq!((&first["recipients"], &first["state"]), (&json!(2), &json!("done")));
    let again = line(&world.ok(&publish));
    assert_eq!((&again["id"], &again["replayed"]), (&first["id"], &json!(true)));
    world.write(
        "post.json",
        r#"{"to": {"everyone": true}, "title": "We are back", "body": {"text": "At last"}}"#,
    );
    let everyone = line(&world.ok(&["inbox", "publish", "app", "--file", "post.json"]));

    let seen = lines(&world.ok(&["inbox", "list", "app", "ada"]));
    let titles: Vec<_> = seen.iter().map(|message| &message["title"]).collect();
    assert_eq!(titles, ["We are back", "Hello"]);
    assert_eq!((&seen[0]["public"], &seen[1]["body"]), (&json!(true), &json!("It works.")));
    assert_eq!((&seen[0]["label"], &seen[1]["label"]), (&json!(null), &json!("Both of you")));
    let counts = line(&world.ok(&["inbox", "counts", "app", "ada"]));
    assert_eq!(
        counts,
        json!({"total": 2, "unread": 2, "categories": {"news": {"total": 1, "unread": 1}}})
    );
    let id = first["id"].as_str().unwrap();
    let receipts = lines(&world.ok(&["inbox", "mark-read", "app", "ada", id]));
    assert_eq!((&receipts[0]["id"], &receipts[0]["unread"]), (&first["id"], &json!(false)));
    assert_eq!(lines(&world.ok(&["inbox", "list", "app", "ada", "--unread"])).len(), 1);
    let mark = |action: &str| line(&world.ok(&["inbox", action, "app", "ada", id]));
    assert!(mark("archive")["archived_at"].is_string());
    assert_eq!(lines(&world.ok(&["inbox", "list", "app", "ada"])).len(), 1);
    assert!(mark("unarchive")["archived_at"].is_null());
    assert_eq!(mark("mark-unread")["unread"], true);
    assert!(mark("mark-seen")["seen_at"].is_string());
    let shown = line(&world.ok(&["inbox", "show", "app", "ada", id]));
    assert_eq!((&shown["title"], &shown["unread"]), (&json!("Hello"), &json!(true)));
    assert_eq!(world.run(&["inbox", "show", "app", "eve", id]).code, 1);
    let all = line(&world.ok(&["inbox", "read-all", "app", "ada"]));
    assert_eq!((&all["total"], &all["unread"]), (&json!(2), &json!(0)));

    let everyone = everyone["id"].as_str().unwrap();
    let redacted = line(&world.ok(&["inbox", "redact", "app", everyone]));
    assert_eq!(redacted["state"], "redacted");
    world.ok(&["inbox", "redact", "app", id]);
    let post = line(&world.ok(&["inbox", "post", "app", id]));
    assert_eq!((&post["state"], &post["redacted"]), (&json!("redacted"), &json!(2)));
    assert_eq!(lines(&world.ok(&["inbox", "posts", "app"])).len(), 2);
    assert_eq!(world.ok(&["inbox", "list", "app", "ada"]), "");
    let verified = line(&world.ok(&["inbox", "verify"]));
    assert_eq!((&verified["drifts"], &verified["unsettled"]), (&json!(0), &json!(0)));
}

#[test]
fn a_count_that_is_wrong_is_told_and_put_right() {
    let world = begin();
    world.ok(&["inbox", "publish", "app", "--to", "ada", "--title", "Hello"]);
    let mut counts = line(&world.ok(&["items", "get", "inbox", "t#defaultU#ada#app", "c#*"]));
    counts["published"] = json!(7);
    world.ok(&["items", "put", "inbox", &counts.to_string()]);
    let wrong = world.run(&["inbox", "verify"]);
    assert_eq!(wrong.code, 1, "{}", wrong.stderr);
    let told = lines(&wrong.stdout);
    assert_eq!((&told[0]["user"], &told[1]["drifts"]), (&json!("ada"), &json!(1)), "{told:?}");
    let repaired = lines(&world.ok(&["inbox", "verify", "--repair"]));
    assert_eq!(repaired[1]["repaired"], 1);
    assert_eq!(lines(&world.ok(&["inbox", "verify"])).len(), 1, "nothing but the sums");
    assert_eq!(line(&world.ok(&["inbox", "counts", "app", "ada"]))["total"], 1);
}

#[test]
fn settings_and_configurations_are_changed_piece_by_piece() {
    let world = begin();
    let first = line(&world.ok(&["inbox", "settings", "show"]));
    assert_eq!(first, json!({"title": "", "ttl": null, "look_back": "7d", "allowed_origins": []}));
    world.ok(&["inbox", "settings", "set", "--ttl", "90d"]);
    let origin = "https://app.example.org";
    let set =
        world.ok(&["inbox", "settings", "set", "--allow-origin", origin, "--look-back", "3d"]);
    let wanted = json!({"title": "", "ttl": "90d", "look_back": "3d", "allowed_origins": [origin]});
    assert_eq!(line(&set), wanted);
    assert_eq!(line(&world.ok(&["inbox", "settings", "show"])), wanted);
    world.ok(&[
        "inbox",
        "config",
        "set",
        "app",
        "--title",
        "App",
        "--ttl",
        "default=7d",
        "--ttl",
        "news=30m",
    ]);
    world.ok(&["inbox", "config", "set", "app", "--description", "In the app"]);
    let listed = lines(&world.ok(&["inbox", "config", "list"]));
    let wanted = json!({
        "inbox": "app", "title": "App", "description": "In the app",
        "ttl": {"default": "7d", "news": "30m"},
    });
    assert_eq!(listed, std::slice::from_ref(&wanted));
    assert_eq!(line(&world.ok(&["inbox", "config", "show", "app"])), wanted);
    let config = line(&world.ok(&["inbox", "config", "set", "app", "--no-ttl"]));
    assert_eq!((&config["title"], &config["ttl"]), (&json!("App"), &json!({})));
    world.ok(&["inbox", "config", "delete", "app"]);
    assert_eq!(world.run(&["inbox", "config", "delete", "app"]).code, 1);
    let token =
        line(&world.ok(&["inbox", "token", "ada", "--inbox", "app", "--expires-in", "600"]));
    assert!(token["token"].as_str().unwrap().starts_with("tdu_"), "{token}");
    assert!(token["refresh_token"].is_string() && token["expires_at"].is_string());
    assert_eq!(world.ok(&["inbox", "sign-out", "ada"]), "");
}

#[test]
fn settings_are_taken_back_one_by_one() {
    let world = begin();
    let set = |what: &[&str]| line(&world.ok(&[&["inbox", "settings", "set"], what].concat()));
    let origin = "https://app.example.org";
    let mut wanted = set(&["--ttl", "90d", "--look-back", "3d", "--allow-origin", origin]);
    for (back, name, before) in [
        ("--no-ttl", "ttl", json!(null)),
        ("--no-look-back", "look_back", json!("7d")),
        ("--no-origins", "allowed_origins", json!([])),
    ] {
        assert_ne!(wanted[name], before, "{name}");
        wanted[name] = before;
        assert_eq!(set(&[back]), wanted, "{back}");
        assert_eq!(line(&world.ok(&["inbox", "settings", "show"])), wanted, "{back}");
    }
    // To set something and to take it back is no wish.
    for both in [
        &["--no-ttl", "--ttl", "1d"],
        &["--no-look-back", "--look-back", "1d"],
        &["--no-origins", "--allow-origin", origin],
    ] {
        assert_eq!(world.run(&[&["inbox", "settings", "set"], &both[..]].concat()).code, 2);
    }
}

#[test]
fn what_is_wrong_with_a_post_says_what_to_do() {
    let world = begin();
    world.ok(&["inbox", "publish", "app", "--to", "ada", "--title", "Hello", "--key", "one"]);
    world.write("bad.json", r#"{"to": {}, "titel": "Hello"}"#);
    world.write("nobody.json", r#"{"to": {}, "title": "Hello"}"#);
    let none = "0".repeat(17);
    let mut told = String::new();
    for arguments in [
        vec!["publish", "app", "--title", "Hello"],
        vec!["publish", "app", "--to", "ada", "--title", "Other", "--key", "one"],
        vec![
            "publish",
            "app",
            "--to",
            "a#b",
            "--title",
            "",
            "--category",
            "no good",
            "--cta",
            "javascript:1",
        ],
        vec!["publish", "app", "--to", "ada", "--title", "Hello", "--body-json", "{"],
        vec!["publish", "app", "--file", "bad.json"],
        vec!["publish", "app", "--file", "nobody.json"],
        vec!["post", "app", &none],
        vec!["redact", "app", &none],
        vec!["post", "app", "short"],
        vec!["config", "set", "app", "--ttl", "news=never"],
        vec!["settings", "set", "--allow-origin", "app"],
        vec!["token", "ada", "--expires-in", "0"],
    ] {
        let ran = world.run(&[&["inbox"], arguments.as_slice()].concat());
        assert_ne!(ran.code, 0, "{arguments:?}");
        assert_eq!(ran.stdout, "", "{arguments:?}");
        // The id of a post is another one each time.
        let stderr = ran.stderr.lines().map(|line| match line.split_once("its post is ") {
            Some((before, _)) => format!("{before}its post is [id]"),
            None => line.to_owned(),
        });
        let stderr: Vec<_> = stderr.collect();
        told.push_str(&format!(
            "{} → {}\n{}\n\n",
            arguments.join(" "),
            ran.code,
            stderr.join("\n")
        ));
    }
    assert_snapshot!("inbox_refusals", told);
}

#[test]
fn a_running_server_delivers_what_is_for_many_and_what_waits() {
    let world = begin();
    let users: Vec<_> = (0..1_005).map(|number| format!("u{number}")).collect();
    world.write("users.txt", &users.join("\n"));
    let ran =
        world.run(&["inbox", "publish", "app", "--users-from", "users.txt", "--title", "Hello"]);
    assert!(ran.stderr.contains("A running server"), "{}", ran.stderr);
    let many = line(&ran.stdout);
    assert_eq!((&many["recipients"], &many["state"]), (&json!(1_005), &json!("delivering")));
    #[expect(clippy::disallowed_methods, reason = "the server has the real time")]
    let soon = (jiff::Timestamp::now() + Duration::from_secs(1)).to_string();
    let later = ["inbox", "publish", "app", "--everyone", "--title", "Soon", "--at", &soon];
    let later = line(&world.ok(&later));
    assert_eq!(later["state"], "scheduled");
    let _server = world.serve(&[]);
    for post in [&many, &later] {
        let id = post["id"].as_str().unwrap();
        world.until(&["inbox", "post", "app", id], |printed| line(printed)["state"] == "done");
    }
    let counts = line(&world.ok(&["inbox", "counts", "app", "u1004"]));
    assert_eq!((&counts["total"], &counts["unread"]), (&json!(2), &json!(2)));
}

/// Every block of the guide that is for a shell, from top to bottom.
#[test]
fn the_guide_of_the_inbox_can_be_followed_to_the_letter() {
    let guide = include_str!("../../../../docs/inbox.md");
    let world = World::new();
    let server = world.serve(&[]);
    let here = format!("http://{}", server.address);
    let blocks = blocks_of(guide, "sh");
    assert!(blocks.len() > 5, "{}", blocks.len());
    let blocks: Vec<String> =
        blocks.iter().map(|block| block.replace("http://127.0.0.1:8080", &here)).collect();
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    world.follow(&blocks);
    server.stop();
    let counts = line(&world.ok(&["inbox", "counts", "app", "ada"]));
    assert_eq!((&counts["total"], &counts["unread"]), (&json!(1), &json!(0)));
}
