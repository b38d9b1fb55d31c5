//! Sequences: mails that go out by themselves, one step after the other, to whoever something happened to.
//!
//! Here: what a sequence is (`definition`), its versions (`versions`), one person's walk through it (`executions`), and
//! what comes in from outside (`events`). Not here: how one message is sent and who may be written to (`delivery`), and
//! whom a condition means (`outreach::audience`).

pub mod definition;
pub mod events;
pub mod executions;
pub mod versions;
#[cfg(test)]
mod world;
