//! `sequence-steps`: one person's walk through a sequence can go on. Where it is, its item says.

use serde::{Deserialize, Serialize};
use tidings_kernel::Workspace;

use super::{Contract, Field, Kind, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SequenceStep {
    pub workspace: Workspace,
    pub execution_id: String,
}

impl Contract for SequenceStep {
    const SHAPE: &'static Shape = &Shape {
        name: "sequence-step",
        version: 1,
        doc: "Take one execution of a sequence further.",
        queues: &["sequence-steps"],
        fields: &[
            Field::required("workspace", Kind::Workspace, "Whose data it is."),
            Field::required(
                "execution_id",
                Kind::Text { max: 64 },
                "Which execution. Its item says where it is.",
            ),
        ],
    };
}
