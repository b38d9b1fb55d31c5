//! The SQL engine as a subject of the item suite.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_kernel::ItemEngine;
use tidings_sql::SqlItems;
use tidings_testkit::FakeClock;
use tidings_testkit::items::Subject;

use crate::engines::Engine;

/// How many items one sweep takes. Less than some cases leave behind, so that they need several.
const SWEEP: usize = 5;

struct Sql {
    clock: Arc<FakeClock>,
    items: SqlItems,
    /// Goes last, and takes its file or its database with it.
    _engine: Engine,
}

pub(crate) fn subject(engine: Engine) -> Arc<dyn Subject> {
    let clock = FakeClock::at(Timestamp::UNIX_EPOCH);
    let items = SqlItems::new(engine.database().clone(), Arc::clone(&clock) as Arc<_>);
    Arc::new(Sql { clock, items, _engine: engine })
}

#[async_trait]
impl Subject for Sql {
    fn engine(&self) -> Arc<dyn ItemEngine> {
        Arc::new(self.items.clone())
    }

    fn clock(&self) -> &FakeClock {
        &self.clock
    }

    async fn sweep(&self) {
        while self.items.sweep(SWEEP).await.unwrap() > 0 {}
    }
}
