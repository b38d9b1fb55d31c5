//! What a worker does with each recipient of a batch, and when somebody is tried again. Pure. What the provider's answer means
//! is the same for all kinds of messages (`delivery::ledger::answers`).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidings_delivery::ledger::answers::until;

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

/// When somebody is tried again whom the provider did not take so many times.
pub(super) fn tried_again(refusals: i64, now: Timestamp) -> Timestamp {
    let doublings = u32::try_from(refusals.clamp(1, 20) - 1).unwrap_or(0);
    let wait = FIRST_WAIT.saturating_mul(1 << doublings.min(16)).min(MAX_WAIT);
    now.saturating_add(wait).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::{State, Step, next, tried_again};

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
    fn each_wait_is_twice_the_one_before() {
        for (refusals, minutes) in [(1, 1), (2, 2), (3, 4), (8, 128), (9, 240), (10, 240)] {
            assert_eq!(tried_again(refusals, at(0)), at(minutes * 60), "{refusals}");
        }
    }
}
