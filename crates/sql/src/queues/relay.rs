//! The same rows as an outbox: where the queues are on SQS, what relations promise waits here until it is handed on.

use std::time::Duration;

use async_trait::async_trait;
use tidings_kernel::{Outbox, Outgoing, QueueEngine, QueueError, Receive, queues};

use super::SqlQueues;

/// If we die on the way, somebody else hands it on after this.
const LEASE: Duration = Duration::from_secs(60);

#[async_trait]
impl Outbox for SqlQueues {
    async fn relay(&self, to: &dyn QueueEngine, limit: usize) -> Result<usize, QueueError> {
        let mut count = 0;
        for queue in queues::ALL {
            let request =
                Receive { max: limit.clamp(1, 1_000), lease: LEASE, wait: Duration::ZERO };
            let deliveries = self.receive(queue, request).await?;
            if deliveries.is_empty() {
                continue;
            }
            let receipts: Vec<_> = deliveries.iter().map(|one| one.receipt.clone()).collect();
            let messages = deliveries.into_iter().map(|one| Outgoing::new(queue, one.body));
            to.send(messages.collect()).await?;
            self.acknowledge(queue, &receipts).await?;
            count += receipts.len();
        }
        Ok(count)
    }
}
