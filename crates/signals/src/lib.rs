//! What comes back: tracking, provider events, counters, replies.
//!
//! Not here: what goes out (`delivery`), who the people are (`people`), and telling others (`webhooks`).

pub mod events;
pub mod queries;
pub mod replies;
pub mod ses;
pub mod sns;
pub mod tracking;
