//! The way of a message out of the house.
//!
//! Here: the ledger, which has one row for each message and person and knows what became of it, and the workers of
//! the four mail queues as far as the ledger alone decides: what is done already, what must not be done, what came
//! back. Not here: handing a message to a provider, which no version does yet; a row that could be sent waits.

pub mod capture;
pub mod ledger;
pub mod pace;
pub mod senders;
