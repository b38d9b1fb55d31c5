//! When a delivery is tried again, when it is given up, and when an endpoint is.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::post::{Answer, Attempt};
use crate::rows::DeliveryId;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// How long after a failed attempt the next one comes. More than 31 hours in all.
const RETRIES: [Duration; 7] = [
    Duration::from_secs(5),
    Duration::from_secs(5 * MINUTE),
    Duration::from_secs(30 * MINUTE),
    Duration::from_secs(2 * HOUR),
    Duration::from_secs(5 * HOUR),
    Duration::from_secs(10 * HOUR),
    Duration::from_secs(14 * HOUR),
];

/// So many attempts one endpoint gets at once from one process: a slow one must not hold up all the others.
pub(crate) const AT_ONCE: usize = 4;
/// How long the first of those wait that find it busy, and the last.
const BUSY: Duration = Duration::from_secs(2);
const BUSY_MOST: Duration = Duration::from_secs(5 * MINUTE);

/// An endpoint that failed so often in a row, for so long, is no longer tried.
const HOPELESS_FAILURES: i64 = 30;
const HOPELESS_AFTER: SignedDuration = SignedDuration::from_hours(3 * 24);

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Delivered,
    Again {
        at: Timestamp,
    },
    /// It was the last attempt.
    Exhausted,
    /// The endpoint has said that it is gone for good.
    Gone,
}

/// `attempts` are those that were made before this one.
pub(crate) fn judge(
    delivery: DeliveryId,
    attempts: i64,
    attempt: &Attempt,
    now: Timestamp,
) -> Verdict {
    match &attempt.result {
        Ok(Answer { status: 200..=299, .. }) => Verdict::Delivered,
        Ok(Answer { status: 410, .. }) => Verdict::Gone,
        Ok(_) | Err(_) => match retry_after(delivery, attempts) {
            Some(delay) => {
                let delay = SignedDuration::try_from(delay).expect("delays are hours");
                Verdict::Again { at: now.saturating_add(delay).expect("delays are hours") }
            }
            None => Verdict::Exhausted,
        },
    }
}

/// Up to a fifth longer, by a number that only the delivery and the attempt decide: what failed together does not come
/// again together.
fn retry_after(delivery: DeliveryId, attempts: i64) -> Option<Duration> {
    let place = usize::try_from(attempts).ok()?;
    let delay = *RETRIES.get(place)?;
    let mixed = (delivery.get() as u64)
        .wrapping_mul(RETRIES.len() as u64)
        .wrapping_add(place as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let share = (mixed >> 32) % 1000;
    Some(delay + delay / 5 * u32::try_from(share).unwrap_or(0) / 1000)
}

/// How long a delivery waits whose endpoint is busy: the longer, the more of them were turned away before it. A queue of
/// thousands for a slow endpoint would otherwise come every moment, and be in the way of all others.
pub(crate) fn turned_away(before: usize) -> Duration {
    let steps = u32::try_from(before / AT_ONCE).unwrap_or(u32::MAX);
    BUSY.saturating_mul(steps.saturating_add(1)).min(BUSY_MOST)
}

/// Whether an endpoint is given up. The failures include the one now.
pub(crate) fn is_hopeless(failures: i64, failing_since: Timestamp, now: Timestamp) -> bool {
    failures >= HOPELESS_FAILURES && now.duration_since(failing_since) > HOPELESS_AFTER
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::{RETRIES, Verdict, is_hopeless, judge, retry_after, turned_away};
    use crate::post::{Answer, Attempt};
    use crate::rows::DeliveryId;

    fn check(status: Option<u16>, attempts: i64) -> Verdict {
        let result = match status {
            Some(status) => Ok(Answer { status, text: String::new() }),
            None => Err("no answer".to_owned()),
        };
        let attempt = Attempt { result, took: Duration::ZERO };
        judge(DeliveryId::from(1), attempts, &attempt, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn only_two_hundreds_are_taken_for_yes() {
        for status in [200, 202, 204, 299] {
            assert_eq!(check(Some(status), 0), Verdict::Delivered);
            assert_eq!(check(Some(status), 99), Verdict::Delivered);
        }
        for status in [100, 301, 302, 304, 400, 401, 404, 429, 500, 503] {
            assert!(matches!(check(Some(status), 0), Verdict::Again { .. }), "{status}");
            assert_eq!(check(Some(status), 7), Verdict::Exhausted);
        }
        assert!(matches!(check(None, 6), Verdict::Again { .. }));
        assert_eq!(check(None, 7), Verdict::Exhausted);
        assert_eq!(check(Some(410), 0), Verdict::Gone);
    }

    #[test]
    fn retries_go_on_for_more_than_a_day_and_spread() {
        let total: Duration = RETRIES.iter().sum();
        assert!(total > Duration::from_secs(24 * 3600), "{total:?}");
        let mut first = std::collections::BTreeSet::new();
        for delivery in 1..=100 {
            let delivery = DeliveryId::from(delivery);
            for (attempts, delay) in (0..).zip(RETRIES) {
                let jittered = retry_after(delivery, attempts).unwrap();
                assert!(jittered >= delay && jittered <= delay + delay / 5, "{jittered:?}");
                assert_eq!(retry_after(delivery, attempts), Some(jittered));
            }
            first.insert(retry_after(delivery, 3).unwrap());
        }
        assert!(first.len() > 80, "only {} different delays", first.len());
    }

    #[test]
    fn who_waits_for_a_busy_endpoint_waits_in_line() {
        for (before, seconds) in
            [(0, 2), (3, 2), (4, 4), (39, 20), (400, 202), (10_000, 300), (usize::MAX, 300)]
        {
            assert_eq!(turned_away(before), Duration::from_secs(seconds), "{before}");
        }
    }

    #[test]
    fn an_endpoint_is_given_up_after_days_and_many_failures() {
        let at = |text: &str| text.parse().unwrap();
        let since = at("2026-07-01T12:00:00Z");
        for (failures, now, expected) in [
            (1, "2026-08-01T12:00:00Z", false),
            (29, "2026-08-01T12:00:00Z", false),
            (1000, "2026-07-04T12:00:00Z", false),
            (30, "2026-07-04T12:00:01Z", true),
        ] {
            assert_eq!(is_hopeless(failures, since, at(now)), expected, "{failures} {now}");
        }
    }
}
