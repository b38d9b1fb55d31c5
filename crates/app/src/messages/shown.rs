//! Messages as operators see them.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tidings_delivery::transactional::{Accepted, Found, LateCopy, Message};

#[derive(Serialize)]
pub(super) struct AcceptedShown {
    id: i64,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    skip_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_at: Option<Timestamp>,
    replayed: bool,
}

#[derive(Serialize)]
pub(super) struct MessageShown {
    id: i64,
    client_id: i64,
    to: Option<String>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    skip_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template_version: Option<i64>,
    from_email: Option<String>,
    subject: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence_id: Option<String>,
    attempts: i64,
    provider: Option<String>,
    provider_message_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    late_copies: Vec<LateCopy>,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_at: Option<Timestamp>,
    handed_at: Option<Timestamp>,
    sent_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl From<Accepted> for AcceptedShown {
    fn from(accepted: Accepted) -> Self {
        Self {
            id: accepted.id.get(),
            status: accepted.status.as_str(),
            skip_reason: accepted.skip_reason,
            scheduled_at: accepted.scheduled_at,
            replayed: accepted.replayed,
        }
    }
}

impl From<Message> for MessageShown {
    fn from(message: Message) -> Self {
        Self {
            id: message.id.get(),
            client_id: message.client.get(),
            to: message.email,
            status: message.status.as_str(),
            skip_reason: message.skip_reason,
            last_error: message.last_error,
            idempotency_key: message.idempotency_key,
            template: message.template_key,
            template_version: message.template_version,
            from_email: message.from_email,
            subject: message.subject,
            metadata: message.metadata,
            sequence_id: message.sequence_id,
            attempts: message.attempts,
            provider: message.provider,
            provider_message_id: message.provider_message_id,
            late_copies: message.late_copies,
            created_at: message.times.created_at,
            scheduled_at: message.times.scheduled_at,
            handed_at: message.times.handed_at,
            sent_at: message.times.sent_at,
            html: None,
            text: None,
        }
    }
}

impl From<Found> for MessageShown {
    fn from(found: Found) -> Self {
        Self { html: found.html, text: found.text, ..Self::from(found.message) }
    }
}
