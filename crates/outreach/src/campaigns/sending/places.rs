//! The places at the provider: how many recipients this process may have claimed at once, over all its batches.
//!
//! What is claimed and still waits for a connection would be uncertain after a crash, although it never left. So a batch
//! takes places before it claims anybody, and keeps them until the answers are written down.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

pub(super) struct Places {
    /// How many of a batch are handed over at once.
    pub(super) handful: usize,
    /// A provider that carries any number needs none.
    places: Option<Semaphore>,
}

/// The right to have so many claimed.
pub(super) struct Held<'a> {
    _places: Option<SemaphorePermit<'a>>,
}

impl Places {
    /// For handfuls of this size, over a provider that carries so many messages at once. There are twice as many places,
    /// so that the next are claimed while it has those before; and a handful besides, whose answers are being written down.
    pub(super) fn new(at_once: usize, carried: Option<usize>) -> Self {
        let handful = at_once.min(carried.unwrap_or(at_once)).max(1);
        let places = carried.map(|carried| Semaphore::new(2 * carried.max(1) + handful));
        Self { handful, places }
    }

    /// Takes the places for so many of a handful, or none if that takes too long. Whoever calls it has none yet: two who
    /// each held what the other waits for would wait for ever.
    pub(super) async fn take(&self, count: usize, longest: Duration) -> Option<Held<'_>> {
        let Some(places) = &self.places else { return Some(Held { _places: None }) };
        let count = u32::try_from(count.min(self.handful)).unwrap_or(u32::MAX);
        let taken = tokio::time::timeout(longest, places.acquire_many(count)).await.ok()?;
        // They are closed by nobody.
        Some(Held { _places: taken.ok() })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Places;

    const LONGEST: Duration = Duration::from_secs(2);

    /// How many batches of a hundred can take their places, until one waits in vain.
    async fn check(at_once: usize, carried: usize, handful: usize, batches: usize) {
        let places = Places::new(at_once, Some(carried));
        assert_eq!(places.handful, handful, "{at_once} of {carried}");
        let mut held = Vec::new();
        while let Some(taken) = places.take(100, LONGEST).await {
            held.push(taken);
        }
        assert_eq!(held.len(), batches, "{at_once} of {carried}");
        held.pop();
        assert!(places.take(100, LONGEST).await.is_some(), "{at_once} of {carried}");
    }

    #[tokio::test(start_paused = true)]
    async fn some_more_are_claimed_than_the_provider_carries() {
        check(16, 8, 8, 3).await;
        check(16, 16, 16, 3).await;
        check(16, 100, 16, 13).await;
        check(1, 8, 1, 17).await;
        check(16, 1, 1, 3).await;
    }

    #[tokio::test]
    async fn a_provider_that_carries_any_number_makes_nobody_wait() {
        let places = Places::new(16, None);
        assert_eq!(places.handful, 16);
        let held: Vec<_> =
            futures_util::future::join_all((0..1_000).map(|_| places.take(16, LONGEST))).await;
        assert!(held.iter().all(Option::is_some));
    }
}
