//! Deletes items past their TTL and has what that changes counted, and does the chores of a scheduler now and then, in bounded batches: what webhooks were
//! told long ago and old strays go, and erasures that were cut short are finished.

use std::sync::Arc;
use std::time::Duration;

use tidings_access::Access;
use tidings_inbox::expiry::Rounds;
use tidings_inbox::patrol::Patrol;
use tidings_kernel::ItemEngine;
use tidings_people::contacts;
use tidings_signals::ses::stray;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::until;
use crate::config::Sweep;

pub(super) const SWEPT: &str = "tidings_swept_items_total";
pub(super) const EXPIRED: &str = "tidings_inbox_expired_total";

/// Sweeps until it is told to stop. A batch that is under way is finished. What expired of inboxes is counted out before, so that
/// the marks of what was counted out are still there when a stream tells it again, and after.
pub(super) async fn run(
    engine: Arc<dyn ItemEngine>,
    inboxes: Rounds,
    sweep: Sweep,
    stopped: watch::Receiver<bool>,
) {
    let expired = metrics::counter!(EXPIRED);
    expired.increment(0);
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
        expired.increment(count_out(&inboxes).await);
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
        expired.increment(count_out(&inboxes).await);
    }
}

async fn count_out(inboxes: &Rounds) -> u64 {
    match inboxes.once().await {
        Ok(count) => count as u64,
        Err(error) => {
            let error = format!("{:#}", anyhow::Error::new(error));
            tracing::warn!(error, "What expired of inboxes is not counted out; it is tried again");
            0
        }
    }
}

/// Counts inboxes anew, a part of them every hour, until it is told to stop.
pub(super) async fn patrol(mut inboxes: Patrol, stopped: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(HOURLY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stop = until(stopped);
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return,
            _ = ticks.tick() => {}
        }
        let round = tokio::select! {
            () = &mut stop => return,
            round = inboxes.round() => round,
        };
        if let Err(error) = round {
            let error = format!("{:#}", anyhow::Error::new(error));
            tracing::warn!(error, "Inboxes could not be counted anew; it is tried again");
        }
    }
}

/// What is kept for weeks need not be looked at every minute.
const HOURLY: Duration = Duration::from_secs(60 * 60);

/// Forgets what is old and finishes what was begun, until it is told to stop: what webhooks were told, strays, dead
/// letters, and erasures that were cut short.
pub(super) async fn tidy(access: Access, batch: usize, stopped: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(HOURLY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stop = until(stopped.clone());
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return,
            _ = ticks.tick() => {}
        }
        for chore in [Chore::Webhooks, Chore::Strays, Chore::Erasures, Chore::DeadLetters] {
            while !*stopped.borrow() {
                match chore.once(&access, batch).await {
                    Ok(count) if count < batch => break,
                    Ok(_) => {}
                    Err(error) => {
                        let error = format!("{error:#}");
                        tracing::warn!(error, chore = chore.name(), "A chore could not be done");
                        break;
                    }
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Chore {
    Webhooks,
    Strays,
    Erasures,
    DeadLetters,
}

impl Chore {
    fn name(self) -> &'static str {
        match self {
            Self::Webhooks => "delete old deliveries of webhooks",
            Self::Strays => "delete old strays",
            Self::Erasures => "finish erasures",
            Self::DeadLetters => "delete old dead letters",
        }
    }

    /// A bounded part of it. Tells how much that was; less than `batch` means that nothing is left.
    async fn once(self, access: &Access, batch: usize) -> Result<usize, anyhow::Error> {
        Ok(match self {
            Self::Webhooks => tidings_webhooks::sweep(access, batch).await?,
            Self::Strays => stray::sweep(access, batch).await?,
            Self::Erasures => contacts::resume(access, batch).await?,
            Self::DeadLetters => {
                tidings_sql::forget_dead_letters(access.database(), access.now(), batch).await?
            }
        })
    }
}
