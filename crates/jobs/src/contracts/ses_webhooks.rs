//! `ses-webhooks`: SES tells what became of a mail.
//!
//! Here: the contract. Not here: making it out of what SNS delivers (`sns`).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ses_event::SesEventType;
use super::{Contract, Field, Kind, Object, Shape};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SesWebhook {
    pub provider: Provider,
    pub provider_event_id: String,
    pub notification_type: NotificationType,
    pub received_at: Timestamp,
    pub ses_message_id: Option<String>,
    pub mail_message_id: Option<String>,
    pub raw_payload_s3_key: Option<String>,
    pub metadata: Option<Object>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    Ses,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NotificationType {
    Send,
    Reject,
    Delivery,
    Bounce,
    Complaint,
    Open,
    Click,
}

impl Contract for SesWebhook {
    const SHAPE: &'static Shape = &Shape {
        name: "ses-webhooks",
        version: 1,
        doc: "Process one notification of SES.",
        queues: &["ses-webhooks"],
        fields: &[
            Field::required("provider", Kind::OneOf(&["ses"]), "Who notifies."),
            Field::required(
                "provider_event_id",
                Kind::TEXT,
                "Stable id of the SNS or SES notification, to process it once.",
            ),
            Field::required("notification_type", NotificationType::KIND, "What happened."),
            Field::required("received_at", Kind::Timestamp, "When the notification came to us."),
            Field::optional(
                "ses_message_id",
                Kind::TEXT,
                "Message id of SES, by which the row that was sent is found.",
            ),
            Field::optional(
                "mail_message_id",
                Kind::TEXT,
                "Id of the provider's mail object, when distinct from ses_message_id.",
            ),
            Field::optional(
                "raw_payload_s3_key",
                Kind::TEXT,
                "Where in S3 the raw payload is archived, if it is.",
            ),
            Field::optional(
                "metadata",
                Kind::ANY_OBJECT,
                "Details of the provider, without authority.",
            ),
        ],
    };
}

impl NotificationType {
    /// `None` for what has no place in the contract.
    pub(super) fn of(kind: SesEventType) -> Option<Self> {
        match kind {
            SesEventType::Send => Some(Self::Send),
            SesEventType::Reject => Some(Self::Reject),
            SesEventType::Delivery => Some(Self::Delivery),
            SesEventType::Bounce => Some(Self::Bounce),
            SesEventType::Complaint => Some(Self::Complaint),
            SesEventType::Open => Some(Self::Open),
            SesEventType::Click => Some(Self::Click),
            SesEventType::DeliveryDelay
            | SesEventType::RenderingFailure
            | SesEventType::Subscription
            | SesEventType::Received
            | SesEventType::SubscriptionSucceeded => None,
        }
    }

    pub(super) const KIND: Kind =
        Kind::OneOf(&["send", "reject", "delivery", "bounce", "complaint", "open", "click"]);
}
