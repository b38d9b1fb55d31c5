//! How soon somebody is in a segment: nothing between what he did and the mail that follows from it waits for a time. What
//! is promised to be there within a second is there before the clock has moved at all.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tidings_jobs::{Handler, Settings, Stop, Worker as QueueWorker};
use tidings_kernel::{Clock, Queue, queues};
use tidings_leads::identity::{Identity, Whom};
use tidings_leads::ingestion::{self, NewEvent};
use tidings_leads::timeline::{Listing, timeline};
use tidings_leads::{features, memory as remembered};
use tidings_outreach::segments;
use tidings_sql::DatabaseError;
use tidings_testbed::{Bed, each_store};

use super::segments::put;
use crate::world::World;

each_store!(
    nothing_waits_between_what_somebody_did_and_the_mail_that_follows,
    workers_bring_somebody_in_while_the_clock_stands_still,
);

/// If a wake-up is lost or something waits for the clock, the test must end.
const PATIENCE: Duration = Duration::from_secs(40);

/// Whoever spends enough is in a segment, and gets a mail because of it.
async fn begun(bed: &Bed) -> World<'_> {
    let world = World::new(bed).await;
    let definition = "id: big-spenders
transactional: true
trigger:
  event: segment.entered
  filter: [{ path: $.segment, equals: spenders }]
steps:
  - send: a
";
    world.define(definition).await;
    put(&world, "spenders", json!({ "feature": "monetary_total", "at_least": 100 })).await;
    world
}

/// Those that the product has on each queue on the way.
async fn handlers(world: &World<'_>) -> Vec<(&'static Queue, Arc<dyn Handler>)> {
    let access = || world.bed.access.clone();
    let events = crate::events::Worker::new(world.tools.clone());
    vec![
        (&queues::LEAD_INGESTION, ingestion::handler(access())),
        (&queues::MEMORY_PROCESSING, remembered::handler(access())),
        (&queues::FEATURE_PROCESSING, features::handler(access())),
        (&queues::SEGMENT_PROCESSING, segments::handler(access())),
        (&queues::SEQUENCE_EVENTS, events.handler()),
        (&queues::SEQUENCE_STEPS, world.steps()),
        (&queues::SEQUENCE_EMAIL, world.mail().await),
    ]
}

/// As somebody outside tells it.
async fn spends_enough(world: &World<'_>) {
    let cx = world.cx().await;
    let event = NewEvent {
        event_type: "purchase_completed".to_owned(),
        identities: vec![Identity::new("email", "ada@example.org").unwrap()],
        source: Some("shop".to_owned()),
        source_type: None,
        external_event_id: Some("order-1".to_owned()),
        occurred_at: None,
        object_id: None,
        object_id_ref: None,
        payload: json!({ "amount": "120.00", "currency": "EUR" }).as_object().cloned(),
        raw_payload: None,
    };
    ingestion::accept(&cx, vec![event.told(&cx)]).await.unwrap();
}

async fn check_is_in(world: &World<'_>) {
    let cx = world.cx().await;
    let verified = segments::verify(&cx, "spenders".parse().unwrap()).await.unwrap();
    assert!(verified.is_right() && verified.members == 1, "{verified:?}");
    assert_eq!(world.outbox(), ["ada@example.org a"]);
}

/// What is promised is due now, neither delayed nor as a timer.
async fn check_nothing_waits(world: &World<'_>, after: &Queue) {
    let now = world.bed.access.now().as_millisecond();
    let look = world.bed.access.database().read(move |tx| {
        let sql = format!(
            "SELECT queue, body FROM queue_messages WHERE visible_at > {now} UNION ALL SELECT queue, body FROM timers"
        );
        let rows = tx.query(&sql, &[])?;
        let told = |row: &tidings_sql::Row| Ok(format!("{}: {}", row.text(0)?, row.text(1)?));
        rows.iter().map(told).collect::<Result<Vec<_>, DatabaseError>>()
    });
    let waits = look.await.unwrap();
    assert!(waits.is_empty(), "after {}: {waits:?}", after.name);
}

async fn nothing_waits_between_what_somebody_did_and_the_mail_that_follows(bed: &Bed) {
    let world = begun(bed).await;
    let (handlers, began) = (handlers(&world).await, bed.access.now());
    spends_enough(&world).await;
    check_nothing_waits(&world, &queues::LEAD_INGESTION).await;
    loop {
        let mut did = 0;
        for (queue, handler) in &handlers {
            did += bed.work(queue, Arc::clone(handler)).await;
            check_nothing_waits(&world, queue).await;
        }
        if did == 0 {
            break;
        }
    }
    check_is_in(&world).await;
    let types = vec!["segment.entered".to_owned()];
    let listing = Listing { types, limit: 10, ..Listing::default() };
    let whom = Whom::Email("ada@example.org".parse().unwrap());
    let page = timeline(&world.cx().await, whom, &listing).await.unwrap().unwrap();
    assert_eq!(page.events.len(), 1, "and it is on his timeline");
    assert_eq!(bed.access.now(), began);
}

/// The workers as a server runs them, all at once. Each is woken by the commit of the one before.
async fn workers_bring_somebody_in_while_the_clock_stands_still(bed: &Bed) {
    let world = begun(bed).await;
    let (stop, stopped) = Stop::new();
    let worker = |(queue, handler): (&'static Queue, Arc<dyn Handler>)| QueueWorker {
        queue,
        handler,
        engine: bed.queues.clone(),
        clock: Arc::clone(&bed.clock) as Arc<dyn Clock>,
        settings: Settings { concurrency: 2, batch: 2, ..Settings::default() },
    };
    let workers = handlers(&world).await.into_iter().map(worker);
    let working = join_all(workers.map(|worker| worker.run(stopped.clone())));
    let story = async {
        spends_enough(&world).await;
        tokio::time::timeout(PATIENCE, world.provider.took.notified()).await.unwrap();
        stop.send_replace(true);
    };
    tokio::join!(working, story);
    check_is_in(&world).await;
}
