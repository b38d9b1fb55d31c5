//! `tidings contacts` and `suppressions`: the people of a workspace, for operators.
//!
//! What is asked for is printed as JSON, one thing a line.

mod contacts;
mod files;
mod suppressions;

pub(crate) use contacts::{ContactsArgs, run as contacts};
pub(crate) use suppressions::{SuppressionsArgs, run as suppressions};
