//! What one event costs, and a day: the same however much somebody has done before.

use jiff::{SignedDuration, ToSpan as _};
use serde_json::json;
use tidings_access::{Actor, workspaces};
use tidings_jobs::contracts::{Contract as _, LeadUpkeep, UpkeepTask};
use tidings_kernel::{Clock as _, Expect, MAX_TXN_WRITES, Outgoing, Txn, queues, tables};
use tidings_testbed::{Bed, Cost, metered_access};

use super::world::{What, World, what};
use crate::features::{handler, rebuild};
use crate::ingestion::ingest;
use crate::ingestion::tests::told;
use crate::memory;

const ADA: &str = "ada@x.org";

/// Every day of the last year something of each kind, or of so many at least.
fn before(number: usize, of: usize, now: jiff::Timestamp) -> What {
    let apart = SignedDuration::from_secs(365 * 86_400 / of as i64);
    let at = now - SignedDuration::from_hours(24 * 366) + apart * i32::try_from(number).unwrap();
    let (kind, payload) = match number % 5 {
        0 => ("product_viewed", json!({"product": "tea"})),
        1 => ("email.opened", json!({"kind": "campaign"})),
        2 => ("purchase_completed", json!({"amount": "5.00", "currency": "EUR", "product": "tea"})),
        3 => ("email.clicked", json!({"kind": "campaign", "product": "tea"})),
        _ => ("message_received", json!({"channel": "whatsapp", "sentiment": 0.5})),
    };
    what(format!("before-{number}"), kind, &at.to_string(), payload)
}

/// Somebody to whom so much has happened, and all that follows from it.
async fn somebody(world: &World<'_>, email: &str, events: usize) {
    let cx = world.cx().await;
    let partition = world.partition(email, cx.now()).await;
    let items = cx.items().await.unwrap();
    let mut txn = Txn::new();
    for number in 0..events {
        let stored = world.event(&partition, email, &before(number, events, cx.now()));
        txn = txn.put(&tables::EVENT, stored.to_item(), Expect::Absent);
        if txn.writes.len() == MAX_TXN_WRITES || number + 1 == events {
            items.transact(std::mem::take(&mut txn)).await.unwrap();
        }
    }
    rebuild(&cx, &partition).await.unwrap();
    memory::rebuild(&cx, &partition).await.unwrap();
}

/// What one event of each kind costs, from coming in to features and memory, and what the next day does.
async fn costs(world: &World<'_>) -> [Cost; 2] {
    let bed = world.bed;
    let (access, meter) = metered_access(bed, &world.cx().await);
    let acme = workspaces::find(&access, "acme".parse().unwrap()).await.unwrap();
    let cx = access.inside(&acme, Actor::Operator);
    for number in 0..5 {
        let like = before(number, 5, cx.now());
        let event = tidings_jobs::contracts::LeadIngestion {
            event_type: like.kind,
            payload: like.payload.as_object().cloned(),
            ..told(&cx, &number.to_string(), cx.now(), &[&format!("email={ADA}")])
        };
        ingest(&cx, event).await.unwrap();
        bed.work(&queues::FEATURE_PROCESSING, handler(access.clone())).await;
        bed.work(&queues::MEMORY_PROCESSING, memory::handler(access.clone())).await;
    }
    let events = meter.cost();
    let (access, meter) = metered_access(bed, &world.cx().await);
    let at = bed.clock.now() + 24.hours();
    bed.clock.set(at);
    let message = LeadUpkeep { task: UpkeepTask::Daily, at, workspace: None, after: None };
    world.send(Outgoing::new(&queues::FEATURE_PROCESSING, message.to_body().unwrap())).await;
    bed.work(&queues::FEATURE_PROCESSING, handler(access)).await;
    [events, meter.cost()]
}

async fn check(beds: [Bed; 3]) {
    let mut all = Vec::new();
    for (bed, events) in beds.iter().zip([10, 1_000, 5_000]) {
        let world = World::new(bed);
        somebody(&world, ADA, events).await;
        all.push(costs(&world).await);
    }
    let [few, many, very_many] = all.as_slice() else { unreachable!("there are three") };
    for (place, [less, more, most]) in
        [[few[0], many[0], very_many[0]], [few[1], many[1], very_many[1]]].into_iter().enumerate()
    {
        for one in [more, most] {
            assert_eq!((one.calls, one.items, one.writes), (less.calls, less.items, less.writes));
        }
        // Once every day of the windows has something, and each memory rests on 50 events, nothing grows any more; and that is
        // little.
        for (more, most) in [(more.bytes, most.bytes), (more.bytes_written, most.bytes_written)] {
            assert!(most * 100 <= more * 120, "{more} and {most} bytes");
            assert!(most < [50_000, 3_500][place], "{most} bytes");
        }
    }
}

#[tokio::test]
async fn on_sqlite_an_event_and_a_day_cost_the_same_however_long_the_history_is() {
    check([Bed::memory().await, Bed::memory().await, Bed::memory().await]).await;
}

#[tokio::test]
async fn on_postgres_an_event_and_a_day_cost_the_same_however_long_the_history_is() {
    check([Bed::postgres().await, Bed::postgres().await, Bed::postgres().await]).await;
}
