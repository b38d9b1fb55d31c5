//! `email-events`: somebody opened a mail, clicked in it or unsubscribed, as our own tracking saw it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Contract, Field, Kind, Object, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmailEvent {
    pub event_id: String,
    pub event_type: EventType,
    pub occurred_at: Timestamp,
    pub idempotency_key: String,
    pub campaign_id: Option<i64>,
    pub campaign_recipient_id: Option<i64>,
    pub transactional_message_id: Option<i64>,
    pub contact_id: Option<i64>,
    pub client_id: Option<i64>,
    pub audience_id: Option<i64>,
    pub tracking_token: Option<String>,
    pub url: Option<String>,
    pub metadata: Option<Object>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventType {
    Open,
    Click,
    Unsubscribe,
}

impl Contract for EmailEvent {
    const SHAPE: &'static Shape = &Shape {
        name: "email-events",
        version: 1,
        doc: "Ingest one event of our own tracking endpoints.",
        queues: &["email-events"],
        fields: &[
            Field::required("event_id", Kind::TEXT, "Identifier of the event, made at the edge."),
            Field::required(
                "event_type",
                Kind::OneOf(&["open", "click", "unsubscribe"]),
                "What happened.",
            ),
            Field::required("occurred_at", Kind::Timestamp, "When it happened."),
            Field::required(
                "idempotency_key",
                Kind::TEXT,
                "Stable key, by which a repeated tracking request is counted once.",
            ),
            Field::optional("campaign_id", Kind::PositiveInteger, "Campaign, if known at ingest."),
            Field::optional(
                "campaign_recipient_id",
                Kind::PositiveInteger,
                "Row in campaign_recipients, the preferred source.",
            ),
            Field::optional(
                "transactional_message_id",
                Kind::PositiveInteger,
                "Row in transactional_messages, if it is the source.",
            ),
            Field::optional("contact_id", Kind::PositiveInteger, "Contact, if already resolved."),
            Field::optional("client_id", Kind::PositiveInteger, "Client, if already resolved."),
            Field::optional("audience_id", Kind::PositiveInteger, "Audience, if already resolved."),
            Field::optional(
                "tracking_token",
                Kind::TEXT,
                "Token by which the source of truth is loaded.",
            ),
            // Links with tracking parameters outgrow other texts; servers take about this much.
            Field::optional("url", Kind::Text { max: 8192 }, "Target of a click."),
            Field::optional(
                "metadata",
                Kind::ANY_OBJECT,
                "Diagnostics of the request, such as its user agent or a hash of its address.",
            ),
        ],
    };
}
