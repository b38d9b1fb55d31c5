//! Opens and clicks: counted once, and told from those of machines.

use jiff::ToSpan as _;
use serde_json::Value as Json;
use tidings_delivery::ledger::Source;
use tidings_delivery::links::Addressee;
use tidings_jobs::Outcome;
use tidings_jobs::contracts::{Contract as _, EmailEvent, EventType};
use tidings_kernel::{Delivery, Query, Receipt, queues, tables};
use tidings_sql::DatabaseError;
use tidings_testbed::{Bed, dying_access, each_store};

use super::{FIREFOX, World, person};
use crate::events::keys;
use crate::tracking::hits::{self, HitError, Request};
use crate::tracking::{ChoiceError, Tracking, choices, handler, recompute, seen_by};

each_store!(
    an_open_is_counted_once_however_often_it_is_delivered,
    a_store_that_does_not_answer_costs_an_open_nothing,
    two_opens_are_two_and_one_reader,
    what_is_not_signed_for_its_row_and_purpose_is_given_up,
    a_machine_that_clicks_every_link_is_never_taken_for_a_person,
    a_machine_that_clicks_every_link_is_found_out_with_its_first_click,
    a_verdict_that_becomes_human_tells_where_the_click_led,
    a_message_that_is_asked_for_all_day_is_recorded_so_often,
    what_is_recorded_proves_nothing,
    a_verdict_is_decided_anew_when_more_is_known,
    a_delivery_that_is_told_late_corrects_the_verdicts,
    all_messages_of_a_reader_are_decided_anew,
    what_was_seen_can_expire_and_stays_counted,
    two_nodes_at_once_count_and_correct_once,
    a_head_request_is_a_machine_and_counted,
    who_asks_not_to_be_tracked_leaves_no_address,
    an_erased_reader_leaves_nothing,
    without_a_token_the_row_says_whose_it_is,
);

async fn an_open_is_counted_once_however_often_it_is_delivered(bed: &Bed) {
    let world = World::new(bed).await;
    let mut event = world.event(EventType::Open, &world.tracking.links.pixel(&world.to));
    event.metadata = serde_json::json!({ "user_agent": FIREFOX }).as_object().cloned();
    for _ in 0..3 {
        assert_eq!(world.handle(&event).await, Outcome::Done);
    }
    let counts = world.counts().await;
    assert_eq!((counts.open_count, counts.unique_open_count), (1, 1));
    assert_eq!((counts.human_open_count, counts.unique_human_open_count), (1, 1));
    assert_eq!(world.events().await, ["open human"]);
}

/// However long it lasts: the queue gives up what was tried too often, and this was not.
async fn a_store_that_does_not_answer_costs_an_open_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    let event = world.event(EventType::Open, &world.tracking.links.pixel(&world.to));
    for place in 0.. {
        let access = dying_access(bed, &world.cx, place, false);
        let tracking = Tracking { access, ..world.tracking.clone() };
        match handler(tracking, None).handle(&delivery(&world, &event)).await {
            Outcome::Wait { .. } => {}
            Outcome::Done => {
                assert!(place > 1, "it asks more than once");
                break;
            }
            other => panic!("{other:?} at call {place}"),
        }
    }
    assert_eq!(world.counts().await.open_count, 1);
}

fn delivery(world: &World<'_>, event: &EmailEvent) -> Delivery {
    Delivery {
        id: "m".into(),
        body: event.to_body().unwrap(),
        receives: 1,
        enqueued_at: world.cx.now(),
        receipt: Receipt("r".into()),
    }
}

async fn two_opens_are_two_and_one_reader(bed: &Bed) {
    let world = World::new(bed).await;
    // In the same millisecond, too.
    world.open(&person()).await;
    world.open(&person()).await;
    bed.clock.advance(1.hour());
    world.click("https://shop.example.org/").await;
    assert_eq!(world.work().await, 3);
    let counts = world.counts().await;
    assert_eq!((counts.open_count, counts.unique_open_count, counts.human_open_count), (2, 1, 2));
    assert_eq!(
        (counts.click_count, counts.unique_click_count, counts.human_click_count),
        (1, 1, 1)
    );
    let sql = "SELECT open_count, click_count, first_opened_at FROM campaign_recipients";
    let rows = world.cx.database().read(move |tx| tx.query(sql, &[])).await;
    let rows = rows.map_err(|error: DatabaseError| error).unwrap();
    assert_eq!((rows[0].int(0).unwrap(), rows[0].int(1).unwrap()), (2, 1));
    assert_eq!(rows[0].time(2).unwrap(), world.cx.now());
}

async fn what_is_not_signed_for_its_row_and_purpose_is_given_up(bed: &Bed) {
    let world = World::new(bed).await;
    let links = &world.tracking.links;
    let pixel = world.event(EventType::Open, &links.pixel(&world.to));
    let other_row = EmailEvent { campaign_recipient_id: Some(999), ..pixel.clone() };
    // A pixel cannot unsubscribe, nor be a click.
    let other_purpose = EmailEvent { event_type: EventType::Unsubscribe, ..pixel.clone() };
    let as_click = EmailEvent {
        event_type: EventType::Click,
        url: Some("https://evil.example.net/".into()),
        ..pixel.clone()
    };
    let target = "https://shop.example.org/";
    let click = world.event(EventType::Click, &links.click(&world.to, target).unwrap());
    let other_target =
        EmailEvent { url: Some("https://evil.example.net/".into()), ..click.clone() };
    let no_target = EmailEvent { url: None, ..click };
    let cut = pixel.tracking_token.as_ref().map(|token| token[..token.len() - 2].to_owned());
    let forged = EmailEvent { tracking_token: cut, ..pixel.clone() };
    let no_row = EmailEvent {
        tracking_token: Some("tracking-token-123".into()),
        campaign_recipient_id: None,
        ..pixel.clone()
    };
    let gone = Addressee { source: Source::Recipient(999), ..world.to };
    let gone =
        hits::event(bed.access.now(), EventType::Open, &world.token(&links.pixel(&gone)), &gone);
    for event in [other_row, other_purpose, as_click, other_target, no_target, forged, no_row, gone]
    {
        let outcome = world.handle(&event).await;
        assert!(matches!(outcome, Outcome::Dead { .. }), "{event:?}: {outcome:?}");
    }
    let none: [&str; 0] = [];
    assert_eq!(world.events().await, none);
    assert_eq!(world.standing().await, "audience=on");
    let token = world.token(&links.unsubscribe(&world.to));
    let refused = hits::opened(&world.tracking, &token, &person()).await;
    assert!(matches!(refused, Err(HitError::Invalid)));
    assert_eq!(world.work().await, 0, "nothing of it was written down");
}

/// What was told to others cannot be taken back, so the first click waits for those that come with it.
async fn a_machine_that_clicks_every_link_is_never_taken_for_a_person(bed: &Bed) {
    let world = World::new(bed).await;
    let handler = handler(world.tracking.clone(), None);
    let work = async || bed.work(&queues::EMAIL_EVENTS, handler.clone()).await;
    world.click("https://shop.example.org/1").await;
    assert_eq!(work().await, 1);
    let none: [&str; 0] = [];
    assert_eq!(world.events().await, none, "it waits");
    for link in 2..=4 {
        bed.clock.advance(300.milliseconds());
        world.click(&format!("https://shop.example.org/{link}")).await;
        assert_eq!(work().await, 1);
    }
    assert_eq!(world.events().await, ["click machine"; 3], "those after the first");
    bed.clock.advance(2.seconds());
    assert_eq!(work().await, 0);
    bed.clock.advance(1.second());
    assert_eq!(work().await, 1);
    assert_eq!(world.events().await, ["click machine"; 4]);
    let counts = world.counts().await;
    assert_eq!((counts.click_count, counts.human_click_count), (4, 0));
    let sql = "SELECT body FROM queue_messages WHERE queue <> 'email-events'";
    let told = world.cx.database().read(move |tx| tx.query(sql, &[])).await;
    let told = told.map_err(|error: DatabaseError| error).unwrap();
    assert!(told.iter().all(|row| !row.text(0).unwrap().contains("clicked")), "nobody heard");
}

/// A click that was judged before the others were heard of.
async fn a_machine_that_clicks_every_link_is_found_out_with_its_first_click(bed: &Bed) {
    let world = World::new(bed).await;
    let target = "https://shop.example.org/1";
    let link = world.tracking.links.click(&world.to, target).unwrap();
    let mut first = world.event(EventType::Click, &link);
    first.url = Some(target.to_owned());
    let said = serde_json::json!({ "user_agent": FIREFOX, "waited": true });
    first.metadata = said.as_object().cloned();
    for _ in 0..2 {
        assert_eq!(world.handle(&first).await, Outcome::Done);
    }
    assert_eq!(world.counts().await.human_click_count, 1, "the first one looks like a person");
    for link in 2..=4 {
        bed.clock.advance(300.milliseconds());
        world.click(&format!("https://shop.example.org/{link}")).await;
    }
    assert_eq!(world.work().await, 3);
    assert_eq!(world.events().await, ["click machine"; 4]);
    let counts = world.counts().await;
    assert_eq!((counts.click_count, counts.unique_click_count), (4, 1));
    assert_eq!((counts.human_click_count, counts.unique_human_click_count), (0, 0));

    // A person comes later, and twice: that is the first human.
    bed.clock.advance(1.hour());
    world.click("https://shop.example.org/2").await;
    bed.clock.advance(500.milliseconds());
    world.click("https://shop.example.org/2").await;
    world.work().await;
    let counts = world.counts().await;
    assert_eq!((counts.click_count, counts.unique_click_count), (6, 1));
    assert_eq!((counts.human_click_count, counts.unique_human_click_count), (2, 1));
}

async fn a_verdict_is_decided_anew_when_more_is_known(bed: &Bed) {
    let world = World::new(bed).await;
    world.open(&person()).await;
    bed.clock.advance(1.hour());
    world.open(&person()).await;
    world.work().await;
    assert_eq!(world.events().await, ["open human", "open human"]);
    let again = async || recompute(&world.cx, world.to.source).await.unwrap();
    assert_eq!(again().await, 0, "nothing new is known");

    // The server of the recipient took it only after the first open: that was its scanner.
    let delivered = world.cx.now().as_millisecond() + 60_000;
    world.run(&format!("UPDATE campaign_recipients SET delivered_at = {delivered}")).await;
    assert_eq!(again().await, 2, "both have one fact more");
    assert_eq!(world.events().await, ["open machine", "open human"]);
    let counts = world.counts().await;
    assert_eq!((counts.open_count, counts.unique_open_count), (2, 1));
    assert_eq!((counts.human_open_count, counts.unique_human_open_count), (1, 1));
    assert_eq!(again().await, 0, "doing it again changes nothing");

    let later = delivered + 2 * 3_600_000;
    world.run(&format!("UPDATE campaign_recipients SET delivered_at = {later}")).await;
    again().await;
    let counts = world.counts().await;
    assert_eq!((counts.human_open_count, counts.unique_human_open_count), (0, 0));
    world.run("UPDATE campaign_recipients SET delivered_at = sent_at").await;
    again().await;
    let counts = world.counts().await;
    assert_eq!((counts.human_open_count, counts.unique_human_open_count), (2, 1));
}

async fn a_verdict_that_becomes_human_tells_where_the_click_led(bed: &Bed) {
    let world = World::new(bed).await;
    // It was handed over later than we know of: so soon nobody reads.
    world.run("UPDATE campaign_recipients SET sent_at = 1782907200000").await;
    world.click("https://shop.example.org/sale").await;
    world.work().await;
    assert_eq!(world.events().await, ["click machine"]);
    world.run("UPDATE campaign_recipients SET sent_at = 1").await;
    assert_eq!(recompute(&world.cx, world.to.source).await.unwrap(), 1);
    let sql = "SELECT body FROM queue_messages WHERE body LIKE '%email.clicked%'";
    let told = world.cx.database().read(move |tx| tx.query(sql, &[])).await;
    let told = told.map_err(|error: DatabaseError| error).unwrap();
    assert_eq!(told.len(), 1);
    assert!(told[0].text(0).unwrap().contains("https://shop.example.org/sale"));
}

async fn a_message_that_is_asked_for_all_day_is_recorded_so_often(bed: &Bed) {
    let world = World::new(bed).await;
    world.open(&person()).await;
    world.work().await;
    let items = world.cx.items().await.unwrap();
    let key = keys::message(world.to.source);
    let many = tidings_kernel::Update::new(&tables::EVENTS, key).set("openCount", 999);
    items.update(many).await.unwrap();
    for _ in 0..3 {
        world.open(&person()).await;
    }
    world.click("https://shop.example.org/1").await;
    world.work().await;
    let counts = world.counts().await;
    assert_eq!((counts.open_count, counts.click_count), (2, 1), "clicks have a bound of their own");
}

/// Whoever may read events could otherwise unsubscribe everybody.
async fn what_is_recorded_proves_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    world.open(&person()).await;
    world.click("https://shop.example.org/1").await;
    world.leave(crate::tracking::choices::Scope::Everything).await;
    bed.advance(1).await;
    world.work().await;
    assert_eq!(world.events().await.len(), 3);
    let links = &world.tracking.links;
    let click = links.click(&world.to, "https://shop.example.org/1").unwrap();
    let items = world.cx.items().await.unwrap();
    let page = items.scan(tidings_kernel::Scan::new(&tables::EVENTS)).await.unwrap();
    let kept = format!("{:?}", page.items);
    for link in [links.pixel(&world.to), click, links.unsubscribe(&world.to)] {
        assert!(!kept.contains(&world.token(&link)));
    }
}

async fn a_delivery_that_is_told_late_corrects_the_verdicts(bed: &Bed) {
    let world = World::new(bed).await;
    world.open(&person()).await;
    world.work().await;
    assert_eq!(world.events().await, ["open human"]);
    world.run("UPDATE campaign_recipients SET ses_message_id = '0100018f-ses-bob'").await;
    let path = format!("{}/tests/fixtures/delivery.json", env!("CARGO_MANIFEST_DIR"));
    let told = std::fs::read_to_string(path).unwrap();
    // Half a minute after the open: it was not the reader.
    let told = told
        .replace("2026-07-01T11:59:30.250Z", "2026-07-01T12:00:30.000Z")
        .replace("bob@example.org", "ada|lovelace@example.org");
    let envelope = serde_json::json!({
        "Type": "Notification",
        "MessageId": "sns-1",
        "TopicArn": "arn:aws:sns:eu-west-1:123456789012:ses-events",
        "Message": told,
        "Timestamp": "2026-07-01T12:00:31.000Z",
    });
    let delivery = Delivery {
        id: "m".into(),
        body: envelope.to_string(),
        receives: 1,
        enqueued_at: world.cx.now(),
        receipt: Receipt("r".into()),
    };
    let provider = crate::ses::worker(crate::replies::Replies::new(bed.access.clone(), None));
    for _ in 0..2 {
        assert_eq!(provider.handle(&delivery).await, Outcome::Done);
        assert_eq!(world.events().await, ["open machine", "delivery -"]);
        let counts = world.counts().await;
        assert_eq!((counts.open_count, counts.human_open_count), (1, 0));
    }
}

async fn all_messages_of_a_reader_are_decided_anew(bed: &Bed) {
    let world = World::new(bed).await;
    let ada = "ada|lovelace@example.org".parse().unwrap();
    assert!(seen_by(&world.cx, &ada).await.unwrap().is_empty());
    world.open(&person()).await;
    world.open(&person()).await;
    world.work().await;
    assert_eq!(seen_by(&world.cx, &ada).await.unwrap(), [world.to.source]);
    let eve = "eve@example.org".parse().unwrap();
    assert!(seen_by(&world.cx, &eve).await.unwrap().is_empty());
}

async fn what_was_seen_can_expire_and_stays_counted(bed: &Bed) {
    let world = World::new(bed).await;
    world.open(&person()).await;
    world.click("https://shop.example.org/1").await;
    let unsubscribe = world.tracking.links.unsubscribe(&world.to);
    let event = world.event(EventType::Unsubscribe, &unsubscribe);
    let keeping = handler(world.tracking.clone(), Some(30));
    bed.work(&queues::EMAIL_EVENTS, keeping.clone()).await;
    bed.clock.advance(3.seconds());
    bed.work(&queues::EMAIL_EVENTS, keeping.clone()).await;
    let delivery = Delivery {
        id: "m".into(),
        body: event.to_body().unwrap(),
        receives: 1,
        enqueued_at: world.cx.now(),
        receipt: Receipt("r".into()),
    };
    assert_eq!(keeping.handle(&delivery).await, Outcome::Done);
    let items = world.cx.items().await.unwrap();
    let query = Query::new(&tables::EVENTS, "SUB#ada|lovelace@example.org").begins_with("EVT#");
    let found = items.query(query).await.unwrap().items;
    let end: jiff::Timestamp = "2026-07-31T12:00:00Z".parse().unwrap();
    let ends: Vec<_> = found.iter().filter_map(|item| item.integer("ttl")).collect();
    let near = |at: &i64| (end.as_second()..=end.as_second() + 3).contains(at);
    assert!(ends.len() == 3 && ends.iter().all(near), "{ends:?}");
    let counted = items.get(&tables::MAIN, &keys::sequence("spring")).await.unwrap().unwrap();
    assert_eq!(counted.integer("ttl"), None);
}

async fn two_nodes_at_once_count_and_correct_once(bed: &Bed) {
    let world = World::new(bed).await;
    let mut event = world.event(EventType::Open, &world.tracking.links.pixel(&world.to));
    event.metadata = serde_json::json!({ "user_agent": FIREFOX }).as_object().cloned();
    let both = tokio::join!(world.handle(&event), world.handle(&event));
    // Whoever came second may have to come again.
    assert!(both.0 == Outcome::Done || both.1 == Outcome::Done, "{both:?}");
    assert_eq!(world.handle(&event).await, Outcome::Done);
    let counts = world.counts().await;
    assert_eq!((counts.open_count, counts.human_open_count), (1, 1));

    let later = bed.access.now().as_millisecond() + 60_000;
    world.run(&format!("UPDATE campaign_recipients SET delivered_at = {later}")).await;
    let source = world.to.source;
    let both = tokio::join!(recompute(&world.cx, source), recompute(&world.cx, source));
    assert_eq!(both.0.unwrap() + both.1.unwrap(), 1, "one of them has corrected it");
    let counts = world.counts().await;
    assert_eq!((counts.open_count, counts.unique_open_count), (1, 1));
    assert_eq!((counts.human_open_count, counts.unique_human_open_count), (0, 0));
}

async fn a_head_request_is_a_machine_and_counted(bed: &Bed) {
    let world = World::new(bed).await;
    world.open(&Request { head: true, ..person() }).await;
    world.work().await;
    assert_eq!(world.events().await, ["open machine"]);
    let counts = world.counts().await;
    assert_eq!((counts.open_count, counts.human_open_count), (1, 0));
}

async fn who_asks_not_to_be_tracked_leaves_no_address(bed: &Bed) {
    let world = World::new(bed).await;
    world.open(&person()).await;
    bed.clock.advance(1.minute());
    world.open(&Request { gpc: true, ..person() }).await;
    world.work().await;
    let items = world.cx.items().await.unwrap();
    let query = Query::new(&tables::EVENTS, "SUB#ada|lovelace@example.org").begins_with("EVT#");
    let found = items.query(query).await.unwrap().items;
    let hash = |at: usize| {
        let verdict: Json = crate::tracking::evidence::json(found[at].get("verdict").unwrap());
        verdict["facts"]["ip_hash"].clone()
    };
    assert_eq!(hash(0).as_str().unwrap().len(), 32);
    assert_eq!(hash(1), Json::Null);
    assert!(!format!("{found:?}").contains("192.0.2.7"), "the address itself is nowhere");
}

async fn an_erased_reader_leaves_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    world.open(&person()).await;
    let unsubscribe = world.token(&world.tracking.links.unsubscribe(&world.to));
    world.run("UPDATE campaign_recipients SET email = NULL").await;
    assert_eq!(world.work().await, 1);
    let none: [&str; 0] = [];
    assert_eq!(world.events().await, none);
    let refused = choices::by_unsubscribe(&world.tracking, &unsubscribe).await.err();
    assert!(matches!(refused, Some(ChoiceError::Nobody)), "{refused:?}");
}

async fn without_a_token_the_row_says_whose_it_is(bed: &Bed) {
    let world = World::new(bed).await;
    let event = world.event(EventType::Open, &world.tracking.links.pixel(&world.to));
    let event = EmailEvent { tracking_token: None, ..event };
    assert_eq!(world.handle(&event).await, Outcome::Done);
    assert_eq!(world.events().await, ["open unknown"]);
    // The contract lets a token be any text, and its own example has one that is not of our making.
    let other = EmailEvent {
        tracking_token: Some("tracking-token-123".into()),
        idempotency_key: "open:tracking-token-123:2026-05-24T12:00:01Z".into(),
        ..event.clone()
    };
    assert_eq!(world.handle(&other).await, Outcome::Done);
    assert_eq!(world.events().await, ["open unknown", "open unknown"]);
    let left = EmailEvent {
        event_type: EventType::Unsubscribe,
        idempotency_key: "unsubscribe:2026-05-24T12:00:02Z".into(),
        ..event.clone()
    };
    assert_eq!(world.handle(&left).await, Outcome::Done);
    assert_eq!(world.standing().await, "audience=on client=off");
    let nobody = EmailEvent { campaign_recipient_id: None, ..event };
    assert!(matches!(world.handle(&nobody).await, Outcome::Dead { .. }));
}
