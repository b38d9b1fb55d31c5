//! `audit-entries`: something was changed in items, and the audit log is to say so.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_kernel::Workspace;

use super::{Contract, Field, Kind, Object, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub workspace: Workspace,
    pub entry_id: String,
    pub actor: String,
    pub action: String,
    pub target_type: String,
    pub target_id: String,
    pub before: Option<Object>,
    pub after: Option<Object>,
    pub happened_at: Timestamp,
}

/// What happened does not change any more, so it travels as a whole.
impl Contract for AuditEntry {
    const SHAPE: &'static Shape = &Shape {
        name: "audit-entry",
        version: 1,
        doc: "Write down once, in the audit log, who changed what from what to what.",
        queues: &["audit-entries"],
        fields: &[
            Field::required("workspace", Kind::Workspace, "Whose data it is."),
            Field::required(
                "entry_id",
                Kind::Text { max: 64 },
                "Identifier of the entry: each is written once.",
            ),
            Field::required("actor", Kind::Text { max: 200 }, "Who did it."),
            Field::required("action", Kind::Text { max: 100 }, "What was done."),
            Field::required("target_type", Kind::Text { max: 100 }, "To what kind of thing."),
            Field::required("target_id", Kind::Text { max: 255 }, "To which one."),
            Field::optional(
                "before",
                Kind::ANY_OBJECT,
                "What it was before, without personal data.",
            ),
            Field::optional("after", Kind::ANY_OBJECT, "What it is now, without personal data."),
            Field::required("happened_at", Kind::Timestamp, "When it was done."),
        ],
    };
}
