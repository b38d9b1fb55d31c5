//! `lead-ingestion`: something happened to a person whom the sender knows by some identity.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_kernel::Workspace;

use super::{Contract, Field, Kind, Object, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeadIngestion {
    pub workspace: Workspace,
    pub source_type: String,
    pub source: String,
    pub event_type: String,
    pub external_event_id: String,
    pub occurred_at: Timestamp,
    pub received_at: Timestamp,
    pub identities: Vec<Identity>,
    pub object_id: Option<String>,
    pub object_id_ref: Option<String>,
    pub payload: Option<Object>,
    pub raw_payload: Option<String>,
    pub metadata: Option<Object>,
}

/// One address of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub channel: Channel,
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    Email,
    Phone,
    Whatsapp,
    UserId,
    CustomerId,
    AnonymousId,
    #[serde(untagged)]
    Custom(String),
}

impl Contract for LeadIngestion {
    const SHAPE: &'static Shape = &Shape {
        name: "lead-ingestion",
        version: 1,
        doc: "Resolve whom an event is about, and put it on the person's timeline.",
        queues: &["lead-ingestion", "lead-ingestion-bulk"],
        fields: &[
            Field::required("workspace", Kind::Workspace, "Whose data it is."),
            Field::required("source_type", Kind::TEXT, "What sort of system the event comes from."),
            Field::required("source", Kind::TEXT, "Which system the event comes from."),
            Field::required("event_type", Kind::TEXT, "What happened."),
            Field::required(
                "external_event_id",
                Kind::TEXT,
                "The source's own id of the event, stored once per source.",
            ),
            Field::required("occurred_at", Kind::Timestamp, "When it happened."),
            Field::required("received_at", Kind::Timestamp, "When it came to us."),
            Field::required(
                "identities",
                Kind::Array { of: &IDENTITY, max: 100 },
                "By what the source knows the person.",
            ),
            Field::optional("object_id", Kind::TEXT, "What it is about, as we name it."),
            Field::optional(
                "object_id_ref",
                Kind::TEXT,
                "What it is about, as the source names it.",
            ),
            Field::optional("payload", Kind::ANY_OBJECT, "The event's own data."),
            Field::optional(
                "raw_payload",
                Kind::Text { max: 64 * 1024 },
                "What the source sent, before it was read.",
            ),
            Field::optional(
                "metadata",
                Kind::ANY_OBJECT,
                "Trace ids or diagnostics, without authority.",
            ),
        ],
    };
}

const IDENTITY: Kind = Kind::Object(&[
    Field::required(
        "channel",
        Kind::TEXT,
        "email, phone, whatsapp, user_id, customer_id, anonymous_id, or a name of the sender's own.",
    ),
    Field::required("value", Kind::TEXT, "The address on that channel."),
]);
