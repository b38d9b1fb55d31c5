//! What others are told of an event.

use serde_json::json;
use tidings_delivery::ledger::Message;
use tidings_webhooks::{Announcement, EventType};

use super::{Event, EventKind, rules};

/// `None` for what is not told here: that a message was sent says who sends it, that somebody unsubscribed says
/// `people::consent`.
pub(super) fn of(event: &Event, message: Option<&Message>) -> Option<Announcement> {
    let event_type = match &event.kind {
        EventKind::Delivery => EventType::EmailDelivered,
        EventKind::Delay { .. } => EventType::EmailDelayed,
        EventKind::Bounce(_) => EventType::EmailBounced,
        kind @ EventKind::Complaint { .. } if rules::is_complaint(kind) => {
            EventType::EmailComplained
        }
        EventKind::Open => EventType::EmailOpened,
        EventKind::Click => EventType::EmailClicked,
        EventKind::Reply { .. } => EventType::EmailReplied,
        EventKind::Reject { .. } | EventKind::RenderingFailure { .. } => EventType::EmailFailed,
        EventKind::Send | EventKind::Unsubscribe | EventKind::Complaint { .. } => return None,
    };
    let data = json!({
        "email": event.email.as_str(),
        "message": message.map(|message| message.source.reference()),
        "contact_id": message.map(|message| message.contact),
        "client_id": message.map(|message| message.client),
        "template_key": message.and_then(|message| message.template_key.as_deref()),
    });
    let mut data = data.as_object().cloned().unwrap_or_default();
    match &event.kind {
        EventKind::Bounce(bounce) => {
            data.insert("permanent".to_owned(), bounce.is_final().into());
            data.insert("bounce_class".to_owned(), bounce.class().as_str().into());
        }
        EventKind::Open | EventKind::Click => {
            data.insert("human".to_owned(), event.is_human().into());
            data.insert("url".to_owned(), event.url.as_deref().into());
        }
        EventKind::Reply { automatic, .. } => {
            data.insert("automatic".to_owned(), (*automatic).into());
        }
        _ => {}
    }
    data.retain(|_, value| !value.is_null());
    let (event_id, occurred_at) = (event.id.clone(), event.occurred_at);
    Some(Announcement { event_id, event_type, occurred_at, data })
}
