//! The ledger: `transactional_messages` and `campaign_recipients`, what marks their rows and what is told of them.
//!
//! A message in a queue carries ids; the row says what is true. Every mark is made so that the same news, again or
//! in another order, leaves the same row: a first time is the earliest one, and a status never goes back. Not here: who
//! sends what is written down (`transactional`, and campaigns in `outreach`).

pub mod answers;
mod insist;
pub mod marks;
mod messages;
pub mod news;
pub mod tallies;
pub mod turned_away;

pub use crate::links::Source;
pub use insist::insist;
pub use messages::{Message, erased};
