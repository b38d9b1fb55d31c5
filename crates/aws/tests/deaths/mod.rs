//! Whoever dies at whichever call of the items, and in whatever order events come: each is stored, learned from and counted once.

use std::sync::Arc;

use jiff::ToSpan as _;
use serde_json::{Value, json};
use tidings_access::Access;
use tidings_jobs::contracts::{Contract as _, LeadUpkeep, UpkeepTask};
use tidings_kernel::{Clock as _, Outgoing, QueueEngine as _, queues};
use tidings_leads::identity::{Identity, Whom, find};
use tidings_leads::ingestion::{Ingested, NewEvent, accept, ingest};
use tidings_leads::{features, memory};
use tidings_testbed::dying_engine;

use crate::World;

impl World {
    /// For whoever dies at this call of the items: before it, or after.
    fn dying(&self, place: isize, after: bool) -> Access {
        let engine = dying_engine(Arc::clone(&self.engine), place, after);
        Access::new(self.access.database().clone(), engine, Arc::clone(&self.clock) as Arc<_>)
    }

    /// Whether something waits to be tried again.
    async fn has_died(&self) -> bool {
        for queue in
            [&queues::LEAD_INGESTION, &queues::FEATURE_PROCESSING, &queues::MEMORY_PROCESSING]
        {
            if self.queues.depth(queue).await.unwrap().hidden > 0 {
                return true;
            }
        }
        false
    }

    /// Somebody's features and memory, of which a rebuild finds that they are what the events say.
    async fn learned(&self, email: &str) -> (Value, Vec<String>) {
        let cx = self.cx().await;
        let whom = Whom::Email(email.parse().unwrap());
        let id = find(&cx, whom).await.unwrap().unwrap().lead_organization_id;
        let kept = features::get(&cx, &id).await.unwrap().unwrap();
        let scratch = features::as_of(&cx, &id, cx.now()).await.unwrap().unwrap();
        assert_eq!(kept.values, scratch.values, "{email}");
        assert_eq!(memory::rebuild(&cx, &id).await.unwrap(), 0, "{email}");
        let listed = memory::list(&cx, &id, memory::Listing::default()).await.unwrap().unwrap();
        let told = listed.memories.iter().map(|one| {
            let events = one.source_event_ids.len();
            format!("{}#{} {} {events}", one.memory_type, one.key, one.confidence)
        });
        (serde_json::to_value(&kept.values).unwrap(), told.collect())
    }
}

fn event(id: &str, kind: &str, minutes: i64, identities: &[(&str, &str)]) -> NewEvent {
    let now: jiff::Timestamp = "2026-07-01T12:00:00Z".parse().unwrap();
    let identities = identities.iter().map(|(channel, value)| Identity::new(channel, value));
    let payload = json!({"amount": 2, "currency": "EUR", "product": "tea"});
    NewEvent {
        event_type: kind.into(),
        identities: identities.collect::<Result<_, _>>().unwrap(),
        source: Some("shop".into()),
        source_type: None,
        external_event_id: Some(id.into()),
        occurred_at: Some(now - minutes.minutes()),
        object_id: None,
        object_id_ref: None,
        payload: payload.as_object().cloned(),
        raw_payload: None,
    }
}

/// An event comes in, is learned from and counted by workers that die once, at each place in turn. Whatever was lost or counted
/// twice on the way is missing or too much at the end.
async fn whoever_dies_an_event_counts_once(after: bool) {
    let (world, mut count) = (World::new().await, 0);
    for place in 0.. {
        assert!(place < 40, "it comes to an end");
        count += 1;
        let cx = world.cx().await;
        let mail = [("email", "ada@example.org")];
        let bought = event(&count.to_string(), "purchase_completed", 60 + count, &mail);
        accept(&cx, vec![bought.told(&cx)]).await.unwrap();
        world.work_as(&world.dying(place, after)).await;
        let died = world.has_died().await;
        world.clock.advance(10.minutes());
        world.work().await;
        if !died {
            break;
        }
    }
    assert!(count > 7, "there are as many calls at least, and it was {count}");
    let (features, memory) = world.learned("ada@example.org").await;
    assert_eq!(features["frequency_purchases_90d"], json!(count));
    assert_eq!(features["monetary_total"], json!(2 * count));
    let events = memory.iter().find(|one| one.starts_with("purchase#product:tea")).unwrap();
    assert!(events.ends_with(&format!(" {count}")), "{count}: {memory:?}");
}

#[tokio::test]
async fn whoever_dies_before_a_call_an_event_counts_once() {
    whoever_dies_an_event_counts_once(false).await;
}

#[tokio::test]
async fn whoever_dies_after_a_call_an_event_counts_once() {
    whoever_dies_an_event_counts_once(true).await;
}

/// More people than are written at once.
async fn a_day_that_dies_goes_on(after: bool) {
    const PEOPLE: i64 = 26;
    let world = World::new().await;
    let cx = world.cx().await;
    for number in 0..PEOPLE {
        let mail = format!("u{number}@example.org");
        let opened = event(&number.to_string(), "email.opened", 60, &[("email", &mail)]);
        ingest(&cx, opened.told(&cx)).await.unwrap();
    }
    world.work().await;
    for place in 0.. {
        assert!(place < 30, "it comes to an end");
        world.clock.advance(24.hours());
        let at = world.clock.now();
        let day = LeadUpkeep { task: UpkeepTask::Daily, at, workspace: None, after: None };
        let day = Outgoing::new(&queues::FEATURE_PROCESSING, day.to_body().unwrap());
        world.queues.send(vec![day]).await.unwrap();
        world.work_as(&world.dying(place, after)).await;
        let died = world.has_died().await;
        world.clock.advance(10.minutes());
        world.work().await;
        let progress = features::progress(&world.cx().await, UpkeepTask::Daily).await;
        let progress = progress.unwrap().unwrap();
        assert_eq!((progress.at, progress.done), (at, PEOPLE), "{place}");
        assert!(progress.finished_at.is_some());
        if !died {
            break;
        }
    }
    for number in [0, 25] {
        world.learned(&format!("u{number}@example.org")).await;
    }
}

#[tokio::test]
async fn a_day_that_dies_before_a_call_goes_on() {
    a_day_that_dies_goes_on(false).await;
}

#[tokio::test]
async fn a_day_that_dies_after_a_call_goes_on() {
    a_day_that_dies_goes_on(true).await;
}

#[tokio::test]
async fn a_shuffled_log_with_repetitions_converges() {
    const KINDS: [&str; 4] =
        ["purchase_completed", "email.opened", "product_viewed", "email.clicked"];
    let world = World::new().await;
    let mut state = 7_u64;
    let mut below = |bound: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % bound
    };
    let mut expected = None;
    for run in 0..3 {
        let cx = world.cx().await;
        let (mail, user) = (format!("ada{run}@example.org"), format!("ada{run}"));
        // The same person each time, under two names that one event brings together.
        let names = [("email", mail.as_str()), ("user_id", user.as_str())];
        let log = (0..8_usize).map(|number| {
            let who = if number == 4 { &names[..] } else { &names[number % 2..=number % 2] };
            let minutes = 60 * 24 * i64::try_from(number * 5 % 8).unwrap() + 60;
            event(&format!("{run}-{number}"), KINDS[number % 4], minutes, who).told(&cx)
        });
        let log: Vec<_> = log.collect();
        let mut order: Vec<usize> = (0..log.len()).collect();
        if run > 0 {
            order.extend(0..log.len());
            for place in (1..order.len()).rev() {
                order.swap(place, below(place + 1));
            }
        }
        let mut stored = 0;
        for place in &order {
            let ingested = ingest(&cx, log[*place].clone()).await.unwrap();
            stored += usize::from(matches!(ingested, Ingested::Stored { .. }));
            // Some are learned from before others come.
            if run == 1 && *place == 4 {
                world.work().await;
            }
        }
        assert_eq!(stored, log.len(), "each was stored once");
        world.work().await;
        let learned = world.learned(&mail).await;
        assert_eq!(expected.get_or_insert_with(|| learned.clone()), &learned, "{order:?}");
    }
}
