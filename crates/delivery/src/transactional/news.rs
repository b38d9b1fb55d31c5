//! What others are told of a message, in the commit that makes it true.
//!
//! Each of these happens to a message once, so its id is made from the message: whoever else learns of it (`signals`)
//! uses the same id, and it is told once.

use jiff::Timestamp;
use serde_json::json;
use tidings_access::Cx;
use tidings_sql::{DatabaseError, Tx};
use tidings_webhooks::{Announcement, EventType, announce};

use super::MessageId;
use super::store::Sendable;
use crate::links::Source;

/// What happened to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News<'a> {
    Sent,
    Failed,
    /// And why.
    Skipped(&'a str),
}

/// What is told of a message besides.
pub(super) struct About<'a> {
    pub(super) id: MessageId,
    pub(super) client: i64,
    pub(super) contact: i64,
    pub(super) email: Option<&'a str>,
    pub(super) template_key: Option<&'a str>,
}

/// Under which id it is told that a message was sent.
pub fn sent_id(source: Source) -> String {
    format!("{}:sent", source.reference())
}

/// Under which id it is told that a message was not and will not be sent.
pub fn failed_id(source: Source) -> String {
    format!("{}:failed", source.reference())
}

pub(super) fn tell(
    cx: &Cx,
    tx: &mut Tx<'_>,
    row: &Sendable,
    news: &News<'_>,
    at: Timestamp,
) -> Result<(), DatabaseError> {
    let about = About {
        id: row.id,
        client: row.client.get(),
        contact: row.contact,
        email: row.email.as_deref(),
        template_key: row.template.as_ref().map(|(key, _)| key.as_str()),
    };
    tell_about(cx, tx, &about, news, at)
}

pub(super) fn tell_about(
    cx: &Cx,
    tx: &mut Tx<'_>,
    about: &About<'_>,
    news: &News<'_>,
    at: Timestamp,
) -> Result<(), DatabaseError> {
    let source = Source::Transactional(about.id.get());
    let (event_type, event_id, reason) = match news {
        News::Sent => (EventType::EmailSent, sent_id(source), None),
        News::Failed => (EventType::EmailFailed, failed_id(source), None),
        News::Skipped(reason) => {
            (EventType::EmailSkipped, format!("{}:skipped", source.reference()), Some(reason))
        }
    };
    let data = json!({
        "email": about.email,
        "message": source.reference(),
        "contact_id": about.contact,
        "client_id": about.client,
        "template_key": about.template_key,
        "reason": reason,
    });
    let mut data = data.as_object().cloned().unwrap_or_default();
    data.retain(|_, value| !value.is_null());
    announce(cx, tx, &Announcement { event_id, event_type, occurred_at: at, data })
}
