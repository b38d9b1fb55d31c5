//! The suite of what a transaction promises, on SQLite, in memory and on a file, and on PostgreSQL.
#![expect(clippy::unwrap_used, reason = "a test without a harness is still a test")]

#[expect(dead_code, reason = "this binary never looks at where its data are")]
mod engines;

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_kernel::{ItemEngine as _, ItemStore, QueueEngine, TimerEngine, Workspace};
use tidings_sql::{SqlItems, SqlQueues};
use tidings_testkit::FakeClock;
use tidings_testkit::later::{Subject, run_later_suite};

use engines::Engine;

struct Sql {
    clock: Arc<FakeClock>,
    items: SqlItems,
    queues: Arc<SqlQueues>,
    /// Goes last, and takes its file or its database with it.
    _engine: Engine,
}

fn subject(engine: Engine) -> Arc<dyn Subject> {
    let clock = FakeClock::at("2026-03-01T00:00:00Z".parse::<Timestamp>().unwrap());
    let database = engine.database();
    let items = SqlItems::new(database.clone(), Arc::clone(&clock) as Arc<_>);
    let queues = Arc::new(SqlQueues::new(database.clone(), Arc::clone(&clock) as Arc<_>));
    Arc::new(Sql { clock, items, queues, _engine: engine })
}

#[async_trait]
impl Subject for Sql {
    async fn store(&self, workspace: &Workspace) -> Arc<dyn ItemStore> {
        self.items.open(workspace).await.unwrap()
    }

    fn queues(&self) -> Arc<dyn QueueEngine> {
        Arc::clone(&self.queues) as Arc<_>
    }

    fn timers(&self) -> Arc<dyn TimerEngine> {
        Arc::clone(&self.queues) as Arc<_>
    }

    fn clock(&self) -> &FakeClock {
        &self.clock
    }

    /// The queues are in the transaction.
    async fn settle(&self) {}
}

fn main() -> ExitCode {
    run_later_suite(&[
        ("memory", || Box::pin(async { subject(Engine::memory().await) })),
        ("file", || Box::pin(async { subject(Engine::file().await) })),
        ("postgres", || Box::pin(async { subject(Engine::postgres().await) })),
    ])
}
