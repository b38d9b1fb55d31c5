//! The item suite on SQLite, in memory and on a file with its log and its readers, and on PostgreSQL.
#![expect(clippy::unwrap_used, reason = "a test without a harness is still a test")]

#[expect(dead_code, reason = "this binary never looks at where its data are")]
mod engines;
mod subject;

use std::process::ExitCode;

use engines::Engine;
use subject::subject;
use tidings_testkit::items::run_items_suite;

fn main() -> ExitCode {
    run_items_suite(&[
        ("memory", || Box::pin(async { subject(Engine::memory().await) })),
        ("file", || Box::pin(async { subject(Engine::file().await) })),
        ("postgres", || Box::pin(async { subject(Engine::postgres().await) })),
    ])
}
