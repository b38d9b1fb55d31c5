//! What a worker does with a message that it is handed. Pure. What the provider's answer means is the same for all kinds of
//! messages (`ledger::answers`).

use std::time::Duration;

use jiff::Timestamp;

use super::Status;
use crate::ledger::answers::until;

/// What the ledger knows of a message, as far as it decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) status: Status,
    pub(super) claimed_until: Option<Timestamp>,
    pub(super) handed_at: Option<Timestamp>,
    pub(super) scheduled_at: Option<Timestamp>,
    /// When it is tried again after the provider did not take it.
    pub(super) not_before: Option<Timestamp>,
    /// It has failed because its queue gave it up, and not for anything that was said of it.
    pub(super) is_given_up: bool,
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
    /// Its queue gave it up, and somebody has put it back: it waits again.
    Revive,
    Send,
}

pub(super) fn next(state: &State, now: Timestamp) -> Step {
    match state.status {
        Status::Failed if state.is_given_up => Step::Revive,
        Status::Failed | Status::Skipped | Status::Cancelled | Status::Uncertain => {
            Step::Acknowledge
        }
        Status::Sent | Status::Delivered | Status::Bounced | Status::Complained => Step::Log,
        Status::Queued => match state.scheduled_at.max(state.not_before) {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::{State, Step, next};
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
                not_before: time("not_before="),
                is_given_up: false,
            },
            _ => State {
                status,
                claimed_until: time("until="),
                handed_at: time("handed="),
                scheduled_at: None,
                not_before: None,
                is_given_up: false,
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
        check("queued scheduled=90 not_before=130", &seconds(30));
        check("queued scheduled=90 not_before=100", &Step::Send);
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
        let given_up = State {
            status: Status::Failed,
            claimed_until: None,
            handed_at: None,
            scheduled_at: None,
            not_before: None,
            is_given_up: true,
        };
        assert_eq!(next(&given_up, at(100)), Step::Revive);
    }
}
