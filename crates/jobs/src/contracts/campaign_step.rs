//! `campaign-steps`: a campaign has something to do. What it is, its row says.

use serde::{Deserialize, Serialize};

use super::{Contract, Field, Kind, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CampaignStep {
    pub campaign_id: i64,
}

impl Contract for CampaignStep {
    const SHAPE: &'static Shape = &Shape {
        name: "campaign-step",
        version: 1,
        doc: "Take a campaign further: begin it, find its recipients, hand its next batches on.",
        queues: &["campaign-steps"],
        fields: &[Field::required(
            "campaign_id",
            Kind::PositiveInteger,
            "Primary key of the campaign.",
        )],
    };
}
