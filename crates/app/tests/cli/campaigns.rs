//! Campaigns over the real binary: the guide, command by command, and what a person sees on the way.

use rustix::process::Signal;
use serde_json::Value;

use crate::world::{World, blocks_of};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A store with three people, a sender and an audience.
fn begin() -> World {
    let world = World::new();
    world.ok(&["bootstrap", "--client", "shop"]);
    world.ok(&["senders", "add", "news", "--client", "shop", "--from", "news@example.org"]);
    world.ok(&["audiences", "create", "newsletter"]);
    let people = "email,first_name,tags\nada@example.org,Ada,beta\nben@example.org,Ben,\ncleo@example.org,Cleo,beta\n";
    world.write("people.csv", people);
    let import = ["contacts", "import", "people.csv", "--audience", "newsletter", "--source", "x"];
    world.ok(&import);
    world
}

const SPRING: [&str; 10] = [
    "campaign",
    "send",
    "--key",
    "spring",
    "--audience",
    "newsletter",
    "--subject",
    "Hello {{ firstName }}",
    "--text",
    "Hi",
];

#[test]
fn a_campaign_is_sent_and_followed_and_the_same_again_sends_nothing() {
    let world = begin();
    world.ok(&["suppressions", "add", "ben@example.org", "--reason", "asked"]);
    let dry = lines(&world.ok(&[&SPRING[..], &["--dry-run"]].concat()));
    assert_eq!((&dry[0]["count"], &dry[0]["sendable"]), (&3.into(), &2.into()), "{dry:?}");
    assert_eq!(world.ok(&["campaign", "list"]), "");
    let server = world.serve(&[]);
    let ran = world.run(&SPRING);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("is sent: 2 sent, 1 skipped, 0 failed, 0 uncertain"),
        "{}",
        ran.stderr
    );
    let summary = &lines(&ran.stdout)[0];
    assert_eq!((&summary["status"], &summary["sent"]), (&"sent".into(), &2.into()), "{summary}");
    let again = world.run(&SPRING);
    assert!(again.stderr.contains("is there already"), "{}", again.stderr);
    assert_eq!(lines(&world.ok(&["mail", "list"])).len(), 2, "each once");
    let why = world.run(&["campaign", "why", "spring", "ben@example.org"]);
    assert!(why.stderr.contains("skipped"), "{}", why.stderr);
    let skipped = lines(&world.ok(&["campaign", "recipients", "1", "--status", "skipped"]));
    assert_eq!(skipped.len(), 1);
    assert_eq!(world.ok(&["campaign", "export", "spring"]).lines().count(), 4);
    let results = lines(&world.ok(&["campaign", "results", "spring"]));
    assert_eq!(results[0]["outcomes"]["sent"], 2);
    server.stop();
}

#[test]
fn the_record_of_a_campaign_that_has_begun_is_printed_and_of_no_other() {
    let world = begin();
    let server = world.serve(&[]);
    world.ok(&SPRING);
    server.stop();
    world.ok(&["campaign", "create", "--key", "draft", "--subject", "x", "--text", "x"]);
    let record = world.ok(&["campaign", "broadcasts", "spring"]);
    let told = &lines(&record)[0];
    let meant = (&told["id"], &told["audience"], &told["audience_size"], &told["from_email"]);
    let expected = ("spring", "newsletter", 3, "news@example.org");
    let (id, audience, size, from) = expected;
    assert_eq!(meant, (&id.into(), &audience.into(), &size.into(), &from.into()), "{told}");
    assert_eq!((&told["subject"], &told["opens"]), (&"Hello {{ firstName }}".into(), &0.into()));
    let began = told["sent_at"].as_str().unwrap();
    for which in
        [&[][..], &["--client", "shop"], &["--from", began, "--to", began], &["--limit", "1"]]
    {
        let printed = world.ok(&[&["campaign", "broadcasts"][..], which].concat());
        assert_eq!(printed, record, "{which:?}");
    }
    for which in
        [["--to", "2020-01-01T00:00:00Z"], ["--from", "2100-01-01T00:00:00Z"], ["--limit", "0"]]
    {
        assert_eq!(world.ok(&[&["campaign", "broadcasts"][..], &which].concat()), "", "{which:?}");
    }
    let none = world.run(&["campaign", "broadcasts", "draft"]);
    assert_eq!(none.code, 1, "{none:?}");
    assert!(none.stderr.contains("campaign draft has no record: it has not begun"), "{none:?}");
}

#[test]
fn who_follows_a_campaign_can_leave_it_and_come_back() {
    let world = begin();
    let server = world.serve(&[]);
    let mut following = world.spawn(&[&SPRING[..], &["--rate-per-hour", "1"]].concat());
    following.wait_for_line("sending");
    following.signal(Signal::INT);
    assert_eq!(following.wait(), Some(0), "{:#?}", following.log);
    let left = following.log.last().unwrap();
    assert!(left.contains("`tidings campaign watch spring` follows it again"), "{left}");
    let shown = lines(&world.ok(&["campaign", "show", "spring"]));
    assert_eq!(shown[0]["status"], "sending", "it does not end with whoever looks on");
    let mut again = world.spawn(&["campaign", "watch", "spring"]);
    again.wait_for_line("sending");
    world.ok(&["campaign", "cancel", "spring", "--reason", "enough"]);
    again.wait_for_line("Campaign spring is cancelled");
    assert_eq!(again.wait(), Some(0), "{:#?}", again.log);
    let history = lines(&world.ok(&["campaign", "history", "spring"]));
    assert_eq!(
        (&history[0]["status"], &history[0]["reason"]),
        (&"cancelled".into(), &"enough".into())
    );
    server.stop();
}

#[test]
fn what_is_wrong_is_told_and_says_what_to_do() {
    let world = begin();
    let other = world.run(&["campaign", "show", "nothing"]);
    assert_eq!(other.code, 1);
    insta::assert_snapshot!("campaign_missing", other.stderr);
    let wrong = world.run(&["campaign", "create", "--key", "x", "--filter", r#"{"tug":1}"#]);
    assert_eq!(wrong.code, 2);
    insta::assert_snapshot!("campaign_wrong", wrong.stderr);
    world.write("c.toml", "name = \"x\"\nsubjekt = \"y\"\nrate_per_hour = \"fast\"\n");
    let wrong = world.run(&["campaign", "create", "--file", "c.toml"]);
    assert_eq!(wrong.code, 2);
    insta::assert_snapshot!("campaign_file_wrong", wrong.stderr);
    world.ok(&["campaign", "create", "--key", "x", "--template", "nothing"]);
    let start = world.run(&["campaign", "start", "x"]);
    assert_eq!(start.code, 1);
    insta::assert_snapshot!("campaign_start", start.stderr);
    let resume = world.run(&["campaign", "resume", "x"]);
    insta::assert_snapshot!("campaign_resume", resume.stderr);
}

/// What a header of a mail says, without its brackets.
fn header(mail: &str, name: &str) -> String {
    let line = mail.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_matches(['<', '>']).to_owned()
}

/// Over SMTP nothing else is heard of bounces and complaints.
#[test]
fn reports_that_come_by_mail_stop_it() {
    let bounce = include_str!("../../../mail/tests/reports/postfix.eml");
    let complaint = include_str!("../../../mail/tests/reports/complaint.eml");
    for (report, count, reason) in [(bounce, 3, "bounces"), (complaint, 1, "complaints")] {
        let world = begin();
        let people: String = (0..37).map(|number| format!("p{number}@example.org\n")).collect();
        world.write("more.csv", &format!("email\n{people}"));
        world.ok(&["contacts", "import", "more.csv", "--audience", "newsletter", "--source", "x"]);
        let server = world.serve(&[]);
        world.ok(&[&SPRING[..], &["--no-follow", "--rate-per-hour", "3600"]].concat());
        let sent = |listed: &str| listed.lines().count() >= count;
        let listed = lines(&world.until(&["mail", "list"], sent));
        for (number, mail) in listed.iter().take(count).enumerate() {
            let raw = world.ok(&["mail", "show", &mail["id"].to_string(), "--raw"]);
            let about = report
                .replace("OURS", &header(&raw, "Message-ID"))
                .replace("bob@example.org", &header(&raw, "To"))
                .replace("4bYQ0z1x2yz@", &format!("report-{number}@"));
            let told = world.run_with_input(&["events", "inbound", "-"], &about);
            assert!(told.stdout.contains(&reason[..6]), "{} {}", told.stdout, told.stderr);
        }
        let paused = world.until(&["campaign", "show", "spring"], |shown| {
            shown.contains("\"status\":\"paused\"")
        });
        assert_eq!(lines(&paused)[0]["pause_reason"], reason);
        let mails = world.ok(&["mail", "list"]).lines().count();
        assert!(mails < 40, "{mails}");
        server.stop();
    }
}

#[test]
fn a_campaign_is_made_of_a_yaml_file_and_duplicated() {
    let world = begin();
    let yaml = "external_key: spring\nname: Spring\naudience: newsletter\nfilter: {tag: beta}\n\
                subject: Hello\ntext: |\n  One\n  Two\n";
    world.write("spring.yaml", yaml);
    world.ok(&["campaign", "create", "--file", "spring.yaml"]);
    let flags = ["--key", "summer", "--name", "Summer", "--subject", "Once more"];
    let made = world.ok(&[&["campaign", "duplicate", "spring"][..], &flags].concat());
    assert_eq!(lines(&made)[0]["status"], "draft");
    let shown = &lines(&world.ok(&["campaign", "show", "summer"]))[0];
    assert_eq!(shown["subject"], "Once more");
    assert_eq!((&shown["text"], &shown["filter"]["tag"]), (&"One\nTwo\n".into(), &"beta".into()));
    world.write("wrong.yaml", "name: [\n");
    let wrong = world.run(&["campaign", "create", "--file", "wrong.yaml"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("wrong.yaml is not YAML: line "), "{}", wrong.stderr);
}

/// Every block of the guide that is for a shell, from top to bottom.
#[test]
fn the_guide_can_be_followed_to_the_letter() {
    let guide = include_str!("../../../../docs/campaigns.md");
    let blocks = blocks_of(guide, "sh");
    assert!(blocks.len() > 8, "{}", blocks.len());
    let world = World::new();
    let server = world.serve(&[]);
    world.follow(&blocks);
    server.stop();
}

#[test]
fn a_campaign_that_was_under_way_in_a_backup_waits_for_a_person() {
    let world = begin();
    let left = world.run(&[&SPRING[..], &["--no-follow"]].concat());
    assert_eq!(left.code, 0, "{}", left.stderr);
    world.ok(&["backup", "copy.db"]);
    let restored = world.run(&["restore", "--force", "copy.db"]);
    assert!(
        restored.stderr.contains("campaigns that were under way, and are paused now: 1"),
        "{}",
        restored.stderr
    );
    let paused = lines(&world.ok(&["campaign", "list", "--status", "paused"]));
    assert_eq!(paused[0]["pause_reason"], "restored", "{paused:?}");
    let server = world.serve(&[]);
    world.ok(&["campaign", "resume", "spring"]);
    world.ok(&["campaign", "watch", "spring"]);
    assert_eq!(lines(&world.ok(&["mail", "list"])).len(), 3, "each once");
    server.stop();
}
