//! Queues as a relay sees them: something that takes messages, and nothing else.

use std::ops::Deref;
use std::time::Duration;

use async_trait::async_trait;
use tidings_kernel::{
    DeadLetter, Delivery, Depth, Outgoing, Postponement, Queue, QueueEngine, QueueError, Receipt,
    Receive, Which,
};

/// Takes messages, in whatever way a test wants them taken.
#[async_trait]
pub trait Target: Send + Sync {
    async fn take(&self, messages: Vec<Outgoing>) -> Result<(), QueueError>;
}

/// A target as an engine of queues. Whoever does anything but send fails his test.
#[derive(Default)]
pub struct SendOnly<T>(pub T);

impl<T> Deref for SendOnly<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

const ONLY_SENDS: &str = "nothing but sending is expected here";

#[async_trait]
impl<T: Target> QueueEngine for SendOnly<T> {
    async fn send(&self, messages: Vec<Outgoing>) -> Result<(), QueueError> {
        self.0.take(messages).await
    }

    async fn receive(&self, _: &'static Queue, _: Receive) -> Result<Vec<Delivery>, QueueError> {
        unreachable!("{ONLY_SENDS}")
    }

    async fn acknowledge(&self, _: &'static Queue, _: &[Receipt]) -> Result<usize, QueueError> {
        unreachable!("{ONLY_SENDS}")
    }

    async fn postpone(&self, _: &'static Queue, _: &[Postponement]) -> Result<usize, QueueError> {
        unreachable!("{ONLY_SENDS}")
    }

    async fn defer(
        &self,
        _: &'static Queue,
        _: &Delivery,
        _: Duration,
        _: &str,
    ) -> Result<(), QueueError> {
        unreachable!("{ONLY_SENDS}")
    }

    async fn bury(&self, _: &'static Queue, _: &Delivery, _: &str) -> Result<(), QueueError> {
        unreachable!("{ONLY_SENDS}")
    }

    async fn depth(&self, _: &'static Queue) -> Result<Depth, QueueError> {
        unreachable!("{ONLY_SENDS}")
    }

    async fn dead_letters(
        &self,
        _: &'static Queue,
        _: Option<&str>,
        _: usize,
    ) -> Result<Vec<DeadLetter>, QueueError> {
        unreachable!("{ONLY_SENDS}")
    }

    async fn replay(&self, _: &'static Queue, _: Which) -> Result<u64, QueueError> {
        unreachable!("{ONLY_SENDS}")
    }

    async fn purge(&self, _: &'static Queue, _: Which) -> Result<u64, QueueError> {
        unreachable!("{ONLY_SENDS}")
    }
}
