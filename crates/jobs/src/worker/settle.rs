//! Settling what was worked on, in batches, and renewing the leases of what is still under way.
//!
//! One task does both, one after the other: a renewal can never undo the settling of the same delivery.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidings_kernel::{
    Delivery, MAX_LEASE, Postponement, Queue, QueueEngine, QueueError, Receipt, causes,
};
use tokio::sync::mpsc::Receiver;
use tokio::time::MissedTickBehavior;

use super::give_back;
use crate::backoff::retry_delay;
use crate::handler::Outcome;
use crate::tasks::wait;

/// How many are settled in one call.
pub(super) const BATCH: usize = 500;
/// How often settling is tried. After that the lease ends, and the message comes again.
const TRIES: u32 = 4;

/// A delivery, and how it ended.
pub(super) struct Settled {
    pub(super) delivery: Delivery,
    pub(super) outcome: Outcome,
}

/// What is under way, by receipt.
#[derive(Clone, Default)]
pub(super) struct Held(Arc<Mutex<HashMap<Receipt, Delivery>>>);

impl Held {
    pub(super) fn add(&self, delivery: &Delivery) {
        // The body is not needed to renew or to give back.
        let kept = Delivery { body: String::new(), ..delivery.clone() };
        self.lock().insert(delivery.receipt.clone(), kept);
    }

    fn remove(&self, settled: &[Settled]) {
        let mut held = self.lock();
        for one in settled {
            held.remove(&one.delivery.receipt);
        }
    }

    fn all(&self) -> Vec<Delivery> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Receipt, Delivery>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Settler {
    queue: &'static Queue,
    engine: Arc<dyn QueueEngine>,
    held: Held,
}

impl Settler {
    pub(super) fn new(queue: &'static Queue, engine: Arc<dyn QueueEngine>) -> Self {
        Self { queue, engine, held: Held::default() }
    }

    pub(super) fn held(&self) -> Held {
        self.held.clone()
    }

    /// Settles what comes until nobody sends any more, and then gives back what is still held.
    pub(super) async fn run(self, mut settled: Receiver<Settled>) {
        let mut renewals = tokio::time::interval(self.queue.lease / 3);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        renewals.reset();
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                count = settled.recv_many(&mut batch, BATCH) => {
                    if count == 0 {
                        break;
                    }
                    self.held.remove(&batch);
                    self.settle(std::mem::take(&mut batch)).await;
                }
                _ = renewals.tick() => self.renew().await,
            }
        }
        for part in self.held.all().chunks(BATCH) {
            give_back(&*self.engine, self.queue, part).await;
        }
    }

    async fn settle(&self, batch: Vec<Settled>) {
        let mut left = batch;
        for tries in 1..=TRIES {
            match settle_all(&*self.engine, self.queue, left).await {
                Ok(()) => return,
                Err((error, unsettled)) => {
                    let count = unsettled.len();
                    tracing::warn!(queue = self.queue.name, count, error = %causes(&error), "Messages could not be settled");
                    // What is wrong in itself stays wrong: the leases end, and the messages come again.
                    if tries == TRIES || !matches!(error, QueueError::Unavailable(_)) {
                        return;
                    }
                    left = unsettled;
                    wait(retry_delay(tries, fastrand::f64())).await;
                }
            }
        }
    }

    async fn renew(&self) {
        for part in self.held.all().chunks(BATCH) {
            let renewals: Vec<_> = part
                .iter()
                .map(|delivery| Postponement {
                    receipt: delivery.receipt.clone(),
                    lease: self.queue.lease,
                    reason: None,
                })
                .collect();
            match self.engine.postpone(self.queue, &renewals).await {
                Ok(count) if count < renewals.len() => {
                    let lost = renewals.len() - count;
                    tracing::warn!(
                        queue = self.queue.name,
                        lost,
                        "Leases were lost; the messages may run twice"
                    );
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(queue = self.queue.name, error = %causes(&error), "Leases could not be renewed");
                }
            }
        }
    }
}

pub(super) async fn settle(
    engine: &dyn QueueEngine,
    queue: &'static Queue,
    batch: Vec<Settled>,
) -> Result<(), QueueError> {
    settle_all(engine, queue, batch).await.map_err(|(error, _)| error)
}

/// Tells what is not settled when something fails.
async fn settle_all(
    engine: &dyn QueueEngine,
    queue: &'static Queue,
    mut batch: Vec<Settled>,
) -> Result<(), (QueueError, Vec<Settled>)> {
    let done: Vec<_> = of(&batch, |outcome| matches!(outcome, Outcome::Done))
        .map(|one| one.delivery.receipt.clone())
        .collect();
    if !done.is_empty() {
        if let Err(error) = engine.acknowledge(queue, &done).await {
            return Err((error, batch));
        }
        batch.retain(|one| !matches!(one.outcome, Outcome::Done));
    }
    let again: Vec<_> = batch.iter().filter_map(postponement).collect();
    if !again.is_empty() {
        if let Err(error) = engine.postpone(queue, &again).await {
            return Err((error, batch));
        }
        batch.retain(|one| !matches!(one.outcome, Outcome::Retry { .. }));
    }
    while let Some(one) = batch.pop() {
        let settled = match &one.outcome {
            Outcome::Dead { reason } => engine.bury(queue, &one.delivery, reason).await,
            Outcome::Wait { reason, after } => {
                engine.defer(queue, &one.delivery, (*after).min(MAX_LEASE), reason).await
            }
            Outcome::Done | Outcome::Retry { .. } => Ok(()),
        };
        if let Err(error) = settled {
            batch.push(one);
            return Err((error, batch));
        }
    }
    Ok(())
}

fn of(batch: &[Settled], which: impl Fn(&Outcome) -> bool) -> impl Iterator<Item = &Settled> {
    batch.iter().filter(move |one| which(&one.outcome))
}

fn postponement(settled: &Settled) -> Option<Postponement> {
    let Outcome::Retry { reason, after } = &settled.outcome else { return None };
    let delay = after.unwrap_or_else(|| retry_delay(settled.delivery.receives, fastrand::f64()));
    Some(Postponement {
        receipt: settled.delivery.receipt.clone(),
        lease: delay.min(MAX_LEASE),
        reason: Some(reason.clone()),
    })
}

/// Tells operators how it went: numbers always, words only if somebody may have to act.
pub(super) fn record(
    queue: &Queue,
    delivery: &Delivery,
    outcome: &Outcome,
    waited: Duration,
    took: Duration,
) {
    let labels = [("queue", queue.name), ("outcome", outcome.label())];
    metrics::counter!("tidings_jobs_total", &labels).increment(1);
    metrics::histogram!("tidings_job_seconds", "queue" => queue.name).record(took);
    if delivery.receives == 1 {
        metrics::histogram!("tidings_job_wait_seconds", "queue" => queue.name).record(waited);
    }
    let (queue, message, receives) = (queue.name, delivery.id.as_str(), delivery.receives);
    match outcome {
        Outcome::Done => {}
        Outcome::Wait { reason, .. } => {
            tracing::debug!(queue, message.id = message, reason, "A message waits");
        }
        Outcome::Retry { reason, .. } => {
            tracing::info!(
                queue,
                message.id = message,
                receives,
                reason,
                "A message will be tried again"
            );
        }
        Outcome::Dead { reason } => {
            tracing::warn!(queue, message.id = message, receives, reason, "A message was given up");
        }
    }
}
