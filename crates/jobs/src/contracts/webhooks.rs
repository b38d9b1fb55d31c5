//! `webhook-fanout` and `webhook-delivery`: something happened, and each endpoint that wants to know is told.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Contract, Field, Kind, Object, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WebhookFanout {
    pub workspace_id: i64,
    pub event_id: String,
    pub event_type: String,
    pub occurred_at: Timestamp,
    pub data: Object,
}

impl Contract for WebhookFanout {
    const SHAPE: &'static Shape = &Shape {
        name: "webhook-fanout",
        version: 1,
        doc: "Make a delivery for each endpoint of the workspace that wants to know of an event.",
        queues: &["webhook-fanout"],
        fields: &[
            Field::required("workspace_id", Kind::PositiveInteger, "Whose data it is."),
            Field::required(
                "event_id",
                Kind::Text { max: 255 },
                "Identifier of the event: an endpoint is told of each once.",
            ),
            Field::required("event_type", Kind::Text { max: 100 }, "What happened."),
            Field::required("occurred_at", Kind::Timestamp, "When it happened."),
            Field::required("data", Kind::ANY_OBJECT, "What is told of it: ids, mostly."),
        ],
    };
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WebhookDelivery {
    pub workspace_id: i64,
    pub delivery_id: i64,
}

impl Contract for WebhookDelivery {
    const SHAPE: &'static Shape = &Shape {
        name: "webhook-delivery",
        version: 1,
        doc: "Try one row of webhook_deliveries.",
        queues: &["webhook-delivery"],
        fields: &[
            Field::required("workspace_id", Kind::PositiveInteger, "Whose data it is."),
            Field::required(
                "delivery_id",
                Kind::PositiveInteger,
                "Primary key of the row in webhook_deliveries, the source of truth.",
            ),
        ],
    };
}
