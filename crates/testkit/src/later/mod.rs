//! The conformance suite of what a transaction promises for later: messages and timers.
//!
//! Here: what an engine brings to be tested (`Subject`), and the runner. The cases are in `cases`, what they
//! stand on in `ground`. Not here: what a queue does with a message once it has it (`queues`). A test binary
//! with `harness = false` calls `run_later_suite` from its main.

mod cases;
mod ground;

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use tidings_kernel::{ItemStore, QueueEngine, TimerEngine, Workspace};

use crate::FakeClock;
use crate::suite::{Make, run_suite};
use ground::Ground;

/// Items, queues and timers that belong together, made anew for each case.
#[async_trait]
pub trait Subject: Send + Sync {
    /// The items of a workspace. Its timers and its messages are among those of `timers` and `settle`.
    async fn store(&self, workspace: &Workspace) -> Arc<dyn ItemStore>;

    fn queues(&self) -> Arc<dyn QueueEngine>;

    fn timers(&self) -> Arc<dyn TimerEngine>;

    /// The clock of the items and the timers. The queues may run on the machine's own.
    fn clock(&self) -> &FakeClock;

    /// Moves to their queues what transactions left for a relay, until nothing is left.
    async fn settle(&self);
}

/// The workspaces that the cases use.
pub const WORKSPACES: [&str; 2] = ["acme", "globex"];

pub type MakeSubject = Make<dyn Subject>;

/// Runs every case on every subject, each on a fresh one. The answer is the exit code of the test binary.
pub fn run_later_suite(subjects: &[(&'static str, MakeSubject)]) -> ExitCode {
    run_suite(subjects, cases::GROUPS, |subject| Box::pin(Ground::new(subject)))
}
