//! The life of a campaign: which moves it can make, and which are refused. Pure.
//!
//! draft → scheduled → snapshotting → sending ⇄ paused → sent, or cancelled or failed on the way.

use std::fmt;

use super::Status;

/// What decides about a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    pub status: Status,
    /// What a paused one goes on with.
    pub paused_in: Option<Status>,
    /// Whether the time that it was scheduled for has come.
    pub due: bool,
}

/// What is to happen with a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    Edit,
    Delete,
    Schedule,
    Start,
    /// All recipients are written down.
    Send,
    Pause,
    Resume,
    Cancel,
    /// Send to those again where it failed.
    Retry,
    /// Nothing is left to be sent.
    Finish,
    Fail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    To(Status),
    /// It was done before, and doing it again changes nothing.
    Already,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is {status}, and {command} needs one that is {}", .command.needs())]
pub struct Illegal {
    pub status: Status,
    pub command: Command,
}

/// What becomes of a campaign, or why nothing does.
pub fn decide(state: State, command: Command) -> Result<Move, Illegal> {
    use Status as S;
    let status = state.status;
    // Nothing of it has begun, so it is as good as scheduled.
    let waits = status == S::Paused && state.paused_in == Some(S::Scheduled);
    let next = match (command, status) {
        (Command::Edit, S::Paused) if waits => Move::To(S::Paused),
        (Command::Schedule, S::Paused) if waits => Move::To(S::Scheduled),
        (Command::Start, S::Paused) if waits => Move::To(S::Snapshotting),
        (Command::Edit | Command::Schedule, S::Scheduled) => Move::To(S::Scheduled),
        (Command::Edit | Command::Delete, S::Draft) => Move::To(S::Draft),
        (Command::Schedule, S::Draft) => Move::To(S::Scheduled),
        (Command::Start, S::Draft | S::Scheduled) => Move::To(S::Snapshotting),
        // Whoever asks to start it once more gets the one that was started.
        (Command::Start, S::Snapshotting | S::Sending | S::Paused | S::Sent) => Move::Already,
        (Command::Send, S::Snapshotting) => Move::To(S::Sending),
        (Command::Pause, S::Scheduled | S::Snapshotting | S::Sending) => Move::To(S::Paused),
        (Command::Pause, S::Paused) => Move::Already,
        (Command::Resume, S::Paused) => Move::To(match state.paused_in {
            Some(S::Scheduled) if state.due => S::Snapshotting,
            Some(S::Scheduled) => S::Scheduled,
            Some(S::Snapshotting) => S::Snapshotting,
            _ => S::Sending,
        }),
        (Command::Resume, S::Scheduled | S::Snapshotting | S::Sending) => Move::Already,
        (Command::Cancel, S::Draft | S::Scheduled | S::Snapshotting | S::Sending | S::Paused) => {
            Move::To(S::Cancelled)
        }
        (Command::Cancel, S::Cancelled) => Move::Already,
        (Command::Retry, S::Sent) => Move::To(S::Sending),
        (Command::Finish, S::Sending) => Move::To(S::Sent),
        (Command::Fail, S::Scheduled | S::Snapshotting | S::Sending) => Move::To(S::Failed),
        _ => return Err(Illegal { status, command }),
    };
    Ok(next)
}

impl Command {
    pub const ALL: [Self; 11] = [
        Self::Edit,
        Self::Delete,
        Self::Schedule,
        Self::Start,
        Self::Send,
        Self::Pause,
        Self::Resume,
        Self::Cancel,
        Self::Retry,
        Self::Finish,
        Self::Fail,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Edit => "editing",
            Self::Delete => "deleting",
            Self::Schedule => "scheduling",
            Self::Start => "starting",
            Self::Send => "sending",
            Self::Pause => "pausing",
            Self::Resume => "resuming",
            Self::Cancel => "cancelling",
            Self::Retry => "sending again to those where it failed",
            Self::Finish => "finishing",
            Self::Fail => "failing",
        }
    }

    /// From where it can be done, for people.
    fn needs(self) -> &'static str {
        match self {
            Self::Delete => "a draft",
            Self::Edit | Self::Schedule | Self::Start => {
                "a draft or scheduled, or paused before it began"
            }
            Self::Send => "snapshotting",
            Self::Pause | Self::Fail => "scheduled, snapshotting or sending",
            Self::Resume => "paused",
            Self::Cancel => "not at its end",
            Self::Retry => "sent (one that is paused is resumed first)",
            Self::Finish => "sending",
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, Move, State, decide};
    use crate::campaigns::Status;

    fn word(status: Status, command: Command) -> &'static str {
        let state = State { status, paused_in: Some(Status::Sending), due: false };
        match decide(state, command) {
            Ok(Move::To(next)) => next.as_str(),
            Ok(Move::Already) => "already",
            Err(_) => "-",
        }
    }

    #[test]
    fn every_move_that_is_not_in_the_table_is_refused() {
        let mut table = String::new();
        for command in Command::ALL {
            let line: Vec<_> = Status::ALL.iter().map(|status| word(*status, command)).collect();
            table += &format!("{command:?}: {}\n", line.join(" "));
        }
        // From draft, scheduled, snapshotting, sending, paused, sent, cancelled, failed.
        let expected = "\
Edit: draft scheduled - - - - - -
Delete: draft - - - - - - -
Schedule: scheduled scheduled - - - - - -
Start: snapshotting snapshotting already already already already - -
Send: - - sending - - - - -
Pause: - paused paused paused already - - -
Resume: - already already already sending - - -
Cancel: cancelled cancelled cancelled cancelled cancelled - already -
Retry: - - - - - sending - -
Finish: - - - sent - - - -
Fail: - failed failed failed - - - -
";
        assert_eq!(table, expected);
    }

    #[test]
    fn a_paused_one_goes_on_with_what_it_did() {
        let check = |paused_in, due, expected| {
            let state = State { status: Status::Paused, paused_in: Some(paused_in), due };
            assert_eq!(decide(state, Command::Resume), Ok(Move::To(expected)));
        };
        check(Status::Scheduled, false, Status::Scheduled);
        check(Status::Scheduled, true, Status::Snapshotting);
        check(Status::Snapshotting, true, Status::Snapshotting);
        check(Status::Sending, true, Status::Sending);
        let state =
            State { status: Status::Paused, paused_in: Some(Status::Scheduled), due: false };
        assert!(decide(state, Command::Retry).is_err());
    }

    #[test]
    fn one_that_is_paused_before_it_began_can_still_be_changed_and_started() {
        let state = State { status: Status::Paused, paused_in: Some(Status::Scheduled), due: true };
        for (command, expected) in [
            (Command::Edit, Status::Paused),
            (Command::Schedule, Status::Scheduled),
            (Command::Start, Status::Snapshotting),
        ] {
            assert_eq!(decide(state, command), Ok(Move::To(expected)), "{command}");
        }
        assert!(decide(state, Command::Delete).is_err());
    }

    #[test]
    fn a_refusal_says_what_would_be_right() {
        let state = State { status: Status::Sent, paused_in: None, due: false };
        let refused = decide(state, Command::Pause).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "it is sent, and pausing needs one that is scheduled, snapshotting or sending"
        );
    }
}
