//! What this product itself did to a person or saw of him, on its way to his timeline.
//!
//! Here: the message for `lead-ingestion` that a part of the product enqueues in the commit that makes it true, with the id
//! that makes it one however often it is told. Not here: what becomes of it (`leads::ingestion`).

use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidings_kernel::{Destination, Outgoing, Workspace, hex, queues};

use crate::contracts::{Channel, Contract as _, Identity, LeadIngestion, Object};

/// The source, and the type of source, of everything that is told here. Nobody else may use it.
pub const SOURCE: &str = "tidings";

/// In the payload of what was judged again: which judgment it is (the first that is told besides the event itself has 1), and
/// that a machine did it in somebody's name, if it was one. The same cause with a higher number takes the place of what was told before.
pub const REVISION: &str = "revision";
pub const MACHINE: &str = "machine";

/// What has more characters is cut: no text of an event is there to be read in full.
const MAX_TEXT: usize = 1_000;
/// An id that has more is told as its hash.
const MAX_ID: usize = 512;

/// Something that happened here.
#[derive(Debug, Clone, PartialEq)]
pub struct Happened {
    /// Such as `email.opened`.
    pub event_type: &'static str,
    /// Tells this event from every other of its type in the workspace: told twice, it happened once. Any text does, only a
    /// hash of it is told.
    pub cause: String,
    pub who: Identity,
    pub at: Timestamp,
    /// What it is about: a message, a campaign, a sequence.
    pub object_id: Option<String>,
    /// Texts are cut, and what is not there (`null`) is left out. What is not flat has to be bounded by whoever tells it.
    pub payload: Object,
}

/// Somebody by his address.
pub fn by_email(email: &str) -> Identity {
    Identity { channel: Channel::Email, value: email.to_owned() }
}

/// Somebody as a product calls its users.
pub fn by_user_id(user_id: &str) -> Identity {
    Identity { channel: Channel::UserId, value: user_id.to_owned() }
}

/// Somebody whom a product does not know yet: a browser, a device.
pub fn by_anonymous_id(anonymous_id: &str) -> Identity {
    Identity { channel: Channel::AnonymousId, value: anonymous_id.to_owned() }
}

/// Somebody as the books call their customers.
pub fn by_customer_id(customer_id: &str) -> Identity {
    Identity { channel: Channel::CustomerId, value: customer_id.to_owned() }
}

impl Happened {
    /// The message to enqueue in a transaction.
    pub fn to_message(&self, workspace: &Workspace, now: Timestamp) -> Outgoing {
        self.to_message_of(None, workspace, now)
    }

    /// The same of one of many to whom it happened at once. It waits behind what happens to single people.
    pub fn to_bulk_message(&self, workspace: &Workspace, now: Timestamp) -> Outgoing {
        let queue = &queues::LEAD_INGESTION_BULK;
        Outgoing { to: Destination::Queue(queue), ..self.to_message(workspace, now) }
    }

    /// The same of somebody who is known by one thing more. If only one of the two is known yet, the other is his too from
    /// then on.
    pub fn to_message_of(
        &self,
        also: Option<Identity>,
        workspace: &Workspace,
        now: Timestamp,
    ) -> Outgoing {
        let digest = Sha256::digest(format!("{}\0{}", self.event_type, self.cause));
        let payload = self.payload.iter().filter(|(_, value)| !value.is_null());
        let payload = payload.map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.clone(), |text| Value::from(cut(text)));
            (name.clone(), value)
        });
        let event = LeadIngestion {
            workspace: workspace.clone(),
            source_type: SOURCE.to_owned(),
            source: SOURCE.to_owned(),
            event_type: self.event_type.to_owned(),
            external_event_id: hex(&digest[..16]),
            // What comes from outside may claim to have happened before our calendar begins, or after now.
            occurred_at: self.at.max(Timestamp::UNIX_EPOCH).min(now.max(Timestamp::UNIX_EPOCH)),
            received_at: now.max(Timestamp::UNIX_EPOCH),
            identities: std::iter::once(self.who.clone()).chain(also).collect(),
            object_id: self.object_id.as_deref().map(id).filter(|id| !id.is_empty()),
            object_id_ref: None,
            payload: Some(payload.collect()),
            raw_payload: None,
            metadata: None,
        };
        let body = event.to_body().expect("every field is bounded above");
        // The two characters that JSON leaves as they are and SQS does not carry.
        let body = body.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
        Outgoing::new(&queues::LEAD_INGESTION, body)
    }
}

fn cut(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect()
}

fn id(text: &str) -> String {
    let text: String = text.trim().chars().filter(|c| !c.is_control()).collect();
    if text.chars().count() <= MAX_ID { text } else { hex(&Sha256::digest(&text)[..16]) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidings_kernel::Workspace;

    use super::{Happened, by_email};
    use crate::contracts::{Contract as _, LeadIngestion};

    #[test]
    fn what_happened_is_told_once_and_within_bounds() {
        let workspace: Workspace = "acme".parse().unwrap();
        let now = "2026-07-01T12:00:00Z".parse().unwrap();
        let serde_json::Value::Object(payload) =
            json!({"subject": "x\u{0}".repeat(3_000), "kind": null, "human": true})
        else {
            unreachable!("it is an object")
        };
        let happened = Happened {
            event_type: "email.opened",
            cause: "message 1".into(),
            who: by_email("ada@example.org"),
            at: "1960-01-01T00:00:00Z".parse().unwrap(),
            object_id: Some("o".repeat(2_000)),
            payload,
        };
        let message = happened.to_message(&workspace, now);
        message.validate().unwrap();
        let told = LeadIngestion::parse(&message.body).unwrap();
        assert_eq!(told.occurred_at.as_second(), 0);
        assert_eq!(told.object_id.unwrap().len(), 32);
        let payload = told.payload.unwrap();
        assert_eq!(payload["subject"].as_str().unwrap().len(), 1_000);
        assert!(!payload.contains_key("kind"));
        let again = happened.to_message(&workspace, now);
        assert_eq!(message, again);
    }
}
