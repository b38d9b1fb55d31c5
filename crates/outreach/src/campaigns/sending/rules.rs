//! What a worker does with each recipient of a batch, and when somebody is tried again. Pure. What the provider's answer means
//! for one message is the same for all kinds of them (`delivery::ledger::answers`).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidings_delivery::ledger::answers::{self, Refusal, until};
use tidings_kernel::SendError;

/// How long somebody waits the first time that the provider did not take his message. It doubles each time.
const FIRST_WAIT: SignedDuration = SignedDuration::from_mins(1);
const MAX_WAIT: SignedDuration = SignedDuration::from_hours(4);
/// So often all of a batch waits because somebody of it is throttled. After that he waits alone.
const PATIENCE: u32 = 3;

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

/// What becomes of somebody whom the provider did not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Failed,
    /// He is tried again; it counts as a try.
    Again,
    /// The provider takes nothing now: all of the batch waits, as if nothing had been tried.
    Stop(Duration),
    /// The provider does not take his: he waits alone, and as if nothing had been tried.
    PutOff(Duration),
    Uncertain,
}

/// What an answer means for somebody who was handed over so often before.
pub(super) fn refused(error: &SendError, before: i64) -> Refused {
    let before = u32::try_from(before).unwrap_or(u32::MAX);
    match answers::refused_again(error, before) {
        Refusal::Failed | Refusal::Bounced => Refused::Failed,
        Refusal::Again => Refused::Again,
        // Somebody who is throttled again and again must not hold up all others.
        Refusal::Later(after) if before >= PATIENCE && is_throttled(error) => {
            Refused::PutOff(after)
        }
        Refusal::Later(after) => Refused::Stop(after),
        Refusal::Uncertain => Refused::Uncertain,
    }
}

fn is_throttled(error: &SendError) -> bool {
    matches!(error, SendError::Throttled { .. })
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

    use tidings_kernel::SendError;

    use super::{Refused, State, Step, next, refused, tried_again};

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
    #[test]
    fn who_is_always_throttled_holds_up_others_a_few_times_and_waits_alone_then() {
        let why = || "x".to_owned();
        let throttled = SendError::Throttled { reason: why(), retry_after: None };
        for (before, expected) in [
            (0, Refused::Stop(Duration::from_secs(5))),
            (2, Refused::Stop(Duration::from_secs(15))),
            (3, Refused::PutOff(Duration::from_secs(20))),
            (299, Refused::PutOff(Duration::from_secs(600))),
            (300, Refused::Again),
            (i64::MAX, Refused::Again),
        ] {
            assert_eq!(refused(&throttled, before), expected, "{before}");
        }
        // If nobody takes anything, that is about nobody.
        let closed = SendError::Closed(why());
        assert_eq!(refused(&closed, 500), Refused::Stop(Duration::from_secs(60)));
        assert_eq!(refused(&SendError::Refused(why()), 0), Refused::Failed);
        assert_eq!(refused(&SendError::Later(why()), 0), Refused::Again);
        assert_eq!(refused(&SendError::Uncertain(why()), 0), Refused::Uncertain);
    }
}
