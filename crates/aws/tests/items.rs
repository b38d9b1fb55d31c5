//! The item suite on a DynamoDB server, a fresh one for each case.

mod credentials;
mod server;

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use server::{Server, connect};
use tidings_aws::DynamoDb;
use tidings_kernel::{Clock, ItemEngine};
use tidings_testkit::FakeClock;
use tidings_testkit::items::{Quirk, Subject, run_items_suite};

struct Dynamo {
    clock: Arc<FakeClock>,
    engine: Arc<DynamoDb>,
    server: Server,
}

#[async_trait]
impl Subject for Dynamo {
    fn engine(&self) -> Arc<dyn ItemEngine> {
        Arc::clone(&self.engine) as Arc<dyn ItemEngine>
    }

    fn clock(&self) -> &FakeClock {
        &self.clock
    }

    async fn sweep(&self) {
        // To the server an item is past its TTL only in the second after the one it names.
        self.server.set_now(self.clock.now().as_second() + 1);
        self.server.sweep();
    }

    fn quirks(&self) -> &'static [Quirk] {
        &[
            Quirk::ExpiryLooksLikeDelete,
            Quirk::NoOpMakesARecord,
            Quirk::RemoveMakesAnItem,
            Quirk::NewItemHasAnOldKey,
        ]
    }

    /// Each sequence makes the seven tables of a workspace.
    fn sequences(&self) -> u32 {
        24
    }
}

async fn dynamo() -> Arc<dyn Subject> {
    let server = Server::start();
    let clock = FakeClock::at(Timestamp::UNIX_EPOCH);
    let engine = Arc::new(connect(server.endpoint(), Arc::clone(&clock) as Arc<_>));
    Arc::new(Dynamo { clock, engine, server })
}

fn main() -> ExitCode {
    run_items_suite(&[("dynamodb", || Box::pin(dynamo()))])
}
