//! Many at once: whoever marks, publishes, reads all and counts out at the same time, everything is counted once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use jiff::ToSpan as _;
use tidings_testbed::{Bed, each_store, scattered};

use super::world::{World, post, reader};
use crate::Inbox;
use crate::balance::Balance;
use crate::keys;
use crate::marks::{Mark, ReadAll, mark, read_all};
use crate::publish::To;
use crate::read::counts;

each_store!(
    fifty_that_mark_the_same_count_it_once,
    marks_publishes_and_read_alls_at_once_are_right,
    two_that_load_the_same_index_at_once_get_the_same,
    first_visits_at_once_are_one,
    a_read_all_knows_what_was_marked_while_it_looked,
);

async fn fifty_that_mark_the_same_count_it_once(bed: &Bed) {
    let world = World::new(bed);
    let (own, public) = (world.publish("ada", "news").await, world.publish("", "news").await);
    let other = world.publish("ada", "news").await;
    let nodes = [World::new(bed), World::new(bed)];
    for what in [Mark::Read, Mark::Unread, Mark::Archive] {
        let cx = world.cx().await;
        let marks = (0..50).map(|number| {
            let (cx, node, ids) = (cx.clone(), &nodes[number % 2], [own.clone(), public.clone()]);
            async move { mark(&cx, &node.inbox, &reader("ada"), what, &ids).await.unwrap() }
        });
        let receipts = join_all(marks).await;
        assert!(receipts.iter().all(|told| *told == receipts[0]), "{receipts:?}");
        let unread = if what == Mark::Unread { 3 } else { 1 };
        assert_eq!(world.told("ada").await, format!("3 {unread}; news 3 {unread}"));
        world.verify().await;
        bed.clock.advance(1.second());
    }
    assert_eq!(world.mark("ada", Mark::Read, &[&other]).await.len(), 1);
}

async fn marks_publishes_and_read_alls_at_once_are_right(bed: &Bed) {
    let world = World::new(bed);
    let mut ids = Vec::new();
    for number in 0..24 {
        let ttl = if number % 3 == 0 { "10m" } else { "30d" };
        ids.push(world.publish_for(["ada", ""][number % 2], ["news", ""][number % 2], ttl).await);
    }
    world.counts("ada").await;
    bed.clock.advance(11.minutes());
    world.sweep().await;
    let cx = world.cx().await;
    let work = (0..36).map(|number: usize| {
        let (cx, world, ids) = (cx.clone(), &world, &ids);
        async move {
            let (inbox, ada) = (&world.inbox, reader("ada"));
            match number % 6 {
                0 => {
                    let to = To::Users(vec!["ada".to_owned()]);
                    drop(inbox.publish(&cx, &ada.inbox, post(to)).await.unwrap());
                }
                1 => drop(inbox.publish(&cx, &ada.inbox, post(To::Everyone)).await.unwrap()),
                2 => {
                    drop(mark(&cx, inbox, &ada, Mark::Read, &ids[number % 7..][..9]).await.unwrap())
                }
                3 => drop(
                    mark(&cx, inbox, &ada, Mark::Unread, &ids[number % 9..][..9]).await.unwrap(),
                ),
                4 => {
                    let category =
                        if number.is_multiple_of(4) { "news".parse().ok() } else { None };
                    let up_to = (number % 3 == 1).then(|| ids[number % 24].clone());
                    let what = ReadAll { category, up_to };
                    drop(read_all(&cx, inbox, &ada, what).await.unwrap());
                }
                _ => {
                    let redacted = &ids[number % 20];
                    drop(inbox.redact(&cx, &ada.inbox, redacted).await);
                    world.count_out().await;
                }
            }
        }
    });
    join_all(work).await;
    world.expire().await;
    world.verify().await;
    let unread = crate::read::Listing { limit: 100, unread_only: true, ..Default::default() };
    let seen = world.ids("ada", unread).await.len();
    assert_eq!(world.counts("ada").await.unread, seen as i64);
    world.verify().await;
}

async fn two_that_load_the_same_index_at_once_get_the_same(bed: &Bed) {
    let publisher = World::new(bed);
    for number in 0..40 {
        publisher.publish("", ["news", ""][number % 2]).await;
    }
    let world = World::new(bed);
    let cx = world.cx().await;
    let looks = (0..20).map(|number| {
        let (cx, inbox) = (cx.clone(), Arc::clone(&world.inbox));
        async move {
            let reader = reader(&format!("user{number}"));
            counts(&cx, &inbox, &reader).await.unwrap().total
        }
    });
    assert_eq!(join_all(looks).await, [40; 20]);
    // A look that began before the last message and ends after it is not what others get.
    let (told, _) = tokio::join!(world.counts("ada"), publisher.publish("", ""));
    assert!((40..=41).contains(&told.total));
    assert_eq!(world.counts("ada").await.total, 41);
}

async fn first_visits_at_once_are_one(bed: &Bed) {
    let world = World::new(bed);
    world.publish("", "").await;
    let cx = world.cx().await;
    let looks = (0..20).map(|_| {
        let (cx, inbox) = (cx.clone(), Arc::clone(&world.inbox));
        async move { counts(&cx, &inbox, &reader("ada")).await.unwrap() }
    });
    let told = join_all(looks).await;
    assert!(told.iter().all(|counts| *counts == told[0]), "{told:?}");
    world.verify().await;
}

/// Where a batch is not read at one moment: everyone's counts, then a message comes and is read on another device, then the user's. Another
/// request on the same node may have met his new counts just then.
async fn a_read_all_knows_what_was_marked_while_it_looked(bed: &Bed) {
    let (world, node) = (World::new(bed), Arc::new(Inbox::new()));
    world.publish("", "news").await;
    for (is_met, total) in [(false, 2), (true, 3)] {
        counts(&world.cx().await, &node, &reader("ada")).await.unwrap();
        let (is_first, elsewhere) = (Arc::new(AtomicBool::new(true)), Arc::clone(&world.inbox));
        let (cx, here) = (world.cx().await, Arc::clone(&node));
        let happens = move || {
            let (is_first, cx) = (Arc::clone(&is_first), cx.clone());
            let (elsewhere, here) = (Arc::clone(&elsewhere), Arc::clone(&here));
            let happens = async move {
                if !is_first.swap(false, SeqCst) {
                    return;
                }
                let ada = reader("ada");
                let came = elsewhere.publish(&cx, &ada.inbox, post(To::Everyone)).await.unwrap();
                mark(&cx, &elsewhere, &ada, Mark::Read, &[came.id]).await.unwrap();
                if is_met {
                    let partition = keys::user(cx.workspace(), &ada.inbox, &ada.uid);
                    let balance = Balance::load(&cx, &partition).await.unwrap();
                    let balance = Arc::new(Balance { met: total, ..balance });
                    here.balances.keep(cx.workspace(), &ada, &balance);
                }
            };
            happens.boxed()
        };
        let scattered = scattered(bed, &world.cx().await, 0, happens).await;
        read_all(&scattered, &node, &reader("ada"), ReadAll::default()).await.unwrap();
        world.verify().await;
        assert_eq!(world.told("ada").await, format!("{total} 0; news 1 0"));
        bed.clock.advance(1.second());
    }
}
