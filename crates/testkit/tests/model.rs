//! The suite on the in-memory model: what shows that the cases themselves are right.

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_kernel::ItemEngine;
use tidings_testkit::FakeClock;
use tidings_testkit::items::{Subject, run_items_suite};
use tidings_testkit::model::ModelEngine;

struct Model {
    clock: Arc<FakeClock>,
    engine: Arc<ModelEngine>,
}

#[async_trait]
impl Subject for Model {
    fn engine(&self) -> Arc<dyn ItemEngine> {
        Arc::clone(&self.engine) as Arc<dyn ItemEngine>
    }

    fn clock(&self) -> &FakeClock {
        &self.clock
    }

    async fn sweep(&self) {
        self.engine.sweep(usize::MAX).await.expect("the model always answers");
    }
}

async fn model() -> Arc<dyn Subject> {
    let clock = FakeClock::at(Timestamp::UNIX_EPOCH);
    let engine = Arc::new(ModelEngine::new(Arc::clone(&clock) as Arc<_>));
    Arc::new(Model { clock, engine })
}

fn main() -> ExitCode {
    run_items_suite(&[("model", || Box::pin(model()))])
}
