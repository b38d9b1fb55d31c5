//! The conformance suite of item engines: each case is written once and run on every engine.
//!
//! Here: what an engine brings to be tested (`Subject`), and the runner. The cases are in `cases`, what they
//! stand on in `ground`. A test binary with `harness = false` calls `run_items_suite` from its main:
//!
//! ```text
//! fn main() -> ExitCode {
//!     run_items_suite(&[("memory", || Box::pin(memory()))])
//! }
//! ```

mod cases;
mod ground;

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use tidings_kernel::ItemEngine;

use crate::FakeClock;
use crate::suite::{Make, run_suite};
use ground::Ground;

/// An engine under test, made anew for each case.
#[async_trait]
pub trait Subject: Send + Sync {
    fn engine(&self) -> Arc<dyn ItemEngine>;

    /// The clock that the engine runs on.
    fn clock(&self) -> &FakeClock;

    /// Makes the deletion of all items past their TTL happen now, whoever does it.
    async fn sweep(&self);

    /// Where the server behind the engine is known to differ from real DynamoDB.
    fn quirks(&self) -> &'static [Quirk] {
        &[]
    }

    /// How many random sequences of operations to compare with the model.
    fn sequences(&self) -> u32 {
        64
    }
}

/// A known difference of a test server from real DynamoDB. A case that meets one says what it accepts instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    /// DynamoDB's stream names itself (`userIdentity`) in the record of an item that its TTL deleted. dynoxide
    /// spells the field so that the SDK does not see it: such a record looks like one of a plain delete.
    ExpiryLooksLikeDelete,
    /// DynamoDB writes no stream record for a write that changes nothing. dynoxide writes a MODIFY whose two
    /// images are the same.
    NoOpMakesARecord,
    /// In DynamoDB an update that only removes attributes makes no item where there is none, and does not mind
    /// that the places to remove have no parents. dynoxide makes an item of the bare key first, and so minds.
    RemoveMakesAnItem,
    /// DynamoDB answers `ALL_OLD` of an update that made its item with nothing. dynoxide answers with the bare key.
    NewItemHasAnOldKey,
}

pub type MakeSubject = Make<dyn Subject>;

/// Runs every case on every subject, each on a fresh one. The answer is the exit code of the test binary.
pub fn run_items_suite(subjects: &[(&'static str, MakeSubject)]) -> ExitCode {
    run_suite(subjects, cases::GROUPS, |subject| Box::pin(Ground::new(subject)))
}
