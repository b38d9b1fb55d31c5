//! The same rows as an outbox: where the queues are on SQS, what relations promise waits here until it is handed on.

use std::time::Duration;

use async_trait::async_trait;
use tidings_kernel::{
    Outbox, Outgoing, Postponement, Queue, QueueEngine, QueueError, Receipt, queues,
};

use super::{SqlQueues, queue_error, rows};

/// If we die on the way, somebody else hands it on after this.
const LEASE: Duration = Duration::from_secs(60);

#[async_trait]
impl Outbox for SqlQueues {
    async fn relay(&self, to: &dyn QueueEngine, limit: usize) -> Result<usize, QueueError> {
        let (mut count, mut trouble) = (0, None);
        for queue in queues::ALL {
            // A queue that is in trouble does not hold up the others.
            match self.relay_one(queue, to, limit.clamp(1, 1_000)).await {
                Ok(handed_on) => count += handed_on,
                Err(error) => trouble = trouble.or(Some(error)),
            }
        }
        match trouble {
            Some(error) if count == 0 => Err(error),
            Some(error) => {
                tracing::warn!(%error, "A queue could not be reached; others could");
                Ok(count)
            }
            None => Ok(count),
        }
    }
}

impl SqlQueues {
    async fn relay_one(
        &self,
        queue: &'static Queue,
        to: &dyn QueueEngine,
        limit: usize,
    ) -> Result<usize, QueueError> {
        let now = self.now();
        let next = self.database.read(move |tx| rows::next_visible(tx, queue)).await;
        if next.map_err(queue_error)?.is_none_or(|visible| visible > now) {
            return Ok(0);
        }
        // However often: a promise is kept until the queue has it, and never given up here.
        let taken =
            self.database.write_committed(move |tx| rows::take_any(tx, queue, limit, LEASE, now));
        let deliveries = taken.await.map_err(queue_error)?;
        if deliveries.is_empty() {
            return Ok(0);
        }
        let receipts: Vec<_> = deliveries.iter().map(|one| one.receipt.clone()).collect();
        let messages = deliveries.into_iter().map(|one| Outgoing::new(queue, one.body));
        if let Err(error) = to.send(messages.collect()).await {
            self.postpone(queue, &receipts.into_iter().map(at_once).collect::<Vec<_>>()).await?;
            return Err(error);
        }
        self.acknowledge(queue, &receipts).await?;
        Ok(receipts.len())
    }
}

fn at_once(receipt: Receipt) -> Postponement {
    Postponement { receipt, lease: Duration::ZERO, reason: None }
}
