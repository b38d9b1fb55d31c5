//! What a definition says, and what becomes of it.

mod examples;
mod faults;
mod forms;
mod pictures;
mod programs;
pub(crate) mod random;
mod times;
