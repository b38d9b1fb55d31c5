//! What comes back: tracking, provider events, counters, replies.
//!
//! Not here: what goes out (`delivery`), who the people are (`people`), and telling others (`webhooks`).

pub mod events;
