//! The queue suite on SQLite, in memory and on a file, and on PostgreSQL.
#![expect(clippy::unwrap_used, reason = "a test without a harness is still a test")]

#[expect(dead_code, reason = "this binary never looks at where its data are")]
mod engines;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_kernel::QueueEngine;
use tidings_sql::SqlQueues;
use tidings_testkit::FakeClock;
use tidings_testkit::queues::{Subject, run_queues_suite};

use engines::Engine;

struct Sql {
    clock: Arc<FakeClock>,
    queues: Arc<SqlQueues>,
    /// Goes last, and takes its file or its database with it.
    _engine: Engine,
}

fn subject(engine: Engine) -> Arc<dyn Subject> {
    let clock = FakeClock::at("2026-03-01T00:00:00Z".parse::<Timestamp>().unwrap());
    let queues = Arc::new(SqlQueues::new(engine.database().clone(), Arc::clone(&clock) as Arc<_>));
    Arc::new(Sql { clock, queues, _engine: engine })
}

#[async_trait]
impl Subject for Sql {
    fn engine(&self) -> Arc<dyn QueueEngine> {
        Arc::clone(&self.queues) as Arc<_>
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(jiff::Span::try_from(time).unwrap());
    }
}

fn main() -> ExitCode {
    run_queues_suite(&[
        ("memory", || Box::pin(async { subject(Engine::memory().await) })),
        ("file", || Box::pin(async { subject(Engine::file().await) })),
        ("postgres", || Box::pin(async { subject(Engine::postgres().await) })),
    ])
}
