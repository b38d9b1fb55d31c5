//! Queues: what happens later, at least once, each queue by itself.
//!
//! Here: the queues and the topic of the product, what goes into them and comes out, and the port of a queue
//! engine. Not here: what a body says (`jobs::contracts`), who works on it (`jobs`), and any engine.

mod engine;
mod message;

pub use engine::{BadMessage, Outbox, QueueEngine, QueueError};
pub(crate) use message::check_body;
pub use message::{
    DeadLetter, Delivery, Depth, Destination, Outgoing, Postponement, Receipt, Receive, Which,
    message_id,
};

use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// The largest body, on every engine.
pub const MAX_BODY_BYTES: usize = 256 * 1024;
/// The longest that a message can be held back. What must wait longer is a timer.
pub const MAX_DELAY: Duration = Duration::from_secs(15 * 60);
/// The longest that a delivery can be kept from others.
pub const MAX_LEASE: Duration = Duration::from_secs(12 * 60 * 60);
/// How many messages one call can send, receive or settle.
pub const MAX_MESSAGES: usize = 1_000;

/// A standard queue: in no strict order, at least once. It is known by its name.
pub struct Queue {
    pub name: &'static str,
    /// How long a delivery is kept from others before it comes again, unless its worker asks for more.
    pub lease: Duration,
    /// A message that was delivered so often without an end goes to the dead letters.
    pub max_receives: u32,
    /// Whether somebody waits for what its messages do. Taking them goes before other work of the store.
    pub is_awaited: bool,
}

/// What is published on a topic comes out of each of its queues.
pub struct Topic {
    pub name: &'static str,
    pub queues: &'static [&'static Queue],
}

/// Checks how many messages one call is about.
pub fn check_count(count: usize) -> Result<(), BadMessage> {
    if (1..=MAX_MESSAGES).contains(&count) { Ok(()) } else { Err(BadMessage::Count) }
}

pub fn check_lease(lease: Duration) -> Result<(), BadMessage> {
    if lease <= MAX_LEASE { Ok(()) } else { Err(BadMessage::Lease) }
}

impl PartialEq for Queue {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Queue {}

impl Hash for Queue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Topic {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Topic {}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The queues of the product.
pub mod queues {
    use std::time::Duration;

    use super::Queue;

    const fn queue(name: &'static str, lease_secs: u64) -> Queue {
        let lease = Duration::from_secs(lease_secs);
        Queue { name, lease, max_receives: 12, is_awaited: false }
    }

    const fn awaited(name: &'static str, lease_secs: u64) -> Queue {
        Queue { is_awaited: true, ..queue(name, lease_secs) }
    }

    /// Account-critical mail, one message each. Nothing else may delay it.
    pub static TRANSACTIONAL_EMAIL: Queue = awaited("transactional-email", 60);
    /// Mails that ask people to confirm a subscription, before they are messages. A file can ask a million.
    pub static CONFIRMATION_MAIL: Queue = queue("confirmation-mail", 120);
    /// Batches of campaign recipients.
    pub static CAMPAIGN_EMAIL: Queue = queue("campaign-email", 300);
    /// A campaign that has something to do other than sending: to begin, to find its recipients, to go on.
    pub static CAMPAIGN_STEPS: Queue = queue("campaign-steps", 300);
    /// One person's walk through a sequence that can go on.
    pub static SEQUENCE_STEPS: Queue = queue("sequence-steps", 60);
    /// Something happened to a person that a sequence may begin with, wait for or end with.
    pub static SEQUENCE_EVENTS: Queue = queue("sequence-events", 60);
    /// Mail of sequences, one message each. A drip must not delay what somebody waits for, so it has a queue of its own.
    pub static SEQUENCE_EMAIL: Queue = queue("sequence-email", 60);
    /// A post to an inbox that has users to reach, or to be taken away from.
    pub static INBOX_POSTS: Queue = queue("inbox-posts", 120);
    /// A reminder of an overdue invoice has something to do: to be sent, to be told what became of it, to expire.
    pub static REMINDER_STEPS: Queue = queue("reminder-steps", 60);
    /// What the mail provider tells.
    pub static SES_WEBHOOKS: Queue = queue("ses-webhooks", 60);
    /// Opens, clicks and unsubscribes that we saw ourselves.
    pub static EMAIL_EVENTS: Queue = queue("email-events", 60);
    /// What people did, on its way to their timeline.
    pub static LEAD_INGESTION: Queue = queue("lead-ingestion", 60);
    /// The same of what was done to many at once, such as a campaign: it must not delay what somebody did just now.
    pub static LEAD_INGESTION_BULK: Queue = queue("lead-ingestion-bulk", 60);
    /// Events of a timeline from which memory is derived.
    pub static MEMORY_PROCESSING: Queue = queue("memory-processing", 60);
    /// Events of a timeline that change features.
    pub static FEATURE_PROCESSING: Queue = queue("feature-processing", 60);
    /// People who may be in other segments than before, and segments whose condition is new.
    pub static SEGMENT_PROCESSING: Queue = queue("segment-processing", 120);
    /// Something happened that others want to be told: once for each of them, into the queue after this one.
    pub static WEBHOOK_FANOUT: Queue = queue("webhook-fanout", 60);
    /// One thing to tell to one endpoint of somebody else's.
    pub static WEBHOOK_DELIVERY: Queue = queue("webhook-delivery", 60);
    /// A change of items that the audit log is to tell of.
    pub static AUDIT_ENTRIES: Queue = queue("audit-entries", 60);
    /// An operator's question whether queues and workers work, and how fast.
    pub static PROBE: Queue = queue("probe", 30);

    pub static ALL: [&Queue; 20] = [
        &TRANSACTIONAL_EMAIL,
        &CONFIRMATION_MAIL,
        &CAMPAIGN_EMAIL,
        &CAMPAIGN_STEPS,
        &SEQUENCE_STEPS,
        &SEQUENCE_EVENTS,
        &SEQUENCE_EMAIL,
        &INBOX_POSTS,
        &REMINDER_STEPS,
        &SES_WEBHOOKS,
        &EMAIL_EVENTS,
        &LEAD_INGESTION,
        &LEAD_INGESTION_BULK,
        &MEMORY_PROCESSING,
        &FEATURE_PROCESSING,
        &SEGMENT_PROCESSING,
        &WEBHOOK_FANOUT,
        &WEBHOOK_DELIVERY,
        &AUDIT_ENTRIES,
        &PROBE,
    ];

    pub fn by_name(name: &str) -> Option<&'static Queue> {
        ALL.into_iter().find(|queue| queue.name == name)
    }
}

/// The topics of the product.
pub mod topics {
    use super::{Topic, queues};

    /// Every event that was stored in a timeline.
    pub static LEAD_EVENTS: Topic = Topic {
        name: "lead-events",
        queues: &[&queues::MEMORY_PROCESSING, &queues::FEATURE_PROCESSING],
    };

    pub static ALL: [&Topic; 1] = [&LEAD_EVENTS];

    pub fn by_name(name: &str) -> Option<&'static Topic> {
        ALL.into_iter().find(|topic| topic.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_LEASE, queues, topics};

    #[test]
    fn names_are_found_and_mean_one_thing() {
        for queue in queues::ALL {
            assert_eq!(queues::by_name(queue.name), Some(queue));
            assert_eq!(topics::by_name(queue.name), None);
            assert!(queue.lease <= MAX_LEASE);
        }
        assert_eq!(queues::by_name("nowhere"), None);
    }
}
