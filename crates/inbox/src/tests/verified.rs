//! Counting anew while things change, where the stream is behind, and what the gauge says of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

use futures_util::FutureExt as _;
use jiff::ToSpan as _;
use metrics::{Counter, Gauge, Histogram, Key as Name, KeyName, Metadata, SharedString, Unit};
use tidings_access::Cx;
use tidings_kernel::{Key, Update, tables};
use tidings_testbed::{Bed, each_store, interrupted, scattered};

use super::world::World;
use crate::keys;
use crate::patrol::Patrol;
use crate::verify::{DRIFT_METRIC, Then, verify};

each_store!(
    what_the_stream_tells_later_is_no_drift,
    what_goes_wrong_while_it_is_put_right_is_put_right_too,
    the_gauge_says_what_is_wrong_until_it_is_right,
);

async fn spoil(cx: &Cx, sort: &str) {
    let items = cx.items().await.unwrap();
    let at = |sort: &str| Update::new(&tables::INBOX, Key::new("t#acmeU#ada#app", sort));
    items.update(at("c#*").add("rev", 1)).await.unwrap();
    items.update(at(sort).add("published", 3)).await.unwrap();
}

async fn what_the_stream_tells_later_is_no_drift(bed: &Bed) {
    let world = World::new(bed);
    for uid in ["ada", "bob", ""] {
        world.publish_for(uid, "news", "10m").await;
        world.publish(uid, "news").await;
    }
    bed.clock.advance(11.minutes());
    world.sweep().await;
    // Before it begins, and when it has found the first, the second and the third.
    let cx = scattered(bed, &world.cx().await, 4, || async {}.boxed()).await;
    let mut drifts = Vec::new();
    let verified = verify(&cx, &world.inbox, Then::Repair, &mut |drift| drifts.push(drift)).await;
    let verified = verified.unwrap();
    assert!(drifts.is_empty(), "{drifts:#?}");
    assert_eq!((verified.inboxes, verified.items, verified.drifts), (3, 3, 0));
    assert_eq!(world.told("ada").await, "2 2; news 2 2");
    world.verify().await;
}

async fn what_goes_wrong_while_it_is_put_right_is_put_right_too(bed: &Bed) {
    let world = World::new(bed);
    world.publish("ada", "news").await;
    world.publish("ada", "order").await;
    for place in 0..30 {
        let cx = world.cx().await;
        spoil(&cx, "c#*").await;
        let calls = Arc::new(AtomicUsize::new(0));
        let happens = {
            let (calls, cx) = (Arc::clone(&calls), cx.clone());
            move || {
                let (calls, cx) = (Arc::clone(&calls), cx.clone());
                let happens = async move {
                    if calls.fetch_add(1, SeqCst) == place {
                        spoil(&cx, "c#news").await;
                        spoil(&cx, "c#order").await;
                    }
                };
                happens.boxed()
            }
        };
        let repairing = interrupted(bed, &cx, happens).await;
        let verified = verify(&repairing, &world.inbox, Then::Repair, &mut |_| {}).await.unwrap();
        assert_eq!((verified.left(), verified.unsettled), (0, 0), "at call {place}");
        assert!(verified.repaired <= verified.drifts, "at call {place}: {verified:?}");
        let is_over = calls.load(SeqCst) <= place;
        verify(&cx, &world.inbox, Then::Repair, &mut |_| {}).await.unwrap();
        world.verify().await;
        if is_over {
            return;
        }
    }
    panic!("it comes to an end");
}

/// Keeps what the gauge of the drift says.
struct Gauged(Arc<AtomicU64>);

impl metrics::Recorder for Gauged {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Name, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, name: &Name, _: &Metadata<'_>) -> Gauge {
        let is_ours = name.name() == DRIFT_METRIC
            && name.labels().any(|label| (label.key(), label.value()) == ("workspace", "acme"));
        if is_ours { Gauge::from_arc(Arc::clone(&self.0)) } else { Gauge::noop() }
    }

    fn register_histogram(&self, _: &Name, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

async fn the_gauge_says_what_is_wrong_until_it_is_right(bed: &Bed) {
    let gauged = Arc::new(AtomicU64::new(0));
    let recorder = Gauged(Arc::clone(&gauged));
    // Tests have a thread of their own, and what tells the gauge is on it.
    let _recording = metrics::set_default_local_recorder(&recorder);
    let gauge = || f64::from_bits(gauged.load(SeqCst)) as i64;
    let world = World::new(bed);
    world.publish("ada", "news").await;
    let cx = world.cx().await;
    spoil(&cx, "c#*").await;
    spoil(&cx, "c#news").await;
    let mut patrol = Patrol::new(bed.access.clone(), Arc::clone(&world.inbox));
    patrol.round().await.unwrap();
    assert_eq!(gauge(), 2);
    verify(&cx, &world.inbox, Then::Tell, &mut |_| {}).await.unwrap();
    assert_eq!(gauge(), 2);
    verify(&cx, &world.inbox, Then::Repair, &mut |_| {}).await.unwrap();
    assert_eq!(gauge(), 0);
    // A pass that is under way in another process goes on without what it has found, and so does its gauge.
    let items = cx.items().await.unwrap();
    let place = Update::new(&tables::INBOX, keys::patrol(cx.workspace()));
    items.update(place.set("found", 1).set("before", 2)).await.unwrap();
    verify(&cx, &world.inbox, Then::Tell, &mut |_| {}).await.unwrap();
    let place = items.get(&tables::INBOX, &keys::patrol(cx.workspace())).await.unwrap().unwrap();
    assert_eq!((place.integer("found"), place.integer("before")), (Some(0), Some(0)));
}
