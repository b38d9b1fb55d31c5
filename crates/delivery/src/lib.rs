//! The way of a message out of the house.
//!
//! Here: the ledger, which has one row for each message and person and knows what became of it, and the workers of
//! the queues of mail that goes out, as far as the ledger alone decides: what is done already, what must not be done.
//! Not here: what comes back (`signals`), and handing a message to a provider, which no version does yet; a row that could be sent waits.

pub mod capture;
pub mod confirmation;
pub mod eligibility;
pub mod ledger;
pub mod links;
