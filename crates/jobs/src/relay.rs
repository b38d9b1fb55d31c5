//! Hands on what commits have promised to queues that they could not reach themselves.

use std::sync::Arc;
use std::time::Duration;

use tidings_kernel::{Outbox, QueueEngine, causes};

use crate::backoff::retry_delay;
use crate::tasks::Stop;

/// How many messages are handed on at a time.
const BATCH: usize = 100;
/// How long to wait when there was nothing.
const PAUSE: Duration = Duration::from_millis(500);

/// Relays until it is told to stop. Any number of nodes may do it at once.
pub async fn relay(outbox: Arc<dyn Outbox>, queues: Arc<dyn QueueEngine>, mut stop: Stop) {
    let relayed = metrics::counter!("tidings_outbox_relayed_total");
    let mut failures = 0;
    loop {
        let pause = match outbox.relay(&*queues, BATCH).await {
            Ok(count) => {
                failures = 0;
                relayed.increment(count as u64);
                if count > 0 { Duration::ZERO } else { PAUSE }
            }
            Err(error) => {
                failures += 1;
                tracing::warn!(error = %causes(&error), "The outbox could not be handed on; it is tried again");
                retry_delay(failures.min(6), fastrand::f64())
            }
        };
        if !stop.pause(pause, std::future::pending()).await {
            return;
        }
    }
}
