//! Long polls: receive as soon as there is something.
//!
//! Whoever waits is woken by a commit that concerns the queue (`Database::wakes`), at the moment when a message that
//! was held back becomes visible, and now and then in any case: a wake-up from another process can get lost.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidings_kernel::{Delivery, Queue, QueueError, Receive};
use tokio::time::Instant;

use super::{SqlQueues, queue_error, rows};
use crate::database::Dialect;

/// Somebody else is just taking what we saw. He may not succeed.
const TAKEN_BY_ANOTHER: Duration = Duration::from_millis(5);
/// So many worn-out messages are kept for whoever asks.
const MOST_WORN_OUT: usize = 1_000;

/// What speaks for a message being there before anybody has looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Nothing,
    /// A wake-up, or a full batch the last time: taking at once is worth it.
    Something,
}

/// The queues that gave as much as was asked for the last time, and so likely have more.
#[derive(Default)]
pub(super) struct Busy(Mutex<BTreeSet<&'static str>>);

impl Busy {
    fn sign(&self, queue: &Queue) -> Sign {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.contains(queue.name) { Sign::Something } else { Sign::Nothing }
    }

    fn note(&self, queue: &Queue, is_busy: bool) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_busy {
            names.insert(queue.name);
        } else {
            names.remove(queue.name);
        }
    }
}

/// What was given up while it was received, until somebody asks for it.
#[derive(Default)]
pub(super) struct WornOut(Mutex<VecDeque<(&'static str, Delivery)>>);

impl WornOut {
    fn note(&self, queue: &Queue, worn_out: Vec<Delivery>) {
        if worn_out.is_empty() {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(worn_out.into_iter().map(|one| (queue.name, one)));
        // Nobody may ever ask: what is in trouble is among the dead letters in any case.
        let too_many = kept.len().saturating_sub(MOST_WORN_OUT);
        drop(kept.drain(..too_many));
    }

    pub(super) fn take(&self, queue: &Queue) -> Vec<Delivery> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (his, others) = kept.drain(..).partition(|(name, _)| *name == queue.name);
        *kept = others;
        let his: VecDeque<(&str, Delivery)> = his;
        his.into_iter().map(|(_, delivery)| delivery).collect()
    }
}

pub(super) async fn receive(
    queues: &SqlQueues,
    queue: &'static Queue,
    request: Receive,
) -> Result<Vec<Delivery>, QueueError> {
    let mut sign = queues.busy.sign(queue);
    if request.wait.is_zero() {
        return Ok(attempt(queues, queue, request, sign).await?.0);
    }
    // Before the first look, so that nothing that comes after it is missed.
    let mut wakes = queues.database.wakes(queue.name);
    let until = deadline(request.wait);
    loop {
        wakes.mark_unchanged();
        let (deliveries, next) = attempt(queues, queue, request, sign).await?;
        let left = until.saturating_duration_since(deadline(Duration::ZERO));
        if !deliveries.is_empty() || left.is_zero() {
            return Ok(deliveries);
        }
        let pause = left.min(patience(queues)).min(next.unwrap_or(Duration::MAX));
        // Over or woken: both mean to look again. The sender lives as long as the database.
        sign = match tokio::time::timeout(pause, wakes.changed()).await {
            Ok(_) => Sign::Something,
            Err(_) => Sign::Nothing,
        };
    }
}

/// What is there, or how long until something becomes visible.
async fn attempt(
    queues: &SqlQueues,
    queue: &'static Queue,
    request: Receive,
    sign: Sign,
) -> Result<(Vec<Delivery>, Option<Duration>), QueueError> {
    if sign == Sign::Something {
        let deliveries = take(queues, queue, request).await?;
        if !deliveries.is_empty() {
            return Ok((deliveries, None));
        }
    }
    // An empty queue is the common case, and looking costs no commit.
    match look(queues, queue).await? {
        Some(Duration::ZERO) => {
            let deliveries = match sign {
                Sign::Something => Vec::new(),
                Sign::Nothing => take(queues, queue, request).await?,
            };
            Ok((deliveries, Some(TAKEN_BY_ANOTHER)))
        }
        next => Ok((Vec::new(), next)),
    }
}

/// How long until something is visible, if there is anything.
async fn look(queues: &SqlQueues, queue: &'static Queue) -> Result<Option<Duration>, QueueError> {
    let next = queues.database.glance(move |tx| rows::next_visible(tx, queue)).await;
    let now = queues.now();
    // A clock that is set by hand may stand still; the other limits bound the pause.
    let pause = |visible: i64| Duration::from_millis(visible.saturating_sub(now).max(0) as u64);
    Ok(next.map_err(queue_error)?.map(pause))
}

async fn take(
    queues: &SqlQueues,
    queue: &'static Queue,
    request: Receive,
) -> Result<Vec<Delivery>, QueueError> {
    let now = queues.now();
    let database =
        if queue.is_awaited { queues.database.urgent() } else { queues.database.clone() };
    let taken =
        database.write_committed(move |tx| rows::take(tx, queue, request.max, request.lease, now));
    let rows::Taken { deliveries, worn_out } = taken.await.map_err(queue_error)?;
    queues.busy.note(queue, deliveries.len() == request.max);
    queues.worn_out.note(queue, worn_out);
    Ok(deliveries)
}

/// On either engine.
pub(super) const LONGEST_PATIENCE: Duration = Duration::from_secs(5);

/// How long to trust that a wake-up would come.
fn patience(queues: &SqlQueues) -> Duration {
    match queues.database.dialect() {
        // Another process on the same file cannot wake us.
        Dialect::Sqlite => Duration::from_secs(1),
        Dialect::Postgres => LONGEST_PATIENCE,
    }
}

fn deadline(from_now: Duration) -> Instant {
    Instant::now() + from_now
}
