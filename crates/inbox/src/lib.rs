//! The inbox inside an app: messages to users and to everyone, what was read of them, and exact counts of what was not.
//!
//! A message to users is stored for each of them; one to everyone is stored once, and a user gets a receipt of it when
//! he marks it. How many there are and how many were read is counted in the transaction that changes it, so that
//! no count is ever made by looking at messages. A tenant of seed 001 is a workspace here.
//!
//! Here: ids, keys and records of seed 001 (`ids`, `keys`, `records`), how long messages live (`ttl`), what a tenant has set
//! (`settings`), how messages come and are taken away (`publish`), reading and marking them (`read`, `marks`), what becomes
//! of the counts when messages expire (`overdue`, `horizon`, `expiry`), counting anew (`verify`, `patrol`), forgetting a user (`forget`, `forgotten`) and signing him out (`sign_out`), what tells those who look right now that
//! something has changed (`hints`), and how a device proves whose inbox it may see (`tokens`). Not here: how any of it travels (`http-api`), and mail.

mod balance;
mod balances;
mod counting;
pub mod damage;
pub mod expiry;
mod forget;
mod forgotten;
pub mod hints;
mod horizon;
pub mod ids;
pub mod keys;
pub mod marks;
mod overdue;
pub mod patrol;
mod public;
pub mod publish;
mod race;
pub mod read;
pub mod records;
mod rules;
pub mod settings;
mod sign_out;
#[cfg(test)]
mod tests;
mod timeline;
pub mod tokens;
pub mod ttl;
pub mod verify;
mod view;
mod wrong;

pub use forget::forget;
use hints::Hints;
pub use overdue::Bounds;
pub use sign_out::sign_out;
use tidings_sql::Database;
pub use view::{LookError, Reader};
pub use wrong::Wrong;

/// What one node keeps in memory for inboxes. It may be lost at any time: the items are the truth.
#[derive(Debug, Default)]
pub struct Inbox {
    pub hints: Hints,
    pub settings: settings::Kept,
    pub bounds: Bounds,
    indexes: public::Indexes,
    balances: balances::Balances,
}

impl Inbox {
    pub fn new() -> Self {
        Self::default()
    }

    /// For a node of several that share a database, with so many at most who watch.
    pub fn between_nodes(database: &Database, max_watchers: usize) -> Self {
        Self {
            hints: Hints::between_nodes(database, max_watchers),
            settings: settings::Kept::between_nodes(database),
            ..Self::default()
        }
    }
}
