//! The ledger: `transactional_messages` and `campaign_recipients`, and the workers that read and mark them.
//!
//! A message in a queue carries ids; the row says what is true. Every mark is made so that the same news, again or
//! in another order, leaves the same row: a first time is the earliest one, and a status never goes back.

mod campaign;
pub mod marks;
mod messages;
pub mod news;
pub mod tallies;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tidings_jobs::{Handler, Outcome, for_contract};
use tidings_kernel::{Queue, queues};
use tidings_sql::{Database, DatabaseError};

pub use crate::links::Source;
pub use messages::Message;

/// How long a message waits that cannot be sent now for a reason that is not its own.
const PAUSE: Duration = Duration::from_secs(60);

/// What the workers of the ledger stand on.
#[derive(Clone)]
pub struct Ledger {
    database: Database,
}

impl Ledger {
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    /// Who works on which queue.
    pub fn handlers(&self) -> Vec<(&'static Queue, Arc<dyn Handler>)> {
        vec![(&queues::CAMPAIGN_EMAIL, for_contract(campaign::Send(self.clone())))]
    }
}

/// Whether a row needs nothing more. Whoever asks to send it again is told that it is done.
fn is_settled(status: &str) -> bool {
    !matches!(status, "pending" | "queued" | "claimed")
}

/// A row that could be sent. It waits until there is somebody to hand it to.
fn nobody_to_hand_it_to() -> Outcome {
    Outcome::wait("no mail provider is configured", PAUSE)
}

/// The database is not asked again for long, and the message comes again by itself.
fn failed(error: &DatabaseError) -> Outcome {
    Outcome::retry(format!("the ledger cannot be used: {error}"))
}
