//! What others are told of an event.

use serde_json::json;
use tidings_delivery::ledger::news::{failed_id, sent_id};
use tidings_delivery::ledger::{Message, Source};
use tidings_webhooks::{Announcement, EventType};

use super::{Event, EventKind, rules};

/// `None` for what is not told here: that somebody unsubscribed says `people::consent`. That a message was sent or failed
/// tells who sends it as well, under the same id, so that it is told once.
pub(super) fn of(event: &Event, message: Option<&Message>) -> Option<Announcement> {
    if event.is_echo {
        return None;
    }
    let of_addressee = message.is_some_and(|message| event.is_of_addressee(message));
    let event_type = match &event.kind {
        EventKind::Delivery => EventType::EmailDelivered,
        EventKind::Delay { .. } => EventType::EmailDelayed,
        EventKind::Bounce(_) => EventType::EmailBounced,
        kind @ EventKind::Complaint { .. } if rules::is_complaint(kind) => {
            EventType::EmailComplained
        }
        EventKind::Open => EventType::EmailOpened,
        EventKind::Click => EventType::EmailClicked,
        EventKind::Reply { unproven: true, .. } => return None,
        EventKind::Reply { .. } => EventType::EmailReplied,
        EventKind::Reject { .. } | EventKind::RenderingFailure { .. } => EventType::EmailFailed,
        EventKind::Send if of_addressee => EventType::EmailSent,
        EventKind::Send | EventKind::Unsubscribe | EventKind::Complaint { .. } => return None,
    };
    let data = json!({
        "email": event.email.as_str(),
        "message": message.map(|message| message.source.reference()),
        "contact_id": message.map(|message| message.contact),
        "client_id": message.map(|message| message.client),
        "sequence_id": message.and_then(sequence),
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
    let source = message.filter(|_| of_addressee).map(|one| one.source);
    let event_id = match (event_type, source) {
        (EventType::EmailSent, Some(source)) => sent_id(source),
        (EventType::EmailFailed, Some(source)) => failed_id(source),
        _ => event.id.clone(),
    };
    let occurred_at = event.occurred_at;
    Some(Announcement { event_id, event_type, occurred_at, data })
}

/// Campaigns are told by their own names.
fn sequence(message: &Message) -> Option<&str> {
    match message.source {
        Source::Transactional(_) => message.sequence_id.as_deref(),
        Source::Recipient(_) => None,
    }
}
