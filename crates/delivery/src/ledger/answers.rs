//! What the provider's answer means for a message of whatever kind, and how long things wait for one. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidings_kernel::SendError;

/// How long a claim holds. Whoever comes later and finds neither an answer nor the claimant calls it uncertain; an
/// answer that comes after all still counts.
pub const LEASE: SignedDuration = SignedDuration::from_mins(2);
/// So often a provider says "not now" before it is a refusal for good.
pub const MOST_REFUSALS: u32 = 10;
/// How many minutes a message waits after each "not now" but the last, a day in all: a grey list lets it through within the
/// first hour, and who mends a server needs more.
const NOT_NOW: [u64; MOST_REFUSALS as usize - 1] = [1, 5, 15, 30, 60, 180, 360, 360, 480];
/// How long a message waits that cannot be sent now for a reason that is not its own.
const PAUSE: Duration = Duration::from_secs(60);
/// How long it waits if the provider wants us to be slower and does not say for how long.
const SLOWER: Duration = Duration::from_secs(5);
/// One message that is throttled again and again waits longer each time, up to this.
const SLOWEST: Duration = Duration::from_secs(10 * 60);
/// So often one message can be throttled, which takes two days, before that counts as a try like any other.
const MOST_THROTTLED: u32 = 300;
/// The longest wait that is asked for at once.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);

/// What becomes of a message after the provider's refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    Failed,
    /// Nobody can be reached at the address: it has come back (`turned_away`).
    Bounced,
    /// It is tried again; it counts as a try.
    Again,
    /// It is tried again after a while, and as if nothing had been tried.
    Later(Duration),
    Uncertain,
}

pub fn refused(error: &SendError) -> Refusal {
    match error {
        SendError::Refused(_) => Refusal::Failed,
        SendError::NoSuchAddress { .. } => Refusal::Bounced,
        SendError::Later(_) => Refusal::Again,
        SendError::Throttled { retry_after, .. } => {
            Refusal::Later(retry_after.unwrap_or(SLOWER).clamp(Duration::from_secs(1), LONGEST))
        }
        SendError::Closed(_) => Refusal::Later(PAUSE),
        SendError::Uncertain(_) => Refusal::Uncertain,
    }
}

/// The same for one message that was handed over so often before: a provider that throttles it and nothing else must not
/// be asked about it for ever.
pub fn refused_again(error: &SendError, before: u32) -> Refusal {
    match (error, refused(error)) {
        (SendError::Throttled { .. }, _) if before >= MOST_THROTTLED => Refusal::Again,
        (SendError::Throttled { retry_after: None, .. }, Refusal::Later(after)) => {
            Refusal::Later(after.saturating_mul(before + 1).min(SLOWEST))
        }
        (_, refusal) => refusal,
    }
}

/// How long one message waits that the provider did not take so many times.
pub fn not_now(refusals: i64) -> Duration {
    let place = usize::try_from(refusals).unwrap_or(0).saturating_sub(1);
    let minutes = NOT_NOW.get(place).or(NOT_NOW.last()).copied().unwrap_or(1);
    Duration::from_secs(60 * minutes)
}

/// At least a second: what is due this very moment comes again at once otherwise.
pub fn until(at: Timestamp, now: Timestamp) -> Duration {
    let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
    wait.clamp(Duration::from_secs(1), LONGEST)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidings_kernel::SendError;

    use super::{MOST_REFUSALS, MOST_THROTTLED, Refusal, not_now, refused, refused_again};

    #[test]
    fn what_is_not_taken_is_tried_for_a_day() {
        let waits: Vec<_> = (1..i64::from(MOST_REFUSALS)).map(not_now).collect();
        assert!(waits.is_sorted());
        let hours = waits.iter().sum::<Duration>().as_secs() / 3600;
        assert_eq!((waits.first(), hours), (Some(&Duration::from_secs(60)), 24));
        for odd in [i64::MIN, 0, i64::MAX] {
            assert!(not_now(odd) >= Duration::from_secs(60), "{odd}");
        }
    }

    #[test]
    fn only_what_was_certainly_not_taken_is_sent_again() {
        let why = || "x".to_owned();
        let throttled = |secs: Option<u64>| SendError::Throttled {
            reason: why(),
            retry_after: secs.map(Duration::from_secs),
        };
        for (error, expected) in [
            (SendError::Refused(why()), Refusal::Failed),
            (
                SendError::NoSuchAddress { reason: why(), status: "5.1.1".to_owned() },
                Refusal::Bounced,
            ),
            (SendError::Later(why()), Refusal::Again),
            (throttled(None), Refusal::Later(Duration::from_secs(5))),
            (throttled(Some(0)), Refusal::Later(Duration::from_secs(1))),
            (throttled(Some(30)), Refusal::Later(Duration::from_secs(30))),
            (SendError::Closed(why()), Refusal::Later(Duration::from_secs(60))),
            (SendError::Uncertain(why()), Refusal::Uncertain),
        ] {
            assert_eq!(refused(&error), expected, "{error}");
            assert_eq!(refused_again(&error, 0), expected, "{error}");
        }
    }

    #[test]
    fn a_message_that_is_always_throttled_waits_longer_and_then_counts() {
        let throttled = SendError::Throttled { reason: "x".to_owned(), retry_after: None };
        for (before, secs) in [(1, 10), (11, 60), (119, 600), (MOST_THROTTLED - 1, 600)] {
            let expected = Refusal::Later(Duration::from_secs(secs));
            assert_eq!(refused_again(&throttled, before), expected, "{before}");
        }
        assert_eq!(refused_again(&throttled, MOST_THROTTLED), Refusal::Again);
        let closed = SendError::Closed("x".to_owned());
        let pause = Refusal::Later(Duration::from_secs(60));
        assert_eq!(refused_again(&closed, MOST_THROTTLED), pause);
    }
}
