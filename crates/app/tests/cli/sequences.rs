//! Sequences over the real binary: files, people on their way, the guide, and the story from a folder to the way out.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use crate::world::{World, blocks_of};

const WELCOME: &str =
    "---\nsubject = \"Welcome\"\n---\n<p>Hi <a href=\"{{ unsubscribeUrl }}\">no more</a></p>\n";
const FIRST: &str = "\
id: first
client: shop
audience: news
trigger: { event: user.signed_up, map: { firstName: $.firstName } }
exitOn: [user.deleted]
steps:
  - id: welcome
    send: hello/welcome
  - id: begins
    wait_for: project.created
    timeout: 3 days
    then:
      - tag: { add: [activated] }
    else:
      - send: hello/welcome
";

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn write(world: &World, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = world.path("mail").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// A store with a sender, and a folder with everything that `FIRST` names.
fn begin() -> World {
    let world = World::new();
    world.ok(&["bootstrap", "--client", "shop"]);
    world.ok(&["senders", "add", "hello", "--client", "shop", "--from", "hello@example.org"]);
    write(
        &world,
        &[
            ("templates/hello/welcome.html", WELCOME),
            ("audiences.toml", "[[audiences]]\nslug = \"news\"\nname = \"News\"\n"),
            ("sequences/first.yaml", FIRST),
        ],
    );
    world
}

#[test]
fn a_folder_brings_sequences_with_all_that_they_name() {
    let world = begin();
    let dry = world.ok(&["apply", "mail", "--dry-run"]);
    assert_snapshot!("sequence_apply_first", dry);
    assert_eq!(world.ok(&["sequence", "list"]), "", "a dry run writes nothing");
    assert_eq!(world.ok(&["apply", "mail", "--yes"]), dry);
    let again = world.ok(&["apply", "mail", "--yes"]);
    assert!(again.lines().all(|line| line.contains("\"unchanged\"")), "{again}");
    write(&world, &[("sequences/first.yaml", &FIRST.replace("3 days", "4 days"))]);
    let changed = world.ok(&["apply", "mail", "--yes"]);
    assert_snapshot!("sequence_apply_changed", changed);
    let listed = lines(&world.ok(&["sequence", "list"]));
    assert_eq!((&listed[0]["version"], &listed[0]["active"]), (&2.into(), &0.into()), "{listed:?}");
    // What is shown is a file that says the same.
    world.write("again.yaml", &world.ok(&["sequence", "show", "first", "--yaml"]));
    let same = world.ok(&["sequence", "apply", "again.yaml"]);
    assert!(same.contains("\"unchanged\""), "{same}");
    assert_snapshot!("sequence_shown", world.ok(&["sequence", "show", "first", "--yaml"]));
    let drawn = world.ok(&["sequence", "show", "first", "--version", "1", "--mermaid"]);
    assert!(drawn.starts_with("flowchart TD"), "{drawn}");
    let schema: Value = serde_json::from_str(&world.ok(&["sequence", "schema"])).unwrap();
    let kept = include_str!("../../../../docs/sequence.schema.json");
    assert_eq!(schema, serde_json::from_str::<Value>(kept).unwrap());
}

#[test]
fn one_fault_in_a_sequence_and_nothing_is_written() {
    let world = begin();
    let wrong = FIRST.replace("send: hello/welcome", "sned: hello/welcome");
    let named = FIRST.replace("id: first", "id: second").replace("client: shop", "client: shap");
    let named = named.replace("hello/welcome", "hello/welcom");
    write(&world, &[("sequences/wrong.yaml", &wrong), ("sequences/notes.txt", "x")]);
    let refused = world.run(&["apply", "mail", "--yes"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert_snapshot!("sequence_faults_of_files", refused.stderr);
    fs::remove_file(world.path("mail/sequences/notes.txt")).unwrap();
    write(&world, &[("sequences/wrong.yaml", &named)]);
    let refused = world.run(&["apply", "mail", "--yes"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert_snapshot!("sequence_faults", refused.stderr);
    write(&world, &[("sequences/wrong.yaml", FIRST)]);
    let refused = world.run(&["apply", "mail", "--yes"]);
    assert!(refused.stderr.contains("is first already"), "{}", refused.stderr);
    for nothing in [["templates", "list"], ["sequence", "list"], ["audiences", "list"]] {
        assert_eq!(world.ok(&nothing), "");
    }
    let alone = world.run(&["sequence", "check", "mail/sequences/first.yaml"]);
    assert_eq!(alone.code, 1);
    assert_snapshot!("sequence_check", alone.stderr);
    world.ok(&["sequence", "check", "--offline", "mail/sequences/first.yaml"]);
}

#[test]
fn what_is_wrong_with_a_sequence_says_what_to_do() {
    let world = begin();
    world.ok(&["apply", "mail", "--yes"]);
    let none = "0".repeat(32);
    for (name, arguments) in [
        ("sequence_missing", vec!["funnel", "nothing"]),
        ("sequence_no_version", vec!["funnel", "first", "--version", "9"]),
        ("sequence_refused", vec!["enrol", "first", "ada@example.org"]),
        ("sequence_no_execution", vec!["skip", &none]),
        ("sequence_not_failed", vec!["retry", "first", &none]),
        ("sequence_not_agreed", vec!["enrol", "first", "--tag", "x"]),
        ("sequence_no_audience", vec!["enrol", "first", "--audience", "x", "--yes"]),
        ("sequence_no_condition", vec!["enrol", "first", "--where", "{\"tug\":1}", "--yes"]),
    ] {
        let ran = world.run(&[&["sequence"], arguments.as_slice()].concat());
        assert_ne!(ran.code, 0, "{name}");
        assert_snapshot!(name, ran.stderr);
    }
}

/// From a folder to the link with which somebody leaves, through everything in between.
#[test]
fn somebody_comes_in_with_an_event_and_leaves_with_the_link_of_the_mail() {
    let world = begin();
    world.ok(&["apply", "mail", "--yes"]);
    for email in ["ada@example.org", "ben@example.org"] {
        let subscribe = ["subscriptions", "subscribe", email, "--audience", "news"];
        world.ok(&[&subscribe[..], &["--reason", "asked"]].concat());
    }
    let send = |name: &str, email: &str| {
        let told = ["events", "send", name, "--email", email, "--message-id"];
        lines(&world.ok(&[&told[..], &[&format!("{name}/{email}")]].concat())).remove(0)
    };
    assert_eq!(send("user.signed_up", "ada@example.org")["replayed"], false);
    assert_eq!(send("user.signed_up", "ada@example.org")["replayed"], true);
    send("user.signed_up", "ben@example.org");
    send("user.signed_up", "nobody@example.org");

    let server = world.serve(&[]);
    let funnel = ["sequence", "funnel", "first", "--table"];
    world.until(&funnel, |told| told.contains("2 entered; 2 in it now"));
    world.until(&["mail", "list"], |told| told.lines().count() == 2);
    let of = ["sequence", "of", "ada@example.org"];
    let ada = lines(&world.until(&of, |told| told.contains("waiting_for"))).remove(0);
    assert_eq!((&ada["step"], &ada["event"]), (&"begins".into(), &"project.created".into()));
    world.until(&["sequence", "who", "first"], |told| told.matches("waiting_for").count() == 2);

    // Ben makes a project, and is through. Ada does not want any more.
    send("project.created", "ben@example.org");
    world.until(&funnel, |told| told.contains("1 in it now, 1 at the end"));
    let unsubscribe = link(&world, "ada@example.org");
    let form = "List-Unsubscribe=One-Click";
    let left = server.send(&format!(
        "POST {unsubscribe} HTTP/1.0\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: {}\r\n\r\n{form}",
        form.len()
    ));
    assert!(left.starts_with("HTTP/1.0 200"), "{left}");
    let told = world.until(&funnel, |told| told.contains("0 in it now, 1 at the end, 1 left"));
    assert_snapshot!("sequence_funnel", told);
    assert_eq!(world.ok(&of), "");
    assert_eq!(world.ok(&["sequence", "failed", "first"]), "");
    server.stop();
}

/// The path with which a mail says that it can be unsubscribed from.
fn link(world: &World, email: &str) -> String {
    let mails = lines(&world.ok(&["mail", "list"]));
    let mail = mails.iter().find(|mail| mail.to_string().contains(email)).unwrap();
    let raw = world.ok(&["mail", "show", &mail["id"].to_string(), "--raw"]);
    let (_, header) = raw.split_once("List-Unsubscribe:").unwrap();
    let (_, address) = header.split_once("<http").unwrap();
    let address: String = address.split('>').next().unwrap().split_whitespace().collect();
    let (_, path) = address.split_once("://").unwrap();
    path[path.find('/').unwrap()..].to_owned()
}

#[test]
fn many_come_in_at_once_and_some_go_out_by_hand() {
    let world = begin();
    world.ok(&["apply", "mail", "--yes"]);
    let mut people = "email,tags\n".to_owned();
    for number in 0..120 {
        people.push_str(&format!("p{number}@example.org,{}\n", ["a", "b"][number % 2]));
    }
    world.write("people.csv", &people);
    let import = ["contacts", "import", "people.csv", "--audience", "news", "--source", "x"];
    world.ok(&import);
    world.ok(&["suppressions", "add", "p0@example.org", "--reason", "asked"]);
    let begun = ["sequence", "enrol", "first", "--tag", "a", "--yes", "--no-follow"];
    let begun = lines(&world.ok(&begun)).remove(0);
    assert_eq!((&begun["entered"], &begun["ended_at"]), (&0.into(), &Value::Null));
    let server = world.serve(&[]);
    let id = begun["enrolment"].as_str().unwrap();
    let done = lines(&world.ok(&["sequence", "enrolment", id])).remove(0);
    let counts = (&done["entered"], &done["already_in"], &done["refused"]);
    assert_eq!(counts, (&59.into(), &0.into(), &1.into()), "{done}");
    let who = world
        .until(&["sequence", "who", "first"], |told| told.matches("\"waiting_for\"").count() == 59);
    let page = world.run(&["sequence", "who", "first", "--limit", "50"]);
    let (_, after) = page.stderr.trim().split_once("--after ").unwrap();
    let rest = world.ok(&["sequence", "who", "first", "--after", after]);
    assert_eq!(page.stdout + &rest, who);

    let first = lines(&who).remove(0);
    let execution = first["execution"].as_str().unwrap();
    world.ok(&["sequence", "skip", execution]);
    let stopped = world.ok(&["sequence", "stop", "first", "p2@example.org"]);
    assert!(stopped.contains("\"stopped\":true"), "{stopped}");
    world.ok(&["sequence", "pause", "first"]);
    let refused = world.run(&["sequence", "enrol", "first", "p1@example.org"]);
    assert!(refused.stderr.contains("sequence resume first"), "{}", refused.stderr);
    world.ok(&["sequence", "resume", "first"]);
    let enrolled = world.ok(&["sequence", "enrol", "first", "p1@example.org"]);
    assert!(enrolled.contains("\"began\""), "{enrolled}");
    let funnel = ["sequence", "funnel", "first", "--table"];
    world.until(&funnel, |told| told.contains("60 entered; 58 in it now, 1 at the end, 1 left"));
    let simulate = ["sequence", "simulate", "first", "--contact", "p1@example.org"];
    let at = ["--at", "2030-01-01T09:00:00Z", "--table"];
    assert_snapshot!("sequence_simulated", world.ok(&[&simulate[..], &at[..]].concat()));
    let came = world.ok(&[&simulate[..], &at[..], &["--event", "project.created"]].concat());
    assert!(came.contains("project.created comes"), "{came}");
    server.stop();
}

#[test]
fn who_could_not_go_on_is_listed_and_goes_on_or_is_forgotten() {
    let world = begin();
    let strict = "---\nsubject = \"Hi\"\nrequired = [\"code\"]\n---\n<p>{{ code }}</p>\n";
    let steps = "id: strict\nclient: shop\nsteps:\n  - id: code\n    send: hello/strict\n";
    write(&world, &[("templates/hello/strict.html", strict), ("sequences/strict.yaml", steps)]);
    world.ok(&["apply", "mail", "--yes"]);
    for email in ["ada@example.org", "ben@example.org"] {
        world.ok(&["sequence", "enrol", "strict", email]);
    }
    let server = world.serve(&[]);
    // Each try that fails is followed by a pause, which nobody has to wait for.
    let failed = ["sequence", "failed", "strict"];
    let failed = world.until(&failed, |told| {
        for inside in lines(&world.ok(&["sequence", "who", "strict"])) {
            if inside["doing"] == "waiting" {
                world.run(&["sequence", "skip", inside["execution"].as_str().unwrap()]);
            }
        }
        told.lines().count() == 2
    });
    let told = lines(&failed);
    assert!(told.iter().all(|one| one["step"] == "code"), "{failed}");
    assert!(told[0]["reason"].as_str().unwrap().contains("code"), "{failed}");
    let of = |email: &str| {
        let found = told.iter().find(|one| one["email"] == email).unwrap();
        found["execution"].as_str().unwrap().to_owned()
    };
    world.ok(&["sequence", "drop", "strict", &of("ben@example.org")]);
    write(&world, &[("templates/hello/strict.html", WELCOME)]);
    world.ok(&["apply", "mail", "--yes"]);
    let retried = world.ok(&["sequence", "retry", "strict", "--all"]);
    assert!(retried.contains("\"retried\":1"), "{retried}");
    let funnel = ["sequence", "funnel", "strict", "--table"];
    world.until(&funnel, |told| told.contains("0 in it now, 1 at the end, 0 left, 1 failed"));
    assert_eq!(world.ok(&["sequence", "failed", "strict"]), "");
    let again = world.run(&["sequence", "retry", "strict", &of("ada@example.org")]);
    assert_eq!(again.code, 1, "{}", again.stdout);
    server.stop();
}

const GUIDE: &str = include_str!("../../../../docs/sequences.md");

/// Every block that is for a shell, from top to bottom.
#[test]
fn the_guide_of_sequences_can_be_followed_to_the_letter() {
    let blocks = blocks_of(GUIDE, "sh");
    assert!(blocks.len() > 8, "{}", blocks.len());
    let world = World::new();
    let server = world.serve(&[]);
    world.follow(&blocks);
    server.stop();
}

/// Whatever the guide shows of a file is right, and its examples are those that ship.
#[test]
fn what_the_guide_shows_of_files_is_right() {
    let blocks = blocks_of(GUIDE, "yaml");
    let world = World::new();
    for (place, block) in blocks.iter().enumerate() {
        let text = if block.starts_with("- ") {
            let steps = block.lines().map(|line| format!("  {line}\n")).collect::<String>();
            format!("id: x\nclient: app\nsteps:\n{steps}")
        } else if block.contains("\nsteps:\n") {
            (*block).to_owned()
        } else {
            format!("id: x\nclient: app\n{block}\nsteps: [{{ send: a }}]\n")
        };
        let name = format!("{place}.yaml");
        world.write(&name, &text);
        world.ok(&["sequence", "check", "--offline", &name]);
    }
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sequences/sequences");
    let examples: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        let text = fs::read_to_string(example.path()).unwrap();
        assert!(
            blocks.contains(&text.as_str()),
            "{} is not in the guide",
            example.path().display()
        );
    }
}
