//! `campaign-email`: a bounded batch of a campaign's recipients, snapshotted as rows.

use serde::{Deserialize, Serialize};

use super::{Contract, Field, Kind, Object, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CampaignEmail {
    pub campaign_id: i64,
    pub batch_id: String,
    pub campaign_recipient_ids: Vec<i64>,
    pub idempotency_key: Option<String>,
    pub metadata: Option<Object>,
}

impl Contract for CampaignEmail {
    const SHAPE: &'static Shape = &Shape {
        name: "campaign-email",
        version: 1,
        doc: "Send a batch of campaign_recipients rows that are still eligible.",
        queues: &["campaign-email"],
        fields: &[
            Field::required(
                "campaign_id",
                Kind::PositiveInteger,
                "Primary key of the source campaign.",
            ),
            Field::required(
                "batch_id",
                Kind::TEXT,
                "Stable identifier of the batch, made by the scheduler.",
            ),
            Field::required(
                "campaign_recipient_ids",
                Kind::Array { of: &Kind::PositiveInteger, max: 1000 },
                "Primary keys of the campaign_recipients rows to load and process.",
            ),
            Field::optional(
                "idempotency_key",
                Kind::TEXT,
                "Recommended value: the same as batch_id.",
            ),
            Field::optional(
                "metadata",
                Kind::ANY_OBJECT,
                "Trace ids or diagnostics of the scheduler.",
            ),
        ],
    };
}
