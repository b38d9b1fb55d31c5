//! `sequence-events`: something happened to a person, and sequences may begin, go on or end with it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_kernel::Workspace;

use super::{Contract, Field, Kind, Object, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SequenceEvent {
    pub workspace: Workspace,
    pub event_id: String,
    pub name: String,
    pub origin: Origin,
    pub email: Option<String>,
    pub user_id: Option<String>,
    pub occurred_at: Timestamp,
    pub data: Option<Object>,
}

/// Who says so. What the system says of a person nobody else can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Api,
    System,
}

impl SequenceEvent {
    /// The most bytes of `data`, as JSON. Whoever makes an event sees to it.
    pub const MAX_DATA_BYTES: usize = 64 * 1024;
}

impl Contract for SequenceEvent {
    const SHAPE: &'static Shape = &Shape {
        name: "sequence-event",
        version: 1,
        doc: "Begin, take further and end the executions that an event is about, and send the mails that it asks for.",
        queues: &["sequence-events"],
        fields: &[
            Field::required("workspace", Kind::Workspace, "Whose data it is."),
            Field::required(
                "event_id",
                Kind::Text { max: 255 },
                "Identifier of the event within its origin: each counts once.",
            ),
            Field::required("name", Kind::Text { max: 255 }, "What happened."),
            Field::required(
                "origin",
                Kind::OneOf(&["api", "system"]),
                "Who says so: a caller of the API, or Tidings itself.",
            ),
            Field::optional("email", Kind::Text { max: 512 }, "To whom, by address."),
            Field::optional("user_id", Kind::TEXT, "To whom, as the caller names people."),
            Field::required("occurred_at", Kind::Timestamp, "When it happened."),
            Field::optional(
                "data",
                Kind::ANY_OBJECT,
                "What is told of it, at most 65536 bytes as JSON.",
            ),
        ],
    };
}
