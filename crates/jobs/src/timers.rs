//! Fires timers when they are due.

use std::sync::Arc;
use std::time::Duration;

use tidings_kernel::{Clock, TimerEngine, causes};

use crate::backoff::retry_delay;
use crate::tasks::{Stop, wait};

/// How many are fired in one transaction.
const BATCH: usize = 200;
/// How long to trust what the engine said of the next one: another node may arm an earlier one.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A thousand that are armed at once need not be looked at a thousand times.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// Fires until it is told to stop. Any number of nodes may do it at once.
pub async fn fire_timers(timers: Arc<dyn TimerEngine>, clock: Arc<dyn Clock>, mut stop: Stop) {
    let fired_total = metrics::counter!("tidings_timers_fired_total");
    fired_total.increment(0);
    let mut failures = 0;
    while !stop.is_stopped() {
        // Before the look, so that what is armed after it is noticed.
        let mut armed = timers.armed();
        let pause = match timers.fire(BATCH).await {
            Ok(fired) => {
                failures = 0;
                fired_total.increment(fired.count as u64);
                if fired.count == BATCH {
                    continue;
                }
                let until_next = fired.next_due.map(|due| due.duration_since(clock.now()));
                let until_next =
                    until_next.map(|pause| Duration::try_from(pause).unwrap_or_default());
                until_next.unwrap_or(LONGEST_PAUSE).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
            }
            Err(error) => {
                failures += 1;
                tracing::warn!(error = %causes(&error), "Timers could not be fired; it is tried again");
                armed = Box::pin(std::future::pending());
                retry_delay(failures.min(6), fastrand::f64())
            }
        };
        let early = async {
            armed.await;
            wait(SHORTEST_PAUSE).await;
        };
        if !stop.pause(pause, early).await {
            return;
        }
    }
}
