//! What a worker does with each recipient of a batch, and what the provider's answer means. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidings_kernel::SendError;

/// How long somebody who is handed over waits for the answer. Whoever comes later and finds none calls it uncertain; an
/// answer that comes after all still counts.
pub(super) const LEASE: SignedDuration = SignedDuration::from_mins(2);
/// So often a provider says "not now" of one recipient before that is a refusal for good.
pub(super) const MOST_REFUSALS: i64 = 10;
/// How long a batch waits if the provider takes nothing from us at all.
const PAUSE: Duration = Duration::from_secs(60);
/// How long it waits if the provider wants us to be slower and does not say for how long.
const SLOWER: Duration = Duration::from_secs(5);
/// The longest wait that is asked for at once.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);
/// How long somebody waits the first time that the provider did not take his message. It doubles each time.
const FIRST_WAIT: SignedDuration = SignedDuration::from_mins(1);
const MAX_WAIT: SignedDuration = SignedDuration::from_hours(4);

/// What the ledger knows of a recipient, as far as it decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) status: String,
    pub(super) claimed_until: Option<Timestamp>,
    pub(super) handed_at: Option<Timestamp>,
}

/// What is to be done with a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing: he has his end.
    Nothing,
    /// It was sent: see that the send log says so.
    Log,
    /// Somebody else is handing it over.
    Wait(Duration),
    /// It was handed over and no answer is known: say so, and never send it again.
    GiveUp,
    Send,
}

/// What becomes of a recipient after the provider's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    Failed,
    /// He is tried again later; it counts.
    Again,
    /// As if nothing had been tried. Nobody else is handed over for so long.
    Back(Duration),
    Uncertain,
}

pub(super) fn next(state: &State, now: Timestamp) -> Step {
    match state.status.as_str() {
        "pending" | "queued" => Step::Send,
        "claimed" => match state.claimed_until {
            Some(end) if end > now => Step::Wait(until(end, now)),
            _ if state.handed_at.is_some() => Step::GiveUp,
            // Who claims hands over in the same commit; this is what others may have left.
            _ => Step::Send,
        },
        "sent" | "delivered" | "bounced" | "complained" => Step::Log,
        _ => Step::Nothing,
    }
}

pub(super) fn refused(error: &SendError) -> Refusal {
    match error {
        SendError::Refused(_) => Refusal::Failed,
        SendError::Later(_) => Refusal::Again,
        SendError::Throttled { retry_after, .. } => {
            Refusal::Back(retry_after.unwrap_or(SLOWER).clamp(Duration::from_secs(1), LONGEST))
        }
        SendError::Closed(_) => Refusal::Back(PAUSE),
        SendError::Uncertain(_) => Refusal::Uncertain,
    }
}

/// When somebody is tried again whom the provider did not take so many times.
pub(super) fn tried_again(refusals: i64, now: Timestamp) -> Timestamp {
    let doublings = u32::try_from(refusals.clamp(1, 20) - 1).unwrap_or(0);
    let wait = FIRST_WAIT.saturating_mul(1 << doublings.min(16)).min(MAX_WAIT);
    now.saturating_add(wait).unwrap_or(now)
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

    use super::{Refusal, State, Step, next, refused, tried_again};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn check(status: &str, claim: Option<(i64, Option<i64>)>, expected: Step) {
        let state = State {
            status: status.to_owned(),
            claimed_until: claim.map(|(until, _)| at(until)),
            handed_at: claim.and_then(|(_, handed)| handed).map(at),
        };
        assert_eq!(next(&state, at(100)), expected, "{state:?}");
    }

    #[test]
    fn somebody_is_sent_to_only_while_nobody_can_have_done_it() {
        check("pending", None, Step::Send);
        check("queued", None, Step::Send);
        check("claimed", Some((130, Some(90))), Step::Wait(Duration::from_secs(30)));
        check("claimed", Some((101, None)), Step::Wait(Duration::from_secs(1)));
        check("claimed", Some((100, Some(90))), Step::GiveUp);
        check("claimed", Some((100, None)), Step::Send);
        for done in ["failed", "skipped", "uncertain"] {
            check(done, None, Step::Nothing);
        }
        for sent in ["sent", "delivered", "bounced", "complained"] {
            check(sent, None, Step::Log);
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
            (throttled(None), Refusal::Back(Duration::from_secs(5))),
            (throttled(Some(0)), Refusal::Back(Duration::from_secs(1))),
            (throttled(Some(30)), Refusal::Back(Duration::from_secs(30))),
            (SendError::Closed(why()), Refusal::Back(Duration::from_secs(60))),
            (SendError::Uncertain(why()), Refusal::Uncertain),
        ] {
            assert_eq!(refused(&error), expected, "{error}");
        }
    }

    #[test]
    fn each_wait_is_twice_the_one_before() {
        for (refusals, minutes) in [(1, 1), (2, 2), (3, 4), (8, 128), (9, 240), (10, 240)] {
            assert_eq!(tried_again(refusals, at(0)), at(minutes * 60), "{refusals}");
        }
    }
}
