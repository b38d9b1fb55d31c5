//! What others are told of a message, in the commit that makes it true.
//!
//! Each of these happens to a message once, so its id is made from the message: whoever else learns of it (`signals`)
//! uses the same id, and it is told once.

use jiff::Timestamp;
use serde_json::json;
use tidings_webhooks::{Announcement, EventType};

use super::Source;

/// What happened to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News<'a> {
    Sent,
    Failed,
    /// And why.
    Skipped(&'a str),
}

/// What is told of a message besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About<'a> {
    pub source: Source,
    pub client: i64,
    pub contact: i64,
    pub email: Option<&'a str>,
    pub template_key: Option<&'a str>,
    /// The id and the key of its campaign.
    pub campaign: Option<(i64, &'a str)>,
    /// The sequence that it is part of.
    pub sequence: Option<&'a str>,
}

/// Under which id it is told that a message was sent.
pub fn sent_id(source: Source) -> String {
    format!("{}:sent", source.reference())
}

/// Under which id it is told that a message was not and will not be sent.
pub fn failed_id(source: Source) -> String {
    format!("{}:failed", source.reference())
}

pub fn announcement(about: &About<'_>, news: &News<'_>, at: Timestamp) -> Announcement {
    let source = about.source;
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
        "campaign_id": about.campaign.map(|(id, _)| id),
        "campaign_key": about.campaign.map(|(_, key)| key),
        "sequence_id": about.sequence,
        "template_key": about.template_key,
        "reason": reason,
    });
    let mut data = data.as_object().cloned().unwrap_or_default();
    data.retain(|_, value| !value.is_null());
    Announcement { event_id, event_type, occurred_at: at, data }
}
