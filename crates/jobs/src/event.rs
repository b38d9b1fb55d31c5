//! A batch of messages in the shape that AWS Lambda hands over from SQS, and the partial batch response.

use std::time::Duration;

use futures_util::StreamExt as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_kernel::{Delivery, MAX_LEASE, Queue, QueueEngine, Receipt, causes};

use crate::handler::{Handler, Outcome, attend, give_up};

/// How many records of one event are worked on at once.
const CONCURRENCY: usize = 10;
/// What Lambda hands over at most.
const MAX_RECORDS: usize = 10_000;

/// `{"Records":[…]}`. Fields that we do not need are passed over.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Event {
    #[serde(rename = "Records")]
    pub records: Vec<Record>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub message_id: String,
    pub body: String,
    #[serde(default)]
    receipt_handle: String,
    #[serde(default)]
    attributes: Attributes,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Attributes {
    approximate_receive_count: Option<String>,
    sent_timestamp: Option<String>,
}

/// The records that must come again. All others are done, and are deleted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchResponse {
    pub batch_item_failures: Vec<BatchItemFailure>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchItemFailure {
    pub item_identifier: String,
}

#[derive(Debug, thiserror::Error)]
pub enum EventError {
    #[error("the event is not JSON of the form {{\"Records\":[{{\"messageId\":…,\"body\":…}}]}}")]
    Shape(#[from] serde_json::Error),
    #[error("an event can hold 10,000 records, not more")]
    TooMany,
    #[error("two records have the same messageId, so that a failure could not be told apart")]
    SameId,
}

impl Event {
    pub fn parse(json: &str) -> Result<Self, EventError> {
        Self::from_value(serde_json::from_str(json)?)
    }

    pub fn from_value(json: serde_json::Value) -> Result<Self, EventError> {
        let event: Self = serde_json::from_value(json)?;
        event.check()?;
        Ok(event)
    }

    fn check(&self) -> Result<(), EventError> {
        if self.records.len() > MAX_RECORDS {
            return Err(EventError::TooMany);
        }
        let mut ids: Vec<_> = self.records.iter().map(|record| &record.message_id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(EventError::SameId);
        }
        Ok(())
    }

    /// Works on all records, each by itself, and answers which of them failed, in their order. What waits for something else
    /// is put back by `held_in`, where the records are of a queue that can be asked; else it counts as failed.
    pub async fn handle(
        &self,
        queue: &'static Queue,
        handler: &dyn Handler,
        held_in: Option<&dyn QueueEngine>,
        time_limit: Duration,
    ) -> BatchResponse {
        let work = self.records.iter().map(|record| async move {
            let delivery = record.delivery();
            let outcome = attend(handler, &delivery, time_limit).await;
            let id = record.message_id.as_str();
            if let (Outcome::Wait { reason, after }, Some(engine)) = (&outcome, held_in)
                && put_back(engine, (queue, &delivery), (*after, reason)).await
            {
                // Lambda leaves alone what has failed. Should it have come to somebody else meanwhile, nobody deletes it.
                return Some(BatchItemFailure { item_identifier: id.to_owned() });
            }
            // SQS moves it to the dead letters by itself after this, whatever it waits for.
            if let Outcome::Retry { reason, .. }
            | Outcome::Wait { reason, .. }
            | Outcome::Dead { reason } = &outcome
                && delivery.receives >= queue.max_receives
            {
                give_up(handler, &delivery, reason, time_limit).await;
            }
            match outcome {
                Outcome::Done => None,
                Outcome::Retry { reason, .. } | Outcome::Wait { reason, .. } => {
                    tracing::warn!(
                        message.id = id,
                        reason,
                        "A message failed, and will be tried again"
                    );
                    Some(BatchItemFailure { item_identifier: id.to_owned() })
                }
                // It goes to the dead letters when it has come often enough.
                Outcome::Dead { reason } => {
                    tracing::warn!(message.id = id, reason, "A message failed for good");
                    Some(BatchItemFailure { item_identifier: id.to_owned() })
                }
            }
        });
        let failures = futures_util::stream::iter(work).buffered(CONCURRENCY);
        BatchResponse {
            batch_item_failures: failures.filter_map(std::future::ready).collect().await,
        }
    }
}

/// Whether it comes again without having counted.
async fn put_back(
    engine: &dyn QueueEngine,
    (queue, delivery): (&'static Queue, &Delivery),
    (after, reason): (Duration, &str),
) -> bool {
    match engine.defer(queue, delivery, after.min(MAX_LEASE), reason).await {
        Ok(()) => {
            tracing::debug!(message.id = %delivery.id, reason, "A message waits");
            true
        }
        Err(error) => {
            let error = causes(&error);
            tracing::warn!(message.id = %delivery.id, error, "A message that waits could not be put back");
            false
        }
    }
}

impl Record {
    fn delivery(&self) -> Delivery {
        let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse().ok());
        let sent = number(&self.attributes.sent_timestamp).unwrap_or_default();
        Delivery {
            id: self.message_id.clone(),
            body: self.body.clone(),
            receives: number(&self.attributes.approximate_receive_count)
                .and_then(|count: i64| u32::try_from(count).ok())
                .unwrap_or(1),
            enqueued_at: Timestamp::from_millisecond(sent).unwrap_or_default(),
            receipt: Receipt(self.receipt_handle.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
