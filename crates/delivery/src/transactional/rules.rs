//! What a worker does with a message that it is handed, and what the provider's answer means. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidings_kernel::SendError;

use super::Status;

/// How long a claim holds. Whoever comes later and finds neither an answer nor the claimant calls it uncertain; an
/// answer that comes after all still counts.
pub(super) const LEASE: SignedDuration = SignedDuration::from_mins(2);
/// So often a provider says "not now" before it is a refusal for good: fewer than a queue hands a message over.
pub(super) const MOST_REFUSALS: u32 = 10;
/// How long a message waits that cannot be sent now for a reason that is not its own.
const PAUSE: Duration = Duration::from_secs(60);
/// How long it waits if the provider wants us to be slower and does not say for how long.
const SLOWER: Duration = Duration::from_secs(5);
/// The longest wait that is asked for at once.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);

/// What the ledger knows of a message, as far as it decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) status: Status,
    pub(super) claimed_until: Option<Timestamp>,
    pub(super) handed_at: Option<Timestamp>,
    pub(super) scheduled_at: Option<Timestamp>,
}

/// What is to be done with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing: it has its end.
    Acknowledge,
    /// It was sent: see that the send log says so.
    Log,
    /// Somebody else has it, or its time has not come.
    Wait(Duration),
    /// It was handed over and no answer is known: say so, and never send it again.
    GiveUp,
    Send,
}

/// What becomes of a row after the provider's refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    Failed,
    /// Back to the queue; it counts as a try.
    Again,
    /// Back to the queue after a while, and as if nothing had been tried.
    Later(Duration),
    Uncertain,
}

pub(super) fn next(state: &State, now: Timestamp) -> Step {
    match state.status {
        Status::Failed | Status::Skipped | Status::Cancelled | Status::Uncertain => {
            Step::Acknowledge
        }
        Status::Sent | Status::Delivered | Status::Bounced | Status::Complained => Step::Log,
        Status::Queued => match state.scheduled_at {
            Some(at) if at > now => Step::Wait(until(at, now)),
            _ => Step::Send,
        },
        Status::Claimed => match state.claimed_until {
            Some(end) if end > now => Step::Wait(until(end, now)),
            // Claimed and handed over is one commit, so this is the rule; the other is a claim of an older version.
            _ if state.handed_at.is_some() => Step::GiveUp,
            _ => Step::Send,
        },
    }
}

pub(super) fn refused(error: &SendError) -> Refusal {
    match error {
        SendError::Refused(_) => Refusal::Failed,
        SendError::Later(_) => Refusal::Again,
        SendError::Throttled { retry_after, .. } => {
            Refusal::Later(retry_after.unwrap_or(SLOWER).clamp(Duration::from_secs(1), LONGEST))
        }
        SendError::Closed(_) => Refusal::Later(PAUSE),
        SendError::Uncertain(_) => Refusal::Uncertain,
    }
}

/// At least a second: what is due this very moment comes again at once otherwise.
pub(super) fn until(at: Timestamp, now: Timestamp) -> Duration {
    let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
    wait.clamp(Duration::from_secs(1), LONGEST)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use tidings_kernel::SendError;

    use super::{Refusal, State, Step, next, refused};
    use crate::transactional::Status;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn check(state: &str, expected: &Step) {
        let mut words = state.split(' ');
        let status: Status = words.next().unwrap().parse().unwrap();
        let mut time = |name: &str| {
            words
                .next()
                .and_then(|word| word.strip_prefix(name))
                .map(|at_| at(at_.parse().unwrap()))
        };
        let state = match status {
            Status::Queued => State {
                status,
                claimed_until: None,
                handed_at: None,
                scheduled_at: time("scheduled="),
            },
            _ => State {
                status,
                claimed_until: time("until="),
                handed_at: time("handed="),
                scheduled_at: None,
            },
        };
        assert_eq!(next(&state, at(100)), *expected, "{state:?}");
    }

    #[test]
    fn a_message_is_sent_only_while_nobody_can_have_sent_it() {
        let seconds = |count| Step::Wait(Duration::from_secs(count));
        check("queued", &Step::Send);
        check("queued scheduled=100", &Step::Send);
        check("queued scheduled=160", &seconds(60));
        check("claimed until=130 handed=90", &seconds(30));
        check("claimed until=101", &seconds(1));
        check("claimed until=100 handed=90", &Step::GiveUp);
        check("claimed until=100", &Step::Send);
        for done in ["failed", "skipped", "cancelled", "uncertain"] {
            check(done, &Step::Acknowledge);
        }
        for sent in ["sent", "delivered", "bounced", "complained"] {
            check(sent, &Step::Log);
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
            (SendError::Later(why()), Refusal::Again),
            (throttled(None), Refusal::Later(Duration::from_secs(5))),
            (throttled(Some(0)), Refusal::Later(Duration::from_secs(1))),
            (throttled(Some(30)), Refusal::Later(Duration::from_secs(30))),
            (SendError::Closed(why()), Refusal::Later(Duration::from_secs(60))),
            (SendError::Uncertain(why()), Refusal::Uncertain),
        ] {
            assert_eq!(refused(&error), expected, "{error}");
        }
    }
}
