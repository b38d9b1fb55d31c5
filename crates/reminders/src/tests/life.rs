//! A reminder's life from the draft to what became of it.

use tidings_delivery::ledger::Source;
use tidings_delivery::transactional::{Find, MessageId, Settle, Settled, settle, show};
use tidings_kernel::{Item, SendError, Value, queues};
use tidings_people::suppression;
use tidings_signals::events::{Bounce, Event, EventKind, record};
use tidings_testbed::{Bed, each_store};

use super::world::{World, by, customer};
use crate::{Delivery, Draft, DraftError, Kind, Status, approve};

each_store!(
    an_approved_draft_is_sent_once_and_recorded_as_the_seed_has_it,
    what_was_approved_is_what_is_sent_liquid_or_not,
    what_comes_back_only_ever_becomes_more,
    a_refused_mail_does_not_count,
    a_mail_that_nobody_knows_of_counts_until_somebody_settles_it,
    a_mail_that_nobody_knew_of_has_the_id_that_the_providers_event_brings,
    who_must_not_be_written_to_is_told_so,
    a_draft_that_nobody_decides_about_expires,
    a_second_draft_takes_the_place_of_the_first,
    messages_that_come_twice_change_nothing,
    what_comes_back_after_the_draft_is_gone_is_still_noted,
    what_was_approved_waits_however_long_nobody_sends,
    the_rules_are_asked_again_when_it_is_sent,
);

async fn an_approved_draft_is_sent_once_and_recorded_as_the_seed_has_it(bed: &Bed) {
    let world = World::new(bed).await;
    let draft = world.draft("cust_001", Kind::First).await;
    assert_eq!(draft.id.as_str(), "20260701_120000_cust_001");
    let items = world.items().await;
    let item = items.iter().find(|item| item.text("SK") == Some("DRAFT#20260701_120000_cust_001"));
    let item = item.unwrap();
    for (name, value) in [
        ("PK", "CUSTOMER#cust_001"),
        ("GSI1PK", "STATUS#draft"),
        ("GSI1SK", "2026-07-01T12:00:00Z"),
        ("customer_id", "cust_001"),
        ("customer_name", "Customer cust_001"),
        ("customer_email", "cust_001@example.org"),
        ("reminder_type", "first"),
        ("email_subject", "Payment Reminder"),
        ("email_content", "Dear cust_001, please pay."),
        ("status", "draft"),
        ("created_date", "2026-07-01T12:00:00Z"),
        ("created_by", "ai_system"),
        ("currency", "EUR"),
    ] {
        assert_eq!(item.text(name), Some(value), "{name}");
    }
    assert_eq!(item.get("overdue_amount"), Some(&Value::N("1500".parse().unwrap())));
    let invoices = vec![Value::from("cust_001-1"), Value::from("cust_001-2")];
    assert_eq!(item.get("overdue_invoices"), Some(&Value::L(invoices)));
    let month = draft.created_at.as_second() + 30 * 24 * 3600;
    assert_eq!(item.integer("ttl"), Some(month));

    world.bed.advance(90).await;
    world.approve(&draft).await;
    world.run().await;
    assert_eq!(world.outbox().len(), 1);
    let sent = world.get(&draft.id).await;
    assert_eq!(sent.status, Status::Sent);
    // His timeline is told of it, once.
    let cx = world.cx().await;
    let told = cx.database().read(|tx| {
        let sql = "SELECT count(*) FROM queue_messages
                   WHERE queue = 'lead-ingestion' AND body LIKE '%\"reminder.sent\"%'";
        tx.query(sql, &[])?[0].int(0)
    });
    let told: Result<i64, tidings_sql::DatabaseError> = told.await;
    assert_eq!(told.unwrap(), 1);
    let items = world.items().await;
    let record = items.iter().find(|item| item.text("SK") == Some("SENT#20260701_133000_first"));
    let record = record.unwrap();
    for (name, value) in [
        ("PK", "CUSTOMER#cust_001"),
        ("GSI1PK", "STATUS#sent"),
        ("GSI1SK", "2026-07-01T13:30:00Z"),
        ("customer_id", "cust_001"),
        ("reminder_type", "first"),
        ("email_subject", "Payment Reminder"),
        ("email_content", "Dear cust_001, please pay."),
        ("status", "sent"),
        ("sent_date", "2026-07-01T13:30:00Z"),
        ("approved_by", "ada"),
        ("ses_message_id", "p-1"),
        ("delivery_status", "sent"),
    ] {
        assert_eq!(record.text(name), Some(value), "{name}");
    }
    let year = 365 * 24 * 3600;
    assert_eq!(
        record.integer("ttl"),
        Some(world.sent("cust_001").await[0].sent_at.as_second() + year)
    );
    let gone = items.iter().find(|item| item.text("SK") == Some("DRAFT#20260701_120000_cust_001"));
    assert_eq!(gone.unwrap().text("GSI1PK"), None);
}

async fn what_was_approved_is_what_is_sent_liquid_or_not(bed: &Bed) {
    let world = World::new(bed).await;
    let mut new = super::world::new("c1", crate::Choose::Next);
    new.text = crate::Text::Written {
        subject: "{{ customer_name }} & co".to_owned(),
        content: "<p>{{ 7 | plus: 1 }} &amp; {% raw %} <b>now</b></p>".to_owned(),
        content_type: crate::ContentType::Html,
    };
    let draft = crate::draft(&world.cx().await, new).await.unwrap().draft;
    world.approve(&draft).await;
    world.run().await;
    let found =
        Find { id: MessageId::from(world.get(&draft.id).await.message.unwrap()), client: None };
    let message = show(&world.cx().await, found).await.unwrap();
    assert_eq!(message.message.subject.as_deref(), Some("{{ customer_name }} & co"));
    let html = message.html.unwrap();
    assert!(html.contains("{{ 7 | plus: 1 }} &amp; {% raw %} <b>now</b>"), "{html}");
}

async fn what_comes_back_only_ever_becomes_more(bed: &Bed) {
    let world = World::new(bed).await;
    let draft = world.remind("c1", Kind::First).await;
    let message = draft.message.unwrap();
    let tell = async |id: &str, kind: EventKind| {
        let cx = world.cx().await;
        let mut event = Event::new(id, kind, "c1@example.org".parse().unwrap(), cx.now());
        event.source = Some(Source::Transactional(message));
        record(&cx, event).await.unwrap();
        world.run().await;
        world.sent("c1").await[0].delivery
    };
    assert_eq!(world.sent("c1").await[0].delivery, Delivery::Sent);
    assert_eq!(tell("e1", EventKind::Delivery).await, Delivery::Delivered);
    let bounce = Bounce {
        kind: "Permanent".to_owned(),
        subkind: "General".to_owned(),
        status: None,
        diagnostic: None,
    };
    assert_eq!(tell("e2", EventKind::Bounce(bounce)).await, Delivery::Bounced);
    assert_eq!(tell("e3", EventKind::Delivery).await, Delivery::Bounced);
    assert_eq!(world.sent("c1").await.len(), 1);
    // A bounce suppresses, and nobody is reminded who is suppressed.
    world.days(8).await;
    let refused = world.try_draft("c1", Kind::Second).await;
    assert!(matches!(refused, Err(DraftError::Suppressed("hard_bounce"))), "{refused:?}");
}

async fn a_refused_mail_does_not_count(bed: &Bed) {
    let world = World::new(bed).await;
    let refused = || SendError::Refused("no such user c1@example.org".to_owned());
    world.provider.answers(refused());
    let draft = world.remind("c1", Kind::First).await;
    assert_eq!(draft.status, Status::Failed);
    assert_eq!(draft.reason.as_deref(), Some("the provider refused it"));
    assert!(world.sent("c1").await.is_empty());
    let again = world.remind("c1", Kind::First).await;
    assert_eq!(again.status, Status::Sent);
    assert_ne!(again.id, draft.id);
}

async fn a_mail_that_nobody_knows_of_counts_until_somebody_settles_it(bed: &Bed) {
    let world = World::new(bed).await;
    for (id, outcome, status) in
        [("c1", Settled::Sent, Status::Sent), ("c2", Settled::Failed, Status::Failed)]
    {
        world.provider.answers(SendError::Uncertain("no answer".to_owned()));
        let draft = world.remind(id, Kind::First).await;
        assert_eq!(draft.status, Status::Sending);
        assert!(draft.reason.unwrap().contains("settle"));
        let refused = world.try_draft(id, Kind::First).await;
        assert!(matches!(refused, Err(DraftError::InProgress(open)) if open == draft.id));
        let answers = crate::allowed(&world.cx().await, &customer(id)).await.unwrap();
        assert!(matches!(answers[0].1, crate::rules::Answer::NotBefore(_)));
        let message = Find { id: MessageId::from(draft.message.unwrap()), client: None };
        let cmd = Settle { message, outcome, reason: None };
        settle(&world.cx().await, cmd).await.unwrap();
        world.run().await;
        assert_eq!(world.get(&draft.id).await.status, status);
    }
    assert_eq!(world.sent("c1").await.len(), 1);
    assert!(world.try_draft("c2", Kind::First).await.is_ok());
    let early = world.try_draft("c1", Kind::First).await;
    assert!(matches!(early, Err(DraftError::TooEarly { .. })));
}

async fn a_mail_that_nobody_knew_of_has_the_id_that_the_providers_event_brings(bed: &Bed) {
    let world = World::new(bed).await;
    let unknown = async |id: &str| {
        world.provider.answers(SendError::Uncertain("no answer".to_owned()));
        let draft = world.remind(id, Kind::First).await;
        assert_eq!((draft.status, world.sent(id).await.len()), (Status::Sending, 0));
        draft
    };
    let tell = async |event: &str, kind: EventKind, draft: &Draft| {
        let cx = world.cx().await;
        let email = format!("{}@example.org", draft.customer).parse().unwrap();
        let mut told = Event::new(event, kind, email, cx.now());
        told.source = Some(Source::Transactional(draft.message.unwrap()));
        told.provider_message_id = Some(format!("ses-{}", draft.customer));
        record(&cx, told).await.unwrap();
        world.run().await;
    };
    let recorded = async |id: &str| {
        let items = world.items().await;
        let partition = format!("CUSTOMER#{id}");
        let is_it = |item: &&Item| {
            item.text("PK") == Some(&partition)
                && item.text("SK").is_some_and(|sort| sort.starts_with("SENT#"))
        };
        let [item] = items.iter().filter(is_it).collect::<Vec<_>>()[..] else {
            panic!("{id} has one record: {items:?}")
        };
        let text = |name: &str| item.text(name).unwrap_or("none").to_owned();
        (text("ses_message_id"), text("delivery_status"))
    };
    let is = |id: &str, status: &str| (id.to_owned(), status.to_owned());

    // The event says that it was sent at all, and under which id.
    let draft = unknown("c1").await;
    tell("e1", EventKind::Delivery, &draft).await;
    assert_eq!(world.get(&draft.id).await.status, Status::Sent);
    assert_eq!(recorded("c1").await, is("ses-c1", "delivered"));
    for event in ["e1", "e2"] {
        tell(event, EventKind::Send, &draft).await;
        assert_eq!(recorded("c1").await, is("ses-c1", "delivered"), "it only ever becomes more");
    }

    // Somebody knew better, but not the id. Whatever comes first from the provider brings it.
    let draft = unknown("c2").await;
    let message = Find { id: MessageId::from(draft.message.unwrap()), client: None };
    let cmd = Settle { message, outcome: Settled::Sent, reason: None };
    settle(&world.cx().await, cmd).await.unwrap();
    world.run().await;
    assert_eq!(recorded("c2").await, is("none", "sent"));
    tell("e3", EventKind::Open, &draft).await;
    assert_eq!(recorded("c2").await, is("ses-c2", "sent"));
    assert!(world.outbox().is_empty(), "nothing was sent again");
}

async fn who_must_not_be_written_to_is_told_so(bed: &Bed) {
    let world = World::new(bed).await;
    let draft = world.draft("c1", Kind::First).await;
    world.approve(&draft).await;
    let cx = world.cx().await;
    let suppress = suppression::Suppress {
        email: "c1@example.org".parse().unwrap(),
        kind: suppression::Kind::Manual,
        reason: "asked".parse().unwrap(),
        source: None,
        note: None,
        at: cx.now(),
    };
    suppression::suppress(&cx, suppress).await.unwrap();
    world.run().await;
    let draft = world.get(&draft.id).await;
    assert_eq!(draft.status, Status::Failed);
    assert_eq!(draft.reason.as_deref(), Some("must not be written to: manual"));
    assert!(world.outbox().is_empty());
    assert!(matches!(
        world.try_draft("c1", Kind::First).await,
        Err(DraftError::Suppressed("manual"))
    ));
}

async fn a_draft_that_nobody_decides_about_expires(bed: &Bed) {
    let world = World::new(bed).await;
    let (left, taken) =
        (world.draft("c1", Kind::First).await, world.draft("c2", Kind::First).await);
    world.days(13).await;
    world.approve(&taken).await;
    world.days(2).await;
    assert_eq!(world.get(&left.id).await.status, Status::Expired);
    assert_eq!(world.get(&taken.id).await.status, Status::Sent);
    let refused = approve(&world.cx().await, by(&left, "ada")).await;
    assert!(matches!(refused, Err(crate::ApproveError::NotDraft { status: Status::Expired, .. })));
    assert!(world.try_draft("c1", Kind::First).await.is_ok());
}

async fn a_second_draft_takes_the_place_of_the_first(bed: &Bed) {
    let world = World::new(bed).await;
    let (one, two) = (world.draft("c1", Kind::First).await, world.draft("c1", Kind::First).await);
    // Both were made in the same second.
    assert_eq!(two.id.as_str(), "20260701_120001_c1");
    assert_eq!(world.get(&one.id).await.status, Status::Superseded);
    let refused = approve(&world.cx().await, by(&one, "ada")).await;
    assert!(matches!(refused, Err(crate::ApproveError::NotDraft { .. })));
    world.approve(&two).await;
    let refused = world.try_draft("c1", Kind::First).await;
    assert!(matches!(refused, Err(DraftError::InProgress(open)) if open == two.id));
    world.run().await;
    assert_eq!(world.outbox().len(), 1);
}

async fn messages_that_come_twice_change_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    let draft = world.remind("c1", Kind::First).await;
    let before = world.items().await;
    world.bed.advance(10).await;
    let cx = world.cx().await;
    for task in ["send", "outcome", "take_back", "expire", "escalate"] {
        let body = format!(
            r#"{{"contract":"reminder-step","version":1,"workspace":"acme","task":"{task}","customer_id":"c1","draft":"{}","message_id":{}}}"#,
            draft.id,
            draft.message.unwrap()
        );
        let txn = tidings_kernel::Txn::new()
            .enqueue(tidings_kernel::Outgoing::new(&queues::REMINDER_STEPS, body));
        cx.items().await.unwrap().transact(txn).await.unwrap();
    }
    world.run().await;
    assert_eq!(world.outbox().len(), 1);
    assert_eq!(world.items().await, before);
}

async fn what_comes_back_after_the_draft_is_gone_is_still_noted(bed: &Bed) {
    let world = World::new(bed).await;
    let draft = world.remind("c1", Kind::First).await;
    world.days(40).await;
    let cx = world.cx().await;
    assert!(crate::get(&cx, &draft.id).await.is_err());
    let kind = EventKind::Bounce(Bounce { kind: "Permanent".to_owned(), ..Bounce::default() });
    let mut event = Event::new("late", kind, "c1@example.org".parse().unwrap(), cx.now());
    event.source = Some(Source::Transactional(draft.message.unwrap()));
    record(&cx, event).await.unwrap();
    world.run().await;
    assert_eq!(world.sent("c1").await[0].delivery, Delivery::Bounced);
}

async fn what_was_approved_waits_however_long_nobody_sends(bed: &Bed) {
    let world = World::new(bed).await;
    let draft = world.draft("c1", Kind::First).await;
    world.bed.advance(13 * 24 * 60).await;
    world.approve(&draft).await;
    world.bed.advance(40 * 24 * 60).await;
    assert_eq!(world.get(&draft.id).await.status, Status::Approved);
    world.run().await;
    assert_eq!(world.outbox().len(), 1);
}

/// Somebody makes them stricter after it was drafted and approved.
async fn the_rules_are_asked_again_when_it_is_sent(bed: &Bed) {
    let world = World::new(bed).await;
    world.remind("c1", Kind::First).await;
    world.days(7).await;
    let draft = world.draft("c1", Kind::Second).await;
    world.approve(&draft).await;
    let mut stricter = crate::settings::Settings::default();
    stricter.days.second_after_first = 30;
    crate::settings::put(&world.cx().await, stricter).await.unwrap();
    world.run().await;
    let gone = world.get(&draft.id).await;
    assert_eq!(gone.status, Status::Failed);
    assert!(gone.reason.unwrap().starts_with("too early"));
    assert_eq!(world.outbox().len(), 1);
}
