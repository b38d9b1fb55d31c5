//! Long polls: receive as soon as there is something.
//!
//! Whoever waits is woken by a commit that concerns the queue (`Database::wakes`), at the moment when a message that
//! was held back becomes visible, and now and then in any case: a wake-up from another process can get lost.

use std::time::Duration;

use tidings_kernel::{Delivery, Queue, QueueError, Receive};
use tokio::time::Instant;

use super::{SqlQueues, queue_error, rows};
use crate::database::Dialect;

pub(super) async fn receive(
    queues: &SqlQueues,
    queue: &'static Queue,
    request: Receive,
) -> Result<Vec<Delivery>, QueueError> {
    if request.wait.is_zero() {
        return Ok(take(queues, queue, request).await?.0);
    }
    // Before the first look, so that nothing that comes after it is missed.
    let mut wakes = queues.database.wakes(queue.name);
    let until = deadline(request.wait);
    loop {
        wakes.mark_unchanged();
        let (deliveries, next) = take(queues, queue, request).await?;
        let left = until.saturating_duration_since(deadline(Duration::ZERO));
        if !deliveries.is_empty() || left.is_zero() {
            return Ok(deliveries);
        }
        let pause = left.min(patience(queues)).min(next.unwrap_or(Duration::MAX));
        // Over or woken: both mean to look again. The sender lives as long as the database.
        drop(tokio::time::timeout(pause, wakes.changed()).await);
    }
}

/// What is there, or how long until something becomes visible.
async fn take(
    queues: &SqlQueues,
    queue: &'static Queue,
    request: Receive,
) -> Result<(Vec<Delivery>, Option<Duration>), QueueError> {
    let now = queues.now();
    // An empty queue is the common case, and looking costs no commit.
    let next = queues.database.read(move |tx| rows::next_visible(tx, queue)).await;
    match next.map_err(queue_error)? {
        None => Ok((Vec::new(), None)),
        Some(visible) if visible > now => {
            // A clock that is set by hand may stand still; the other limits bound the pause.
            Ok((Vec::new(), Some(Duration::from_millis((visible - now) as u64))))
        }
        Some(_) => {
            let taken = queues
                .database
                .write_committed(move |tx| rows::take(tx, queue, request.max, request.lease, now));
            Ok((taken.await.map_err(queue_error)?, Some(Duration::from_millis(5))))
        }
    }
}

/// How long to trust that a wake-up would come.
fn patience(queues: &SqlQueues) -> Duration {
    match queues.database.dialect() {
        // Another process on the same file cannot wake us.
        Dialect::Sqlite => Duration::from_secs(1),
        Dialect::Postgres => Duration::from_secs(5),
    }
}

fn deadline(from_now: Duration) -> Instant {
    Instant::now() + from_now
}
