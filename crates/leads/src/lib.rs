//! What people did, in any channel, and what follows from it: one person whatever he is known by, his timeline, what was
//! learned of him, and his numbers. Seed 004.
//!
//! Here: who is who (`identity`), how events come in and are stored once (`ingestion`, `event`; `canonical` says what one is called), the story of a person
//! (`timeline`), what was derived from it (`memory`), and what was computed (`features`). Not here: how any of it travels
//! (`http-api`), the profile and the consent of a person (`people`), and what is sent to him.

mod canonical;
pub mod event;
pub mod features;
pub mod identity;
pub mod ingestion;
pub mod memory;
pub mod timeline;
mod turns;
