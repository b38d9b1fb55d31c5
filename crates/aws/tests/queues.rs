//! The queue suite on a server of SQS and SNS.

mod credentials;
mod queue_server;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidings_aws::Sqs;
use tidings_kernel::QueueEngine;
use tidings_testkit::queues::{Quirk, Subject, run_queues_suite};

/// The server's clock may be a little behind ours, or round.
const MARGIN: Duration = Duration::from_millis(100);

struct Queues(Arc<Sqs>);

#[async_trait]
impl Subject for Queues {
    fn engine(&self) -> Arc<dyn QueueEngine> {
        Arc::clone(&self.0) as Arc<dyn QueueEngine>
    }

    #[expect(clippy::disallowed_methods, reason = "the server's time can only be waited for")]
    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time + MARGIN).await;
    }

    fn quirks(&self) -> &'static [Quirk] {
        &[Quirk::ReceiptsAreNotTold, Quirk::DeadLettersAreSampled, Quirk::AgeIsNotTold]
    }
}

async fn queues() -> Arc<dyn Subject> {
    Arc::new(Queues(Arc::new(queue_server::connect(&queue_server::prefix()))))
}

fn main() -> ExitCode {
    run_queues_suite(&[("sqs", || Box::pin(queues()))])
}
