//! `confirmation-mail`: people who wait to be asked whether they want a subscription.

use serde::{Deserialize, Serialize};
use tidings_kernel::Workspace;

use super::{Contract, Field, Kind, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConfirmationAsk {
    pub workspace: Workspace,
    pub client_id: i64,
    pub send: i64,
    pub subscriptions: Vec<i64>,
}

impl ConfirmationAsk {
    /// So many subscriptions are in one message at most.
    pub const MAX_SUBSCRIPTIONS: usize = 100;
}

impl Contract for ConfirmationAsk {
    const SHAPE: &'static Shape = &Shape {
        name: "confirmation-ask",
        version: 1,
        doc: "See that a mail asks for the confirmation of some subscriptions, unless that was done or is not wanted any more.",
        queues: &["confirmation-mail"],
        fields: &[
            Field::required("workspace", Kind::Workspace, "Whose data it is."),
            Field::required(
                "client_id",
                Kind::PositiveInteger,
                "The client that asks where a subscription is to the whole audience.",
            ),
            Field::required(
                "send",
                Kind::PositiveInteger,
                "The how manieth mail it is for each of them. One that was sent is not sent again.",
            ),
            Field::required(
                "subscriptions",
                Kind::Array { of: &Kind::PositiveInteger, max: ConfirmationAsk::MAX_SUBSCRIPTIONS },
                "Primary keys of the subscriptions that wait.",
            ),
        ],
    };
}
