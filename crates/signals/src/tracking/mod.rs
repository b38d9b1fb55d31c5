//! Tracking: what the links in our mails tell us, and what their readers decide.
//!
//! Here: opens and clicks, whether a person made them, the worker of `email-events`, and what a reader may choose by
//! the links of his mail. Not here: the links themselves (`delivery::links`), what consent is (`people::consent`), how
//! events are kept and counted (`events`), the pages (`http-api`).

pub mod choices;
pub mod confirm;
pub(crate) mod evidence;
pub mod hits;
pub mod reader;
mod recompute;
pub(crate) mod sight;
#[cfg(test)]
mod tests;
pub mod verdict;
mod worker;

use tidings_access::{Access, StorageError};
use tidings_delivery::links::{Links, ReadError};
use tidings_sql::DatabaseError;

pub use recompute::{recompute, seen_by};
pub use worker::handler;

/// What everything here works with. Cheap to clone.
#[derive(Clone)]
pub struct Tracking {
    pub access: Access,
    pub links: Links,
}

/// Why a reader's choice was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    #[error("this link is not one of ours")]
    Invalid,
    #[error("there is nobody any more whom this link is about")]
    Nobody,
    #[error("this is not among what was offered")]
    NotOffered,
    #[error("nothing is sent to this address, whatever its owner wants")]
    Suppressed,
    #[error("the time to confirm is over")]
    Expired,
    #[error("the choice could not be saved")]
    Store(#[from] StorageError),
}

impl From<DatabaseError> for ChoiceError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

impl From<ReadError> for ChoiceError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Invalid => Self::Invalid,
            ReadError::Store(error) => error.into(),
        }
    }
}
