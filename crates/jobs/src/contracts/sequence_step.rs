//! `sequence-steps`: sequences have something to do. What it is, the item with this id says.

use serde::{Deserialize, Serialize};
use tidings_kernel::Workspace;

use super::{Contract, Field, Kind, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SequenceStep {
    pub workspace: Workspace,
    pub task: SequenceTask,
    pub id: String,
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
}

impl Contract for SequenceStep {
    const SHAPE: &'static Shape = &Shape {
        name: "sequence-step",
        version: 1,
        doc: "Take one execution of a sequence further, take back what it has not sent, or let many people in.",
        queues: &["sequence-steps"],
        fields: &[
            Field::required("workspace", Kind::Workspace, "Whose data it is."),
            Field::required(
                "task",
                Kind::OneOf(&["go_on", "take_back", "enrol"]),
                "What is to be done: take an execution further, take back what one that was stopped has not sent, or \
                 let the next people of an enrolment in.",
            ),
            Field::required(
                "id",
                Kind::Text { max: 64 },
                "Which execution, or which enrolment. Its item says where it is.",
            ),
        ],
    };
}
