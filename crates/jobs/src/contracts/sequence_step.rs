//! `sequence-steps`: sequences have something to do. What it is, the item with this id says.

use serde::{Deserialize, Serialize};
use tidings_kernel::Workspace;

use super::{Contract, Field, Kind, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SequenceStep {
    pub workspace: Workspace,
    pub task: SequenceTask,
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SequenceTask {
    /// An execution can go on.
    GoOn,
    /// An execution was taken out: what it has not sent yet is not sent.
    TakeBack,
    /// Many are to be let in, of whom some may be in already.
    Enrol,
    /// A mail of an execution is not sent, for a reason that its row has.
    Skipped,
}

impl SequenceStep {
    pub fn new(workspace: Workspace, task: SequenceTask, id: &str) -> Self {
        Self { workspace, task, id: id.to_owned(), message_id: None }
    }
}

impl Contract for SequenceStep {
    const SHAPE: &'static Shape = &Shape {
        name: "sequence-step",
        version: 1,
        doc: "Take one execution of a sequence further, take back what it has not sent, let many people in, or \
              count a mail that is not sent.",
        queues: &["sequence-steps"],
        fields: &[
            Field::required("workspace", Kind::Workspace, "Whose data it is."),
            Field::required(
                "task",
                Kind::OneOf(&["go_on", "take_back", "enrol", "skipped"]),
                "What is to be done: take an execution further, take back what one that was stopped has not sent, \
                 let the next people of an enrolment in, or count a mail of an execution that is not sent.",
            ),
            Field::required(
                "id",
                Kind::Text { max: 64 },
                "Which execution, or which enrolment. Its item says where it is.",
            ),
            Field::optional(
                "message_id",
                Kind::PositiveInteger,
                "Its row in `transactional_messages` (skipped).",
            ),
        ],
    };
}
