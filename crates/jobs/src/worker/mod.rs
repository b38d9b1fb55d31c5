//! A worker: takes messages from one queue, lets its handler work on them, and settles each as it ended.
//!
//! It never holds more than it works on, so a backlog stays in the queue, where others can take from it. What it
//! holds it keeps from others by renewing the leases. When it is told to stop it takes nothing more, waits for what
//! is under way, and gives back what does not end in time. Not here: what a handler does.

mod settle;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tidings_kernel::{
    Clock, Delivery, Postponement, Queue, QueueEngine, QueueError, Receive, causes,
};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use crate::backoff::retry_delay;
use crate::handler::{Handler, Outcome, attend, give_up};
use crate::tasks::{Stop, wait};
use settle::{Settled, Settler, record};

/// How long one poll of an empty queue takes.
const POLL: Duration = Duration::from_secs(20);
/// How long a poll may still take when the worker is to stop.
const LAST_POLL: Duration = Duration::from_millis(300);

/// How a worker goes about its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How many messages it works on at once.
    pub concurrency: usize,
    /// How many it takes at once, at most.
    pub batch: usize,
    /// How long it works on one message, at most.
    pub time_limit: Duration,
    /// How long it waits for what is under way when it is to stop.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrency: 16,
            batch: 64,
            time_limit: Duration::from_secs(300),
            grace: Duration::from_secs(25),
        }
    }
}

#[derive(Clone)]
pub struct Worker {
    pub queue: &'static Queue,
    pub handler: Arc<dyn Handler>,
    pub engine: Arc<dyn QueueEngine>,
    pub clock: Arc<dyn Clock>,
    pub settings: Settings,
}

impl Worker {
    /// Works until it is told to stop, and then until what is under way has ended or the grace is over.
    pub async fn run(self, mut stop: Stop) {
        let (results, settled) = mpsc::channel(settle::BATCH);
        let settler = Settler::new(self.queue, Arc::clone(&self.engine));
        let held = settler.held();
        let settling = tokio::spawn(settler.run(settled));
        let free = Arc::new(Semaphore::new(self.settings.concurrency.max(1)));
        let mut work = JoinSet::new();
        let mut failures = 0;
        while let Some(permits) = self.free_permits(&free, &mut stop).await {
            let taken = self.take(permits.num_permits(), &mut stop).await;
            self.give_up_worn_out().await;
            match taken {
                Some(Ok(deliveries)) => {
                    failures = 0;
                    let mut permits = permits;
                    for delivery in deliveries {
                        let permit = permits.split(1).expect("no more are taken than are free");
                        held.add(&delivery);
                        let (worker, results) = (self.clone(), results.clone());
                        work.spawn(async move {
                            // If nobody settles any more, the lease ends by itself.
                            drop(results.send(worker.attend(delivery).await).await);
                            drop(permit);
                        });
                    }
                }
                Some(Err(error)) => {
                    failures += 1;
                    tracing::warn!(queue = self.queue.name, error = %causes(&error), "Nothing can be received");
                    if !stop
                        .pause(
                            retry_delay(failures.min(6), fastrand::f64()),
                            std::future::pending(),
                        )
                        .await
                    {
                        break;
                    }
                }
                None => break,
            }
            while work.try_join_next().is_some() {}
        }
        self.drain(&mut work).await;
        drop(results);
        if settling.await.is_err() {
            tracing::error!(queue = self.queue.name, "The settling of messages ended in a panic");
        }
    }

    /// Works on what is visible now, one message after the other, until nothing is. For tests, which set the clock
    /// themselves. Tells how many it worked on.
    pub async fn run_until_idle(&self) -> Result<usize, QueueError> {
        let mut count = 0;
        loop {
            let request = self.request(self.settings.batch, Duration::ZERO);
            let deliveries = self.engine.receive(self.queue, request).await?;
            self.give_up_worn_out().await;
            if deliveries.is_empty() {
                return Ok(count);
            }
            for delivery in deliveries {
                count += 1;
                let settled = self.attend(delivery).await;
                settle::settle(&*self.engine, self.queue, vec![settled]).await?;
            }
        }
    }

    fn request(&self, max: usize, wait: Duration) -> Receive {
        Receive { max, lease: self.queue.lease, wait }
    }

    /// Room for at least one message, and for as many more as there is, up to a batch.
    async fn free_permits(
        &self,
        free: &Arc<Semaphore>,
        stop: &mut Stop,
    ) -> Option<tokio::sync::OwnedSemaphorePermit> {
        let mut permits = tokio::select! {
            () = stop.stopped() => return None,
            permit = Arc::clone(free).acquire_owned() => permit.ok()?,
        };
        let more = free.available_permits().min(self.settings.batch.saturating_sub(1));
        if let Ok(others) = Arc::clone(free).try_acquire_many_owned(more as u32) {
            permits.merge(others);
        }
        Some(permits)
    }

    /// Receives in a task of its own: when the worker stops, a poll that is under way may just be taking messages, and
    /// what nobody wants any more must be given back.
    async fn take(&self, max: usize, stop: &mut Stop) -> Option<Result<Vec<Delivery>, QueueError>> {
        let (answer, mut answered) = oneshot::channel();
        let (engine, queue, request) =
            (Arc::clone(&self.engine), self.queue, self.request(max, POLL));
        let receiving = tokio::spawn(async move {
            let received = engine.receive(queue, request).await;
            if let Err(Ok(unwanted)) = answer.send(received)
                && !unwanted.is_empty()
            {
                give_back(&*engine, queue, &unwanted).await;
            }
        });
        tokio::select! {
            received = &mut answered => Some(received.unwrap_or_else(|_| {
                Err(QueueError::Failed("the receiving task ended in a panic".into()))
            })),
            () = stop.stopped() => {
                answered.close();
                let abort = receiving.abort_handle();
                tokio::select! {
                    _ = receiving => {}
                    () = wait(LAST_POLL) => abort.abort(),
                }
                // It may have been answered before it was closed.
                if let Ok(Ok(deliveries)) = answered.try_recv() {
                    give_back(&*self.engine, self.queue, &deliveries).await;
                }
                None
            }
        }
    }

    /// Whoever died with a message the last time could not tell its handler that it was the last.
    async fn give_up_worn_out(&self) {
        for delivery in self.engine.worn_out(self.queue) {
            let (queue, receives) = (self.queue.name, self.queue.max_receives);
            tracing::warn!(queue, message.id = %delivery.id, "A message was given up: nobody ever answered it");
            let reason =
                format!("it was delivered {receives} times, and each time nobody answered");
            give_up(&*self.handler, &delivery, &reason, self.settings.time_limit).await;
        }
    }

    async fn attend(&self, delivery: Delivery) -> Settled {
        let waited = self.clock.now().duration_since(delivery.enqueued_at);
        let waited = Duration::try_from(waited).unwrap_or_default();
        let begun = tokio::time::Instant::now();
        let outcome = match attend(&*self.handler, &delivery, self.settings.time_limit).await {
            // It was the last try, so it need not come once more to be given up.
            Outcome::Retry { reason, .. } if delivery.receives >= self.queue.max_receives => {
                Outcome::Dead { reason }
            }
            outcome => outcome,
        };
        if let Outcome::Dead { reason } = &outcome {
            give_up(&*self.handler, &delivery, reason, self.settings.time_limit).await;
        }
        record(self.queue, &delivery, &outcome, waited, begun.elapsed());
        Settled { delivery, outcome }
    }

    async fn drain(&self, work: &mut JoinSet<()>) {
        let all_done = async { while work.join_next().await.is_some() {} };
        if tokio::time::timeout(self.settings.grace, all_done).await.is_err() {
            let count = work.len();
            tracing::warn!(
                queue = self.queue.name,
                count,
                "Messages did not end in time; they are given back"
            );
            work.shutdown().await;
        }
    }
}

/// Makes deliveries visible at once. If that fails, their leases end by themselves.
async fn give_back(engine: &dyn QueueEngine, queue: &'static Queue, deliveries: &[Delivery]) {
    let postponements: Vec<_> = deliveries
        .iter()
        .map(|delivery| Postponement {
            receipt: delivery.receipt.clone(),
            lease: Duration::ZERO,
            reason: None,
        })
        .collect();
    if postponements.is_empty() {
        return;
    }
    if let Err(error) = engine.postpone(queue, &postponements).await {
        tracing::debug!(queue = queue.name, error = %causes(&error), "Deliveries could not be given back");
    }
}
