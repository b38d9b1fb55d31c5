//! The item suite on SQLite: in memory, and on a file with its log and its readers.
#![expect(clippy::unwrap_used, reason = "a test without a harness is still a test")]

#[expect(dead_code, unused_imports, unused_macros, reason = "this binary runs on SQLite only")]
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
    ])
}
