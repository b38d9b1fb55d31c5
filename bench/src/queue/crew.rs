//! Workers on a queue, as the product runs them, over an engine that counts what was acknowledged.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use tidings_jobs::{Handler, Outcome, Settings, Stop, Worker};
use tidings_kernel::{
    DeadLetter, Delivery, Depth, Outgoing, Postponement, Queue, QueueEngine, QueueError, Receipt,
    Receive, SystemClock, Which,
};
use tidings_sql::SqlQueues;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Does nothing.
pub(crate) struct Nothing;

#[async_trait]
impl Handler for Nothing {
    async fn handle(&self, _: &Delivery) -> Outcome {
        Outcome::Done
    }
}

pub(crate) struct Crew {
    stop: watch::Sender<bool>,
    workers: JoinSet<()>,
    acknowledged: watch::Sender<usize>,
}

impl Crew {
    /// Starts so many workers on a queue.
    pub(crate) fn start(
        queues: &SqlQueues,
        queue: &'static Queue,
        handler: &Arc<dyn Handler>,
        (count, settings): (usize, Settings),
    ) -> Self {
        let (stop, stopped) = Stop::new();
        let acknowledged = watch::Sender::new(0);
        let engine: Arc<dyn QueueEngine> =
            Arc::new(Counted { queues: queues.clone(), acknowledged: acknowledged.clone() });
        let mut workers = JoinSet::new();
        for _ in 0..count {
            let worker = Worker {
                queue,
                handler: Arc::clone(handler),
                engine: Arc::clone(&engine),
                clock: Arc::new(SystemClock),
                settings: settings.clone(),
            };
            workers.spawn(worker.run(stopped.clone()));
        }
        Self { stop, workers, acknowledged }
    }

    pub(crate) fn done(&self) -> usize {
        *self.acknowledged.borrow()
    }

    /// Returns once so many jobs are handled and acknowledged.
    pub(crate) async fn until_done(&self, jobs: usize) -> anyhow::Result<()> {
        let mut acknowledged = self.acknowledged.subscribe();
        acknowledged.wait_for(|count| *count >= jobs).await.context("the crew is gone")?;
        Ok(())
    }

    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        self.workers.join_all().await;
    }
}

/// The engine itself, and how many deliveries it has acknowledged.
struct Counted {
    queues: SqlQueues,
    acknowledged: watch::Sender<usize>,
}

#[async_trait]
impl QueueEngine for Counted {
    async fn send(&self, messages: Vec<Outgoing>) -> Result<(), QueueError> {
        self.queues.send(messages).await
    }

    async fn receive(
        &self,
        queue: &'static Queue,
        request: Receive,
    ) -> Result<Vec<Delivery>, QueueError> {
        self.queues.receive(queue, request).await
    }

    async fn acknowledge(
        &self,
        queue: &'static Queue,
        receipts: &[Receipt],
    ) -> Result<usize, QueueError> {
        let count = self.queues.acknowledge(queue, receipts).await?;
        self.acknowledged.send_modify(|sum| *sum += count);
        Ok(count)
    }

    async fn postpone(
        &self,
        queue: &'static Queue,
        postponements: &[Postponement],
    ) -> Result<usize, QueueError> {
        self.queues.postpone(queue, postponements).await
    }

    async fn defer(
        &self,
        queue: &'static Queue,
        delivery: &Delivery,
        lease: Duration,
        reason: &str,
    ) -> Result<(), QueueError> {
        self.queues.defer(queue, delivery, lease, reason).await
    }

    async fn bury(
        &self,
        queue: &'static Queue,
        delivery: &Delivery,
        reason: &str,
    ) -> Result<(), QueueError> {
        self.queues.bury(queue, delivery, reason).await
    }

    async fn depth(&self, queue: &'static Queue) -> Result<Depth, QueueError> {
        self.queues.depth(queue).await
    }

    async fn dead_letters(
        &self,
        queue: &'static Queue,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, QueueError> {
        self.queues.dead_letters(queue, after, limit).await
    }

    async fn replay(&self, queue: &'static Queue, which: Which) -> Result<u64, QueueError> {
        self.queues.replay(queue, which).await
    }

    async fn purge(&self, queue: &'static Queue, which: Which) -> Result<u64, QueueError> {
        self.queues.purge(queue, which).await
    }
}
