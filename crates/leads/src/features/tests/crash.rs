//! The process dies at every call of the store, before it and after it, and whoever comes then goes on.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use jiff::ToSpan as _;
use serde_json::json;
use tidings_access::Access;
use tidings_jobs::contracts::{Contract as _, LeadUpkeep, UpkeepTask};
use tidings_jobs::{Settings, Worker};
use tidings_kernel::{Clock, Outgoing, queues, tables};
use tidings_testbed::{Bed, dying, dying_access, each_store, interrupted};

use super::world::{World, what};
use crate::features::{Rebuilt, handler, progress, rebuild, store, take};

each_store!(
    an_event_counts_once_whoever_dies,
    a_rebuild_that_dies_is_taken_over,
    a_rebuild_that_takes_longer_than_its_lease_is_made_once,
    a_day_that_dies_goes_on,
    events_wait_while_everything_is_counted_anew,
);

async fn an_event_counts_once_whoever_dies(bed: &Bed) {
    let world = World::new(bed);
    let mut count = 0;
    for after in [false, true] {
        for place in 0.. {
            assert!(place < 20, "it comes to an end");
            count += 1;
            let happening = what(count, "email.opened", "2026-06-30T10:00:00Z", json!({}));
            let message = world.store("ada@x.org", &happening).await;
            let cx = dying(bed, &world.cx().await, place, after).await;
            let died = take(&cx, &message).await.is_err();
            world.tell(&message).await;
            world.work().await;
            assert_eq!(world.told("ada@x.org", "opens_30d").await, count.to_string());
            if !died {
                break;
            }
        }
    }
}

/// Some events were counted, some were not, and one comes in after the death.
async fn a_rebuild_that_dies_is_taken_over(bed: &Bed) {
    let world = World::new(bed);
    let mut count = 0;
    let next = |count: &mut i32| {
        *count += 1;
        what(*count, "email.opened", "2026-06-30T10:00:00Z", json!({}))
    };
    for _ in 0..3 {
        world.happens("ada@x.org", &next(&mut count)).await;
    }
    world.work().await;
    let id = world.own("ada@x.org").await;
    for after in [false, true] {
        for place in 0.. {
            assert!(place < 40, "it comes to an end");
            let waiting = world.store("ada@x.org", &next(&mut count)).await;
            let cx = dying(bed, &world.cx().await, place, after).await;
            let died = rebuild(&cx, &id).await.is_err();
            world.happens("ada@x.org", &next(&mut count)).await;
            world.tell(&waiting).await;
            // Nobody takes over before the time of the dead is up.
            bed.advance(2).await;
            world.work().await;
            assert_eq!(world.told("ada@x.org", "opens_30d").await, count.to_string());
            let scratch = world.as_of("ada@x.org", bed.clock.now()).await;
            assert_eq!(world.features("ada@x.org").await.values, scratch.values);
            if !died {
                break;
            }
        }
    }
}

/// A quarter of a minute passes at every call of the store, and somebody else tries each time.
async fn a_rebuild_that_takes_longer_than_its_lease_is_made_once(bed: &Bed) {
    const EVENTS: i32 = 200;
    let world = World::new(bed);
    for number in 0..EVENTS {
        let opened = what(number, "email.opened", "2026-06-30T10:00:00Z", json!({}));
        world.store("ada@x.org", &opened).await;
    }
    let (began, id) = (bed.clock.now(), world.own("ada@x.org").await);
    let (access, clock, whose) = (bed.access.clone(), Arc::clone(&bed.clock), id.clone());
    let others = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&others);
    let happens = move || -> BoxFuture<'static, ()> {
        let (access, clock, whose) = (access.clone(), Arc::clone(&clock), whose.clone());
        let told = Arc::clone(&told);
        Box::pin(async move {
            clock.advance(14.seconds());
            let cx = access.working_in(&"acme".parse().unwrap()).await.unwrap().unwrap();
            let item = cx.items().await.unwrap();
            let item = item.get(&tables::FEATURE, &store::key(&whose)).await.unwrap();
            if item.is_some_and(|item| item.get("rebuilding_until").is_some()) {
                let other = rebuild(&cx, &whose).await.unwrap();
                told.lock().unwrap().push(other);
            }
        })
    };
    let cx = interrupted(bed, &world.cx().await, happens).await;
    assert_eq!(rebuild(&cx, &id).await.unwrap(), Rebuilt::Done);
    let others = others.lock().unwrap().clone();
    assert!(others.len() >= 5 && others.iter().all(|other| *other == Rebuilt::Busy), "{others:?}");
    assert!(bed.clock.now() > began + 90.seconds(), "it took longer than a lease");
    assert_eq!(world.told("ada@x.org", "opens_30d").await, EVENTS.to_string());
    let once = world.features("ada@x.org").await.values;
    assert_eq!(once, world.as_of("ada@x.org", began).await.values);
    assert_eq!(rebuild(&world.cx().await, &id).await.unwrap(), Rebuilt::Done);
    assert_eq!(world.told("ada@x.org", "opens_30d").await, EVENTS.to_string());
}

async fn events_wait_while_everything_is_counted_anew(bed: &Bed) {
    let world = World::new(bed);
    let opened = |id| what(id, "email.opened", "2026-06-30T10:00:00Z", json!({}));
    world.happens("ada@x.org", &opened(1)).await;
    world.work().await;
    let id = world.own("ada@x.org").await;
    // It dies after it has said that it counts anew.
    let cx = dying(bed, &world.cx().await, 2, false).await;
    assert!(rebuild(&cx, &id).await.is_err());
    assert_eq!(rebuild(&world.cx().await, &id).await.unwrap(), Rebuilt::Busy);
    world.happens("ada@x.org", &opened(2)).await;
    world.work().await;
    assert_eq!(world.told("ada@x.org", "opens_30d").await, "1");
    bed.advance(2).await;
    world.work().await;
    assert_eq!(world.told("ada@x.org", "opens_30d").await, "2");
}

/// 45 people are three pages. Whoever dies, in the end each has the numbers of the day, and each page was counted once.
async fn a_day_that_dies_goes_on(bed: &Bed) {
    const PEOPLE: i32 = 45;
    let world = World::new(bed);
    for number in 0..PEOPLE {
        let opened = what(number, "email.opened", "2026-06-30T10:00:00Z", json!({}));
        world.happens(&format!("u{number}@x.org"), &opened).await;
    }
    world.work().await;
    for after in [false, true] {
        for place in 0.. {
            assert!(place < 60, "it comes to an end");
            bed.clock.advance(24.hours());
            let at = bed.clock.now();
            let message = LeadUpkeep { task: UpkeepTask::Daily, at, workspace: None, after: None };
            let body = message.to_body().unwrap();
            world.send(Outgoing::new(&queues::FEATURE_PROCESSING, body)).await;
            let cx = world.cx().await;
            let died = work_until_death(bed, dying_access(bed, &cx, place, after)).await;
            bed.clock.advance(10.minutes());
            world.work().await;
            let progress = progress(&world.cx().await, UpkeepTask::Daily).await.unwrap().unwrap();
            assert_eq!((progress.at, progress.done), (at, i64::from(PEOPLE)), "{place}");
            assert!(progress.finished_at.is_some());
            if !died || bed.clock.now() > "2026-09-20T00:00:00Z".parse().unwrap() {
                break;
            }
        }
        let now = bed.clock.now();
        for number in [0, 1, 19, 20, 44] {
            let email = format!("u{number}@x.org");
            assert_eq!(world.features(&email).await.values, world.as_of(&email, now).await.values);
        }
    }
}

/// Works on the queue with a store that dies once. Tells whether it did.
async fn work_until_death(bed: &Bed, access: Access) -> bool {
    let worker = Worker {
        queue: &queues::FEATURE_PROCESSING,
        handler: handler(access),
        engine: bed.queues.clone(),
        clock: Arc::clone(&bed.clock) as Arc<dyn Clock>,
        settings: Settings::default(),
    };
    worker.run_until_idle().await.unwrap();
    let depth = tidings_kernel::QueueEngine::depth(&*bed.queues, &queues::FEATURE_PROCESSING);
    depth.await.unwrap().hidden > 0
}
