//! What tests stand on: a clock that is set by hand, and the conformance suites of the ports.
//!
//! Here: `FakeClock`, the suites that every engine of items, of queues and of what a transaction promises for
//! later must pass, and the in-memory model of items that shows what right answers look like. Not here: any
//! engine, which brings its own `Subject`, and any feature.
#![expect(
    clippy::unwrap_used,
    reason = "everything here runs inside a test, where a panic is how a failure is told"
)]

mod clock;
pub mod items;
pub mod later;
pub mod model;
mod postgres;
pub mod queues;
mod suite;

pub use clock::FakeClock;
pub use postgres::PostgresDatabase;
pub use suite::{BoxFuture, Make};
