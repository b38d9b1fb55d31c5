//! Where executions are in the main table. The two rows of seed 000 are its own to the letter; the others are ours.

use jiff::Timestamp;
use tidings_kernel::{EmailAddress, Key};
use tidings_people::keys::{subscriber, time};

use super::ExecutionId;

pub(crate) const OF_SUBSCRIBER: &str = "EXEC#";

/// `SUB#<email>` / `EXEC#<sequence>`: that somebody is in a sequence.
pub(crate) fn of_subscriber(email: &EmailAddress, sequence: &str) -> Key {
    Key::new(subscriber(email), partition(sequence))
}

/// Its partner, `EXEC#<sequence>` / `SUB#<email>`: who is in a sequence.
pub(crate) fn of_sequence(email: &EmailAddress, sequence: &str) -> Key {
    Key::new(partition(sequence), subscriber(email))
}

/// All who are in a sequence.
pub(crate) fn partition(sequence: &str) -> String {
    format!("EXEC#{sequence}")
}

/// The walk itself.
pub(crate) fn state(id: &ExecutionId) -> Key {
    Key::new(format!("EXECUTION#{id}"), "STATE")
}

/// Who is in a sequence, by when he came.
pub(crate) fn started(sequence: &str, at: Timestamp, id: &ExecutionId) -> Key {
    Key::new(started_partition(sequence), format!("{}#{id}", time(at)))
}

pub(crate) fn started_partition(sequence: &str) -> String {
    format!("STARTED#{sequence}")
}

/// When somebody came into a sequence last, where that decides whether he may come again.
pub(crate) fn entered(email: &EmailAddress, sequence: &str) -> Key {
    Key::new(subscriber(email), format!("ENTERED#{sequence}"))
}

/// An execution that could not go on.
pub(crate) fn failed(sequence: &str, at: Timestamp, id: &ExecutionId) -> Key {
    Key::new(failed_partition(sequence), format!("{}#{id}", time(at)))
}

pub(crate) fn failed_partition(sequence: &str) -> String {
    format!("FAILED#{sequence}")
}

/// When a walk failed, by its id.
pub(crate) fn failed_at(id: &ExecutionId) -> Key {
    Key::new(format!("EXECUTION#{id}"), "FAILED")
}

/// By which an erasure finds those of a person.
pub(crate) fn failed_of(
    email: &EmailAddress,
    sequence: &str,
    at: Timestamp,
    id: &ExecutionId,
) -> Key {
    Key::new(subscriber(email), format!("FAILEXEC#{sequence}#{}#{id}", time(at)))
}

/// That a cause has let somebody into a sequence, so that it does so once.
pub(crate) fn cause(cause: &str, sequence: &str) -> Key {
    Key::new(format!("CAUSE#{cause}"), format!("EXEC#{sequence}"))
}

pub(crate) fn arn(sequence: &str, id: &ExecutionId) -> String {
    format!("tidings:execution:{sequence}:{id}")
}

/// The id in an arn.
pub(crate) fn id_of(arn: &str) -> Option<ExecutionId> {
    ExecutionId::parse(arn.rsplit_once(':')?.1)
}

/// The timer of an execution.
pub(crate) fn timer(id: &ExecutionId) -> String {
    format!("execution/{id}")
}
