//! Deletes items past their TTL, now and then, in bounded batches.

use std::sync::Arc;

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
