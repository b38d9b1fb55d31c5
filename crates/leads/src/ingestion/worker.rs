//! The worker of `lead-ingestion`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidings_access::Access;
use tidings_jobs::contracts::LeadIngestion;
use tidings_jobs::{Handler, Outcome, Work, for_contract};
use tidings_kernel::causes;

use super::{IngestError, ingest};
use crate::features::in_trouble;

/// How long an event waits while a store cannot be used.
const STORE_PAUSE: Duration = Duration::from_secs(15);

struct Events {
    access: Access,
}

/// Who works on the queue `lead-ingestion`.
pub fn handler(access: Access) -> Arc<dyn Handler> {
    for_contract(Events { access })
}

#[async_trait]
impl Work<LeadIngestion> for Events {
    async fn work(&self, message: LeadIngestion) -> Outcome {
        let cx = match self.access.working_in(&message.workspace).await {
            Ok(Some(cx)) => cx,
            Ok(None) => return Outcome::Done,
            Err(error) => return Outcome::wait(causes(&error).to_string(), STORE_PAUSE),
        };
        match ingest(&cx, message).await {
            Ok(_) => Outcome::Done,
            Err(error @ IngestError::Invalid(_)) => Outcome::dead(error.to_string()),
            Err(IngestError::Store(error)) => in_trouble("an event could not be stored", &error),
        }
    }
}
