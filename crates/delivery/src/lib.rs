//! The way of a message out of the house.
//!
//! Here: transactional mail, the ledger, which has one row for each message and person and knows what became of it, the
//! send log, the numbers of what was sent, templates, whether somebody may be written to, and whom a mail is handed to. Not here: what comes back
//! (`signals`).

pub mod breakdown;
pub mod canonical;
pub mod capture;
pub mod confirmation;
pub mod counters;
pub mod counts;
pub mod eligibility;
pub mod ledger;
pub mod letterhead;
pub mod links;
pub mod pace;
pub mod past;
pub mod senders;
pub mod sent;
pub mod templates;
pub mod transactional;
