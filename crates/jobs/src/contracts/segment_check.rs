//! `segment-processing`: people who may be in other segments than before, and a segment whose condition is new.

use serde::{Deserialize, Serialize};
use tidings_kernel::Workspace;

use super::{Contract, Field, Kind, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SegmentCheck {
    pub workspace: Workspace,
    pub contacts: Vec<i64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SegmentBuild {
    pub workspace: Workspace,
    pub segment_id: i64,
    pub rev: i64,
    pub page: i64,
}

impl SegmentCheck {
    /// So many people are in one message at most.
    pub const MAX_CONTACTS: usize = 100;
}

impl Contract for SegmentCheck {
    const SHAPE: &'static Shape = &Shape {
        name: "segment-check",
        version: 1,
        doc: "Look again in which segments some people are, with what is known of them now.",
        queues: &["segment-processing"],
        fields: &[
            Field::required("workspace", Kind::Workspace, "Whose data it is."),
            Field::required(
                "contacts",
                Kind::Array { of: &Kind::PositiveInteger, max: SegmentCheck::MAX_CONTACTS },
                "Primary keys of the leads to look at.",
            ),
        ],
    };
}

impl Contract for SegmentBuild {
    const SHAPE: &'static Shape = &Shape {
        name: "segment-build",
        version: 1,
        doc: "Go on with the walk over everybody for a segment whose condition is new, or take away what is left of one that was deleted.",
        queues: &["segment-processing"],
        fields: &[
            Field::required("workspace", Kind::Workspace, "Whose data it is."),
            Field::required("segment_id", Kind::PositiveInteger, "Primary key of the segment."),
            Field::required(
                "rev",
                Kind::PositiveInteger,
                "For which of its conditions. That of an older one ends.",
            ),
            Field::required(
                "page",
                Kind::PositiveInteger,
                "Which page of the walk. One that was done is not done again.",
            ),
        ],
    };
}
