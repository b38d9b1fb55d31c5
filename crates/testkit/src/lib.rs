//! What tests stand on: a clock that is set by hand, and the conformance suites of the ports.
//!
//! Here: `FakeClock`, and the suite that every item engine must pass, with the in-memory model that shows what
//! right answers look like. Not here: any engine, which brings its own `items::Subject`, and any feature.
#![expect(
    clippy::unwrap_used,
    reason = "everything here runs inside a test, where a panic is how a failure is told"
)]

mod clock;
pub mod items;
pub mod model;

pub use clock::FakeClock;
