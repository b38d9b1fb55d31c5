//! Contracts: what a message in a queue may look like, down to each field.
//!
//! Each contract is described once, as a [`Shape`] beside its struct. Reading, writing, the JSON Schema and the page
//! in `docs/contracts` all follow from that description, so that they cannot disagree. A message carries stable ids
//! and where to route it, never state that can change: who handles it loads that.
//!
//! Here: the descriptions, and reading and writing by them. Not here: queues, and what is done with a message.

mod audit_entry;
mod campaign_email;
mod campaign_step;
mod check;
mod confirmation_ask;
mod email_events;
mod error;
mod inbox_post;
mod lead_events;
mod lead_ingestion;
mod lead_upkeep;
mod probe;
mod reminder_step;
mod schema;
mod segment_check;
mod sequence_event;
mod sequence_step;
mod ses_event;
mod ses_webhooks;
mod shape;
mod sns;
#[cfg(test)]
mod tests;
mod transactional_email;
mod webhooks;

pub use audit_entry::AuditEntry;
pub use campaign_email::CampaignEmail;
pub use campaign_step::CampaignStep;
pub use confirmation_ask::ConfirmationAsk;
pub use email_events::{EmailEvent, EventType};
pub use error::{ContractError, Violation};
pub use inbox_post::{InboxPost, InboxTask};
pub use lead_events::LeadEvent;
pub use lead_ingestion::{Channel, Identity, LeadIngestion};
pub use lead_upkeep::{LeadUpkeep, UpkeepTask};
pub use probe::Probe;
pub use reminder_step::{Pays, ReminderStep, ReminderTask};
pub use schema::schema;
pub use segment_check::{SegmentBuild, SegmentCheck};
pub use sequence_event::{Origin, SequenceEvent};
pub use sequence_step::{SequenceStep, SequenceTask};
pub use ses_event::SesEventType;
pub use ses_webhooks::{NotificationType, Provider, SesWebhook};
pub use shape::{Field, Kind, Presence, Shape};
pub use sns::{IngressError, SesEvent};
pub use transactional_email::TransactionalEmail;
pub use webhooks::{WebhookDelivery, WebhookFanout};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidings_kernel::MAX_BODY_BYTES;

/// Every contract that there is.
pub static ALL: [&Shape; 19] = [
    TransactionalEmail::SHAPE,
    ConfirmationAsk::SHAPE,
    CampaignEmail::SHAPE,
    CampaignStep::SHAPE,
    SequenceStep::SHAPE,
    SequenceEvent::SHAPE,
    InboxPost::SHAPE,
    ReminderStep::SHAPE,
    SesWebhook::SHAPE,
    EmailEvent::SHAPE,
    LeadIngestion::SHAPE,
    LeadEvent::SHAPE,
    LeadUpkeep::SHAPE,
    SegmentCheck::SHAPE,
    SegmentBuild::SHAPE,
    WebhookFanout::SHAPE,
    WebhookDelivery::SHAPE,
    AuditEntry::SHAPE,
    Probe::SHAPE,
];

/// A JSON object as it came. Nothing is known of what is inside.
pub type Object = serde_json::Map<String, serde_json::Value>;

/// A message of a queue: its fields are the struct's, its rules the shape's.
pub trait Contract: Serialize + DeserializeOwned {
    const SHAPE: &'static Shape;

    /// Reads the body of a message, and tells all that is wrong with it. Fields that the shape does not know are
    /// passed over, so that a sender may be newer than the reader.
    fn parse(body: &str) -> Result<Self, ContractError> {
        let object = check::body(Self::SHAPE, body)?;
        let message = serde_json::from_value(object.into());
        Ok(message.expect("a shape admits only what its struct can hold"))
    }

    /// The body of this message, with its contract and version. Fields without a value are left out.
    ///
    /// Fails when [`parse`](Self::parse) would refuse it: what cannot be read is not sent either.
    fn to_body(&self) -> Result<String, ContractError> {
        let body = check::write(Self::SHAPE, self);
        check::body(Self::SHAPE, &body)?;
        Ok(body)
    }
}

/// Whether a body is one that a queue's worker can read.
pub fn check_for_queue(queue: &str, body: &str) -> Result<(), ContractError> {
    let mut refusal = None;
    for shape in ALL.into_iter().filter(|shape| shape.queues.contains(&queue)) {
        match check::body(shape, body) {
            Ok(_) => return Ok(()),
            Err(error) => refusal = Some(error),
        }
    }
    refusal.map_or(Ok(()), Err)
}
