//! Events are recorded once, counted exactly and told to the ledger, whatever the order and whoever dies.

use serde_json::json;
use tidings_access::Cx;
use tidings_delivery::ledger::Source;
use tidings_kernel::{Item, ItemEngine as _, Scan, tables};
use tidings_people::suppression;
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, each_store};

use super::{Bounce, Counts, Event, EventKind, RecordError, Recorded, keys, record, revise};

each_store!(
    an_event_is_stored_as_the_seed_has_it,
    the_same_event_again_changes_nothing,
    two_clicks_in_one_millisecond_are_two,
    totals_and_uniques_are_apart,
    a_provider_settles_what_was_uncertain,
    a_soft_bounce_does_not_make_a_row_bounced,
    a_copy_that_bounced_leaves_the_row_alone,
    what_happens_to_a_copy_is_not_counted,
    an_erased_person_leaves_no_events,
    an_erasure_that_comes_between_leaves_no_event,
    a_bounce_or_complaint_after_erasure_is_remembered_by_a_hash_alone,
    a_message_of_another_workspace_is_not_found,
    what_was_seen_stays_seen_after_its_time,
    others_are_told_of_an_event_once,
    timelines_are_told_of_what_people_did_and_what_became_of_their_mail,
    timelines_are_told_of_every_change_of_mind,
);

pub(crate) const AT: &str = "2026-07-01T12:00:00.123Z";

/// A transactional message to ada, and one of the campaign `spring` to bob.
pub(crate) async fn messages(bed: &Bed, cx: &Cx) -> (Source, Source) {
    let (workspace, client) = (cx.workspace_id().get(), bed.shop(cx).await.id.get());
    let make = cx.database().write(move |tx| {
        let base = [Param::Int(workspace), Param::Int(client)];
        let mut id = |sql: &str, params: &[Param<'_>]| tx.query(sql, params)?[0].int(0);
        let lead = "INSERT INTO leads (workspace_id, created_at, updated_at) VALUES ($1, 0, 0) RETURNING id";
        let (ada, bob) = (id(lead, &base[..1])?, id(lead, &base[..1])?);
        let message = "INSERT INTO transactional_messages
            (workspace_id, client_id, lead_id, idempotency_key, email, template_key, subject, status,
             ses_message_id, created_at, updated_at)
            VALUES ($1, $2, $3, 'k', 'ada@example.org', 'onboarding/welcome', 'Welcome!', 'uncertain', NULL, 0, 0)
            RETURNING id";
        let message = id(message, &[base[0], base[1], Param::Int(ada)])?;
        let campaign = "INSERT INTO campaigns
            (workspace_id, client_id, external_key, name, template_key, subject, status, created_at, updated_at)
            VALUES ($1, $2, 'spring', 'Spring', 'broadcasts/spring', 'Spring!', 'sending', 0, 0) RETURNING id";
        let campaign = id(campaign, &base)?;
        let recipient = "INSERT INTO campaign_recipients
            (workspace_id, campaign_id, lead_id, email, ses_message_id, created_at, updated_at)
            VALUES ($1, $2, $3, 'bob@example.org', 'ses-bob', 0, 0) RETURNING id";
        let recipient = id(recipient, &[base[0], Param::Int(campaign), Param::Int(bob)])?;
        Ok::<_, DatabaseError>((Source::Transactional(message), Source::Recipient(recipient)))
    });
    make.await.unwrap()
}

pub(crate) fn event(id: &str, kind: EventKind, source: Source) -> Event {
    let email = match source {
        Source::Transactional(_) => "ada@example.org",
        Source::Recipient(_) => "bob@example.org",
    };
    let mut event = Event::new(id, kind, email.parse().unwrap(), AT.parse().unwrap());
    event.source = Some(source);
    event
}

/// Somebody besides gets a copy of a transactional message.
pub(crate) async fn name_copy(cx: &Cx, source: Source, email: &str) {
    let (workspace, email) = (cx.workspace_id().get(), email.to_owned());
    let name = cx.database().write(move |tx| {
        let sql = "UPDATE transactional_messages SET envelope = $2 WHERE id = $1";
        let envelope = json!({ "cc": [&email] }).to_string();
        tx.execute(sql, &[Param::Int(source.id()), Param::Text(&envelope)])?;
        let sql =
            "INSERT INTO message_addresses (workspace_id, email, message_id) VALUES ($1, $2, $3)";
        tx.execute(sql, &[Param::Int(workspace), Param::Text(&email), Param::Int(source.id())])
    });
    name.await.map_err(|error: DatabaseError| error).unwrap();
}

/// All items that name somebody.
pub(crate) async fn in_the_open(cx: &Cx, who: &str) -> Vec<String> {
    let (items, mut found) = (cx.items().await.unwrap(), Vec::new());
    for table in [&tables::MAIN, &tables::EVENTS] {
        let all = items.scan(Scan::new(table).limit(1_000)).await.unwrap().items;
        found.extend(all.iter().map(|item| format!("{item:?}")).filter(|text| text.contains(who)));
    }
    found
}

/// Everything that the ledger says of a message but when it said it last.
pub(crate) async fn row(cx: &Cx, source: Source) -> String {
    let table = match source {
        Source::Transactional(_) => "transactional_messages",
        Source::Recipient(_) => "campaign_recipients",
    };
    let sql = format!(
        "SELECT status, ses_message_id, open_count, click_count, sent_at, delivered_at, bounced_at, complained_at,
                first_opened_at, first_clicked_at, unsubscribed_at FROM {table} WHERE id = $1"
    );
    let read = cx.database().read(move |tx| tx.query(&sql, &[Param::Int(source.id())]));
    let rows = read.await.map_err(|error: DatabaseError| error).unwrap();
    let row = &rows[0];
    let times: Vec<_> = (2..11).map(|at| row.optional_int(at).unwrap().unwrap_or(-1)).collect();
    format!("{} {:?} {times:?}", row.text(0).unwrap(), row.optional_text(1).unwrap())
}

pub(crate) async fn stored(cx: &Cx) -> Vec<Item> {
    let page =
        cx.items().await.unwrap().scan(Scan::new(&tables::EVENTS).limit(1_000)).await.unwrap();
    let is_event = |item: &Item| item.text("SK").is_some_and(|sort| sort.starts_with("EVT#"));
    page.items.into_iter().filter(is_event).collect()
}

pub(crate) async fn counts(cx: &Cx, key: &tidings_kernel::Key) -> Counts {
    let item = cx.items().await.unwrap().get(&tables::MAIN, key).await.unwrap();
    item.as_ref().map(Counts::of).unwrap_or_default()
}

async fn an_event_is_stored_as_the_seed_has_it(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, source) = messages(bed, &cx).await;
    let mut click = event("e-1", EventKind::Click, source);
    click.url = Some("https://example.org/a".into());
    click.user_agent = Some("Mail/1".into());
    click.verdict = Some(json!({ "human": true, "reasons": ["slow"] }));
    click.keep_days = Some(30);
    assert_eq!(record(&cx, click).await.unwrap(), Recorded::Now);

    let items = stored(&cx).await;
    assert_eq!(items.len(), 1);
    let item = &items[0];
    assert_eq!(item.text("PK"), Some("SUB#bob@example.org"));
    assert_eq!(item.text("SK"), Some("EVT#2026-07-01T12:00:00.123Z#click"));
    for (name, value) in [
        ("eventType", "click"),
        ("templateKey", "broadcasts/spring"),
        ("sequenceId", "spring"),
        ("subject", "Spring!"),
        ("timestamp", "2026-07-01T12:00:00.123Z"),
        ("linkUrl", "https://example.org/a"),
        ("userAgent", "Mail/1"),
        ("sesMessageId", "ses-bob"),
        ("messageRef", &source.reference()),
    ] {
        assert_eq!(item.text(name), Some(value), "{name}");
    }
    assert_eq!(item.integer("ttl"), Some(cx.now().as_second() + 30 * 86_400));
    let counted = counts(&cx, &keys::sequence("spring")).await;
    let expected = Counts {
        click_count: 1,
        unique_click_count: 1,
        human_click_count: 1,
        unique_human_click_count: 1,
        ..Counts::default()
    };
    assert_eq!(counted, expected);
    assert_eq!(counts(&cx, &keys::template("broadcasts/spring")).await, expected);
}

async fn the_same_event_again_changes_nothing(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, source) = messages(bed, &cx).await;
    let open = event("e-1", EventKind::Open, source);
    assert_eq!(record(&cx, open.clone()).await.unwrap(), Recorded::Now);
    let before = (row(&cx, source).await, stored(&cx).await);
    for _ in 0..3 {
        assert_eq!(record(&cx, open.clone()).await.unwrap(), Recorded::Before);
    }
    assert_eq!((row(&cx, source).await, stored(&cx).await), before);
    assert_eq!(counts(&cx, &keys::sequence("spring")).await.open_count, 1);
}

async fn two_clicks_in_one_millisecond_are_two(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, source) = messages(bed, &cx).await;
    for (id, url) in [("e-1", "https://a"), ("e-2", "https://b"), ("e-3", "https://c")] {
        let mut click = event(id, EventKind::Click, source);
        click.url = Some(url.into());
        assert_eq!(record(&cx, click).await.unwrap(), Recorded::Now);
    }
    let items = stored(&cx).await;
    let urls: Vec<_> = items.iter().filter_map(|item| item.text("linkUrl")).collect();
    assert_eq!(urls.len(), 3);
    assert!(items.iter().any(|item| item.text("SK") == Some("EVT#2026-07-01T12:00:00.123Z#click")));
    let counted = counts(&cx, &keys::sequence("spring")).await;
    assert_eq!((counted.click_count, counted.unique_click_count), (3, 1));
    assert!(row(&cx, source).await.contains("[0, 3,"));
}

async fn totals_and_uniques_are_apart(bed: &Bed) {
    let cx = bed.cx().await;
    let (message, recipient) = messages(bed, &cx).await;
    for (id, human) in [("o-1", false), ("o-2", true), ("o-3", true), ("o-4", false)] {
        let mut open = event(id, EventKind::Open, recipient);
        open.verdict = Some(json!({ "human": human }));
        record(&cx, open).await.unwrap();
    }
    record(&cx, event("o-5", EventKind::Open, message)).await.unwrap();
    let counted = counts(&cx, &keys::sequence("spring")).await;
    assert_eq!((counted.open_count, counted.unique_open_count), (4, 1));
    assert_eq!((counted.human_open_count, counted.unique_human_open_count), (2, 1));
    // A message without a sequence is counted under its template and its day, and nowhere under a made-up name.
    assert_eq!(counts(&cx, &keys::template("onboarding/welcome")).await.unique_open_count, 1);
    let mut day = Counts::default();
    for shard in 0..keys::SHARDS {
        day.add(counts(&cx, &keys::day(jiff::civil::date(2026, 7, 1), shard)).await);
    }
    assert_eq!((day.open_count, day.unique_open_count), (5, 2));
}

async fn a_provider_settles_what_was_uncertain(bed: &Bed) {
    let cx = bed.cx().await;
    let (source, _) = messages(bed, &cx).await;
    assert!(row(&cx, source).await.starts_with("uncertain None"));
    let mut sent = event("e-1", EventKind::Send, source);
    sent.provider_message_id = Some("ses-7".into());
    record(&cx, sent).await.unwrap();
    assert!(row(&cx, source).await.starts_with(r#"sent Some("ses-7")"#));
    record(&cx, event("e-2", EventKind::Delivery, source)).await.unwrap();
    assert!(row(&cx, source).await.starts_with("delivered"));
}

pub(super) fn bounce(kind: &str, subkind: &str) -> EventKind {
    EventKind::Bounce(Bounce { kind: kind.into(), subkind: subkind.into(), ..Bounce::default() })
}

async fn a_soft_bounce_does_not_make_a_row_bounced(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, source) = messages(bed, &cx).await;
    record(&cx, event("e-1", EventKind::Send, source)).await.unwrap();
    let before = row(&cx, source).await;
    for (id, subkind) in [("e-2", "General"), ("e-3", "MailboxFull")] {
        record(&cx, event(id, bounce("Transient", subkind), source)).await.unwrap();
    }
    assert_eq!(row(&cx, source).await, before);
    let counted = counts(&cx, &keys::sequence("spring")).await;
    assert_eq!(
        (counted.bounce_count, counted.soft_bounce_count, counted.hard_bounce_count),
        (2, 1, 0)
    );
    record(&cx, event("e-4", bounce("Permanent", "General"), source)).await.unwrap();
    assert!(row(&cx, source).await.starts_with("bounced"));
}

async fn a_copy_that_bounced_leaves_the_row_alone(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, source) = messages(bed, &cx).await;
    let before = row(&cx, source).await;
    let mut copy = event("e-1", bounce("Permanent", "NoEmail"), source);
    copy.email = "copy@example.org".parse().unwrap();
    assert_eq!(record(&cx, copy).await.unwrap(), Recorded::Now);
    assert_eq!(row(&cx, source).await, before);
    assert_eq!(stored(&cx).await[0].text("PK"), Some("SUB#copy@example.org"));
}

/// However many get a copy, one message is delivered once and bounces once.
async fn what_happens_to_a_copy_is_not_counted(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, source) = messages(bed, &cx).await;
    let kinds = [EventKind::Delivery, bounce("Permanent", "NoEmail"), bounce("Transient", "")];
    for (number, kind) in kinds.into_iter().enumerate() {
        let mut copy = event(&format!("e-{number}"), kind, source);
        copy.email = "copy@example.org".parse().unwrap();
        record(&cx, copy).await.unwrap();
    }
    assert_eq!(counts(&cx, &keys::sequence("spring")).await, Counts::default());
    record(&cx, event("e-9", EventKind::Delivery, source)).await.unwrap();
    assert_eq!(counts(&cx, &keys::sequence("spring")).await.delivery_count, 1);
    // Whoever answers has answered.
    let kind =
        EventKind::Reply { subject: None, body: "Yes".into(), automatic: false, unproven: false };
    let mut reply = event("e-10", kind, source);
    reply.email = "copy@example.org".parse().unwrap();
    record(&cx, reply).await.unwrap();
    assert_eq!(counts(&cx, &keys::sequence("spring")).await.reply_count, 1);
}

/// Between the look at the message and the write.
async fn an_erasure_that_comes_between_leaves_no_event(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, source) = messages(bed, &cx).await;
    let message = super::load(&cx, source).await.unwrap().unwrap();
    let mut same_time = event("e-0", EventKind::Open, source);
    same_time.email = "bob@example.org".parse().unwrap();
    record(&cx, same_time).await.unwrap();
    let erase = "UPDATE campaign_recipients SET email = NULL, status = 'sent', sent_at = 1";
    let done = cx.database().write(move |tx| tx.execute(erase, &[])).await;
    done.map_err(|error: DatabaseError| error).unwrap();
    for _ in 0..2 {
        let late = event("e-1", EventKind::Open, source);
        let recorded = super::record_of(&cx, late, Some(&message)).await.unwrap();
        assert_eq!(recorded, Recorded::Erased);
        let left: Vec<_> = stored(&cx).await;
        let left: Vec<_> = left.iter().filter_map(|item| item.text("eventId")).collect();
        assert_eq!(left, ["e-0"], "which is the erasure's to find");
    }
}

async fn an_erased_person_leaves_no_events(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, source) = messages(bed, &cx).await;
    let erase = "UPDATE campaign_recipients SET email = NULL, status = 'sent', sent_at = 1";
    let done = cx.database().write(move |tx| tx.execute(erase, &[])).await;
    done.map_err(|error: DatabaseError| error).unwrap();
    let recorded = record(&cx, event("e-1", EventKind::Open, source)).await.unwrap();
    assert_eq!(recorded, Recorded::Erased);
    assert!(stored(&cx).await.is_empty());
}

async fn a_message_of_another_workspace_is_not_found(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, source) = messages(bed, &cx).await;
    let other = bed.make_workspace("other").await;
    let refused = record(&other, event("e-1", EventKind::Open, source)).await;
    assert!(matches!(refused, Err(RecordError::NoMessage(_))));
    assert!(row(&cx, source).await.starts_with("pending"));
}

/// What is past its time is swept: the event itself, and nothing by which it is known that there was one.
async fn what_was_seen_stays_seen_after_its_time(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, source) = messages(bed, &cx).await;
    let mut open = event("e-1", EventKind::Open, source);
    open.keep_days = Some(1);
    record(&cx, open.clone()).await.unwrap();
    bed.advance(3 * 24 * 60).await;
    assert_eq!(bed.items().sweep(1_000).await.unwrap(), 1);
    let cx = bed.cx().await;
    assert!(stored(&cx).await.is_empty());
    assert_eq!(record(&cx, open.clone()).await.unwrap(), Recorded::Before);
    open.id = "e-2".into();
    assert_eq!(record(&cx, open).await.unwrap(), Recorded::Now);
    let counted = counts(&cx, &keys::sequence("spring")).await;
    assert_eq!((counted.open_count, counted.unique_open_count), (2, 1));
    assert!(row(&cx, source).await.contains("[2, 0,"), "the ledger goes on from what it knew");
}

async fn others_are_told_of_an_event_once(bed: &Bed) {
    use tidings_webhooks::{EventTypes, Targets, endpoints};

    let cx = bed.cx().await;
    let create = endpoints::Create {
        url: "http://127.0.0.1:9/".parse().unwrap(),
        description: None,
        event_types: EventTypes::All,
    };
    endpoints::create(&cx, &Targets::new(true), create).await.unwrap();
    let (message, _) = messages(bed, &cx).await;
    for _ in 0..2 {
        record(&cx, event("e1", EventKind::Delivery, message)).await.unwrap();
        record(&cx, event("e2", EventKind::Send, message)).await.unwrap();
        let bounce = Bounce { kind: "Transient".to_owned(), ..Bounce::default() };
        record(&cx, event("e3", EventKind::Bounce(bounce), message)).await.unwrap();
        let feedback = Some("not-spam".to_owned());
        record(&cx, event("e4", EventKind::Complaint { feedback }, message)).await.unwrap();
    }
    let sql = "SELECT body FROM queue_messages WHERE queue = 'webhook-fanout' ORDER BY id";
    let rows = cx.database().read(move |tx| tx.query(sql, &[])).await;
    let rows = rows.map_err(|error: DatabaseError| error).unwrap();
    let told: Vec<_> = rows
        .iter()
        .map(|row| serde_json::from_str::<serde_json::Value>(row.text(0).unwrap()).unwrap())
        .collect();
    let types: Vec<_> = told.iter().map(|one| one["event_type"].as_str().unwrap()).collect();
    assert_eq!(types, ["email.delivered", "email.sent", "email.bounced"]);
    assert_eq!(told[0]["occurred_at"], AT);
    assert_eq!(told[0]["data"]["email"], "ada@example.org");
    assert_eq!(told[0]["data"]["message"], message.reference());
    assert_eq!(told[2]["data"]["permanent"], false);
    assert_eq!(told[2]["data"]["bounce_class"], "soft");
}

/// Each once. What becomes of a campaign's mail comes in such numbers that it must not delay what somebody did.
async fn timelines_are_told_of_what_people_did_and_what_became_of_their_mail(bed: &Bed) {
    let cx = bed.cx().await;
    let (message, recipient) = messages(bed, &cx).await;
    let bounce = Bounce { kind: "Permanent".to_owned(), ..Bounce::default() };
    let feedback = |text: &str| Some(text.to_owned());
    let seen = |id: &str, kind, human: bool| {
        let verdict = Some(json!({ "human": human, "reasons": [] }));
        Event { verdict, ..event(id, kind, recipient) }
    };
    for _ in 0..2 {
        for event in [
            event("1", EventKind::Send, message),
            event("2", EventKind::Delivery, message),
            event("3", EventKind::Delivery, recipient),
            seen("4", EventKind::Open, true),
            seen("5", EventKind::Open, false),
            seen("6", EventKind::Click, true),
            event("7", EventKind::Bounce(bounce.clone()), recipient),
            event("8", EventKind::Complaint { feedback: feedback("abuse") }, message),
            event("9", EventKind::Complaint { feedback: feedback("not-spam") }, message),
        ] {
            record(&cx, event).await.unwrap();
        }
    }
    let sql =
        "SELECT queue, body FROM queue_messages WHERE queue LIKE 'lead-ingestion%' ORDER BY id";
    let rows = cx.database().read(move |tx| tx.query(sql, &[])).await;
    let rows = rows.map_err(|error: DatabaseError| error).unwrap();
    let told = rows.iter().map(|row| {
        let body: serde_json::Value = serde_json::from_str(row.text(1).unwrap()).unwrap();
        let kind = body["event_type"].as_str().unwrap().to_owned();
        (row.text(0).unwrap().to_owned(), kind)
    });
    let mut told: Vec<_> = told.collect();
    told.sort();
    let one_by_one = |kind: &str| ("lead-ingestion".to_owned(), kind.to_owned());
    let expected = [
        one_by_one("email.bounced"),
        one_by_one("email.clicked"),
        one_by_one("email.complained"),
        one_by_one("email.delivered"),
        one_by_one("email.opened"),
        ("lead-ingestion-bulk".to_owned(), "email.delivered".to_owned()),
    ];
    assert_eq!(told, expected);
}

/// Each judgment is told as the same event, with its number; that a machine was one of another sort is told to nobody.
async fn timelines_are_told_of_every_change_of_mind(bed: &Bed) {
    let cx = bed.cx().await;
    let (_, recipient) = messages(bed, &cx).await;
    let click = event("1", EventKind::Click, recipient);
    record(&cx, Event { verdict: Some(json!({ "human": true })), ..click }).await.unwrap();
    let message = super::load(&cx, recipient).await.unwrap().unwrap();
    for verdict in [
        json!({ "human": false }),
        json!({ "human": false, "reasons": ["too_soon"] }),
        json!({ "human": true }),
        json!({ "human": false }),
    ] {
        let before = stored(&cx).await.remove(0);
        assert!(revise(&cx, &message, &before, &verdict).await.unwrap());
        assert!(!revise(&cx, &message, &before, &verdict).await.unwrap(), "it is another by now");
    }
    let sql = "SELECT body FROM queue_messages WHERE queue = 'lead-ingestion' ORDER BY id";
    let rows = cx.database().read(move |tx| tx.query(sql, &[])).await;
    let rows = rows.map_err(|error: DatabaseError| error).unwrap();
    let told: Vec<serde_json::Value> =
        rows.iter().map(|row| serde_json::from_str(row.text(0).unwrap()).unwrap()).collect();
    let judged = told.iter().map(|one| {
        let said = |name: &str| one["payload"].get(name).cloned().unwrap_or_default();
        (said("revision"), said("machine"))
    });
    let (no, yes) = (serde_json::Value::Null, json!(true));
    assert_eq!(
        judged.collect::<Vec<_>>(),
        [
            (no.clone(), no.clone()),
            (json!(1), yes.clone()),
            (json!(2), no.clone()),
            (json!(3), yes),
        ]
    );
    for one in &told[1..] {
        for name in ["event_type", "external_event_id", "occurred_at", "identities", "object_id"] {
            assert_eq!(one[name], told[0][name], "{name}");
        }
    }
}

/// Whoever handed the message over has told it already, or will.
#[test]
fn what_the_sender_tells_as_well_has_the_same_id() {
    let source = Source::Transactional(7);
    let message = tidings_delivery::ledger::Message {
        source,
        workspace: 1,
        client: 1,
        contact: 1,
        email: Some("ada@example.org".into()),
        template_key: None,
        subject: None,
        sequence_id: None,
        provider_message_id: None,
        arm: None,
        is_tracked: true,
        audience: None,
        topic: None,
    };
    let id = |kind: EventKind, email: &str| {
        let mut happened = event("e-1", kind, source);
        happened.email = email.parse().unwrap();
        super::news::of(&happened, Some(&message)).map(|told| told.event_id)
    };
    let ada = "ada@example.org";
    assert_eq!(id(EventKind::Send, ada).as_deref(), Some("t-7:sent"));
    assert_eq!(id(EventKind::Reject { reason: None }, ada).as_deref(), Some("t-7:failed"));
    let broken = EventKind::RenderingFailure { error: None };
    assert_eq!(id(broken, ada).as_deref(), Some("t-7:failed"));
    assert_eq!(id(EventKind::Delivery, ada).as_deref(), Some("e-1"));
    // What happened to a copy did not happen to the message.
    assert_eq!(id(EventKind::Send, "eve@example.org"), None);
    let copy = id(EventKind::Reject { reason: None }, "eve@example.org");
    assert_eq!(copy.as_deref(), Some("e-1"));
}

/// What binds us outlives the person, and tells nobody who it was.
async fn a_bounce_or_complaint_after_erasure_is_remembered_by_a_hash_alone(bed: &Bed) {
    let cx = bed.cx().await;
    let (ada, bob) = messages(bed, &cx).await;
    for table in ["transactional_messages", "campaign_recipients"] {
        let erase = format!("UPDATE {table} SET email = NULL, status = 'sent', sent_at = 1");
        let done = cx.database().write(move |tx| tx.execute(&erase, &[])).await;
        done.map_err(|error: DatabaseError| error).unwrap();
    }
    let hard = Bounce { kind: "Permanent".to_owned(), ..Bounce::default() };
    let soft = Bounce { kind: "Transient".to_owned(), ..Bounce::default() };
    let email = |source| event("e", EventKind::Open, source).email;
    record(&cx, event("e-1", EventKind::Bounce(soft), ada)).await.unwrap();
    assert_eq!(suppression::status(&cx, &email(ada)).await.unwrap().suppression, None);
    let complaint = EventKind::Complaint { feedback: Some("abuse".into()) };
    for (source, kind, expected) in [
        (ada, EventKind::Bounce(hard), suppression::Kind::Permanent),
        (bob, complaint, suppression::Kind::Complaint),
    ] {
        for _ in 0..2 {
            let recorded = record(&cx, event("e-2", kind.clone(), source)).await.unwrap();
            assert_eq!(recorded, Recorded::Erased);
            let status = suppression::status(&cx, &email(source)).await.unwrap();
            assert_eq!(status.suppression.unwrap().kind, expected);
        }
    }
    assert!(stored(&cx).await.is_empty());
    for who in ["ada@", "bob@"] {
        assert_eq!(in_the_open(&cx, who).await, Vec::<String>::new());
    }
}
