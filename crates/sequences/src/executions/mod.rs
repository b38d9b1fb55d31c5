//! One person's walk through a sequence, from the event that let him in to the last step.
//!
//! Where a walk is, is one item; it changes in one transaction with the numbers of its steps and with the timer that wakes
//! it, and each of its changes expects the one before. So a message or a timer can come twice, late or on two nodes, and
//! a process can end anywhere: the walk goes on where it was. What a step sends, posts or tells has a name made of
//! execution and step, so that doing it again finds it done; tags and attributes change in the transaction that moves the walk.
//!
//! Here: how somebody comes in (`enter`), goes on (`walk`), and goes out (`leave`), what is kept of those who could not
//! (`failed`), mails that are not sent (`skips`), and looking at all that (`list`, `funnel`, `simulate`). Not here: which event means which of these
//! (`crate::events`).

mod bulk;
mod enter;
mod failed;
mod funnel;
mod keys;
mod leave;
mod list;
mod record;
mod simulate;
mod skips;
#[cfg(test)]
mod tests;
mod told;

mod walk;

use jiff::Timestamp;
use serde_json::Value;
use tidings_kernel::EmailAddress;

pub use bulk::{
    BeginError, Enrolment, EnrolmentId, begin_enrolment, begin_enrolment_once, enrolment,
};
pub use enter::{Enrol, EnrolError, Entered, Person, Refusal, enrol};
pub use failed::{Failed, FailedPage, RetryError, drop_failed, list_failed, retry};
pub use funnel::{Funnel, StepNumbers, funnel};
pub(crate) use leave::remember_exit;
pub use leave::{Cause, Which, stop, stop_all};
pub use list::{Inside, InsidePage, active, of_contact, show, within};
pub use simulate::{Assumed, Simulate, SimulateError, Simulated, Walked, simulate};
pub(crate) use walk::{Heard, context, hear, part_of};
pub use walk::{SkipError, Tools, Worker, skip_wait};

/// The id of an execution. It sorts as the executions began.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId(String);

/// Where somebody is in a sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    pub id: ExecutionId,
    pub email: EmailAddress,
    pub sequence: String,
    /// The one that was active when it began. It stays with it.
    pub version: i64,
    pub transactional: bool,
    pub started_at: Timestamp,
    /// When that was told which let him in. It may have waited for its turn.
    pub told_at: Timestamp,
    /// It has failed if it is not at its end by then.
    pub deadline: Timestamp,
    /// The place in the program.
    pub at: usize,
    /// The step there, for readers. At the end it is empty.
    pub step: String,
    /// When it came there.
    pub since: Timestamp,
    pub doing: Doing,
    /// How often the step could not be done.
    pub tries: u32,
    pub last_error: Option<String>,
    /// The data of the event that let him in.
    pub input: Value,
    /// Counts its changes.
    pub rev: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    /// Its step is to be done now.
    Going,
    Waiting {
        until: Timestamp,
    },
    WaitingFor {
        event: String,
        until: Timestamp,
    },
}

impl ExecutionId {
    /// By the time and chance. Chance alone would be enough; with the time they sort.
    pub(crate) fn new(now: Timestamp) -> Self {
        let mut random = [0; 10];
        getrandom::fill(&mut random).expect("the operating system has randomness");
        let millis = u64::try_from(now.as_millisecond()).unwrap_or_default();
        Self(format!("{millis:012x}{}", tidings_kernel::hex(&random)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `None` if no execution can be called so.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        (text.len() == 32 && text.bytes().all(hex)).then(|| Self(text.to_owned()))
    }
}

impl std::fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Execution {
    /// As the records of seed 000 call it.
    pub fn arn(&self) -> String {
        keys::arn(&self.sequence, &self.id)
    }

    /// When it goes on by itself.
    pub fn next_at(&self) -> Timestamp {
        match self.doing {
            Doing::Going => self.since,
            Doing::Waiting { until } | Doing::WaitingFor { until, .. } => until,
        }
        .min(self.deadline)
    }
}
