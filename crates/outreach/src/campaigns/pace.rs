//! How fast a campaign goes: its rate, its warm-up, and when it is a certain time where a person is. Pure.
//!
//! The rate is a GCRA over all nodes: the row says until when messages were promised, and a batch goes if that is not
//! further ahead than `AHEAD`. So a worker that comes a little late makes up for it, and the rate is exact over time.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// The most recipients of a batch.
pub const MOST: usize = 100;
/// How far ahead of the rate batches go, in microseconds.
const AHEAD: i64 = 1_000_000;
const HOUR: i64 = 3_600_000_000;
const DAY: i64 = 24 * 60 * 60 * 1000;
/// The time zone where a day begins first.
const FIRST_ZONE: SignedDuration = SignedDuration::from_hours(14);

/// How much was promised.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pace {
    /// In microseconds since 1970.
    pub paced_until: Option<i64>,
    /// The day since the start that `warmup_used` is of.
    pub warmup_day: Option<i64>,
    /// How many days with something to send were before it.
    pub warmup_step: i64,
    pub warmup_used: i64,
}

/// What a campaign may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub rate_per_hour: Option<i64>,
    pub warmup: Vec<i64>,
    pub started_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// So many may go now.
    Now(usize),
    /// None before this.
    At(Timestamp),
}

impl Pace {
    /// Takes the turn of up to `size` messages.
    pub fn take(&mut self, limits: &Limits, size: usize, now: Timestamp) -> Turn {
        let day = limits.day(now);
        if self.warmup_day != Some(day) {
            // A day on which nothing was sent teaches nobody anything: it is no step of the warm-up.
            self.warmup_step += i64::from(self.warmup_used > 0);
            (self.warmup_day, self.warmup_used) = (Some(day), 0);
        }
        let step = usize::try_from(self.warmup_step).unwrap_or(usize::MAX);
        let left = limits.warmup.get(step).map(|most| (most - self.warmup_used).max(0));
        let left = left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(0));
        if left == 0 {
            return Turn::At(limits.beginning_of(day + 1));
        }
        let count = size.min(left);
        if let Some(rate) = limits.rate_per_hour {
            let now = now.as_microsecond();
            let until = self.paced_until.unwrap_or(now);
            if until > now + AHEAD {
                // Rounded up, so that it is time when the timer says so.
                return Turn::At(in_millis((until - AHEAD + 999) / 1000));
            }
            self.paced_until = Some(until.max(now) + cost(count, rate));
        }
        self.warmup_used += count as i64;
        Turn::Now(count)
    }

    /// So many of those that went at a time were not sent after all.
    pub fn give_back(&mut self, limits: &Limits, count: usize, went_at: Timestamp) {
        if self.warmup_day == Some(limits.day(went_at)) {
            self.warmup_used = (self.warmup_used - count as i64).max(0);
        }
        if let (Some(rate), Some(until)) = (limits.rate_per_hour, self.paced_until) {
            self.paced_until = Some(until - cost(count, rate));
        }
    }
}

impl Limits {
    /// The number of the day since the start.
    fn day(&self, at: Timestamp) -> i64 {
        (at.as_millisecond() - self.started_at.as_millisecond()).max(0) / DAY
    }

    fn beginning_of(&self, day: i64) -> Timestamp {
        in_millis(self.started_at.as_millisecond() + day * DAY)
    }
}

/// How many microseconds so many messages take up.
fn cost(count: usize, rate_per_hour: i64) -> i64 {
    (count as i64 * HOUR + rate_per_hour - 1) / rate_per_hour
}

fn in_millis(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

/// How many recipients a batch has: not more than go in about a second, so that a rate is smooth.
pub fn batch_size(rate_per_hour: Option<i64>) -> usize {
    let in_a_second = rate_per_hour.map_or(i64::MAX, |rate| rate / 3600);
    usize::try_from(in_a_second).unwrap_or(MOST).clamp(1, MOST)
}

/// The earliest moment at which it is that time anywhere.
pub fn earliest(local: DateTime) -> Timestamp {
    let utc = local.to_zoned(TimeZone::UTC).map_or(Timestamp::MAX, |zoned| zoned.timestamp());
    utc.saturating_sub(FIRST_ZONE).unwrap_or(utc)
}

/// When it is that time in a zone. A time that a change of the clocks leaves out is the one after it.
pub fn local_due(local: DateTime, zone: &TimeZone) -> Timestamp {
    local.to_zoned(zone.clone()).map_or_else(|_| earliest(local), |zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use jiff::{SignedDuration, Timestamp};

    use super::{Limits, MOST, Pace, Turn, batch_size, earliest, local_due};

    fn limits(rate: Option<i64>, warmup: &[i64]) -> Limits {
        let started_at = Timestamp::from_second(1_000_000).unwrap();
        Limits { rate_per_hour: rate, warmup: warmup.to_vec(), started_at }
    }

    /// Goes on as the timer says until the end, a little late each time. Tells how many went.
    fn run(limits: &Limits, size: usize, seconds: i64, late_ms: i64) -> usize {
        let (mut pace, mut now, mut sent) = (Pace::default(), limits.started_at, 0);
        let end = now + SignedDuration::from_secs(seconds);
        while now < end {
            match pace.take(limits, size, now) {
                Turn::Now(count) => sent += count,
                Turn::At(at) => {
                    assert!(at > now, "it would come at once again");
                    now = at + SignedDuration::from_millis(late_ms);
                }
            }
        }
        sent
    }

    #[test]
    fn a_rate_is_kept_over_time_even_if_everybody_is_a_little_late() {
        for (rate, late) in [(1, 0), (60, 900), (3_600, 40), (360_000, 7), (7_654_321, 3)] {
            let size = batch_size(Some(rate));
            let hours = (200_000 / rate).clamp(1, 1_000);
            let sent = run(&limits(Some(rate), &[]), size, hours * 3_600, late) as i64;
            let (wanted, ahead) = (rate * hours, rate / 3600 + 2 * size as i64);
            assert!((wanted..=wanted + ahead).contains(&sent), "{sent} of {wanted} at {rate}");
        }
    }

    #[test]
    fn each_day_with_something_to_send_uses_the_next_share_exactly() {
        let limits = limits(None, &[250, 1_000]);
        let day = SignedDuration::from_hours(24);
        let (mut pace, mut now) = (Pace::default(), limits.started_at);
        let mut sent_on = |now: Timestamp, most: usize| {
            let mut sent = 0;
            while sent < most {
                match pace.take(&limits, 100, now) {
                    Turn::Now(count) => sent += count,
                    Turn::At(at) => {
                        assert!(at > now && at.duration_since(now) <= day);
                        break;
                    }
                }
            }
            sent
        };
        assert_eq!(sent_on(now, 9_999), 250);
        assert_eq!(sent_on(now + SignedDuration::from_hours(23), 9_999), 0);
        // Some days pass; that is no reason to skip a share.
        now += day * 5;
        assert_eq!(sent_on(now, 9_999), 1_000);
        now += day;
        assert_eq!(sent_on(now, 5_000), 5_000, "then there is no bound");
    }

    #[test]
    fn what_was_not_sent_after_all_is_given_back() {
        let limits = limits(Some(3_600), &[100]);
        let mut pace = Pace::default();
        let now = limits.started_at;
        let before = pace.clone();
        assert_eq!(pace.take(&limits, 60, now), Turn::Now(60));
        assert!(matches!(pace.take(&limits, 60, now), Turn::At(_)));
        pace.give_back(&limits, 60, now);
        assert_eq!(pace.warmup_used, before.warmup_used);
        assert_eq!(pace.take(&limits, 200, now), Turn::Now(100));
        // What was charged on another day is not today's.
        let tomorrow = now + SignedDuration::from_hours(24);
        assert_eq!(pace.take(&limits, 7, tomorrow), Turn::Now(7));
        pace.give_back(&limits, 5, now);
        assert_eq!(pace.warmup_used, 7);
    }

    #[test]
    fn a_batch_goes_in_about_a_second() {
        for (rate, size) in
            [(None, MOST), (Some(1), 1), (Some(36_000), 10), (Some(9_999_999), MOST)]
        {
            assert_eq!(batch_size(rate), size);
        }
    }

    #[test]
    fn it_is_a_time_at_other_moments_elsewhere() {
        let check = |zone: &str, expected: &str| {
            let due = local_due("2026-07-02T09:00".parse().unwrap(), &TimeZone::get(zone).unwrap());
            assert_eq!(due, expected.parse::<Timestamp>().unwrap(), "{zone}");
            assert!(earliest("2026-07-02T09:00".parse().unwrap()) <= due);
        };
        check("UTC", "2026-07-02T09:00:00Z");
        check("Europe/Berlin", "2026-07-02T07:00:00Z");
        check("Pacific/Kiritimati", "2026-07-01T19:00:00Z");
        check("America/Los_Angeles", "2026-07-02T16:00:00Z");
        // The clocks go from 2 to 3 in that night.
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let due = local_due("2026-03-29T02:30".parse().unwrap(), &zone);
        assert_eq!(due, "2026-03-29T01:30:00Z".parse::<Timestamp>().unwrap());
    }
}
