//! What goes into a queue and what comes out of it.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::{BadMessage, MAX_BODY_BYTES, MAX_DELAY, Queue, Topic, check_count, check_lease};

/// A message on its way into a queue, or into every queue of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    pub to: Destination,
    pub body: String,
    /// How long it is held back.
    pub delay: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    Queue(&'static Queue),
    Topic(&'static Topic),
}

impl Destination {
    /// The queues that a message for this destination ends up in.
    pub fn queues(&self) -> &[&'static Queue] {
        match self {
            Self::Queue(queue) => std::slice::from_ref(queue),
            Self::Topic(topic) => topic.queues,
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Queue(queue) => queue.name,
            Self::Topic(topic) => topic.name,
        }
    }
}

impl Outgoing {
    pub fn new(queue: &'static Queue, body: impl Into<String>) -> Self {
        Self { to: Destination::Queue(queue), body: body.into(), delay: Duration::ZERO }
    }

    pub fn publish(topic: &'static Topic, body: impl Into<String>) -> Self {
        Self { to: Destination::Topic(topic), body: body.into(), delay: Duration::ZERO }
    }

    #[must_use]
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    pub fn validate(&self) -> Result<(), BadMessage> {
        check_body(&self.body)?;
        match &self.to {
            Destination::Topic(_) if !self.delay.is_zero() => Err(BadMessage::TopicDelay),
            _ if self.delay > MAX_DELAY => Err(BadMessage::Delay),
            _ => Ok(()),
        }
    }
}

/// What no engine can carry is refused by all of them.
pub(crate) fn check_body(body: &str) -> Result<(), BadMessage> {
    if body.is_empty() {
        return Err(BadMessage::EmptyBody);
    }
    if body.len() > MAX_BODY_BYTES {
        return Err(BadMessage::BodyTooLarge { bytes: body.len() });
    }
    // SQS takes what XML can hold; PostgreSQL everything but U+0000.
    let carried = |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{fffd}' | '\u{10000}'..);
    if body.chars().all(carried) { Ok(()) } else { Err(BadMessage::BodyCharacter) }
}

/// What a receiver asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receive {
    /// At most so many; an engine may give fewer although there are more.
    pub max: usize,
    /// How long the deliveries are kept from others.
    pub lease: Duration,
    /// How long to wait if there is nothing.
    pub wait: Duration,
}

impl Receive {
    pub fn validate(&self) -> Result<(), BadMessage> {
        check_count(self.max)?;
        check_lease(self.lease)
    }
}

/// A message that was received, and is kept from others until its lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The same at every delivery of the same message.
    pub id: String,
    pub body: String,
    /// The how many-th delivery this is, from 1.
    pub receives: u32,
    pub enqueued_at: Timestamp,
    pub receipt: Receipt,
}

/// The right to settle one delivery. A later delivery of the same message has another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Receipt(pub String);

/// A delivery that its holder keeps for longer, or gives back for later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postponement {
    pub receipt: Receipt,
    /// From now.
    pub lease: Duration,
    /// Why it failed this time, if it did. An engine may not be able to keep it.
    pub reason: Option<String>,
}

/// How full a queue is. Engines may count approximately, and stop counting where it gets long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// Can be received now.
    pub ready: u64,
    /// Held back, or with a worker.
    pub hidden: u64,
    pub dead: u64,
    /// How long the oldest message that is not dead has been here, where the engine knows.
    pub oldest_age: Option<Duration>,
}

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    pub id: String,
    pub body: String,
    pub receives: u32,
    pub enqueued_at: Timestamp,
    /// Why it was given up, where the engine knows.
    pub reason: Option<String>,
}

/// Which dead letters are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    All,
    Only(Vec<String>),
}

/// An id that sorts by time. The counter keeps the messages of one process in order, and the random number keeps
/// two processes apart.
pub fn message_id(now: Timestamp, counter: u32, random: u32) -> String {
    format!("{:012x}-{counter:08x}-{random:08x}", now.as_millisecond().max(0))
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Outgoing, message_id};
    use crate::queue::{BadMessage, MAX_BODY_BYTES, queues, topics};

    #[test]
    fn what_no_engine_can_carry_is_refused() {
        let check = |message: Outgoing| message.validate();
        let probe = |body: &str| Outgoing::new(&queues::PROBE, body);
        assert!(check(probe("{\"name\":\"Zoë 🦀\"}\r\n\t")).is_ok());
        assert!(check(probe(&"x".repeat(MAX_BODY_BYTES))).is_ok());
        assert!(matches!(check(probe("")), Err(BadMessage::EmptyBody)));
        assert!(matches!(check(probe("\u{0}")), Err(BadMessage::BodyCharacter)));
        assert!(matches!(check(probe("\u{1b}")), Err(BadMessage::BodyCharacter)));
        assert!(matches!(check(probe("\u{ffff}")), Err(BadMessage::BodyCharacter)));
        let large = "x".repeat(MAX_BODY_BYTES + 1);
        assert!(matches!(check(probe(&large)), Err(BadMessage::BodyTooLarge { .. })));
        let quarter = Duration::from_secs(900);
        assert!(check(probe("x").delayed(quarter)).is_ok());
        let longer = quarter + Duration::from_millis(1);
        assert!(matches!(check(probe("x").delayed(longer)), Err(BadMessage::Delay)));
        let published = Outgoing::publish(&topics::LEAD_EVENTS, "x");
        assert!(check(published.clone()).is_ok());
        assert!(matches!(check(published.delayed(quarter)), Err(BadMessage::TopicDelay)));
    }

    #[test]
    fn ids_sort_by_time_and_then_by_number() {
        let at = |text: &str| text.parse().unwrap();
        let ids = [
            message_id(at("2025-01-01T00:00:00Z"), 9, 7),
            message_id(at("2025-01-01T00:00:00.001Z"), 1, 9),
            message_id(at("2025-01-01T00:00:00.001Z"), 2, 1),
        ];
        assert!(ids.is_sorted());
    }
}
