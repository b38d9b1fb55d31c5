//! No more is claimed than the provider has places for, however many batches are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures_util::future::{join_all, select};
use tidings_jobs::Outcome;
use tidings_kernel::{Accepted, Mail, SendError, Sender};
use tidings_testbed::{Bed, each_store};

use super::{World, worker_over};
use crate::campaigns::tallies::Kind as Tally;

each_store!(
    what_waits_for_a_place_at_the_provider_is_not_claimed,
    batches_that_share_few_places_all_come_to_their_end,
);

/// So many messages it carries at once.
const CARRIED: usize = 2;
/// So many can be claimed, then.
const PLACES: i64 = 6;

/// A provider that carries few messages at once, and does not answer while it is stuck.
#[derive(Default)]
struct Narrow {
    is_stuck: AtomicBool,
}

#[async_trait]
impl Sender for Narrow {
    fn name(&self) -> &'static str {
        "test"
    }

    fn at_once(&self) -> Option<usize> {
        Some(CARRIED)
    }

    async fn send(&self, _: &Mail) -> Result<Accepted, SendError> {
        if self.is_stuck.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        tokio::task::yield_now().await;
        Ok(Accepted::by_all(None))
    }
}

async fn what_waits_for_a_place_at_the_provider_is_not_claimed(bed: &Bed) {
    let world = World::new(bed, 40).await;
    let sending = world.campaign(5).await;
    let provider = Arc::new(Narrow { is_stuck: AtomicBool::new(true) });
    let dies = worker_over(bed.access.clone(), provider.clone(), "node-1").await.handler();
    let deliveries: Vec<_> = sending.messages.iter().map(|body| super::delivery(body)).collect();
    let working = join_all(deliveries.iter().map(|delivery| dies.handle(delivery)));
    let claimed = async || sending.statuses().await.get("claimed").copied().unwrap_or(0);
    let looking = async {
        while claimed().await < PLACES {}
        for _ in 0..300 {
            assert_eq!(claimed().await, PLACES);
        }
    };
    // It dies with all of its batches.
    drop(select(Box::pin(working), Box::pin(looking)).await);
    bed.clock.advance(jiff::Span::new().minutes(3));
    provider.is_stuck.store(false, Ordering::SeqCst);
    let lives = worker_over(bed.access.clone(), provider.clone(), "node-2").await.handler();
    for delivery in &deliveries {
        assert_eq!(lives.handle(delivery).await, Outcome::Done);
    }
    let tallies = sending.tallies().await;
    assert_eq!(tallies.get(Tally::Outcome, "uncertain"), PLACES);
    assert_eq!(tallies.get(Tally::Outcome, "sent"), 40 - PLACES);
}

async fn batches_that_share_few_places_all_come_to_their_end(bed: &Bed) {
    let world = World::new(bed, 40).await;
    let sending = world.campaign(5).await;
    let provider = Arc::new(Narrow::default());
    let handler = worker_over(bed.access.clone(), provider, "node-1").await.handler();
    let deliveries: Vec<_> = sending.messages.iter().map(|body| super::delivery(body)).collect();
    let working = join_all(deliveries.iter().map(|delivery| handler.handle(delivery)));
    assert_eq!(working.await, vec![Outcome::Done; deliveries.len()]);
    assert_eq!(sending.tallies().await.get(Tally::Outcome, "sent"), 40);
}
