//! The conformance suite of queue engines: each case is written once and run on every engine.
//!
//! Here: what an engine brings to be tested (`Subject`), and the runner. The cases are in `cases`, what they
//! stand on in `ground`. Not here: what a transaction promises to queues (`later`). A test binary with
//! `harness = false` calls `run_queues_suite` from its main.

mod cases;
mod ground;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidings_kernel::QueueEngine;

use crate::suite::{Make, run_suite};
use ground::Ground;

/// An engine under test, made anew for each case, with empty queues.
#[async_trait]
pub trait Subject: Send + Sync {
    fn engine(&self) -> Arc<dyn QueueEngine>;

    /// Lets so much time pass for the engine: moves its clock, or really waits.
    async fn pass(&self, time: Duration);

    fn quirks(&self) -> &'static [Quirk] {
        &[]
    }
}

/// What an engine cannot promise. A case that meets one says what it accepts instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    /// SQS answers a receipt that settles nothing like one that does, and says of one whose message was delivered
    /// anew only that it might not work.
    ReceiptsAreNotTold,
    /// SQS shows some of the dead letters, in any order, and cannot go on after one of them. One that was buried
    /// is a new message with an id of its own.
    DeadLettersAreSampled,
    /// SQS does not tell how old a queue's oldest message is: CloudWatch does, minutes later.
    AgeIsNotTold,
}

pub type MakeSubject = Make<dyn Subject>;

/// Runs every case on every subject, each on a fresh one. The answer is the exit code of the test binary.
pub fn run_queues_suite(subjects: &[(&'static str, MakeSubject)]) -> ExitCode {
    run_suite(subjects, cases::GROUPS, |subject| Box::pin(async { Ground::new(subject) }))
}
