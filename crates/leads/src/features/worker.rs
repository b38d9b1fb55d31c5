//! The worker of `feature-processing`: events that change features, and the work on everybody.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidings_access::{Access, StorageError};
use tidings_jobs::contracts::{Contract, LeadEvent, LeadUpkeep, UpkeepTask};
use tidings_jobs::{Handler, Outcome};
use tidings_kernel::{Delivery, causes};

use super::rebuild::{Rebuilt, rebuild};
use super::take::{Taken, take};
use super::{daily, upkeep};

/// How long a message waits while a store cannot be used.
const STORE_PAUSE: Duration = Duration::from_secs(15);
/// And while somebody else counts the same person anew.
const BUSY_PAUSE: Duration = Duration::from_secs(5);

/// The types of messages that ask for a rebuild. Nobody can tell an event of such a type (`ingestion::accept`).
const REBUILDS: [&str; 3] = ["contact.merged", "contact.unmerged", upkeep::REBUILD];

/// Whether everything of somebody has to be derived again.
pub(crate) fn asks_for_rebuild(event_type: &str) -> bool {
    REBUILDS.contains(&event_type)
}

struct Worker {
    access: Access,
}

/// Who works on the queue `feature-processing`.
pub fn handler(access: Access) -> Arc<dyn Handler> {
    Arc::new(Worker { access })
}

#[async_trait]
impl Handler for Worker {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        let done = if is_upkeep(&delivery.body) {
            match LeadUpkeep::parse(&delivery.body) {
                Ok(message) => self.keep_up(&message).await,
                Err(error) => return Outcome::dead(error.to_string()),
            }
        } else {
            match LeadEvent::parse(&delivery.body) {
                Ok(message) => self.work(&message).await,
                Err(error) => return Outcome::dead(error.to_string()),
            }
        };
        done.unwrap_or_else(|error| in_trouble("features could not be computed", &error))
    }
}

/// What is not of this contract is held against the other.
fn is_upkeep(body: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Named {
        contract: String,
    }
    serde_json::from_str::<Named>(body).is_ok_and(|named| named.contract == LeadUpkeep::SHAPE.name)
}

/// A store that does not answer is waited for; everything else is tried again a few times.
pub(crate) fn in_trouble(what: &str, error: &StorageError) -> Outcome {
    let reason = format!("{what}: {}", causes(error));
    if error.is_passing() { Outcome::wait(reason, STORE_PAUSE) } else { Outcome::retry(reason) }
}

impl Worker {
    async fn work(&self, message: &LeadEvent) -> Result<Outcome, StorageError> {
        let Some(cx) = self.access.working_in(&message.workspace).await? else {
            return Ok(Outcome::Done);
        };
        let busy = || Outcome::wait("somebody else counts the same person", BUSY_PAUSE);
        if asks_for_rebuild(&message.event_type) {
            return Ok(match rebuild(&cx, &message.lead_organization_id).await? {
                Rebuilt::Done | Rebuilt::Nothing => Outcome::Done,
                Rebuilt::Busy => busy(),
            });
        }
        Ok(match take(&cx, message).await? {
            Taken::Counted | Taken::Before | Taken::Gone => Outcome::Done,
            Taken::Busy => busy(),
        })
    }

    async fn keep_up(&self, message: &LeadUpkeep) -> Result<Outcome, StorageError> {
        let Some(workspace) = &message.workspace else {
            daily::begin_everywhere(&self.access, message).await?;
            return Ok(Outcome::Done);
        };
        let Some(cx) = self.access.working_in(workspace).await? else {
            return Ok(Outcome::Done);
        };
        if upkeep::is_due(&cx, message).await? {
            match message.task {
                UpkeepTask::Daily => daily::page(&cx, message).await?,
                UpkeepTask::Rebuild => upkeep::rebuild_page(&cx, message).await?,
            }
        }
        Ok(Outcome::Done)
    }
}
