//! The worker of `feature-processing`: events that change features, and the work on everybody.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidings_access::{Access, Cx, StorageError};
use tidings_jobs::contracts::{Contract, LeadEvent, LeadUpkeep, UpkeepTask};
use tidings_jobs::orders::{self, is_order};
use tidings_jobs::{Handler, Outcome};
use tidings_kernel::{Delivery, StoreError, causes};
use tidings_sql::DatabaseError;

use super::rebuild::{Rebuilt, rebuild};
use super::take::{Counting, Taken};
use super::{daily, upkeep};
use crate::identity;

/// How long a message waits while a store cannot be used.
const STORE_PAUSE: Duration = Duration::from_secs(15);
/// And while somebody else counts the same person anew.
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// And at most where others were faster again and again: somebody is there, so it is worth trying soon.
const CONFLICT_PAUSE: Duration = Duration::from_millis(400);

/// Of whom everything has to be derived again.
pub(crate) async fn whom_to_rebuild(cx: &Cx, message: &LeadEvent) -> Result<String, StorageError> {
    let named = &message.lead_organization_id;
    let owner = match message.event_type.as_str() {
        orders::REVISED => identity::owner(cx, named).await?,
        _ => None,
    };
    Ok(owner.map_or_else(|| named.clone(), |owner| owner.lead_organization_id))
}

struct Worker {
    access: Access,
    counting: Counting,
}

/// Who works on the queue `feature-processing`.
pub fn handler(access: Access) -> Arc<dyn Handler> {
    Arc::new(Worker { access, counting: Counting::default() })
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
    if is_conflict(error) {
        return Outcome::wait(reason, soon());
    }
    if error.is_passing() { Outcome::wait(reason, STORE_PAUSE) } else { Outcome::retry(reason) }
}

fn is_conflict(error: &StorageError) -> bool {
    matches!(
        error,
        StorageError::Items(StoreError::Conflict)
            | StorageError::Relations(DatabaseError::Conflict)
    )
}

/// Those who met do not meet again: each waits for another while.
fn soon() -> Duration {
    let mut chance = [0; 1];
    getrandom::fill(&mut chance).expect("the operating system has randomness");
    CONFLICT_PAUSE.mul_f64(0.25 + 0.75 * f64::from(chance[0]) / 255.0)
}

impl Worker {
    async fn work(&self, message: &LeadEvent) -> Result<Outcome, StorageError> {
        let Some(cx) = self.access.working_in(&message.workspace).await? else {
            return Ok(Outcome::Done);
        };
        let busy = || Outcome::wait("somebody else counts the same person", BUSY_PAUSE);
        if is_order(&message.event_type) {
            let whom = whom_to_rebuild(&cx, message).await?;
            return Ok(match rebuild(&cx, &whom).await? {
                Rebuilt::Done | Rebuilt::Nothing => Outcome::Done,
                Rebuilt::Busy => busy(),
            });
        }
        Ok(match self.counting.take(&cx, message).await? {
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
