//! What others are told of people: who came, who changed, who left, who must not be written to.
//!
//! Here: the announcements, each with the id that makes it one however often it is made. Not here: when they are made
//! (in the commit that makes them true), and who is told (`webhooks`).

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_access::Cx;
use tidings_kernel::EmailAddress;
use tidings_webhooks::{Announcement, EventType};

use crate::consent::proof::Action;
use crate::contacts::ContactId;
use crate::suppression::Suppression;

pub(crate) fn created(cx: &Cx, contact: i64, email: Option<&EmailAddress>) -> Announcement {
    let mut data = json!({ "contact_id": contact });
    if let Some(email) = email {
        data["email"] = email.as_str().into();
    }
    news(EventType::ContactCreated, contact.to_string(), cx.now(), data)
}

/// Every change is one of its own: the time alone cannot tell two of them apart.
pub(crate) fn updated(cx: &Cx, contact: i64, email: &EmailAddress) -> Announcement {
    let mut random = [0; 8];
    getrandom::fill(&mut random).expect("the operating system has randomness");
    let id = format!("{contact}/{}/{}", cx.now(), u64::from_ne_bytes(random));
    let data = json!({ "contact_id": contact, "email": email.as_str() });
    news(EventType::ContactUpdated, id, cx.now(), data)
}

/// Without the address: whoever is erased is not told of.
pub(crate) fn deleted(cx: &Cx, contact: i64) -> Announcement {
    let data = json!({ "contact_id": contact });
    news(EventType::ContactDeleted, contact.to_string(), cx.now(), data)
}

/// A change of what somebody agreed to, by its row in the log. `None` for what is not told.
pub(crate) fn consent(cx: &Cx, proof: i64, action: Action, data: Value) -> Option<Announcement> {
    let kind = match action {
        Action::Subscribed | Action::Confirmed => EventType::ContactSubscribed,
        Action::Unsubscribed => EventType::ContactUnsubscribed,
        Action::Resubscribed => EventType::ContactResubscribed,
        Action::Requested | Action::TopicOn | Action::TopicOff => return None,
    };
    Some(news(kind, proof.to_string(), cx.now(), data))
}

/// One for each time that an address is suppressed anew.
pub(crate) fn suppressed(suppression: &Suppression, contact: Option<ContactId>) -> Announcement {
    let (email, at) = (suppression.email.as_str(), suppression.suppressed_at);
    let mut data = json!({ "email": email, "kind": suppression.kind.as_str() });
    if let Some(contact) = contact {
        data["contact_id"] = contact.get().into();
    }
    news(EventType::EmailSuppressed, format!("{email}/{at}"), at, data)
}

fn news(
    event_type: EventType,
    event_id: String,
    occurred_at: Timestamp,
    data: Value,
) -> Announcement {
    let data = match data {
        Value::Object(data) => data,
        _ => unreachable!("the data of every announcement is an object"),
    };
    Announcement { event_id, event_type, occurred_at, data }
}

#[cfg(test)]
mod tests;
