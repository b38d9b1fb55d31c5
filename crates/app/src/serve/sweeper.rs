//! Deletes items past their TTL, and what webhooks were told long ago, now and then, in bounded batches.

use std::sync::Arc;
use std::time::Duration;

use tidings_access::Access;
use tidings_kernel::ItemEngine;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::until;
use crate::config::Sweep;

pub(super) const SWEPT: &str = "tidings_swept_items_total";

/// Sweeps until it is told to stop. A batch that is under way is finished.
pub(super) async fn run(engine: Arc<dyn ItemEngine>, sweep: Sweep, stopped: watch::Receiver<bool>) {
    let swept = metrics::counter!(SWEPT);
    // Shown from the start, so that "none" and "not running" can be told apart.
    swept.increment(0);
    let mut ticks = tokio::time::interval(sweep.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stop = until(stopped.clone());
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return,
            _ = ticks.tick() => {}
        }
        while !*stopped.borrow() {
            match engine.sweep(sweep.batch).await {
                Ok(count) => {
                    swept.increment(count as u64);
                    if count < sweep.batch {
                        break;
                    }
                }
                Err(error) => {
                    let error = format!("{:#}", anyhow::Error::new(error));
                    tracing::warn!(
                        error,
                        "Sweeping failed; it is tried again at the next interval"
                    );
                    break;
                }
            }
        }
    }
}

/// What is kept for weeks need not be looked at every minute.
const WEBHOOKS: Duration = Duration::from_secs(60 * 60);

/// Forgets what webhooks were told, when it is old, until it is told to stop.
pub(super) async fn forget_webhooks(access: Access, batch: usize, stopped: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(WEBHOOKS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stop = until(stopped.clone());
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return,
            _ = ticks.tick() => {}
        }
        while !*stopped.borrow() {
            match tidings_webhooks::sweep(&access, batch).await {
                Ok(count) if count < batch => break,
                Ok(_) => {}
                Err(error) => {
                    let error = format!("{:#}", anyhow::Error::new(error));
                    tracing::warn!(error, "Old deliveries of webhooks could not be deleted");
                    break;
                }
            }
        }
    }
}
