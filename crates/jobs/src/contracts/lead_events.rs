//! `lead-events`: a timeline has one event more, told to all who derive something from timelines.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_kernel::Workspace;

use super::{Contract, Field, Kind, Object, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeadEvent {
    pub workspace: Workspace,
    pub lead_organization_id: String,
    pub event_id: String,
    pub event_type: String,
    pub occurred_at: Timestamp,
    pub source: Option<String>,
    pub metadata: Option<Object>,
}

impl Contract for LeadEvent {
    const SHAPE: &'static Shape = &Shape {
        name: "lead-events",
        version: 1,
        doc: "Derive what follows from an event on a timeline. Published on the topic lead-events, \
              which hands a copy to each of the queues.",
        queues: &["memory-processing", "feature-processing"],
        fields: &[
            Field::required("workspace", Kind::Workspace, "Whose data it is."),
            Field::required("lead_organization_id", Kind::TEXT, "Whose timeline it is."),
            Field::required("event_id", Kind::TEXT, "Which event on that timeline."),
            Field::required("event_type", Kind::TEXT, "What happened."),
            Field::required("occurred_at", Kind::Timestamp, "When it happened."),
            Field::optional("source", Kind::TEXT, "Which system the event came from."),
            Field::optional(
                "metadata",
                Kind::ANY_OBJECT,
                "Trace ids or diagnostics, without authority.",
            ),
        ],
    };
}
