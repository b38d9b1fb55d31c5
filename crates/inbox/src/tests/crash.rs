//! The process dies at every call of the store, before it and after it, and whoever comes then goes on.

use jiff::ToSpan as _;
use tidings_access::Cx;
use tidings_testbed::{Bed, dying, each_store};

use super::world::{World, narrow, reader};
use crate::Inbox;
use crate::expiry::count_out;
use crate::ids::MessageId;
use crate::marks::{Mark, ReadAll, mark, read_all};
use crate::read::counts;

each_store!(
    a_mark_that_dies_is_whole_or_not_there,
    a_read_all_that_dies_is_whole_or_not_there,
    a_read_all_in_steps_that_dies_can_be_made_again,
    counting_out_that_dies_goes_on,
    a_clean_up_that_dies_goes_on,
    taking_out_that_dies_goes_on,
);

/// Lets somebody die at each call that he makes, before it and after it, until he makes fewer. `again` comes after each death, and must
/// find nothing wrong.
async fn at_every_call(
    bed: &Bed,
    attempt: impl AsyncFn(&Cx, &Inbox) -> bool,
    again: impl AsyncFn(usize),
) {
    for after in [false, true] {
        for place in 0.. {
            assert!(place < 60, "it comes to an end");
            let cx = dying(bed, &bed.cx().await, place, after).await;
            let died = !attempt(&cx, &narrow()).await;
            again(usize::try_from(place).unwrap()).await;
            if !died {
                break;
            }
        }
    }
}

async fn a_mark_that_dies_is_whole_or_not_there(bed: &Bed) {
    let world = World::new(bed);
    let (own, public) = (world.publish("ada", "news").await, world.publish("", "").await);
    let ids = [own, public];
    at_every_call(
        bed,
        async |cx, inbox| mark(cx, inbox, &reader("ada"), Mark::Read, &ids).await.is_ok(),
        async |_| {
            let unread = world.counts("ada").await.unread;
            assert!([0, 2].contains(&unread), "{unread}");
            world.verify().await;
            world.mark("ada", Mark::Read, &[&ids[0], &ids[1]]).await;
            assert_eq!(world.told("ada").await, "2 0; news 1 0");
            world.mark("ada", Mark::Unread, &[&ids[0], &ids[1]]).await;
            assert_eq!(world.told("ada").await, "2 2; news 1 1");
        },
    )
    .await;
}

async fn a_read_all_that_dies_is_whole_or_not_there(bed: &Bed) {
    let world = World::new(bed);
    let first = world.publish("ada", "news").await;
    let ids = [first, world.publish("", "").await, world.publish("ada", "news").await];
    let what = || ReadAll { category: None, up_to: Some(ids[1].clone()) };
    at_every_call(
        bed,
        async |cx, inbox| read_all(cx, inbox, &reader("ada"), what()).await.is_ok(),
        async |_| {
            let unread = world.counts("ada").await.unread;
            assert!([1, 3].contains(&unread), "{unread}");
            world.verify().await;
            world.read_all("ada", "", None).await;
            assert_eq!(world.told("ada").await, "3 0; news 2 0");
            world.mark("ada", Mark::Unread, &ids.iter().collect::<Vec<_>>()).await;
            assert_eq!(world.told("ada").await, "3 3; news 2 2");
            world.verify().await;
        },
    )
    .await;
}

async fn a_read_all_in_steps_that_dies_can_be_made_again(bed: &Bed) {
    let world = World::new(bed);
    let first = world.publish("ada", "").await;
    let mut newer: Vec<MessageId> = Vec::new();
    for number in 0..110 {
        newer.push(world.publish(if number % 10 == 0 { "" } else { "ada" }, "").await);
    }
    let what = || ReadAll { category: None, up_to: Some(first.clone()) };
    at_every_call(
        bed,
        async |cx, inbox| read_all(cx, inbox, &reader("ada"), what()).await.is_ok(),
        async |place| {
            let unread = world.counts("ada").await.unread;
            assert!([110, 111].contains(&unread), "{unread}");
            if place % 5 == 0 {
                // A flag of a read-all that never came is in no later one's way.
                world.read_all("ada", "", None).await;
                assert_eq!(world.told("ada").await, "111 0");
                for some in newer.chunks(50) {
                    world.mark("ada", Mark::Unread, &some.iter().collect::<Vec<_>>()).await;
                }
            }
            world.verify().await;
            world.mark("ada", Mark::Unread, &[&first]).await;
            assert_eq!(world.told("ada").await, "111 111");
        },
    )
    .await;
}

async fn counting_out_that_dies_goes_on(bed: &Bed) {
    let world = World::new(bed);
    at_every_call(
        bed,
        async |cx, inbox| {
            let own = world.publish_for("ada,bob", "news", "10m").await;
            let public = world.publish_for("", "news", "10m").await;
            world.mark("ada", Mark::Read, &[&own, &public]).await;
            bed.clock.advance(11.minutes());
            world.sweep().await;
            count_out(cx, inbox).await.is_ok()
        },
        async |_| {
            world.count_out().await;
            assert_eq!(world.told("ada").await, "0 0");
            assert_eq!(world.told("bob").await, "0 0");
            world.verify().await;
        },
    )
    .await;
}

async fn a_clean_up_that_dies_goes_on(bed: &Bed) {
    let world = World::new(bed);
    at_every_call(
        bed,
        async |cx, inbox| {
            let public = world.publish("", "news").await;
            world.mark("ada", Mark::Read, &[&public]).await;
            let key = "app".parse().unwrap();
            world.inbox.redact(&world.cx().await, &key, &public).await.unwrap();
            counts(cx, inbox, &reader("ada")).await.is_ok()
        },
        async |_| {
            world.verify().await;
            assert_eq!(world.told("ada").await, "0 0");
            world.verify().await;
        },
    )
    .await;
}

/// With what is listed, and where all has to be walked over.
async fn taking_out_that_dies_goes_on(bed: &Bed) {
    let world = World::new(bed);
    for is_listed in [true, false] {
        at_every_call(
            bed,
            async |cx, inbox| {
                world.whole_second();
                for ttl in ["5s", "6s", "7s", "7s", "7s", "9s", "20s"] {
                    world.publish_for("ada", "news", ttl).await;
                }
                if is_listed {
                    bed.clock.advance(5.seconds());
                    assert_eq!(world.told("ada").await, "6 6; news 6 6");
                    world.publish_for("ada", "", "1s").await;
                }
                bed.clock.advance(if is_listed { 1.second() } else { 7.seconds() });
                counts(cx, inbox, &reader("ada")).await.is_ok()
            },
            async |_| {
                world.exact("ada").await;
                world.verify().await;
                bed.clock.advance(5.seconds());
                assert_eq!(world.exact("ada").await.total, 1);
                bed.clock.advance(20.seconds());
                assert_eq!(world.told("ada").await, "0 0");
                world.verify().await;
            },
        )
        .await;
    }
}
