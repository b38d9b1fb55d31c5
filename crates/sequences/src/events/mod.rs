//! What happened to people: how it is told, and which sequences begin, go on or end with it.
//!
//! An event is written down with the message that makes a worker look at it, once for each id (`accept`); the calls of
//! Segment's libraries are read into events (`segment`). The worker of `sequence-events` finds out whom it is about
//! (`person`) and does what sequences want with it (`route`). Not here: what the system itself tells (`people::heard`), and
//! what opens, clicks and bounces are (`signals`).

mod accept;
mod payment;
mod person;
mod route;
pub mod segment;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_access::StorageError;
use tidings_jobs::contracts::{Object, SequenceEvent};
use tidings_jobs::{Handler, Outcome, Work, for_contract};
use tidings_kernel::{EmailAddress, causes};

use crate::executions::Tools;
use route::{Done, Routing, Trouble};

pub use accept::{
    AcceptError, Accepted, MAX_DATA_BYTES, MAX_DEPTH, MAX_EVENTS, MAX_MESSAGE_ID, Wrong, accept,
    check_data, check_told_name,
};

/// Events that were worked on, by what became of them.
pub const METRIC: &str = "tidings_sequence_events_total";
/// The event that tells what a product knows of a user.
pub const IDENTIFY: &str = "identify";
/// The event that tells of money that came in.
pub const INVOICE_PAID: &str = "invoice.paid";

/// How long a message waits while a store cannot be used.
const STORE_PAUSE: Duration = Duration::from_secs(15);
/// How long it waits for another worker that does the same.
const A_MOMENT: Duration = Duration::from_secs(2);

/// Something that a caller tells of a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Tells it from every other of the workspace: told twice, it counts once.
    pub message_id: Option<String>,
    pub name: String,
    pub email: Option<EmailAddress>,
    /// What the caller's product calls the person.
    pub user_id: Option<String>,
    /// What it calls whoever it does not know yet: a browser, a device. Only timelines know people by it.
    pub anonymous_id: Option<String>,
    /// When the caller says that it happened. What counts for executions is when we hear of it.
    pub occurred_at: Option<Timestamp>,
    pub data: Object,
}

/// Does what sequences want with an event.
#[derive(Clone)]
pub struct Worker {
    tools: Tools,
}

impl Worker {
    pub fn new(tools: Tools) -> Self {
        Self { tools }
    }

    pub fn handler(&self) -> Arc<dyn Handler> {
        for_contract(self.clone())
    }

    async fn route(&self, event: &SequenceEvent) -> Result<Option<Done>, StorageError> {
        let Some(cx) = self.tools.access.working_in(&event.workspace).await? else {
            return Ok(None);
        };
        Ok(Some(Routing::new(&self.tools, &cx, event).await?.run().await))
    }
}

#[async_trait]
impl Work<SequenceEvent> for Worker {
    async fn work(&self, event: SequenceEvent) -> Outcome {
        let id = &event.event_id;
        let trouble = match self.route(&event).await {
            Ok(None) => return Outcome::dead(format!("event {id} is of no workspace")),
            Ok(Some(done)) => match done.trouble {
                None => {
                    metrics::counter!(METRIC, "outcome" => done.outcome()).increment(1);
                    return Outcome::Done;
                }
                Some(trouble) => trouble,
            },
            Err(error) => Trouble::Store(error),
        };
        metrics::counter!(METRIC, "outcome" => "retried").increment(1);
        match trouble {
            Trouble::Busy => Outcome::wait(format!("event {id} is worked on"), A_MOMENT),
            Trouble::Store(error) => {
                let reason = format!("event {id} could not be worked on: {}", causes(&error));
                // A store that is away is no fault of the event, and uses up none of its tries.
                if error.is_passing() {
                    Outcome::wait(reason, STORE_PAUSE)
                } else {
                    Outcome::retry(reason)
                }
            }
        }
    }
}
