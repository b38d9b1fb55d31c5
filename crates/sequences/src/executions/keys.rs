//! Where executions are in the main table.
//!
//! What an erasure has to find of a person is in `people::keys`: the two rows of seed 000, to the letter, and those that go
//! with them. Here are the others, and all of them by the types of executions.

use jiff::Timestamp;
use tidings_delivery::transactional::MessageId;
use tidings_kernel::{EmailAddress, Key};
use tidings_people::keys::{self, subscriber, time};

use super::ExecutionId;

pub(crate) use tidings_people::keys::EXECUTION as OF_SUBSCRIBER;
pub(crate) use tidings_people::keys::profile;
pub(crate) use tidings_people::keys::started_in as started_partition;

/// `SUB#<email>` / `EXEC#<sequence>`: that somebody is in a sequence.
pub(crate) fn of_subscriber(email: &EmailAddress, sequence: &str) -> Key {
    keys::execution_of(email, sequence)
}

/// Its partner, `EXEC#<sequence>` / `SUB#<email>`: who is in a sequence.
pub(crate) fn of_sequence(email: &EmailAddress, sequence: &str) -> Key {
    keys::execution_in(sequence, email)
}

/// All who are in a sequence.
pub(crate) fn partition(sequence: &str) -> String {
    format!("{OF_SUBSCRIBER}{sequence}")
}

/// The walk itself.
pub(crate) fn state(id: &ExecutionId) -> Key {
    keys::execution(id.as_str())
}

/// That it was taken out, and did not come to an end by itself.
pub(crate) fn stopped(id: &ExecutionId) -> Key {
    keys::stopped(id.as_str())
}

/// That a mail of it was counted as skipped.
pub(crate) fn skipped(id: &ExecutionId, message: MessageId) -> Key {
    Key::new(state(id).partition, format!("SKIPPED#{message}"))
}

/// Who is in a sequence, by when he came.
pub(crate) fn started(sequence: &str, at: Timestamp, id: &ExecutionId) -> Key {
    keys::started(sequence, &time(at), id.as_str())
}

/// When somebody came into a sequence last, where that decides whether he may come again.
pub(crate) fn entered(email: &EmailAddress, sequence: &str) -> Key {
    Key::new(subscriber(email), format!("ENTERED#{sequence}"))
}

/// When somebody was told last to leave a sequence, whether or not he was in it.
pub(crate) fn exited(email: &EmailAddress, sequence: &str) -> Key {
    Key::new(subscriber(email), format!("EXITED#{sequence}"))
}

/// An execution that could not go on.
pub(crate) fn failed(sequence: &str, at: Timestamp, id: &ExecutionId) -> Key {
    keys::failed(sequence, at, id.as_str())
}

pub(crate) fn failed_partition(sequence: &str) -> String {
    format!("FAILED#{sequence}")
}

/// When a walk failed, by its id.
pub(crate) fn failed_at(id: &ExecutionId) -> Key {
    keys::failed_at(id.as_str())
}

/// By which an erasure finds those of a person.
pub(crate) fn failed_of(
    email: &EmailAddress,
    sequence: &str,
    at: Timestamp,
    id: &ExecutionId,
) -> Key {
    keys::failed_entry(email, sequence, at, id.as_str())
}

/// What the keys of all of them begin with that are of one sequence.
pub(crate) fn all_failed(sequence: &str) -> String {
    format!("{}{sequence}#", keys::FAILED)
}

/// That a cause has let somebody into a sequence, so that it does so once.
pub(crate) fn cause(cause: &str, sequence: &str) -> Key {
    Key::new(format!("CAUSE#{cause}"), format!("EXEC#{sequence}"))
}

pub(crate) fn arn(sequence: &str, id: &ExecutionId) -> String {
    keys::execution_arn(sequence, id.as_str())
}

/// The id in an arn.
pub(crate) fn id_of(arn: &str) -> Option<ExecutionId> {
    ExecutionId::parse(keys::execution_id(arn)?)
}

/// The timer of an execution.
pub(crate) fn timer(id: &ExecutionId) -> String {
    keys::execution_timer(id.as_str())
}
