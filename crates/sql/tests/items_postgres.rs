//! The item suite on PostgreSQL, with a database of its own for each case.
#![expect(clippy::unwrap_used, reason = "a test without a harness is still a test")]

#[expect(dead_code, unused_imports, unused_macros, reason = "this binary runs on PostgreSQL only")]
mod engines;
mod subject;

use std::process::ExitCode;

use engines::Engine;
use subject::subject;
use tidings_testkit::items::run_items_suite;

fn main() -> ExitCode {
    run_items_suite(&[("postgres", || Box::pin(async { subject(Engine::postgres().await) }))])
}
