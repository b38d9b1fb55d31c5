//! Periodic work: a cron expression in a time zone, and the message that begins each occurrence.
//!
//! Of all nodes one begins an occurrence (`ScheduleEngine`). What was missed while nobody ran is begun once, for the
//! latest occurrence: the daily work of a week is not done seven times in a row.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use tidings_kernel::{Clock, Outgoing, ScheduleEngine, causes};

use crate::tasks::Stop;

/// How long to trust that the clock goes on as it did.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Work that is begun again and again.
#[derive(Clone)]
pub struct Schedule {
    pub name: &'static str,
    cron: Box<Cron>,
    zone: TimeZone,
    message: Arc<dyn Fn(Timestamp) -> Outgoing + Send + Sync>,
}

#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    #[error("{0:?} is not a cron expression, such as `0 6 * * *`: {1}")]
    Cron(String, String),
    #[error("{0:?} is not a time zone, such as `Europe/Berlin`")]
    Zone(String),
}

/// Whether a text is a cron expression.
pub fn check_cron(text: &str) -> Result<(), ScheduleError> {
    parse_cron(text).map(drop)
}

fn parse_cron(text: &str) -> Result<Cron, ScheduleError> {
    Cron::from_str(text).map_err(|error| ScheduleError::Cron(text.to_owned(), error.to_string()))
}

impl Schedule {
    /// `message` makes what is sent for an occurrence.
    pub fn new(
        name: &'static str,
        cron: &str,
        zone: &str,
        message: impl Fn(Timestamp) -> Outgoing + Send + Sync + 'static,
    ) -> Result<Self, ScheduleError> {
        let zone = TimeZone::get(zone).map_err(|_| ScheduleError::Zone(zone.to_owned()))?;
        Ok(Self { name, cron: Box::new(parse_cron(cron)?), zone, message: Arc::new(message) })
    }

    /// The first occurrence after a moment.
    pub fn after(&self, moment: Timestamp) -> Option<Timestamp> {
        let local: Zoned = moment.to_zoned(self.zone.clone());
        self.cron.find_next_occurrence(&local, false).ok().map(|next| next.timestamp())
    }

    /// The latest occurrence after `begun` that is not later than `now`.
    fn latest(&self, begun: Timestamp, now: Timestamp) -> Option<Timestamp> {
        // Years may have gone by; a day back from now is enough to find what is latest for all but rare work.
        let mut from = begun;
        for days in [1, 32, 366] {
            let near = now.checked_sub(SignedDuration::from_hours(24 * days)).unwrap_or(begun);
            if near > begun && self.after(near).is_some_and(|next| next <= now) {
                from = near;
                break;
            }
        }
        let mut latest = None;
        while let Some(next) = self.after(from).filter(|next| *next <= now) {
            latest = Some(next);
            from = next;
        }
        latest
    }
}

/// Begins what is due until it is told to stop.
pub async fn keep_schedules(
    schedules: Vec<Schedule>,
    engine: Arc<dyn ScheduleEngine>,
    clock: Arc<dyn Clock>,
    mut stop: Stop,
) {
    let started = clock.now();
    loop {
        let mut pause = LONGEST_PAUSE;
        for schedule in &schedules {
            match begin_due(schedule, &*engine, &*clock, started).await {
                Ok(Some(next)) => {
                    let left = Duration::try_from(next.duration_since(clock.now()));
                    pause = pause.min(left.unwrap_or_default());
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(schedule = schedule.name, error = %causes(&error), "Periodic work could not be begun; it is tried again");
                }
            }
        }
        if !stop.pause(pause.max(Duration::from_millis(100)), std::future::pending()).await {
            return;
        }
    }
}

/// Begins the latest occurrence that is due and not begun, and tells when the next one is. Work that was never begun
/// is not made up for: it counts from when the node started.
async fn begin_due(
    schedule: &Schedule,
    engine: &dyn ScheduleEngine,
    clock: &dyn Clock,
    started: Timestamp,
) -> Result<Option<Timestamp>, tidings_kernel::StoreError> {
    let begun = engine.last_begun(schedule.name).await?.unwrap_or(started);
    let now = clock.now();
    if let Some(occurrence) = schedule.latest(begun, now) {
        let message = (schedule.message)(occurrence);
        if engine.begin(schedule.name, occurrence, message).await? {
            tracing::debug!(schedule = schedule.name, %occurrence, "Periodic work was begun");
        }
    }
    Ok(schedule.after(now))
}

#[cfg(test)]
mod tests;
