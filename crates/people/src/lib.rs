//! The people: contacts, what they agreed to, and whom we must not write to.
//!
//! Not here: what is sent to them (`delivery`), and what comes back (`signals`).

pub mod consent;
pub mod contacts;
pub mod export;
pub mod features;
pub mod heard;
pub mod import;
pub mod keys;
pub mod memory;
mod news;
pub mod race;
pub mod segments;
pub mod suppression;
