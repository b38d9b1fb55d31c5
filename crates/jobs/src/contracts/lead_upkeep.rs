//! `lead-upkeep`: what is done for many people, a page at a time. How far it is, its item says.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_kernel::Workspace;

use super::{Contract, Field, Kind, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeadUpkeep {
    pub task: UpkeepTask,
    pub at: Timestamp,
    pub workspace: Option<Workspace>,
    pub after: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpkeepTask {
    /// What changes with time is computed again for those who were active lately.
    Daily,
    /// Everything that follows from events is derived again for everybody.
    Rebuild,
}

impl Contract for LeadUpkeep {
    const SHAPE: &'static Shape = &Shape {
        name: "lead-upkeep",
        version: 1,
        doc: "Compute or derive again what is known of many people, a page at a time.",
        queues: &["feature-processing"],
        fields: &[
            Field::required(
                "task",
                Kind::OneOf(&["daily", "rebuild"]),
                "What is to be done: the features that change with time, or everything from the events.",
            ),
            Field::required("at", Kind::Timestamp, "Which time it is, of several."),
            Field::optional(
                "workspace",
                Kind::Workspace,
                "Whose people. Without one it is begun in every workspace.",
            ),
            Field::optional("after", Kind::TEXT, "Where the page before ended."),
        ],
    };
}
