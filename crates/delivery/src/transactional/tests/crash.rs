//! The worker ends at every place where it can, and the message comes again.

use std::pin::pin;
use std::task::Poll;

use tidings_access::Limit;
use tidings_jobs::Outcome;
use tidings_testbed::{Bed, each_store, until_turn};

use super::{Place, World, delivery};
use crate::transactional::{Status, uncertain};

each_store!(
    wherever_a_worker_ends_nothing_is_sent_twice_and_nothing_is_lost,
    a_worker_that_ends_with_the_provider_leaves_it_uncertain,
    a_claim_that_its_worker_left_is_uncertain_when_it_is_over,
);

async fn wherever_a_worker_ends_nothing_is_sent_twice_and_nothing_is_lost(bed: &Bed) {
    let world = World::new(bed).await;
    let mut logged = 0;
    // A worker waits some ten times; how often differs a little from run to run.
    for turns in 0..30 {
        let email = format!("ada{turns}@example.org");
        let id = world.accepted(&email).await;
        let envelope = world.envelope(id).await;
        let (handler, first) = (world.worker.handler(), delivery(&envelope));
        let ended = until_turn(handler.handle(&first), turns).await;
        // The message comes again, as often as it must, and all the while others come by.
        let mut deliveries = 0;
        while world.handle(&envelope).await != Outcome::Done {
            deliveries += 1;
            assert!(deliveries < 10, "it comes to no end after {turns} turns");
            bed.clock.advance(jiff::Span::new().seconds(70));
        }
        let taken = world.provider.taken_of(id);
        let mut log = world.log(&email).await.len();
        match world.status(id).await {
            Status::Sent => {
                if log == 0 {
                    // The answer was on its way to the database when its worker ended, and came after all. With it
                    // came a message for whoever writes the log.
                    assert_eq!(world.handle(&envelope).await, Outcome::Done);
                    log = world.log(&email).await.len();
                }
                assert_eq!((taken, log), (1, 1), "after {turns} turns");
            }
            Status::Uncertain => {
                assert!(taken <= 1, "after {turns} turns");
                assert_eq!(log, 0, "after {turns} turns");
                let listed = uncertain(&bed.cx().await, None, Limit::MAX).await.unwrap();
                assert!(listed.items.iter().any(|message| message.id == id), "after {turns} turns");
            }
            other => panic!("it is {other} after {turns} turns"),
        }
        logged += log as i64;
        assert_eq!(world.sends().await, logged, "after {turns} turns");
        assert!(matches!(ended, None | Some(Outcome::Done)), "{ended:?}");
    }
}

/// Whether the provider had taken it or not, nobody knows, and it is not sent again.
async fn a_worker_that_ends_with_the_provider_leaves_it_uncertain(bed: &Bed) {
    let world = World::new(bed).await;
    for (place, taken) in [(Place::BeforeTaking, 0), (Place::AfterTaking, 1)] {
        let id = world.accepted("ada@example.org").await;
        let envelope = world.envelope(id).await;
        world.provider.hang(place);
        let (handler, first) = (world.worker.handler(), delivery(&envelope));
        let mut working = pin!(handler.handle(&first));
        std::future::poll_fn(|context| {
            assert!(working.as_mut().poll(context).is_pending());
            if world.provider.hangs() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        world.provider.go_on();
        bed.clock.advance(jiff::Span::new().minutes(3));
        assert_eq!(world.handle(&envelope).await, Outcome::Done);
        assert_eq!(world.status(id).await, Status::Uncertain);
        assert_eq!(world.provider.taken_of(id), taken);
        assert!(world.log("ada@example.org").await.is_empty());
    }
}

async fn a_claim_that_its_worker_left_is_uncertain_when_it_is_over(bed: &Bed) {
    let world = World::new(bed).await;
    let id = world.accepted("ada@example.org").await;
    world
        .run(
            "UPDATE transactional_messages SET status = 'claimed', attempts = 1, claimed_by = 'n',
              claimed_until = 1782907320000, handed_at = 1782907200000",
        )
        .await;
    let envelope = world.envelope(id).await;
    let list = async || uncertain(&bed.cx().await, None, Limit::MAX).await.unwrap().items.len();
    assert!(matches!(world.handle(&envelope).await, Outcome::Wait { .. }));
    assert_eq!(list().await, 0);
    bed.clock.advance(jiff::Span::new().minutes(2));
    assert_eq!(list().await, 1, "even if nobody comes by");
    assert_eq!(world.handle(&envelope).await, Outcome::Done);
    assert_eq!(world.status(id).await, Status::Uncertain);
    assert_eq!(list().await, 1);
    assert!(world.provider.taken().is_empty());
}
