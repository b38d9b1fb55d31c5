//! The keys of a subscriber's items in the main table and of his events, as seed 000 has them.

use jiff::{SignedDuration, Timestamp};
use tidings_kernel::{EmailAddress, Key};

pub const PROFILE: &str = "PROFILE";
pub const SUPPRESSION: &str = "SUPPRESSION";

/// The partition of everything about one subscriber, in the main table and in that of the events.
pub fn subscriber(email: &EmailAddress) -> String {
    format!("SUB#{email}")
}

pub fn profile(email: &EmailAddress) -> Key {
    Key::new(subscriber(email), PROFILE)
}

pub fn suppression(email: &EmailAddress) -> Key {
    Key::new(subscriber(email), SUPPRESSION)
}

/// When a suppression was lifted, so that a bounce from before does not bring it back.
pub fn lifted(email: &EmailAddress) -> Key {
    Key::new(subscriber(email), "SUPPRESSION_LIFTED")
}

/// The transient bounces of late, and the deliveries between them.
pub fn bounces(email: &EmailAddress) -> Key {
    Key::new(subscriber(email), "BOUNCES")
}

/// The partition that lists all suppressions, by address.
pub const SUPPRESSIONS: &str = "SUPPRESSIONS";

pub fn suppression_entry(email: &EmailAddress) -> Key {
    Key::new(SUPPRESSIONS, subscriber(email))
}

/// One of a subscriber's tags, in the index of the tag.
pub fn tag(tag: &str, email: &EmailAddress) -> Key {
    Key::new(tag_partition(tag), subscriber(email))
}

pub fn tag_partition(tag: &str) -> String {
    format!("TAG#{tag}")
}

/// A line of the send log.
pub fn sent(email: &EmailAddress, at: Timestamp) -> Key {
    Key::new(subscriber(email), format!("SENT#{}", time(at)))
}

/// What the keys of a person's executions begin with: one for each sequence that he is in.
pub const EXECUTION: &str = "EXEC#";

/// What the keys begin with of what leads to a person's failed executions.
pub const FAILED: &str = "FAILEXEC#";

/// That somebody is in a sequence, as he sees it.
pub fn execution_of(email: &EmailAddress, sequence: &str) -> Key {
    Key::new(subscriber(email), format!("{EXECUTION}{sequence}"))
}

/// The same, as the sequence sees it.
pub fn execution_in(sequence: &str, email: &EmailAddress) -> Key {
    Key::new(format!("{EXECUTION}{sequence}"), subscriber(email))
}

/// Where an execution is.
pub fn execution(id: &str) -> Key {
    Key::new(format!("EXECUTION#{id}"), "STATE")
}

/// Who is in a sequence, by when he came: the partition of one.
pub fn started_in(sequence: &str) -> String {
    format!("STARTED#{sequence}")
}

/// One line of that. The time is as `time` writes it.
pub fn started(sequence: &str, at: &str, id: &str) -> Key {
    Key::new(started_in(sequence), format!("{at}#{id}"))
}

/// When an execution failed.
pub fn failed_at(id: &str) -> Key {
    Key::new(format!("EXECUTION#{id}"), "FAILED")
}

/// That an execution was taken out. Whoever still has it in hand takes back what it would send.
pub fn stopped(id: &str) -> Key {
    Key::new(format!("EXECUTION#{id}"), "STOPPED")
}

/// So long that is remembered: no queue keeps a message for longer.
pub const STOP_REMEMBERED: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Over so many items the numbers of a step are spread.
const SHARDS: u8 = 4;

/// How many people came to the steps of a sequence: the partition of one.
pub fn funnel_of(sequence: &str) -> String {
    format!("FUNNEL#{sequence}")
}

/// What the keys in it begin with of one version.
pub fn funnel_version(version: i64) -> String {
    format!("V#{version:010}#")
}

/// The numbers of a step, or of the sequence as a whole if it is empty. Which of the items has them, chance decides: the id of
/// an execution.
pub fn funnel(sequence: &str, version: i64, step: &str, id: &str) -> Key {
    let shard = id.as_bytes().last().copied().unwrap_or_default() % SHARDS;
    Key::new(funnel_of(sequence), format!("{}{step}#{shard}", funnel_version(version)))
}

/// What takes an execution further when its wait is over.
pub fn execution_timer(id: &str) -> String {
    format!("execution/{id}")
}

/// What others know an execution by.
pub fn execution_arn(sequence: &str, id: &str) -> String {
    format!("tidings:execution:{sequence}:{id}")
}

/// The id in it: its last part. `None` for what is none of ours.
pub fn execution_id(arn: &str) -> Option<&str> {
    let id = arn.strip_prefix("tidings:execution:")?.rsplit_once(':')?.1;
    (!id.is_empty()).then_some(id)
}

/// A failed execution, in the list of its sequence.
pub fn failed(sequence: &str, at: Timestamp, id: &str) -> Key {
    Key::new(format!("FAILED#{sequence}"), format!("{}#{id}", time(at)))
}

/// What leads to it from the person.
pub fn failed_entry(email: &EmailAddress, sequence: &str, at: Timestamp, id: &str) -> Key {
    Key::new(subscriber(email), format!("{FAILED}{sequence}#{}#{id}", time(at)))
}

/// Where that leads to, by its sort key.
pub fn failed_of(sort: &str) -> Option<Key> {
    let (sequence, rest) = sort.strip_prefix(FAILED)?.split_once('#')?;
    Some(Key::new(format!("FAILED#{sequence}"), rest))
}

/// Which customers are reminded of invoices at this address: the partition of it, in the table of the reminders.
pub fn reminded(email: &EmailAddress) -> String {
    format!("EMAIL#{email}")
}

/// A time as the keys and attributes of the items have it: `2026-03-17T10:30:00.000Z`. It sorts as it reads.
pub fn time(at: Timestamp) -> String {
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use super::{
        execution_arn, execution_id, execution_in, execution_of, failed, failed_entry, failed_of,
        sent, tag, time,
    };

    #[test]
    fn keys_are_those_of_the_seed() {
        let email = "User@Example.com".parse().unwrap();
        let at = "2026-03-17T10:30:00Z".parse().unwrap();
        assert_eq!(
            sent(&email, at).to_string(),
            "SUB#user@example.com / SENT#2026-03-17T10:30:00.000Z"
        );
        assert_eq!(tag("beta", &email).to_string(), "TAG#beta / SUB#user@example.com");
        assert_eq!(
            time("2026-03-17T10:30:00.123456Z".parse().unwrap()),
            "2026-03-17T10:30:00.123Z"
        );
    }

    #[test]
    fn keys_of_executions_lead_to_each_other() {
        let email = "ada@example.org".parse().unwrap();
        let at = "2026-03-17T10:30:00Z".parse().unwrap();
        let (own, partner) = (execution_of(&email, "welcome"), execution_in("welcome", &email));
        assert_eq!(own.to_string(), "SUB#ada@example.org / EXEC#welcome");
        assert_eq!(partner.to_string(), "EXEC#welcome / SUB#ada@example.org");
        let entry = failed_entry(&email, "welcome", at, "x1");
        assert_eq!(failed_of(&entry.sort.unwrap()), Some(failed("welcome", at, "x1")));
        assert_eq!(execution_id(&execution_arn("welcome", "x1")), Some("x1"));
        for arn in ["", "arn:aws:states:eu:1:execution:welcome:x1", "tidings:execution:welcome:"] {
            assert_eq!(execution_id(arn), None, "{arn}");
        }
    }
}
