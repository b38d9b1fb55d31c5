//! `inbox-posts`: a post to an inbox has something to do. How far it is, its item says.

use serde::{Deserialize, Serialize};
use tidings_kernel::Workspace;

use super::{Contract, Field, Kind, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InboxPost {
    pub workspace: Workspace,
    pub inbox: String,
    pub id: String,
    pub task: InboxTask,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InboxTask {
    /// Its users get it, or its time has come.
    Deliver,
    /// It is taken away from those who have it.
    Redact,
}

impl Contract for InboxPost {
    const SHAPE: &'static Shape = &Shape {
        name: "inbox-post",
        version: 1,
        doc: "Deliver a post to the next users of an inbox, or take it away from the next who have it.",
        queues: &["inbox-posts"],
        fields: &[
            Field::required("workspace", Kind::Workspace, "Whose data it is."),
            Field::required("inbox", Kind::Text { max: 128 }, "Which inbox."),
            Field::required(
                "id",
                Kind::Text { max: 17 },
                "Which post. Its item says how far it is, and whom it is for.",
            ),
            Field::required(
                "task",
                Kind::OneOf(&["deliver", "redact"]),
                "What is to be done: deliver it, or take it away again.",
            ),
        ],
    };
}
