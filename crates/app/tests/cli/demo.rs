//! The demo, and everything that it says can be pasted.

use insta::assert_snapshot;

use crate::world::{Server, World};

const DEMO: [&str; 3] = ["demo", "--listen", "127.0.0.1:0"];

#[test]
fn the_demo_shows_a_mail_and_every_command_that_it_prints_works() {
    let world = World::new();
    let mut demo = world.start(&DEMO);
    let printed = demo.printed_until("To try while it runs:");
    assert_snapshot!(same_each_time(&demo, &printed));

    let commands = demo.printed_until("--yes\n");
    let mut curls = 0;
    for line in commands.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let words = words(line);
        match words.first().map(String::as_str) {
            Some("curl") => {
                curls += 1;
                let answer = ask(&demo, &words);
                assert!(answer.starts_with("HTTP/1.0 20"), "{line}\n{answer}");
            }
            Some(_) => {
                let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
                world.ok(&arguments);
            }
            None => {}
        }
    }
    assert_eq!(curls, 12, "{commands}");
    let funnel = ["--config", "tidings-demo/tidings.toml", "sequence", "funnel", "onboarding"];
    let funnel = world.ok(&[&funnel[..], &["--workspace", "demo", "--table"]].concat());
    assert!(
        funnel.contains("12 entered; 11 in it now, 0 at the end, 1 left, 0 failed"),
        "{funnel}"
    );
    let waiting = |line: &&str| line.split_whitespace().rev().nth(4).is_some_and(|n| n != "·");
    let steps = funnel.lines().skip(3).filter(waiting).count();
    assert!(steps >= 4, "they are at different steps: {funnel}");
    assert!(demo.get("/docs").starts_with("HTTP/1.0 200"));
    let logged = demo.log.concat();
    assert!(!logged.contains("tdg_") && !logged.contains("example"), "{logged}");
    demo.stop();
}

#[test]
fn a_demo_that_is_kept_goes_on_and_one_that_is_not_begins_anew() {
    let world = World::new();
    let count = ["--config", "tidings-demo/tidings.toml", "mail", "list", "--workspace", "demo"];
    let count = [count.as_slice(), &["--limit", "5000"]].concat();
    let put = [
        "--config",
        "tidings-demo/tidings.toml",
        "contacts",
        "set",
        "new@example.org",
        "--workspace",
        "demo",
    ];
    let get = ["--config", "tidings-demo/tidings.toml", "contacts", "get", "new@example.org"];
    let get = [get.as_slice(), &["--workspace", "demo"]].concat();
    world.ok(&["demo", "--no-serve"]);
    let mails = world.ok(&count).lines().count();
    let inside = ["--config", "tidings-demo/tidings.toml", "sequence", "list"];
    let inside = [inside.as_slice(), &["--workspace", "demo", "--table"]].concat();
    let before = world.ok(&inside);
    assert!(mails > 100, "a campaign and a mail: {mails}");
    world.ok(&put);
    world.write("tidings-demo/notes.txt", "mine");
    let kept = world.ok(&["demo", "--no-serve", "--keep"]);
    assert!(kept.contains("1000 lines imported, 0 new, 0 invalid"), "{kept}");
    assert_eq!(world.ok(&count).lines().count(), mails, "nothing is sent twice");
    assert_eq!(world.ok(&inside), before, "nobody goes on");
    world.ok(&get);

    let anew = world.ok(&["demo", "--no-serve"]);
    assert!(anew.contains("1000 new"), "{anew}");
    assert_eq!(world.run(&get).code, 1);
    assert!(world.path("tidings-demo/notes.txt").exists());
}

#[test]
fn a_folder_that_is_not_its_own_or_is_in_use_is_left_alone() {
    let world = World::new();
    world.write("precious.txt", "x");
    let ran = world.run(&["demo", "--no-serve", "--folder", "."]);
    assert_eq!(ran.code, 1);
    assert_snapshot!("not_its_own", ran.stderr);
    let mut demo = world.start(&DEMO);
    let ran = world.run(&["demo", "--no-serve"]);
    assert_eq!(ran.code, 1);
    assert_snapshot!("in_use", ran.stderr);
    assert!(demo.printed_until("1000 new").contains("contacts.csv"));
    assert!(demo.get("/readyz").starts_with("HTTP/1.0 200"));
    demo.stop();
}

/// Without what differs from run to run.
fn same_each_time(demo: &Server, printed: &str) -> String {
    let lines = printed.lines().map(|line| {
        let line = line.replace(&demo.address.to_string(), "ADDRESS");
        let differing = ["Date: ", "Message-ID: ", "boundary=", "/p/"];
        let found = differing.iter().find_map(|at| Some((line.split_once(at)?.0, *at)));
        found.map(|(before, at)| format!("{before}{at}…")).unwrap_or(line)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A line of a shell, with words in single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').unwrap(),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

/// What curl would do.
fn ask(demo: &Server, words: &[String]) -> String {
    let path = words[1].strip_prefix(&format!("http://{}", demo.address)).unwrap();
    let given = |flag: &str| {
        let positions = words.iter().zip(&words[1..]).filter(|(word, _)| *word == flag);
        positions.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let (headers, body) = (given("-H").join("\r\n"), given("-d").concat());
    let method = if body.is_empty() { "GET" } else { "POST" };
    let length = body.len();
    demo.send(&format!(
        "{method} {path} HTTP/1.0\r\n{headers}\r\ncontent-length: {length}\r\n\r\n{body}"
    ))
}
