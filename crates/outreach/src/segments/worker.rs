//! The worker of `segment-processing`: people who may be in other segments than before, and segments that are built.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidings_access::{Access, StorageError};
use tidings_jobs::contracts::{Contract, SegmentBuild, SegmentCheck};
use tidings_jobs::{Handler, Outcome};
use tidings_kernel::{Delivery, causes};
use tidings_people::contacts::ContactId;

use super::settle::settle;
use super::{SegmentId, build};

/// How long a message waits while a store cannot be used.
const STORE_PAUSE: Duration = Duration::from_secs(15);

struct Worker {
    access: Access,
}

/// Who works on the queue `segment-processing`.
pub fn handler(access: Access) -> Arc<dyn Handler> {
    Arc::new(Worker { access })
}

#[async_trait]
impl Handler for Worker {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        let done = if is_build(&delivery.body) {
            match SegmentBuild::parse(&delivery.body) {
                Ok(message) => self.build(&message).await,
                Err(error) => return Outcome::dead(error.to_string()),
            }
        } else {
            match SegmentCheck::parse(&delivery.body) {
                Ok(message) => self.check(&message).await,
                Err(error) => return Outcome::dead(error.to_string()),
            }
        };
        match done {
            Ok(()) => Outcome::Done,
            Err(error) => {
                let reason = format!("segments could not be kept up: {}", causes(&error));
                // A store that is away is no fault of the message, and uses up none of its tries.
                if error.is_passing() {
                    Outcome::wait(reason, STORE_PAUSE)
                } else {
                    Outcome::retry(reason)
                }
            }
        }
    }
}

/// What is not of this contract is held against the other.
fn is_build(body: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Named {
        contract: String,
    }
    serde_json::from_str::<Named>(body)
        .is_ok_and(|named| named.contract == SegmentBuild::SHAPE.name)
}

impl Worker {
    async fn check(&self, message: &SegmentCheck) -> Result<(), StorageError> {
        let Some(cx) = self.access.working_in(&message.workspace).await? else { return Ok(()) };
        let contacts: Vec<ContactId> =
            message.contacts.iter().copied().map(ContactId::from).collect();
        settle(&cx, &contacts, None).await.map(drop)
    }

    async fn build(&self, message: &SegmentBuild) -> Result<(), StorageError> {
        let Some(cx) = self.access.working_in(&message.workspace).await? else { return Ok(()) };
        let id = SegmentId::from(message.segment_id);
        build::page(&cx, id, (message.rev, message.page)).await
    }
}
