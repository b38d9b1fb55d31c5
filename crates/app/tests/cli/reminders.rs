//! Reminders over the real binary: drafting, reviewing over a pipe, approving, paying, and the audit log of it.

use serde_json::{Value, json};

use crate::world::{World, blocks_of};

fn begin() -> World {
    let world = World::new();
    world.ok(&["bootstrap", "--client", "shop"]);
    let from = ["senders", "add", "billing", "--client", "shop", "--from", "billing@example.org"];
    world.ok(&from);
    world
}

fn line(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|_| panic!("{text}"))
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(line).collect()
}

fn draft(world: &World, customer: &str, amount: &str) -> Value {
    let email = format!("{customer}@example.org");
    let invoice = format!("INV-{customer}");
    line(&world.ok(&[
        "reminders",
        "draft",
        customer,
        "--name",
        "Ada Ltd",
        "--email",
        &email,
        "--amount",
        amount,
        "--currency",
        "EUR",
        "--invoice",
        &invoice,
        "--subject",
        "Overdue",
        "--content",
        "Please pay.",
    ]))
}

fn waiting(world: &World) -> usize {
    world.ok(&["reminders", "list"]).lines().count()
}

#[test]
fn a_review_approves_edits_rejects_and_skips_over_a_pipe() {
    let world = begin();
    for customer in ["a", "b", "c", "d"] {
        draft(&world, customer, "10.00");
    }
    let review = ["reminders", "review", "--by", "Grace"];
    // The first is edited and then approved, the second rejected without and with a reason, the third skipped.
    let answers = "e\nNew subject\nOne.\nTwo.\n.\na\nr\n\nr\nnot now\nwhat\ns\nq\n";
    let ran = world.run_with_input(&review, answers);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for said in ["Owes    10.00 EUR", "edition 2", "New subject\n\nOne.\nTwo.", "Answer with a, e"]
    {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }
    assert!(ran.stderr.ends_with("1 approved, 1 rejected, 1 skipped\n"), "{}", ran.stderr);
    assert_eq!(waiting(&world), 2);
    let approved = lines(&world.ok(&["reminders", "list", "--status", "approved"]));
    let [approved] = approved.as_slice() else { panic!("{approved:?}") };
    assert_eq!((&approved["edition"], &approved["content"]), (&json!(2), &json!("One.\nTwo.")));
    assert_eq!(approved["approvals"][0]["by"], "Grace");
    let rejected = lines(&world.ok(&["reminders", "list", "--status", "rejected"]));
    assert_eq!(rejected[0]["reason"], "not now");
    // Nobody answers: nothing is decided.
    let ran = world.run(&review);
    assert_eq!((ran.code, waiting(&world)), (0, 2), "{}", ran.stderr);
}

#[test]
fn a_draft_is_edited_with_a_program() {
    let world = begin();
    draft(&world, "a", "10.00");
    world.write("editor.sh", "printf 'By program\\n\\nText.\\n' > \"$1\"\n");
    let review = ["reminders", "review", "--by", "Grace", "--editor", "/bin/sh editor.sh"];
    let ran = world.run_with_input(&review, "e\na\n");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let approved = lines(&world.ok(&["reminders", "list", "--status", "approved"]));
    assert_eq!(
        (&approved[0]["subject"], &approved[0]["content"]),
        (&json!("By program"), &json!("Text."))
    );
    let review = ["reminders", "review", "--by", "Grace", "--editor", "/bin/false"];
    draft(&world, "b", "10.00");
    let ran = world.run_with_input(&review, "e\n");
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("nothing was changed"), "{}", ran.stderr);
}

#[test]
fn two_people_approve_much_and_a_payment_withdraws_it() {
    let world = begin();
    world.ok(&["reminders", "settings", "put", r#"{"two_person_above":{"EUR":"100"}}"#]);
    let made = draft(&world, "a", "100.01");
    let id = made["id"].as_str().unwrap();
    let approve = |by: &str| world.run(&["reminders", "approve", id, "--edition", "1", "--by", by]);
    for by in ["Grace", "grace", "Linus"] {
        let ran = approve(by);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let status = line(&ran.stdout)["status"].clone();
        assert_eq!(status, if by == "Linus" { "approved" } else { "draft" }, "{by}");
    }
    let paid =
        ["reminders", "paid", "--invoice", "INV-a", "--amount", "100.01", "--currency", "EUR"];
    let told = line(&world.ok(&paid));
    assert_eq!((told["withdrawn"].as_str(), &told["replayed"]), (Some(id), &json!(false)));
    assert_eq!(line(&world.ok(&paid))["replayed"], true);
    assert_eq!(line(&world.ok(&["reminders", "show", id]))["status"], "withdrawn");
    assert_eq!(world.ok(&["reminders", "outstanding"]), "");
    for (arguments, said) in [
        (
            ["reminders", "settings", "put", r#"{"days":{"first_again":0},"typo":1}"#],
            "there is no such setting",
        ),
        (["reminders", "settings", "put", "{"], "the settings are not JSON"),
    ] {
        let ran = world.run(&arguments);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}

#[test]
fn a_file_drafts_each_reminder_once_and_says_who_was_left_out() {
    let world = begin();
    let template = ["reminders", "templates", "put", "plain", "--name", "Plain", "--type", "first"];
    let says = ["--subject", "Overdue", "--body", "{{ amount_due }}"];
    world.ok(&[&template[..], &says[..]].concat());
    let columns = "customer_id,customer_name,customer_email,overdue_amount,currency,invoices";
    let good = "c1,Ada Ltd,ada@example.org,10.00,EUR,INV-1";
    // One has a field too many, one no address, one a wrong amount: none of them keeps the last from being drafted.
    let bad = "c2,Bob,bob@example.org,1.00,EUR,INV-2,more\nc3,Eve,nobody,1.00,EUR,INV-3\nc4,Kim,kim@example.org,x,EUR,INV-4";
    world.write("overdue.csv", &format!("{columns}\n{good}\n{bad}\n"));
    let many = ["reminders", "draft-many", "overdue.csv", "--left-out", "left.csv"];
    let counted = |run: &[&str]| {
        let told = line(&world.ok(&[&many[..], run].concat()));
        ["drafted", "there_already", "left_out"].map(|name| told[name].as_u64().unwrap())
    };
    let left = || std::fs::read_to_string(world.path("left.csv")).unwrap();
    assert_eq!(counted(&[]), [1, 0, 3]);
    for said in ["3,,invalid", "4,c3,invalid", "5,c4,invalid"] {
        assert!(left().contains(said), "{said}: {}", left());
    }
    // After a crash, say.
    assert_eq!(counted(&[]), [0, 1, 3]);
    let id = line(&world.ok(&["reminders", "list"]))["id"].as_str().unwrap().to_owned();
    world.ok(&["reminders", "reject", &id, "--reason", "no", "--by", "Grace"]);
    assert_eq!(counted(&[]), [0, 0, 4]);
    assert!(left().contains("2,c1,decided"), "{}", left());
    assert_eq!(counted(&["--run", "2"]), [1, 0, 3]);
    let id = line(&world.ok(&["reminders", "list"]))["id"].as_str().unwrap().to_owned();
    world.ok(&["reminders", "approve", &id, "--by", "Grace"]);
    let server = world.serve(&[]);
    world.until(&["reminders", "history", "c1"], |printed| !printed.is_empty());
    server.stop();
    // The same line is about the next one now.
    assert_eq!(counted(&["--run", "2"]), [0, 0, 4]);
    assert!(left().contains("2,c1,too_early"), "{}", left());
    let recent =
        ["reminders", "recent", "c1", "--type", "first", "--since", "2020-01-01T00:00:00Z"];
    assert_eq!(world.ok(&recent).lines().count(), 1);
    let allowed = lines(&world.ok(&["reminders", "allowed", "c1"]));
    assert_eq!((&allowed[0]["allowed"], &allowed[2]["needs"]), (&json!(false), &json!("second")));
}

#[test]
fn part_of_an_invoice_can_be_paid_and_somebody_owes_without_a_draft() {
    let world = begin();
    let who = ["--name", "Ada Ltd", "--email", "ada@example.org", "--currency", "EUR"];
    let what = ["reminders", "overdue", "c1", "--amount", "10.00", "--invoice", "INV-1"];
    world.ok(&[&what[..], &who[..]].concat());
    let part = |reference: &str| {
        let amount = ["--amount", "4.00", "--currency", "EUR", "--reference", reference];
        line(&world.ok(&[&["reminders", "paid", "--invoice", "INV-1"][..], &amount[..]].concat()))
    };
    assert_eq!(part("a")["left"], "6.00");
    assert_eq!((&part("a")["replayed"], &part("b")["left"]), (&json!(true), &json!("2.00")));
    assert_eq!(part("c")["over"], "2.00");
    assert_eq!(world.ok(&["reminders", "outstanding"]), "");
    assert_eq!(world.ok(&["reminders", "payments", "c1"]).lines().count(), 3);
}

/// Every block of the guide that is for a shell, from top to bottom. What it approves is sent.
#[test]
fn the_guide_of_the_reminders_can_be_followed_to_the_letter() {
    let guide = include_str!("../../../../docs/reminders.md");
    let world = World::new();
    let server = world.serve(&[]);
    let here = format!("http://{}", server.address);
    let blocks = blocks_of(guide, "sh");
    assert!(blocks.len() > 4, "{}", blocks.len());
    let blocks: Vec<String> =
        blocks.iter().map(|block| block.replace("http://127.0.0.1:8080", &here)).collect();
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    world.follow(&blocks);
    let sent = world.until(&["reminders", "history", "cust_001"], |printed| !printed.is_empty());
    assert_eq!(line(&sent)["approved_by"], json!(["Grace Hopper"]));
    let log = world
        .until(&["audit", "--action", "reminder.approve"], |printed| printed.contains("cust_001"));
    assert!(!log.contains('@'), "{log}");
    let again = world.run(&[
        "reminders",
        "draft",
        "cust_001",
        "--name",
        "Ada Ltd",
        "--email",
        "ada@example.org",
        "--amount",
        "1500",
        "--currency",
        "EUR",
        "--invoice",
        "INV-17",
        "--type",
        "first",
    ]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("a first reminder is allowed from "), "{}", again.stderr);
    server.stop();
}

#[test]
fn the_audit_log_is_read_by_what_is_known() {
    let world = begin();
    world.ok(&["clients", "disable", "shop"]);
    world.ok(&["clients", "disable", "shop"]);
    world.ok(&["links", "rotate"]);
    let log = lines(&world.ok(&["audit", "--target", "client/shop", "--action", "client.disable"]));
    let [entry] = log.as_slice() else { panic!("{log:?}") };
    assert_eq!((&entry["actor"], &entry["before"]["enabled"]), (&json!("operator"), &json!(true)));
    assert_eq!(entry["after"]["enabled"], false);
    assert_eq!(world.ok(&["audit", "--action", "client", "--limit", "1"]).lines().count(), 1);
    assert_eq!(world.ok(&["audit", "--until", "2020-01-01T00:00:00Z"]), "");
    let installation = lines(&world.ok(&["audit", "--installation"]));
    assert_eq!(installation[0]["action"], "signing_key.create");
}
