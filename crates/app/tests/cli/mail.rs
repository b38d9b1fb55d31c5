//! Senders, captured mail and the provider, as an operator meets them.

use insta::assert_snapshot;
use serde_json::Value;
use tidings_delivery::capture::Capture;
use tidings_kernel::{Lane, Mail, Sender as _, SystemClock};
use tidings_sql::{Database, SqliteOptions};
use tidings_testkit::SmtpSink;

use crate::world::World;

fn begun() -> World {
    let world = World::new();
    world.ok(&["bootstrap"]);
    world
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn senders_are_added_and_one_is_the_default() {
    let world = begun();
    let news = ["senders", "add", "news", "--from", "News@Example.org", "--name", "The shop"];
    let added = json(&world.ok(&news));
    assert_eq!(
        (&added["from_email"], &added["default"]),
        (&"news@example.org".into(), &true.into())
    );
    world.ok(&[
        "senders",
        "add",
        "team",
        "--from",
        "team@example.org",
        "--reply-to",
        "help@example.org",
    ]);
    world.ok(&["senders", "default", "team"]);
    let listed = world.ok(&["senders", "list"]);
    let defaults: Vec<_> = listed.lines().map(|line| json(line)["default"].clone()).collect();
    assert_eq!(defaults, [false, true]);
    let taken = world.run(&news);
    assert_eq!(taken.code, 1);
    let default = world.run(&["senders", "remove", "team"]);
    assert_snapshot!("sender_taken_and_default", format!("{}{}", taken.stderr, default.stderr));
    world.ok(&["senders", "remove", "news"]);
    let wrong = world.run(&["senders", "add", "eve", "--from", "Eve <eve@example.org>"]);
    assert_eq!(wrong.code, 2);
    let nobody = world.run(&["senders", "list", "--client", "none"]);
    assert_eq!(nobody.code, 1);
}

#[test]
fn captured_mail_is_listed_shown_and_forgotten() {
    let world = begun();
    capture(&world, "Gr\u{fc}\u{df}e");
    let listed = world.ok(&["mail", "list"]);
    let one = json(listed.trim_end());
    assert_eq!(one["subject"], "Gr\u{fc}\u{df}e");
    let id = one["id"].to_string();
    assert_eq!(json(&world.ok(&["mail", "show", &id]))["text"], "hello\r\n");
    assert!(world.ok(&["mail", "show", &id, "--raw"]).starts_with("Subject: "));
    assert_eq!(world.run(&["mail", "show", "999"]).code, 1);
    assert_eq!(world.ok(&["mail", "list", "--limit", "0"]), "");
    assert!(world.run(&["mail", "clear"]).stderr.contains("1 captured"));
    assert_eq!(world.ok(&["mail", "list"]), "");
}

fn capture(world: &World, subject: &str) {
    let path = world.path("tidings.db");
    let mime =
        format!("Subject: {subject}\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nhello\r\n");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let database = Database::sqlite(&path, SqliteOptions::default()).await.unwrap();
        let mail = Mail {
            from: "shop@example.org".parse().unwrap(),
            to: vec!["ada@example.net".parse().unwrap()],
            mime: mime.into_bytes(),
            tags: vec![("workspace", "1".into())],
            lane: Lane::Transactional,
        };
        let capture = Capture::new(database.clone(), std::sync::Arc::new(SystemClock));
        capture.send(&mail).await.unwrap();
        database.close().await;
    });
}

/// The lines of the doctor that are about mail.
fn mail_lines(world: &World) -> String {
    let ran = world.run(&["doctor"]);
    let mut lines: Vec<_> = ran.stdout.lines().collect();
    let from = lines.iter().position(|line| line.contains("  mail  ")).unwrap();
    lines.drain(..from);
    lines.join("\n")
}

#[test]
fn the_doctor_says_whether_mail_can_leave() {
    let mut world = begun();
    assert!(mail_lines(&world).contains("captured and not sent"));
    world.set("TIDINGS_HTTP__PUBLIC_URL", "https://mail.example.org");
    assert!(mail_lines(&world).contains("NO MAIL IS SENT"));
    world.set("TIDINGS_MAIL__PROVIDER", "smtp");
    assert!(mail_lines(&world).contains("mail.smtp_host is not set"));
    let sink = SmtpSink::start(&[]);
    world.set("TIDINGS_MAIL__SMTP_HOST", "127.0.0.1");
    world.set("TIDINGS_MAIL__SMTP_PORT", &sink.port.to_string());
    assert!(mail_lines(&world).contains("STARTTLS"));
    world.set("TIDINGS_MAIL__SMTP_TLS", "none");
    assert!(mail_lines(&world).contains("lets us in"));
    world.set("TIDINGS_MAIL__DKIM_DOMAIN", "example.org");
    assert!(mail_lines(&world).contains("mail.dkim_key_file is not"));
    let make = ["genpkey", "-algorithm", "ed25519"];
    let key = std::process::Command::new("openssl").args(make).output().unwrap();
    world.write("dkim.pem", &String::from_utf8(key.stdout).unwrap());
    let path = world.path("dkim.pem");
    world.set("TIDINGS_MAIL__DKIM_KEY_FILE", path.to_str().unwrap());
    assert!(mail_lines(&world).contains("tidings._domainkey.example.org: v=DKIM1; k=ed25519; p="));
    world.set("TIDINGS_MAIL__DKIM_KEYS", "shop.example");
    assert!(mail_lines(&world).contains("names no file"));
    let path = path.to_str().unwrap();
    let keys = format!("shop.example={path}, news.example:2026={path}");
    world.set("TIDINGS_MAIL__DKIM_KEYS", &keys);
    for name in ["tidings._domainkey.shop.example", "2026._domainkey.news.example"] {
        assert!(mail_lines(&world).contains(&format!("{name}: v=DKIM1;")), "{name}");
    }
}

#[test]
fn a_password_is_never_shown() {
    let mut world = World::new();
    world.set("TIDINGS_MAIL__SMTP_PASSWORD", "un://gue:ssable@x");
    let shown = world.ok(&["config"]);
    assert!(!shown.contains("ssable") && !shown.contains("un://"), "{shown}");
}

/// A key to sign with, in a file.
fn signing(world: &mut World) {
    let make = ["genpkey", "-algorithm", "ed25519"];
    let key = std::process::Command::new("openssl").args(make).output().unwrap();
    world.write("dkim.pem", &String::from_utf8(key.stdout).unwrap());
    let path = world.path("dkim.pem");
    world.set("TIDINGS_MAIL__DKIM_DOMAIN", "example.org");
    world.set("TIDINGS_MAIL__DKIM_KEY_FILE", path.to_str().unwrap());
}

fn send(world: &World, number: usize) {
    let to = format!("p{number}@example.net");
    let what = ["--client", "app", "--subject", "Hello", "--text", "It works."];
    world.ok(&[&["messages", "send", &to][..], &what].concat());
}

#[test]
fn mail_over_smtp_is_signed_paced_and_comes_back_to_the_return_path() {
    let mut world = begun();
    let sink = SmtpSink::start(&[]);
    world.set("TIDINGS_MAIL__PROVIDER", "smtp");
    world.set("TIDINGS_MAIL__SMTP_HOST", "127.0.0.1");
    world.set("TIDINGS_MAIL__SMTP_PORT", &sink.port.to_string());
    world.set("TIDINGS_MAIL__SMTP_TLS", "none");
    world.set("TIDINGS_MAIL__RETURN_PATH", "bounces@example.org");
    world.set("TIDINGS_MAIL__RATE_PER_SECOND", "2");
    signing(&mut world);
    world.ok(&["senders", "add", "hello", "--from", "hello@example.org"]);
    (0..6).for_each(|number| send(&world, number));
    let server = world.serve(&[]);
    let list = ["messages", "list", "--client", "app", "--status", "sent"];
    let sent = world.until(&list, |printed| printed.lines().count() == 6);
    server.stop();
    let mut times: Vec<jiff::Timestamp> =
        sent.lines().map(|line| json(line)["sent_at"].as_str().unwrap().parse().unwrap()).collect();
    times.sort();
    // Two of them at once, and two in each second then.
    assert!(times[5].duration_since(times[0]).as_millis() >= 1_000, "{times:?}");
    let messages = sink.messages();
    assert_eq!(messages.len(), 6);
    for message in &messages {
        assert!(message.contains("X-Mail-Args: <bounces@example.org>"), "{message}");
        let signature = message.lines().find(|line| line.starts_with("DKIM-Signature: "));
        assert!(signature.is_some() && message.contains("d=example.org"), "{message}");
    }
}

#[test]
fn a_message_from_the_command_line_has_all_that_one_of_the_api_can_have() {
    let world = begun();
    world.ok(&["senders", "add", "news", "--from", "news@example.org"]);
    world.write("Rechnung 17.pdf", "%PDF-1.7");
    let send = ["messages", "send", "ada@example.net", "--client", "app", "--subject", "Order 17"];
    let more = ["--text", "It left.", "--attach", "Rechnung 17.pdf", "--header", "X-Order: 17: b"];
    let others =
        ["--cc", "bob@example.net", "--bcc", "eve@example.net", "--reply-to", "help@example.org"];
    world.ok(&[&send[..], &more, &others, &["--metadata", r#"{"order":17}"#]].concat());
    let missing = world.run(&[&send[..], &["--text", "x", "--attach", "none.pdf"]].concat());
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("none.pdf could not be read"), "{}", missing.stderr);
    let nameless = world.run(&[&send[..], &["--text", "x", "--header", "X-Order"]].concat());
    assert_eq!(nameless.code, 2);
    world.ok(&[
        "messages",
        "send",
        "bob@example.net",
        "--client",
        "app",
        "--subject",
        "2",
        "--text",
        "x",
    ]);
    let mut server = world.serve(&["--roles", "worker"]);
    server.wait_for_line("Message 1 accepted by capture");
    server.stop();
    let captured = world.ok(&["mail", "list"]);
    let of_ada = captured.lines().map(json).find(|one| one["subject"] == "Order 17").unwrap();
    let raw = world.ok(&["mail", "show", &of_ada["id"].to_string(), "--raw"]);
    for part in [
        "X-Order: 17: b",
        "Reply-To: <help@example.org>",
        "Cc: <bob@example.net>",
        "Content-Type: application/pdf",
        "Rechnung 17.pdf",
        "JVBERi0xLjc=",
    ] {
        assert!(raw.contains(part), "{part}: {raw}");
    }
    assert!(!raw.contains("eve@"), "{raw}");
    let listed = world.ok(&["messages", "list", "--client", "app", "--to", "Ada@Example.net"]);
    let listed: Vec<_> = listed.lines().map(json).collect();
    assert_eq!((listed.len(), &listed[0]["metadata"]["order"]), (1, &17.into()));
}

#[test]
fn what_is_captured_is_not_signed() {
    let mut world = begun();
    signing(&mut world);
    world.ok(&["senders", "add", "hello", "--from", "hello@example.org"]);
    send(&world, 1);
    let server = world.serve(&[]);
    let listed = world.until(&["mail", "list"], |printed| printed.lines().count() == 1);
    server.stop();
    let id = json(listed.trim_end())["id"].to_string();
    let raw = world.ok(&["mail", "show", &id, "--raw"]);
    assert!(!raw.contains("DKIM-Signature"), "{raw}");
}
