//! What was seen is counted once and told from machines; what a reader said is done, and what he said last counts.

use jiff::ToSpan as _;
use serde_json::Value as Json;
use tidings_access::{Cx, DisplayName};
use tidings_delivery::ledger::Source;
use tidings_delivery::links::{Addressee, Links};
use tidings_jobs::Outcome;
use tidings_jobs::contracts::{Contract as _, EmailEvent, EventType};
use tidings_kernel::{Delivery, Query, Receipt, queues, tables};
use tidings_people::consent::proof::Act;
use tidings_people::consent::subscriptions::{self, Subscribe};
use tidings_people::consent::{By, Proof, Status, Whom, audiences, topics};
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, each_store};

use super::choices::{self, Choices, Scope};
use super::hits::{self, HitError, Request};
use super::{ChoiceError, Tracking, handler, reader, recompute, seen_by};
use crate::events::{Counts, keys};

const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

each_store!(
    an_open_is_counted_once_however_often_it_is_delivered,
    two_opens_are_two_and_one_reader,
    what_is_not_signed_for_its_row_and_purpose_is_given_up,
    a_machine_that_clicks_every_link_is_found_out_with_its_first_click,
    a_verdict_is_decided_anew_when_more_is_known,
    a_delivery_that_is_told_late_corrects_the_verdicts,
    all_messages_of_a_reader_are_decided_anew,
    what_was_seen_can_expire_and_stays_counted,
    two_nodes_at_once_count_and_correct_once,
    a_head_request_is_a_machine_and_counted,
    who_asks_not_to_be_tracked_leaves_no_address,
    an_erased_reader_leaves_nothing,
    without_a_token_the_row_says_whose_it_is,
    unsubscribing_twice_leaves_the_same_state_and_one_event,
    every_scope_can_be_left_and_come_back_to,
    whoever_died_after_taking_it_in_has_not_lost_it,
    what_the_reader_said_last_counts,
    only_what_was_shown_can_be_chosen,
    a_link_of_a_merged_contact_is_about_who_he_is_now,
);

struct World<'a> {
    bed: &'a Bed,
    cx: Cx,
    tracking: Tracking,
    /// A recipient of the campaign `spring`, ada.
    to: Addressee,
}

fn act() -> Act {
    Act { by: By::Person, source: "test".parse().unwrap(), reason: None, proof: Proof::default() }
}

impl<'a> World<'a> {
    async fn new(bed: &'a Bed) -> Self {
        let cx = bed.cx().await;
        let client = bed.shop(&cx).await.id;
        let name: DisplayName = "News".parse().unwrap();
        let create = audiences::Create {
            slug: "news".parse().unwrap(),
            name: name.clone(),
            double_opt_in: false,
            confirm_template_key: None,
        };
        let audience = audiences::create(&cx, create).await.unwrap().id;
        let topic = topics::Create { slug: "offers".parse().unwrap(), name, description: None };
        topics::create(&cx, topic).await.unwrap();
        let whom = Whom::Email("Ada|Lovelace@example.org".parse().unwrap());
        let subscribe = Subscribe { whom, audience, client: None, confirmed: false, act: act() };
        let contact = subscriptions::subscribe(&cx, subscribe).await.unwrap().contact;
        let ids = (cx.workspace_id().get(), client.get(), audience.get(), contact.get());
        let at = cx.now().as_millisecond() - 3_600_000;
        let make = cx.database().write(move |tx| {
            let [workspace, client, audience, contact] =
                [ids.0, ids.1, ids.2, ids.3].map(Param::Int);
            let sql = "INSERT INTO campaigns (workspace_id, client_id, audience_id, external_key, name,
                           template_key, status, created_at, updated_at)
                       VALUES ($1, $2, $3, 'spring', 'Spring', 'spring', 'sending', 0, 0) RETURNING id";
            let campaign = tx.query(sql, &[workspace, client, audience])?[0].int(0)?;
            let sql = "INSERT INTO campaign_recipients (workspace_id, campaign_id, lead_id, email, status,
                           sent_at, created_at, updated_at)
                       VALUES ($1, $2, $3, 'ada|lovelace@example.org', 'sent', $4, 0, 0) RETURNING id";
            let params = [workspace, Param::Int(campaign), contact, Param::Int(at)];
            tx.query(sql, &params)?[0].int(0)
        });
        let recipient = make.await.map_err(|error: DatabaseError| error).unwrap();
        let to = Addressee {
            workspace: ids.0,
            source: Source::Recipient(recipient),
            contact: ids.3,
            client: ids.1,
            audience: Some(ids.2),
            topic: None,
        };
        let url = "https://mail.example.org";
        let links = Links::load(cx.database(), url, cx.now()).await.unwrap();
        let tracking = Tracking { access: bed.access.clone(), links };
        Self { bed, cx, tracking, to }
    }

    async fn run(&self, sql: &str) {
        let sql = sql.to_owned();
        let done = self.cx.database().write(move |tx| tx.execute(&sql, &[]).map(drop)).await;
        done.map_err(|error: DatabaseError| format!("{error:?}")).unwrap();
    }

    fn token(&self, link: &str) -> String {
        let link = link.split('?').next().unwrap();
        link.rsplit('/').next().unwrap().trim_end_matches(".gif").to_owned()
    }

    async fn open(&self, request: &Request) {
        let token = self.token(&self.tracking.links.pixel(&self.to));
        hits::opened(&self.tracking, &token, request).await.unwrap();
    }

    async fn click(&self, target: &str) {
        let token = self.token(&self.tracking.links.click(&self.to, target).unwrap());
        hits::clicked(&self.tracking, (&token, target), &person()).await.unwrap();
    }

    /// Works until the queue is empty. Tells how many that were.
    async fn work(&self) -> usize {
        self.bed.work(&queues::EMAIL_EVENTS, handler(self.tracking.clone(), None)).await
    }

    async fn handle(&self, event: &EmailEvent) -> Outcome {
        let delivery = Delivery {
            id: "m".into(),
            body: event.to_body().unwrap(),
            receives: 1,
            enqueued_at: self.cx.now(),
            receipt: Receipt("r".into()),
        };
        handler(self.tracking.clone(), None).handle(&delivery).await
    }

    fn event(&self, kind: EventType, link: &str) -> EmailEvent {
        hits::event(self.bed.access.now(), kind, &self.token(link), &self.to)
    }

    async fn counts(&self) -> Counts {
        let items = self.cx.items().await.unwrap();
        let item = items.get(&tables::MAIN, &keys::sequence("spring")).await.unwrap();
        item.as_ref().map(Counts::of).unwrap_or_default()
    }

    /// `open human`, `click machine` and the like, in order.
    async fn events(&self) -> Vec<String> {
        let items = self.cx.items().await.unwrap();
        let query = Query::new(&tables::EVENTS, "SUB#ada|lovelace@example.org").begins_with("EVT#");
        let found = items.query(query).await.unwrap().items;
        let told = found.iter().map(|item| {
            let verdict = item.get("verdict").map(super::evidence::json).unwrap_or_default();
            let who = verdict["who"].as_str().unwrap_or("-").to_owned();
            format!("{} {who}", item.text("eventType").unwrap())
        });
        told.collect()
    }

    /// How everything stands that a reader can leave.
    async fn standing(&self) -> String {
        let reader = reader::find(&self.tracking.access, self.to).await.unwrap().unwrap();
        let mut parts: Vec<String> = Vec::new();
        for subscription in &reader.subscriptions {
            let whose = if subscription.client.is_some() { "client" } else { "audience" };
            parts.push(format!("{whose}={}", if subscription.is_on { "on" } else { "off" }));
        }
        parts.sort();
        if reader.left_everything {
            parts.push("left everything".to_owned());
        }
        parts.join(" ")
    }

    async fn leave(&self, scope: Scope) {
        let token = self.token(&self.tracking.links.unsubscribe(&self.to));
        let reader = choices::by_unsubscribe(&self.tracking, &token).await.unwrap();
        let reader = (&reader, token.as_str());
        choices::unsubscribe(&self.tracking, reader, scope, Proof::default()).await.unwrap();
    }

    async fn come_back(&self, scope: Scope) {
        let reader = reader::find(&self.tracking.access, self.to).await.unwrap().unwrap();
        choices::resubscribe(&reader, scope, Proof::default()).await.unwrap();
    }
}

fn person() -> Request {
    Request {
        user_agent: Some(FIREFOX.to_owned()),
        ip: Some("192.0.2.7".parse().unwrap()),
        ..Request::default()
    }
}

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

async fn a_machine_that_clicks_every_link_is_found_out_with_its_first_click(bed: &Bed) {
    let world = World::new(bed).await;
    world.click("https://shop.example.org/1").await;
    assert_eq!(world.work().await, 1);
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
    let ends: Vec<_> = found.iter().map(|item| item.integer("ttl")).collect();
    assert_eq!(ends, [Some(end.as_second()); 3]);
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
        let verdict: Json = super::evidence::json(found[at].get("verdict").unwrap());
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
    let nobody = EmailEvent { campaign_recipient_id: None, ..event };
    assert!(matches!(world.handle(&nobody).await, Outcome::Dead { .. }));
}

async fn unsubscribing_twice_leaves_the_same_state_and_one_event(bed: &Bed) {
    let world = World::new(bed).await;
    for scope in [Scope::Client, Scope::Audience, Scope::Everything] {
        world.leave(scope).await;
        let once = world.standing().await;
        bed.clock.advance(1.minute());
        world.leave(scope).await;
        assert_eq!(world.standing().await, once);
        world.work().await;
        assert_eq!(world.standing().await, once);
    }
    assert_eq!(world.standing().await, "audience=off client=off left everything");
    assert_eq!(world.events().await, ["unsubscribe -"; 3], "one for each scope");
    let sql = "SELECT count(*) FROM consent_log WHERE action = 'unsubscribed'";
    let rows = world.cx.database().read(move |tx| tx.query(sql, &[])).await;
    let rows = rows.map_err(|error: DatabaseError| error).unwrap();
    assert_eq!(rows[0].int(0).unwrap(), 3, "one proof for each change");
}

/// Wherever whoever takes it in ends: that somebody left is never known without the event, nor the event without it.
#[tokio::test]
async fn who_leaves_while_we_die_has_left_and_is_known_to() {
    for turns in 0..24 {
        let bed = Bed::memory().await;
        let world = World::new(&bed).await;
        let mut leaving = std::pin::pin!(world.leave(Scope::Everything));
        let mut rest = turns;
        std::future::poll_fn(|context| match leaving.as_mut().poll(context) {
            std::task::Poll::Pending if rest > 0 => {
                rest -= 1;
                std::task::Poll::Pending
            }
            _ => std::task::Poll::Ready(()),
        })
        .await;
        bed.advance(1).await;
        world.work().await;
        let left = world.standing().await.contains("left everything");
        assert_eq!(!world.events().await.is_empty(), left, "after {turns} turns");
    }
}

async fn every_scope_can_be_left_and_come_back_to(bed: &Bed) {
    let world = World::new(bed).await;
    for (scope, left, back) in [
        (Scope::Everything, "audience=on left everything", "audience=on"),
        (Scope::Audience, "audience=off", "audience=on"),
        (Scope::Client, "audience=on client=off", "audience=on client=on"),
    ] {
        world.leave(scope).await;
        assert_eq!(world.standing().await, left);
        bed.clock.advance(1.minute());
        world.come_back(scope).await;
        assert_eq!(world.standing().await, back);
    }
}

async fn whoever_died_after_taking_it_in_has_not_lost_it(bed: &Bed) {
    let world = World::new(bed).await;
    let mut event =
        world.event(EventType::Unsubscribe, &world.tracking.links.unsubscribe(&world.to));
    assert_eq!(world.handle(&event).await, Outcome::Done);
    assert_eq!(world.standing().await, "audience=on client=off", "by default mails like this one");
    event.metadata = serde_json::json!({ "scope": "everything" }).as_object().cloned();
    bed.clock.advance(1.minute());
    event.occurred_at = bed.access.now();
    assert_eq!(world.handle(&event).await, Outcome::Done);
    assert_eq!(world.standing().await, "audience=on client=off left everything");
}

async fn what_the_reader_said_last_counts(bed: &Bed) {
    let world = World::new(bed).await;
    world.leave(Scope::Client).await;
    bed.clock.advance(1.second());
    world.come_back(Scope::Client).await;
    assert_eq!(world.standing().await, "audience=on client=on");
    bed.advance(1).await;
    assert_eq!(world.work().await, 1, "the event comes late");
    assert_eq!(world.standing().await, "audience=on client=on");
}

async fn only_what_was_shown_can_be_chosen(bed: &Bed) {
    let world = World::new(bed).await;
    let read = async || reader::find(&world.tracking.access, world.to).await.unwrap().unwrap();
    let reader = read().await;
    let (topic, list) = (reader.topics[0].id, reader.subscriptions[0].id);
    for bad in [
        Choices { topics: vec![(999, false)], ..Choices::default() },
        Choices { topics: vec![(topic, false), (999, true)], ..Choices::default() },
        Choices { subscriptions: vec![(999, false)], topics: vec![(topic, false)] },
    ] {
        let refused = choices::choose(&reader, &bad, Proof::default()).await;
        assert!(matches!(refused, Err(ChoiceError::NotOffered)));
    }
    assert!(read().await.topics[0].is_on, "nothing half-done");
    let off = Choices { topics: vec![(topic, false)], subscriptions: vec![(list, false)] };
    for _ in 0..2 {
        choices::choose(&reader, &off, Proof::default()).await.unwrap();
        let reader = read().await;
        assert!(!reader.topics[0].is_on && !reader.subscriptions[0].is_on);
    }
    let on = Choices { topics: vec![(topic, true)], subscriptions: vec![(list, true)] };
    choices::choose(&read().await, &on, Proof::default()).await.unwrap();
    assert!(read().await.topics[0].is_on && read().await.subscriptions[0].is_on);
    assert_eq!(Scope::from_word("nothing"), None);
    // A mail that was for no audience offers none.
    let to = Addressee { audience: None, ..world.to };
    let reader = reader::find(&world.tracking.access, to).await.unwrap().unwrap();
    for scope in [Scope::Client, Scope::Audience] {
        let refused = choices::resubscribe(&reader, scope, Proof::default()).await;
        assert!(matches!(refused, Err(ChoiceError::NotOffered)));
    }
    assert_eq!(Scope::of(&to), Scope::Everything);
}

async fn a_link_of_a_merged_contact_is_about_who_he_is_now(bed: &Bed) {
    let world = World::new(bed).await;
    let whom = Whom::Email("ada@work.example.org".parse().unwrap());
    let audience = world.to.audience.unwrap().into();
    let subscribe =
        Subscribe { whom: whom.clone(), audience, client: None, confirmed: false, act: act() };
    let other = subscriptions::subscribe(&world.cx, subscribe).await.unwrap().contact;
    let now = world.cx.now().as_millisecond();
    world
        .run(&format!(
            "UPDATE leads SET merged_into_id = {other}, merged_at = {now} WHERE id = {}",
            world.to.contact
        ))
        .await;
    world.leave(Scope::Audience).await;
    let subscribed = subscriptions::list(&world.cx, whom).await.unwrap().unwrap();
    assert_eq!(subscribed[0].status, Status::Unsubscribed);
}
