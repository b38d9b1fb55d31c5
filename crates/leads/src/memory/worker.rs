//! The worker of `memory-processing`.

use std::sync::Arc;

use async_trait::async_trait;
use tidings_access::{Access, StorageError};
use tidings_jobs::contracts::LeadEvent;
use tidings_jobs::orders::is_order;
use tidings_jobs::{Handler, Outcome, Work, for_contract};

use super::update::take_by;
use super::{rebuild, rules};
use crate::features::{in_trouble, whom_to_rebuild};
use crate::turns::Turns;

struct Worker {
    access: Access,
    turns: Turns<()>,
    rules: rules::Known,
}

/// Who works on the queue `memory-processing`.
pub fn handler(access: Access) -> Arc<dyn Handler> {
    for_contract(Worker { access, turns: Turns::default(), rules: rules::Known::default() })
}

#[async_trait]
impl Work<LeadEvent> for Worker {
    async fn work(&self, message: LeadEvent) -> Outcome {
        match self.learn(&message).await {
            Ok(()) => Outcome::Done,
            Err(error) => in_trouble("memory could not be derived", &error),
        }
    }
}

impl Worker {
    async fn learn(&self, message: &LeadEvent) -> Result<(), StorageError> {
        let Some(cx) = self.access.working_in(&message.workspace).await? else { return Ok(()) };
        // Events of one person often say the same thing: one after the other, none is too slow.
        let lane = self.turns.lane(&cx, &message.lead_organization_id);
        let _turn = lane.turn().await;
        if is_order(&message.event_type) {
            rebuild(&cx, &whom_to_rebuild(&cx, message).await?).await?;
        } else {
            take_by(&cx, &self.rules, message).await?;
        }
        Ok(())
    }
}
