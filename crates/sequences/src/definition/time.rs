//! When a wait ends, and when a window opens: by the clock on the wall where the person is.
//!
//! A time that the clock skips in spring is the moment at which it skips it; one that comes twice in autumn is the first
//! of the two.

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::{Wait, Window};

/// In so many days every weekday comes, also where a day was left out to change sides of the date line.
const DAYS: usize = 15;

impl Wait {
    /// `zone` is the person's, if it is known.
    pub fn ends(&self, now: Timestamp, zone: Option<&TimeZone>) -> Timestamp {
        match self {
            Self::For(duration) => {
                let duration = SignedDuration::try_from(*duration).unwrap_or(SignedDuration::MAX);
                now.checked_add(duration).unwrap_or(Timestamp::MAX)
            }
            Self::Until { weekday, time, zone: own } => {
                let zone = zone.unwrap_or(own);
                let mut days =
                    zone.to_datetime(now).date().series(jiff::ToSpan::days(1)).take(DAYS);
                let due = days.find_map(|day| {
                    let is_it = weekday.is_none_or(|weekday| day.weekday() == weekday);
                    moment(day, *time, zone).filter(|at| is_it && *at > now)
                });
                due.unwrap_or(Timestamp::MAX)
            }
        }
    }
}

impl Window {
    /// When it opens; `None` if it is open now. `zone` is the person's, if it is known.
    pub fn opens(&self, now: Timestamp, zone: Option<&TimeZone>) -> Option<Timestamp> {
        let zone = zone.unwrap_or(&self.zone);
        let today = zone.to_datetime(now).date();
        // What has opened yesterday may still be open.
        let first = today.yesterday().unwrap_or(today);
        for day in first.series(jiff::ToSpan::days(1)).take(DAYS) {
            if !self.is_on(day.weekday()) {
                continue;
            }
            let Some((from, until)) = self.on(day, zone) else { break };
            // Nothing is left of one that the clock skips.
            if now < until && from < until {
                return (now < from).then_some(from);
            }
        }
        // The last days that there are.
        None
    }

    fn is_on(&self, day: Weekday) -> bool {
        self.days.is_empty() || self.days.contains(&day)
    }

    /// The one that opens on this day.
    fn on(&self, day: Date, zone: &TimeZone) -> Option<(Timestamp, Timestamp)> {
        let next = day.tomorrow().ok()?;
        let (from, closes, until) = match self.from.cmp(&self.until) {
            std::cmp::Ordering::Less => (self.from, day, self.until),
            std::cmp::Ordering::Equal => (Time::midnight(), next, Time::midnight()),
            std::cmp::Ordering::Greater => (self.from, next, self.until),
        };
        Some((moment(day, from, zone)?, moment(closes, until, zone)?))
    }
}

/// The first moment at which the clock shows this time, or has just skipped it.
fn moment(day: Date, time: Time, zone: &TimeZone) -> Option<Timestamp> {
    let shown = DateTime::from_parts(day, time);
    let ambiguous = zone.to_ambiguous_timestamp(shown);
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => {
            ambiguous.earlier().ok()
        }
        AmbiguousOffset::Gap { .. } => {
            // By the later offset it is before the clock skips.
            let before = ambiguous.earlier().ok()?;
            zone.following(before).next().map(|transition| transition.timestamp())
        }
    }
}
