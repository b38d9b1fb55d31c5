//! Taking messages in.

use std::sync::mpsc;

use serde_json::{Value, json};
use tidings_kernel::queues;
use tidings_people::suppression;
use tidings_sql::{DatabaseError, Dialect};
use tidings_testbed::{Bed, each_store};

use super::World;
use crate::transactional::{
    AcceptError, Accepted, Content, Disposition, Part, PartBody, Send, Status, Wrong,
};

each_store!(
    a_message_is_written_down_with_its_contact_and_its_envelope,
    the_same_request_again_is_the_same_message,
    the_same_key_for_another_request_is_refused,
    the_same_key_at_the_same_time_makes_one_message,
    a_key_belongs_to_its_client,
    a_request_that_is_being_worked_on_is_told_so,
    everything_that_is_wrong_is_told_at_once_and_nothing_is_written,
    what_a_letter_would_refuse_is_not_accepted,
    without_a_sender_nothing_is_accepted,
    a_suppressed_person_gets_a_row_with_the_reason,
    a_dry_run_writes_nothing,
    a_batch_has_an_answer_for_each_of_its_messages,
    what_is_scheduled_waits_for_its_time,
);

async fn a_message_is_written_down_with_its_contact_and_its_envelope(bed: &Bed) {
    let world = World::new(bed).await;
    let accepted = world.accept(world.keyed("Ada@Example.org", "k-1")).await.unwrap();
    let expected = Accepted {
        id: accepted.id,
        status: Status::Queued,
        skip_reason: None,
        scheduled_at: None,
        replayed: false,
    };
    assert_eq!(accepted, expected);
    let message = world.found(accepted.id).await.message;
    assert_eq!(message.email.as_deref(), Some("ada@example.org"));
    assert_eq!(message.from_email.as_deref(), Some("hello@example.org"));
    assert_eq!(message.idempotency_key.as_deref(), Some("k-1"));
    assert_eq!(world.count("leads").await, 1);
    let sql = "SELECT body FROM queue_messages";
    let rows = bed.access.database().read(move |tx| tx.query(sql, &[])).await;
    let rows = rows.map_err(|error: tidings_sql::DatabaseError| error).unwrap();
    let body: Value = serde_json::from_str(rows[0].text(0).unwrap()).unwrap();
    let envelope = json!({
        "contract": "transactional-email",
        "version": 1,
        "transactional_message_id": accepted.id.get(),
        "client_id": world.client.get(),
        "idempotency_key": "k-1",
    });
    assert_eq!((rows.len(), body), (1, envelope));
}

async fn the_same_request_again_is_the_same_message(bed: &Bed) {
    let world = World::new(bed).await;
    let first = world.accept(world.keyed("ada@example.org", "k")).await.unwrap();
    // The key's own template or sender may be gone by then.
    world.run("DELETE FROM senders").await;
    let again = world.accept(world.keyed("ADA@example.org", "k")).await.unwrap();
    assert_eq!(again, Accepted { replayed: true, ..first });
    assert_eq!(world.count("transactional_messages").await, 1);
    assert_eq!(world.count("queue_messages WHERE queue = 'transactional-email'").await, 1);
}

async fn the_same_key_for_another_request_is_refused(bed: &Bed) {
    let world = World::new(bed).await;
    let first = world.accept(world.keyed("ada@example.org", "k")).await.unwrap();
    let other = world.accept(world.keyed("eve@example.org", "k")).await;
    assert!(matches!(other, Err(AcceptError::KeyReused(id)) if id == first.id), "{other:?}");
    let mut other = world.keyed("ada@example.org", "k");
    other.context.insert("name".to_owned(), "Eve".into());
    let other = world.accept(other).await;
    assert!(matches!(other, Err(AcceptError::KeyReused(_))), "{other:?}");
    assert_eq!(world.count("leads").await, 1, "nothing of the other request is written down");
}

/// Two nodes know nothing of each other but the database.
async fn the_same_key_at_the_same_time_makes_one_message(bed: &Bed) {
    let world = World::new(bed).await;
    let mut nodes = Vec::new();
    for _ in 0..8 {
        let messages = crate::transactional::Messages::new(world.worker.templates.clone());
        let (cx, send) = (bed.cx().await, world.keyed("ada@example.org", "k"));
        nodes.push(tokio::spawn(async move { messages.accept(&cx, send).await }));
    }
    let mut answers = Vec::new();
    for node in nodes {
        answers.push(node.await.unwrap().unwrap());
    }
    assert!(answers.iter().all(|answer| answer.id == answers[0].id), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1);
    assert_eq!(world.count("transactional_messages").await, 1);
    assert_eq!(world.count("queue_messages WHERE queue = 'transactional-email'").await, 1);
    assert_eq!(world.count("leads").await, 1);
}

async fn a_key_belongs_to_its_client(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = bed.cx().await;
    let create = tidings_access::clients::Create {
        slug: "blog".parse().unwrap(),
        name: "The blog".parse().unwrap(),
    };
    let blog = tidings_access::clients::create(&cx, create).await.unwrap().id;
    world.make_sender(blog, "blog", "blog@example.org", 1).await;
    let first = world.accept(world.keyed("ada@example.org", "k")).await.unwrap();
    let other = Send { client: blog, ..world.keyed("eve@example.org", "k") };
    let other = world.accept(other).await.unwrap();
    assert!(!other.replayed && other.id != first.id);
}

async fn a_request_that_is_being_worked_on_is_told_so(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = bed.cx().await;
    let (release, held) = held_up(bed).await;
    let mut first = Box::pin(world.messages.accept(&cx, world.keyed("ada@example.org", "k")));
    // It has begun, and waits for whoever is writing.
    assert!(futures_util::poll!(first.as_mut()).is_pending());
    let second = world.messages.accept(&cx, world.keyed("ada@example.org", "k")).await;
    assert!(matches!(second, Err(AcceptError::InFlight)), "{second:?}");
    drop(first);
    release.send(()).unwrap();
    held.await.unwrap();
    assert!(world.accept(world.keyed("ada@example.org", "k")).await.is_ok(), "it is free again");
}

/// Nobody else writes messages until this is released. Whoever waits for the second part, waits for the end of it.
pub(super) async fn held_up(bed: &Bed) -> (mpsc::Sender<()>, tokio::task::JoinHandle<()>) {
    let (release, released) = mpsc::channel();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let (database, mut begun) = (bed.access.database().clone(), Some(begun));
    let held = tokio::spawn(async move {
        let hold = database.write(move |tx| {
            if tx.dialect() == Dialect::Postgres {
                tx.query("LOCK TABLE transactional_messages IN EXCLUSIVE MODE", &[])?;
            }
            if let Some(begun) = begun.take() {
                begun.send(()).unwrap();
            }
            released.recv().unwrap();
            Ok::<_, DatabaseError>(())
        });
        hold.await.unwrap();
    });
    begins.await.unwrap();
    (release, held)
}

async fn everything_that_is_wrong_is_told_at_once_and_nothing_is_written(bed: &Bed) {
    let world = World::new(bed).await;
    let mut send = world.mail("ada@example.org");
    send.content =
        Content::Inline { subject: String::new(), html: Some("{{ broken".to_owned()), text: None };
    send.sender = Some("nobody".parse().unwrap());
    send.topic = Some("nothing".parse().unwrap());
    send.headers.insert("Subject".to_owned(), "x".to_owned());
    send.headers.insert("X-Break".to_owned(), "a\r\nBcc: eve@example.org".to_owned());
    send.parts.push(Part {
        content_type: "multipart/mixed".to_owned(),
        filename: Some("../etc/passwd".to_owned()),
        disposition: Disposition::Attachment,
        body: PartBody::Text("x".repeat(200_001)),
    });
    send.scheduled_at = Some("2028-01-01T00:00:00Z".parse().unwrap());
    send.idempotency_key = Some("k".repeat(256));
    let Err(AcceptError::Invalid(wrong)) = world.accept(send).await else { panic!("accepted") };
    let told: Vec<_> =
        wrong.iter().map(|Wrong { field, message }| format!("{field}: {message}")).collect();
    insta::assert_snapshot!(told.join("\n"));
    for table in [
        "leads",
        "transactional_messages",
        "queue_messages WHERE queue = 'transactional-email'",
        "timers",
    ] {
        assert_eq!(world.count(table).await, 0, "{table}");
    }
}

/// Else it would be accepted now, and failed when it is too late to say so.
async fn what_a_letter_would_refuse_is_not_accepted(bed: &Bed) {
    let world = World::new(bed).await;
    let headers: [&[&str]; 4] =
        [&["In-Reply-To"], &["Precedence"], &["1-Digit"], &["X-Order", "x-order"]];
    for names in headers {
        let mut send = world.mail("ada@example.org");
        send.headers = names.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect();
        let refused = world.accept(send).await;
        assert!(matches!(refused, Err(AcceptError::Invalid(_))), "{names:?}: {refused:?}");
    }
    for content_type in ["text/plain; boundary=x", "text/plain; charset", "text/plain; a=\"b c\""] {
        let mut send = world.mail("ada@example.org");
        let (filename, disposition) = (None, Disposition::Attachment);
        let (content_type, body) = (content_type.to_owned(), PartBody::Text("x".to_owned()));
        send.parts.push(Part { content_type, filename, disposition, body });
        let refused = world.accept(send).await;
        assert!(matches!(refused, Err(AcceptError::Invalid(_))), "{refused:?}");
    }
    assert_eq!(world.count("transactional_messages").await, 0);
}

async fn without_a_sender_nothing_is_accepted(bed: &Bed) {
    let world = World::new(bed).await;
    world.make_sender(world.client, "billing", "billing@example.org", 0).await;
    let mut send = world.mail("ada@example.org");
    send.sender = Some("billing".parse().unwrap());
    let accepted = world.accept(send).await.unwrap();
    let message = world.found(accepted.id).await.message;
    assert_eq!(message.from_email.as_deref(), Some("billing@example.org"));
    world.run("UPDATE senders SET is_default = 0").await;
    let Err(AcceptError::Invalid(wrong)) = world.accept(world.mail("ada@example.org")).await else {
        panic!("accepted")
    };
    assert_eq!(wrong[0].field, "sender");
    let template = Send::of_template(world.client, "ada@example.org".parse().unwrap(), "nothing");
    let missing = world.accept(template).await;
    assert!(matches!(missing, Err(AcceptError::NoTemplate(_))), "{missing:?}");
}

async fn a_suppressed_person_gets_a_row_with_the_reason(bed: &Bed) {
    let world = World::new(bed).await;
    suppress(bed, "ada@example.org").await;
    let accepted = world.accept(world.mail("ada@example.org")).await.unwrap();
    assert_eq!(accepted.status, Status::Skipped);
    assert_eq!(accepted.skip_reason.as_deref(), Some("hard_bounce"));
    assert_eq!(world.count("queue_messages WHERE queue = 'transactional-email'").await, 0);
    assert_eq!(world.status(accepted.id).await, Status::Skipped);
}

pub(super) async fn suppress(bed: &Bed, email: &str) {
    let cx = bed.cx().await;
    let suppress = suppression::Suppress {
        email: email.parse().unwrap(),
        kind: suppression::Kind::Permanent,
        reason: suppression::Reason::clipped("General"),
        source: None,
        note: None,
        at: cx.now(),
    };
    suppression::suppress(&cx, suppress).await.unwrap();
}

async fn a_dry_run_writes_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    suppress(bed, "eve@example.org").await;
    let items = dump(bed).await;
    for (to, sends) in [("ada@example.org", true), ("eve@example.org", false)] {
        let preview = world.messages.dry_run(&bed.cx().await, &world.mail(to)).await.unwrap();
        assert_eq!(preview.rendered.subject, "Hello Ada");
        assert_eq!(preview.would_deliver(), sends, "{to}");
    }
    for table in [
        "leads",
        "channel_identities",
        "transactional_messages",
        "queue_messages WHERE queue = 'transactional-email'",
    ] {
        assert_eq!(world.count(table).await, 0, "{table}");
    }
    assert_eq!(dump(bed).await, items);
}

async fn dump(bed: &Bed) -> Vec<tidings_kernel::Item> {
    let items = bed.cx().await.items().await.unwrap();
    items.scan(tidings_kernel::Scan::new(&tidings_kernel::tables::MAIN)).await.unwrap().items
}

async fn a_batch_has_an_answer_for_each_of_its_messages(bed: &Bed) {
    let world = World::new(bed).await;
    suppress(bed, "eve@example.org").await;
    let mut bad = world.mail("bob@example.org");
    bad.content = Content::Inline { subject: String::new(), html: None, text: None };
    let batch = vec![
        world.keyed("ada@example.org", "k:0"),
        bad,
        world.mail("eve@example.org"),
        world.keyed("ada@example.org", "k:0"),
        world.keyed("bob@example.org", "k:0"),
        world.mail("cyd@example.org"),
    ];
    let answers = world.messages.accept_many(&bed.cx().await, batch).await.unwrap();
    let told: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Ok(accepted) if accepted.replayed => "replayed".to_owned(),
            Ok(accepted) => accepted.status.to_string(),
            Err(AcceptError::Invalid(_)) => "invalid".to_owned(),
            Err(AcceptError::KeyReused(_)) => "key reused".to_owned(),
            Err(other) => other.to_string(),
        })
        .collect();
    assert_eq!(told, ["queued", "invalid", "skipped", "replayed", "key reused", "queued"]);
    assert_eq!(world.count("queue_messages WHERE queue = 'transactional-email'").await, 2);
    let none = world.messages.accept_many(&bed.cx().await, Vec::new()).await;
    assert!(matches!(none, Err(AcceptError::BatchSize)));
    let many = vec![world.mail("ada@example.org"); 101];
    let many = world.messages.accept_many(&bed.cx().await, many).await;
    assert!(matches!(many, Err(AcceptError::BatchSize)));
}

async fn what_is_scheduled_waits_for_its_time(bed: &Bed) {
    let world = World::new(bed).await;
    let mut send = world.mail("ada@example.org");
    send.scheduled_at = Some("2026-07-01T14:00:00Z".parse().unwrap());
    let id = world.accept(send).await.unwrap().id;
    bed.advance(119).await;
    assert_eq!(world.work().await, 0);
    bed.advance(1).await;
    assert_eq!(world.work().await, 1);
    assert_eq!(world.status(id).await, Status::Sent);
    assert_eq!(world.count("timers").await, 0);
    assert_eq!(queues::TRANSACTIONAL_EMAIL.name, "transactional-email");
}
