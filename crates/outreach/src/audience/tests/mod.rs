//! What a condition says, whom a walk meets, and what a preview counts.

mod clauses;
mod consent;
mod counting;
mod forms;
mod previews;
mod walks;
mod world;
