//! Webhooks and their deliveries as they are printed.

use jiff::Timestamp;
use serde::Serialize;
use tidings_webhooks::deliveries::{Attempt, Delivery};
use tidings_webhooks::endpoints::Endpoint;

#[derive(Serialize)]
pub(super) struct Shown {
    /// Only when it is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<String>,
    pub(super) id: i64,
    pub(super) url: String,
    pub(super) description: Option<String>,
    pub(super) event_types: Vec<&'static str>,
    pub(super) disabled_at: Option<Timestamp>,
    pub(super) disabled_reason: Option<String>,
    pub(super) failures: i64,
    pub(super) failing_since: Option<Timestamp>,
    pub(super) previous_secret_until: Option<Timestamp>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

#[derive(Serialize)]
pub(super) struct ShownDelivery {
    pub(super) id: i64,
    pub(super) webhook_id: i64,
    pub(super) event_id: String,
    pub(super) event_type: String,
    pub(super) status: &'static str,
    pub(super) failure: Option<String>,
    pub(super) attempts: i64,
    pub(super) next_attempt_at: Option<Timestamp>,
    pub(super) delivered_at: Option<Timestamp>,
    pub(super) created_at: Timestamp,
}

#[derive(Serialize)]
pub(super) struct ShownDetails {
    #[serde(flatten)]
    pub(super) delivery: ShownDelivery,
    pub(super) payload: Option<serde_json::Value>,
    pub(super) tried: Vec<ShownAttempt>,
}

#[derive(Serialize)]
pub(super) struct ShownAttempt {
    pub(super) status_code: Option<i64>,
    pub(super) answer: Option<String>,
    pub(super) error: Option<String>,
    pub(super) duration_ms: i64,
    pub(super) attempted_at: Timestamp,
}

impl From<Endpoint> for Shown {
    fn from(endpoint: Endpoint) -> Self {
        let (disabled_at, disabled_reason) = match endpoint.disabled {
            Some(disabled) => (Some(disabled.at), Some(disabled.reason)),
            None => (None, None),
        };
        Self {
            secret: None,
            id: endpoint.id.get(),
            url: endpoint.url,
            description: endpoint.description,
            event_types: endpoint.event_types.words(),
            disabled_at,
            disabled_reason,
            failures: endpoint.failures,
            failing_since: endpoint.failing_since,
            previous_secret_until: endpoint.previous_secret_until,
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
        }
    }
}

impl From<Delivery> for ShownDelivery {
    fn from(delivery: Delivery) -> Self {
        Self {
            id: delivery.id.get(),
            webhook_id: delivery.endpoint.get(),
            event_id: delivery.event_id,
            event_type: delivery.event_type,
            status: delivery.status.as_str(),
            failure: delivery.failure,
            attempts: delivery.attempts,
            next_attempt_at: delivery.next_attempt_at,
            delivered_at: delivery.delivered_at,
            created_at: delivery.created_at,
        }
    }
}

impl From<Attempt> for ShownAttempt {
    fn from(attempt: Attempt) -> Self {
        Self {
            status_code: attempt.status_code,
            answer: attempt.answer,
            error: attempt.error,
            duration_ms: attempt.duration_ms,
            attempted_at: attempt.attempted_at,
        }
    }
}
