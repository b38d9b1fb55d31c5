//! What comes next in a walk. Pure: the walk, its program and the time in, the next thing to do out.

use jiff::{SignedDuration, Timestamp};

use super::super::{Doing, Execution};
use crate::definition::{Op, Program, choose};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// It waits, and something will wake it.
    Asleep,
    /// Its step is to wait.
    Sleep(Doing),
    /// The same, and how long depends on where the person is.
    Rest,
    /// Its step is done, or was only a decision.
    Go(usize),
    /// Its step does something.
    Act,
    /// Its step asks what is known of the person.
    Ask,
    End,
    Leave,
    TimedOut,
}

pub(super) fn next(execution: &Execution, program: &Program, now: Timestamp) -> Next {
    if now >= execution.deadline {
        return Next::TimedOut;
    }
    let Some(place) = program.places.get(execution.at) else { return Next::End };
    let over = match &execution.doing {
        Doing::Going => false,
        Doing::Waiting { until } | Doing::WaitingFor { until, .. } if *until > now => {
            return Next::Asleep;
        }
        Doing::Waiting { .. } | Doing::WaitingFor { .. } => true,
    };
    match &place.op {
        Op::Wait { next, .. } if over => Next::Go(*next),
        Op::WaitFor { late, .. } if over => Next::Go(*late),
        Op::WaitFor { event, timeout, .. } => {
            let timeout = SignedDuration::try_from(*timeout).unwrap_or(SignedDuration::MAX);
            let until = execution.since.saturating_add(timeout).unwrap_or(Timestamp::MAX);
            Next::Sleep(Doing::WaitingFor { event: event.clone(), until })
        }
        Op::Choice { path, branches, default } => {
            Next::Go(choose(path, branches, *default, &execution.input))
        }
        Op::Check { .. } => Next::Ask,
        Op::Wait { .. } => Next::Rest,
        Op::Send { .. }
        | Op::Tag { .. }
        | Op::Set { .. }
        | Op::Inbox { .. }
        | Op::Webhook { .. } => Next::Act,
        Op::Exit { .. } => Next::Leave,
    }
}
