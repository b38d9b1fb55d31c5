//! `transactional-email`: one mail to one person, prepared as a row. Mail of sequences is the same in a queue of its own.

use serde::{Deserialize, Serialize};

use super::{Contract, Field, Kind, Object, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransactionalEmail {
    pub transactional_message_id: i64,
    pub client_id: i64,
    pub idempotency_key: String,
    pub contact_id: Option<i64>,
    pub template_id: Option<i64>,
    pub template_key: Option<String>,
    pub metadata: Option<Object>,
}

impl Contract for TransactionalEmail {
    const SHAPE: &'static Shape = &Shape {
        name: "transactional-email",
        version: 1,
        doc: "Send one row of transactional_messages.",
        queues: &["transactional-email", "sequence-email"],
        fields: &[
            Field::required(
                "transactional_message_id",
                Kind::PositiveInteger,
                "Primary key of the row in transactional_messages, the source of truth.",
            ),
            Field::required(
                "client_id",
                Kind::PositiveInteger,
                "Client scope for authorization and idempotency.",
            ),
            Field::required(
                "idempotency_key",
                Kind::TEXT,
                "Stable key of the request, unique within client_id.",
            ),
            Field::optional(
                "contact_id",
                Kind::PositiveInteger,
                "Routing hint; the worker still loads the whole row.",
            ),
            Field::optional("template_id", Kind::PositiveInteger, "Routing hint for the template."),
            Field::optional("template_key", Kind::TEXT, "Diagnostic hint, to read logs by."),
            Field::optional(
                "metadata",
                Kind::ANY_OBJECT,
                "Trace ids or diagnostics, without authority.",
            ),
        ],
    };
}
