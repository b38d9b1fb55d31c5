//! The port of a queue engine, and what can go wrong behind it.

use std::time::Duration;

use async_trait::async_trait;

use super::{
    DeadLetter, Delivery, Depth, MAX_BODY_BYTES, MAX_MESSAGES, Outgoing, Postponement, Queue,
    Receipt, Receive, Which,
};

/// Where queues live: the database, or SQS.
///
/// A delivery is settled by its receipt: acknowledged, postponed, deferred or buried. What is not settled in time comes
/// again. A receipt whose lease has ended and whose message was delivered anew settles nothing.
#[async_trait]
pub trait QueueEngine: Send + Sync {
    /// Answers when all are durable. After an error some may have been sent: sending again repeats them, which
    /// every worker must bear anyway.
    async fn send(&self, messages: Vec<Outgoing>) -> Result<(), QueueError>;

    /// Returns as soon as there is something, or when the wait is over.
    async fn receive(
        &self,
        queue: &'static Queue,
        request: Receive,
    ) -> Result<Vec<Delivery>, QueueError>;

    /// What this engine has given up while it received, since somebody asked last: messages that came too often, and of
    /// which no worker ever said a word, because each died with them. They are among the dead letters already. An engine
    /// whose queue does that by itself tells of none.
    fn worn_out(&self, _queue: &'static Queue) -> Vec<Delivery> {
        Vec::new()
    }

    /// Removes what is done. Tells how many of them were still held, as far as the engine knows.
    async fn acknowledge(
        &self,
        queue: &'static Queue,
        receipts: &[Receipt],
    ) -> Result<usize, QueueError>;

    /// Changes when deliveries come again: later, to go on working, or after a pause, to try again. Tells how many
    /// were still held, as far as the engine knows.
    async fn postpone(
        &self,
        queue: &'static Queue,
        postponements: &[Postponement],
    ) -> Result<usize, QueueError>;

    /// Gives a delivery back for later without counting it: nobody tried. What waits for something else can wait for
    /// ever and does not become a dead letter.
    async fn defer(
        &self,
        queue: &'static Queue,
        delivery: &Delivery,
        lease: Duration,
        reason: &str,
    ) -> Result<(), QueueError>;

    /// Moves a delivery to the dead letters at once: trying again cannot help.
    async fn bury(
        &self,
        queue: &'static Queue,
        delivery: &Delivery,
        reason: &str,
    ) -> Result<(), QueueError>;

    async fn depth(&self, queue: &'static Queue) -> Result<Depth, QueueError>;

    /// Up to `limit` dead letters, the oldest first, after the one with this id. SQS cannot go on after an id, and
    /// shows some of them in any order.
    async fn dead_letters(
        &self,
        queue: &'static Queue,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, QueueError>;

    /// Puts dead letters back into their queue, as if they were new. Tells how many.
    async fn replay(&self, queue: &'static Queue, which: Which) -> Result<u64, QueueError>;

    /// Deletes dead letters for good. Tells how many.
    async fn purge(&self, queue: &'static Queue, which: Which) -> Result<u64, QueueError>;
}

/// Messages that a commit promised to queues which that commit could not reach.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Hands up to about `limit` of them on and forgets each once the queues have it, so that a crash in between
    /// repeats and never loses. Tells how many. An error only if nothing could be done: what is in trouble does not
    /// hold up the rest.
    async fn relay(&self, to: &dyn QueueEngine, limit: usize) -> Result<usize, QueueError>;
}

/// Why a request was refused as it stands, on every engine alike. Sending it again cannot help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    #[error("a message needs a body")]
    EmptyBody,
    #[error("the body has {bytes} bytes, and {MAX_BODY_BYTES} are the most")]
    BodyTooLarge { bytes: usize },
    #[error("the body holds a control character that not every queue can carry")]
    BodyCharacter,
    #[error("a message cannot be held back for more than 15 minutes: set a timer")]
    Delay,
    #[error("what is published on a topic cannot be held back")]
    TopicDelay,
    #[error("a timer's key has 1 to 512 bytes, and no U+0000 among them")]
    TimerKey,
    #[error("a lease cannot be longer than 12 hours")]
    Lease,
    #[error("one call takes 1 to {MAX_MESSAGES} messages")]
    Count,
    #[error("this is not a receipt of this queue")]
    Receipt,
}

#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error(transparent)]
    Invalid(#[from] BadMessage),
    #[error("the queue does not answer")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Asking again will not help: the program, the schema or a permission is wrong.
    #[error("the queue cannot do what it was asked")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}
