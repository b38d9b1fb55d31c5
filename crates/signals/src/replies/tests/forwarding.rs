//! Replies are passed on to people once, and to nobody who would send them back.

use std::sync::Arc;

use tidings_access::{Access, Cx};
use tidings_delivery::capture::Capture;
use tidings_delivery::ledger::Source;
use tidings_delivery::links::Links;
use tidings_delivery::pace::Pace;
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::{Messages, Settings, Worker};
use tidings_kernel::{EmailAddress, Item, Query, queues, tables};
use tidings_people::{contacts, keys};
use tidings_sql::{Cell, DatabaseError, Param};
use tidings_testbed::{Bed, dying, each_store};

use super::{mime, our_id};
use crate::events::tests::{messages, stored};
use crate::replies::{Received, Replies};

each_store!(
    a_reply_is_passed_on_once_as_a_mail_from_whom_it_answers,
    a_reply_to_a_campaign_is_passed_on_too,
    a_reply_is_passed_on_once_wherever_the_process_dies,
    what_would_come_back_is_not_passed_on,
    a_mail_that_answers_nothing_is_only_recorded,
    a_client_without_a_sender_keeps_nothing_from_being_recorded,
    an_address_that_changed_gets_nothing_twice,
    what_others_write_is_no_template,
    a_reply_is_passed_on_with_its_html_and_its_files,
    lines_of_a_head_that_are_folded_or_come_first_mislead_nobody,
    a_workspace_says_itself_to_whom_its_replies_go,
    an_erasure_clears_what_was_passed_on,
    an_erasure_stops_what_was_not_passed_on_yet,
);

const TEAM: &str = "team@shop.example";

struct World<'a> {
    bed: &'a Bed,
    cx: Cx,
    ada: Source,
    bob: Source,
}

impl<'a> World<'a> {
    /// The message to Ada came from a sender of the client that is not its default.
    async fn new(bed: &'a Bed) -> Self {
        let world = Self::without_senders(bed).await;
        for sql in [
            "INSERT INTO senders (workspace_id, client_id, slug, from_email, from_name, is_default, created_at, updated_at)
             SELECT workspace_id, id, 'hello', 'hello@shop.example', 'The shop', 1, 0, 0 FROM clients",
            "INSERT INTO senders (workspace_id, client_id, slug, from_email, from_name, is_default, created_at, updated_at)
             SELECT workspace_id, id, 'orders', 'orders@shop.example', 'Orders', 0, 0, 0 FROM clients",
            "UPDATE transactional_messages SET from_email = 'orders@shop.example'",
        ] {
            world.run(sql).await;
        }
        world
    }

    async fn without_senders(bed: &'a Bed) -> Self {
        let cx = bed.cx().await;
        let (ada, bob) = messages(bed, &cx).await;
        Self { bed, cx, ada, bob }
    }

    async fn run(&self, sql: &'static str) {
        let run = self.cx.database().write(move |tx| tx.execute(sql, &[]).map(drop));
        let done: Result<(), DatabaseError> = run.await;
        done.unwrap();
    }

    fn replies(&self) -> Replies {
        Self::replies_on(self.bed.access.clone(), TEAM)
    }

    fn replies_on(access: Access, to: &str) -> Replies {
        let messages = Messages::new(Templates::default());
        Replies::new(access, None).passing_on(messages, Some(to.parse().unwrap()))
    }

    async fn mail(&self, more: &str) -> Vec<u8> {
        mime("ada@example.org", &our_id(self.bed, &self.cx, self.ada).await, more)
    }

    async fn receive(&self, mail: &[u8]) -> Received {
        self.replies().receive(&self.cx, mail).await.unwrap()
    }

    /// Sends what waits to be sent, into the box of captured mail.
    async fn work(&self) {
        let database = self.cx.database().clone();
        let links = Links::load(&database, "https://m.example", self.cx.now()).await.unwrap();
        let worker = Worker {
            access: self.bed.access.clone(),
            templates: Templates::default(),
            links,
            sender: Arc::new(Capture::new(database, self.bed.clock.clone())),
            pace: Arc::new(Pace::new(100_000, self.cx.now())),
            settings: Settings { node: "node-1".to_owned(), ttl_days: None },
        };
        self.bed.work(&queues::TRANSACTIONAL_EMAIL, worker.handler()).await;
    }

    /// The status of each message that was passed on, with all that tells of it.
    async fn forwarded(&self) -> Vec<(String, String)> {
        let read = self.cx.database().read(|tx| {
            let sql = "SELECT status, email, reply_to, subject, text_body, CAST(context AS TEXT), CAST(metadata AS TEXT),
                              CAST(envelope AS TEXT)
                       FROM transactional_messages WHERE idempotency_key LIKE 'forward:%' ORDER BY id";
            let rows = tx.query(sql, &[])?;
            let told = rows.iter().map(|row| Ok((row.text(0)?.to_owned(), format!("{row:?}"))));
            told.collect::<Result<Vec<_>, DatabaseError>>()
        });
        read.await.unwrap()
    }

    /// What was sent, as it is on the wire.
    async fn sent(&self) -> Vec<String> {
        let read = self.cx.database().read(|tx| {
            let rows = tx.query("SELECT mime FROM captured_mails ORDER BY id", &[])?;
            let text = |row: &tidings_sql::Row| match row.cell(0) {
                Cell::Bytes(mime) => Ok(String::from_utf8_lossy(mime).into_owned()),
                _ => Err(DatabaseError::NoRow),
            };
            rows.iter().map(text).collect::<Result<Vec<_>, DatabaseError>>()
        });
        read.await.unwrap()
    }

    async fn log(&self) -> Vec<Item> {
        let team: EmailAddress = TEAM.parse().unwrap();
        let query = Query::new(&tables::MAIN, keys::subscriber(&team)).begins_with("SENT#");
        self.cx.items().await.unwrap().query(query).await.unwrap().items
    }

    async fn erase(&self, address: &str) {
        contacts::erase(&self.cx, &address.parse().unwrap()).await.unwrap();
    }
}

async fn a_reply_is_passed_on_once_as_a_mail_from_whom_it_answers(bed: &Bed) {
    let world = World::new(bed).await;
    let mail = world.mail("").await;
    assert_eq!(world.receive(&mail).await, Received::Reply);
    assert_eq!(world.receive(&mail).await, Received::Before);
    world.work().await;
    assert_eq!(world.receive(&mail).await, Received::Before);
    world.work().await;
    let sent = world.sent().await;
    assert_eq!(sent.len(), 1);
    for line in [
        "From: \"Orders\" <orders@shop.example>",
        "To: <team@shop.example>",
        "Reply-To: <ada@example.org>",
        "Subject: Fwd: Re: Spring!",
        "Auto-Submitted: auto-generated",
        "X-Tidings-Forward: reply",
        "ada@example.org wrote:",
        "Thanks for reaching out!",
    ] {
        assert!(sent[0].contains(line), "{line} is missing in {}", sent[0]);
    }
    assert!(!sent[0].contains("<img") && !sent[0].contains("m.example/"), "nobody is watched");
    // Another mail of hers is another one.
    let another = String::from_utf8(mail).unwrap().replace("-1@", "-2@");
    assert_eq!(world.receive(another.as_bytes()).await, Received::Reply);
    assert_eq!(world.forwarded().await.len(), 2);
}

async fn a_reply_to_a_campaign_is_passed_on_too(bed: &Bed) {
    let world = World::new(bed).await;
    let mail = mime("bob@example.org", &our_id(bed, &world.cx, world.bob).await, "");
    assert_eq!(world.receive(&mail).await, Received::Reply);
    world.work().await;
    let sent = world.sent().await;
    // The campaign does not say as whom it was sent, so it is the client's default.
    assert!(sent.len() == 1 && sent[0].contains("<hello@shop.example>"), "{sent:?}");
}

async fn a_reply_is_passed_on_once_wherever_the_process_dies(bed: &Bed) {
    let world = World::new(bed).await;
    let pattern = String::from_utf8(world.mail("").await).unwrap();
    for after in [false, true] {
        for place in 0.. {
            // Another mail each time.
            let mail = pattern.replace("-1@", &format!("-{after}-{place}@"));
            let before = world.forwarded().await.len();
            let dying = dying(bed, &world.cx, place, after).await;
            let died = world.replies().receive(&dying, mail.as_bytes()).await.is_err();
            world.receive(mail.as_bytes()).await;
            world.receive(mail.as_bytes()).await;
            assert_eq!(world.forwarded().await.len(), before + 1, "call {place}, after: {after}");
            if !died {
                assert!(place > 3, "there are more calls than {place}");
                break;
            }
        }
    }
}

async fn what_would_come_back_is_not_passed_on(bed: &Bed) {
    let world = World::new(bed).await;
    let machine = world.mail("Auto-Submitted: auto-replied\r\n").await;
    assert_eq!(world.receive(&machine).await, Received::Automatic);
    let ours = String::from_utf8(world.mail("x-tidings-forward: reply\r\n").await).unwrap();
    assert_eq!(world.receive(ours.replace("-1@", "-2@").as_bytes()).await, Received::Reply);
    // The team is a contact, and answers a mail of ours by itself.
    world.run("UPDATE transactional_messages SET email = 'team@shop.example'").await;
    let team = mime(TEAM, &our_id(bed, &world.cx, world.ada).await, "");
    assert_eq!(world.receive(&team).await, Received::Reply);
    assert!(world.forwarded().await.is_empty());
    assert_eq!(stored(&world.cx).await.len(), 3);
    // One of the team, whom we know, answers what was passed on.
    world.run("UPDATE transactional_messages SET email = 'ada@example.org'").await;
    let mail = String::from_utf8(world.mail("").await).unwrap().replace("-1@", "-3@");
    world.receive(mail.as_bytes()).await;
    assert_eq!(world.forwarded().await.len(), 1);
    let read = world
        .cx
        .database()
        .read(|tx| tx.query("SELECT max(id) FROM transactional_messages", &[])?[0].int(0));
    let id: Result<i64, DatabaseError> = read.await;
    let forward = our_id(bed, &world.cx, Source::Transactional(id.unwrap())).await;
    let known = contacts::Upsert {
        email: "eve@shop.example".parse().unwrap(),
        first_name: None,
        attributes: contacts::Attributes::default(),
        tags: None,
    };
    contacts::upsert(&world.cx, known).await.unwrap();
    assert_eq!(world.receive(&mime("eve@shop.example", &forward, "")).await, Received::Reply);
    assert_eq!(world.forwarded().await.len(), 1);
}

async fn a_mail_that_answers_nothing_is_only_recorded(bed: &Bed) {
    let world = World::new(bed).await;
    let known = contacts::Upsert {
        email: "ada@example.org".parse().unwrap(),
        first_name: None,
        attributes: contacts::Attributes::default(),
        tags: None,
    };
    contacts::upsert(&world.cx, known).await.unwrap();
    let mail = mime("ada@example.org", "<unknown@elsewhere.example>", "");
    assert_eq!(world.receive(&mail).await, Received::Reply);
    assert!(world.forwarded().await.is_empty());
}

async fn a_client_without_a_sender_keeps_nothing_from_being_recorded(bed: &Bed) {
    let world = World::without_senders(bed).await;
    assert_eq!(world.receive(&world.mail("").await).await, Received::Reply);
    assert!(world.forwarded().await.is_empty());
    assert_eq!(stored(&world.cx).await.len(), 1);
}

async fn an_address_that_changed_gets_nothing_twice(bed: &Bed) {
    let world = World::new(bed).await;
    let mail = world.mail("").await;
    world.receive(&mail).await;
    let elsewhere = World::replies_on(bed.access.clone(), "new@shop.example");
    assert_eq!(elsewhere.receive(&world.cx, &mail).await.unwrap(), Received::Before);
    assert_eq!(world.forwarded().await.len(), 1);
}

/// Signatures name `From:` before it comes, and a long name goes on in the next line.
async fn lines_of_a_head_that_are_folded_or_come_first_mislead_nobody(bed: &Bed) {
    let world = World::new(bed).await;
    let signed =
        "DKIM-Signature: v=1; a=rsa-sha256; d=example.org; h=\r\n From:To:Reply-To;\r\n b=From\r\n";
    let mail = String::from_utf8(world.mail("").await).unwrap();
    let folded =
        "From: =?utf-8?q?Countess_of_Lovelace=2C?=\r\n =?utf-8?q?_Ada?=\r\n <ada@example.org>\r\n";
    let mail = mail.replace("From: Bob <ada@example.org>\r\n", &format!("{signed}{folded}"));
    assert!(mail.contains(folded));
    assert_eq!(world.receive(mail.as_bytes()).await, Received::Reply);
    world.work().await;
    let sent = world.sent().await;
    let (head, body) = sent[0].split_once("\r\n\r\n").unwrap();
    for line in ["From: \"Orders\" <orders@shop.example>", "Reply-To: <ada@example.org>"] {
        assert_eq!(head.matches(line).count(), 1, "{head}");
    }
    assert_eq!(head.matches("From:").count(), 1, "{head}");
    assert!(!head.contains("DKIM-Signature") && !head.contains("Countess"), "{head}");
    assert!(body.contains("ada@example.org wrote:"), "{body}");
}

async fn a_workspace_says_itself_to_whom_its_replies_go(bed: &Bed) {
    use crate::replies::settings::{PassOn, put, show};

    let world = World::new(bed).await;
    let pattern = String::from_utf8(world.mail("").await).unwrap();
    let other = bed.make_workspace("other").await;
    put(&other, PassOn::To("other@shop.example".parse().unwrap())).await.unwrap();
    let nowhere = Replies::new(bed.access.clone(), None)
        .passing_on(Messages::new(Templates::default()), None);
    let mut number = 10;
    let mut told = async |replies: &Replies, word: &str| {
        put(&world.cx, word.parse().unwrap()).await.unwrap();
        assert_eq!(show(&world.cx).await.unwrap().to_string(), word);
        number += 1;
        let mail = pattern.replace("-1@", &format!("-{number}@"));
        let before = world.forwarded().await.len();
        assert_eq!(replies.receive(&world.cx, mail.as_bytes()).await.unwrap(), Received::Reply);
        let forwarded = world.forwarded().await;
        forwarded[before..].iter().map(|(_, row)| row.clone()).collect::<String>()
    };
    let replies = world.replies();
    assert!(told(&replies, "default").await.contains(TEAM));
    assert_eq!(told(&replies, "off").await, "");
    assert!(told(&replies, "desk@shop.example").await.contains("desk@shop.example"));
    assert!(told(&nowhere, "desk@shop.example").await.contains("desk@shop.example"));
    assert_eq!(told(&nowhere, "default").await, "");
    for wrong in ["", "nobody", "a@b@c"] {
        assert!(wrong.parse::<PassOn>().is_err(), "{wrong}");
    }
}

async fn a_reply_is_passed_on_with_its_html_and_its_files(bed: &Bed) {
    let world = World::new(bed).await;
    let mail = String::from_utf8(world.mail("").await).unwrap();
    let (head, _) = mail.split_once("Content-Type:").unwrap();
    let part = |head: &str, body: &str| format!("--b\r\n{head}\r\n\r\n{body}\r\n");
    let file = |name: &str, body: &str| {
        let disposition = format!("Content-Disposition: attachment; filename={name}");
        part(&format!("Content-Type: application/pdf\r\n{disposition}"), body)
    };
    let html = "<b id=it>It</b> is {{ contact.email }} {% raw %} {%- endraw -%}{{ 7 }} {% if";
    let large = "x".repeat(70).repeat(14_000);
    let body = [
        part("Content-Type: multipart/alternative; boundary=a", ""),
        format!(
            "--a\r\nContent-Type: text/plain\r\n\r\nIt is\r\n--a\r\nContent-Type: text/html\r\n\r\n{html}\r\n--a--\r\n"
        ),
        file("invoice.pdf", "PDF-1"),
        file("film.pdf", &large),
        file("order.pdf", "PDF-2"),
        "--b--\r\n".to_owned(),
    ];
    let mixed = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n";
    let mail = format!("{head}{mixed}{}", body.concat());
    assert_eq!(world.receive(mail.as_bytes()).await, Received::Reply);
    assert_eq!(world.receive(mail.as_bytes()).await, Received::Before);
    world.work().await;
    let sent = world.sent().await;
    assert_eq!(sent.len(), 1);
    let shown = tidings_mail::inbound::contents(sent[0].as_bytes());
    let shown = (shown.text.unwrap().replace('\r', ""), shown.html.unwrap());
    assert!(shown.0.contains("ada@example.org wrote:\n\nIt is\n"), "{}", shown.0);
    let expected = html.replace("endraw", "end&#114;aw");
    assert!(shown.1.contains(&expected), "{}", shown.1);
    for text in [&shown.0, &shown.1] {
        assert!(text.contains("too much: film.pdf"), "{text}");
    }
    let files = tidings_mail::inbound::pieces(sent[0].as_bytes()).unwrap().files;
    let names: Vec<_> = files.iter().filter_map(|file| file.filename.as_deref()).collect();
    assert_eq!(names, ["invoice.pdf", "order.pdf"]);
    world.erase("ada@example.org").await;
    let forwarded = world.forwarded().await;
    assert!(!forwarded[0].1.contains("invoice.pdf"), "{forwarded:?}");
}

async fn what_others_write_is_no_template(bed: &Bed) {
    let world = World::new(bed).await;
    let mail = String::from_utf8(world.mail("").await).unwrap();
    let long = "\"ä\n".repeat(20_000);
    let words = format!("{{{{ contact.email }}}} {{% raw %}} <b>&amp;\r\n{long}");
    let mail = mail.replace("Thanks for reaching out!", &words).replace("Spring!", "{{ 7 }} {%");
    assert_eq!(world.receive(mail.as_bytes()).await, Received::Reply);
    world.work().await;
    let forwarded = world.forwarded().await;
    assert_eq!(forwarded[0].0, "sent", "{forwarded:?}");
    for words in ["{{ contact.email }} {% raw %} <b>&amp;", "Fwd: Re: {{ 7 }} {%", "[…]"] {
        assert!(forwarded[0].1.contains(words), "{words}");
    }
}

fn knows_of_ada(text: &str) -> bool {
    let text = text.to_lowercase();
    ["ada@", "spring", "reaching"].iter().any(|word| text.contains(word))
}

async fn an_erasure_clears_what_was_passed_on(bed: &Bed) {
    let world = World::new(bed).await;
    let mail = world.mail("").await;
    world.receive(&mail).await;
    world.work().await;
    assert!(knows_of_ada(&world.forwarded().await[0].1));
    assert!(knows_of_ada(world.log().await[0].text("subject").unwrap()));
    world.erase("ada@example.org").await;
    let forwarded = world.forwarded().await;
    assert_eq!(forwarded[0].0, "sent");
    assert!(!knows_of_ada(&forwarded[0].1), "{forwarded:?}");
    assert_eq!(world.log().await[0].text("subject"), Some(""));
    assert!(world.sent().await.is_empty());
}

async fn an_erasure_stops_what_was_not_passed_on_yet(bed: &Bed) {
    let world = World::new(bed).await;
    let mail = world.mail("").await;
    world.receive(&mail).await;
    let named = world.cx.database().write(|tx| {
        let sql = "INSERT INTO channel_identities
                       (workspace_id, lead_id, channel, value, typed_value, created_at, updated_at)
                   SELECT workspace_id, lead_id, 'email', email, email, 1, 1 FROM transactional_messages
                   WHERE email = $1";
        tx.execute(sql, &[Param::Text("ada@example.org")])
    });
    let named: Result<u64, DatabaseError> = named.await;
    assert_eq!(named.unwrap(), 1);
    world.erase("ada@example.org").await;
    world.work().await;
    // Nor does it begin anew when the mail is delivered once more.
    world.receive(&mail).await;
    world.work().await;
    let forwarded = world.forwarded().await;
    assert_eq!((forwarded.len(), forwarded[0].0.as_str()), (1, "cancelled"));
    assert!(!knows_of_ada(&forwarded[0].1), "{forwarded:?}");
    assert!(world.sent().await.is_empty());
}
