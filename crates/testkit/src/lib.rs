//! What tests stand on: a clock that is set by hand, and the conformance suites of the ports.
//!
//! Here: `FakeClock`, the suites that every engine of items, of queues and of what a transaction promises for
//! later must pass, and the in-memory model of items that shows what right answers look like. Not here: any
//! engine, which brings its own `Subject`, and any feature.
#![expect(
    clippy::unwrap_used,
    reason = "everything here runs inside a test, where a panic is how a failure is told"
)]

/// Runs stories over a `World` on every engine, each as a test of its own: `async fn story(world: &World)`. `World` has
/// `memory()` and `postgres()`. A macro, because tests are named by their functions.
#[macro_export]
macro_rules! each_engine {
    ($($story:ident),* $(,)?) => {
        mod memory { $(#[tokio::test] async fn $story() {
            super::$story(&super::World::memory().await).await;
        })* }
        mod postgres { $(#[tokio::test] async fn $story() {
            super::$story(&super::World::postgres().await).await;
        })* }
    };
}

mod clock;
pub mod items;
pub mod later;
pub mod model;
mod postgres;
pub mod queues;
mod send_only;
mod smtp;
mod suite;

pub use clock::FakeClock;
pub use postgres::PostgresDatabase;
pub use send_only::{SendOnly, Target};
pub use smtp::{SmtpSink, free_port};
pub use suite::{BoxFuture, Make};
