//! The suite of what a transaction promises for later: items and timers on a DynamoDB server, a fresh one for each
//! case, and queues on a server of SQS and SNS, with the relay between them.
#![expect(clippy::unwrap_used, reason = "a test without a harness is still a test")]

mod credentials;
mod queue_server;
#[expect(dead_code, reason = "nothing expires here")]
mod server;

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use server::Server;
use tidings_aws::{DynamoDb, DynamoOutbox, DynamoTimers, Sqs, Workspaces};
use tidings_kernel::{ItemEngine, ItemStore, Outbox, QueueEngine, TimerEngine, Workspace};
use tidings_testkit::FakeClock;
use tidings_testkit::later::{Subject, WORKSPACES, run_later_suite};

struct Later {
    clock: Arc<FakeClock>,
    items: Arc<DynamoDb>,
    queues: Arc<Sqs>,
    outbox: DynamoOutbox,
    timers: Arc<DynamoTimers>,
    _server: Server,
}

#[async_trait]
impl Subject for Later {
    async fn store(&self, workspace: &Workspace) -> Arc<dyn ItemStore> {
        self.items.open(workspace).await.unwrap()
    }

    fn queues(&self) -> Arc<dyn QueueEngine> {
        Arc::clone(&self.queues) as Arc<dyn QueueEngine>
    }

    fn timers(&self) -> Arc<dyn TimerEngine> {
        Arc::clone(&self.timers) as Arc<dyn TimerEngine>
    }

    fn clock(&self) -> &FakeClock {
        &self.clock
    }

    async fn settle(&self) {
        while self.outbox.relay(&*self.queues, 100).await.unwrap() > 0 {}
    }
}

async fn later() -> Arc<dyn Subject> {
    let server = Server::start();
    let clock = FakeClock::at(Timestamp::UNIX_EPOCH);
    let items = Arc::new(server::connect(server.endpoint(), Arc::clone(&clock) as Arc<_>));
    let workspaces: Vec<Workspace> = WORKSPACES.map(|name| name.parse().unwrap()).into();
    let workspaces: Arc<dyn Workspaces> = Arc::new(workspaces);
    Arc::new(Later {
        clock,
        queues: Arc::new(queue_server::connect(&queue_server::prefix())),
        outbox: DynamoOutbox::new(Arc::clone(&items), Arc::clone(&workspaces)),
        timers: Arc::new(DynamoTimers::new(Arc::clone(&items), workspaces)),
        items,
        _server: server,
    })
}

fn main() -> ExitCode {
    run_later_suite(&[("aws", || Box::pin(later()))])
}
