//! What tells two requests apart that have the same idempotency key.

use jiff::Timestamp;
use serde_json::json;
use tidings_access::Slug;
use tidings_kernel::EmailAddress;

use super::{Content, Send};
use crate::canonical;

impl Send {
    /// Tells this request from another one with the same key. The order of fields does not matter, the key does not
    /// count, and everything else does.
    pub fn fingerprint(&self) -> String {
        let addresses = |list: &[EmailAddress]| -> Vec<String> {
            list.iter().map(|one| one.as_str().to_owned()).collect()
        };
        let content = match &self.content {
            Content::Template(key) => json!({ "template": key }),
            Content::Version(key, version) => json!({ "template": key, "version": version }),
            Content::Inline { subject, html, text } => {
                json!({ "subject": subject, "html": html, "text": text })
            }
        };
        let mut request = json!({
            "to": self.to.as_str(),
            "content": content,
            "context": self.context,
            "sender": self.sender.as_ref().map(Slug::as_str),
            "reply_to": self.reply_to.as_ref().map(EmailAddress::as_str),
            "cc": addresses(&self.cc),
            "bcc": addresses(&self.bcc),
            "headers": self.headers,
            "parts": self.parts,
            "topic": self.topic.as_ref().map(Slug::as_str),
            "metadata": self.metadata,
            "scheduled_at": self.scheduled_at.map(Timestamp::as_millisecond),
            "tracking": self.tracking,
        });
        if !self.lines.is_empty() {
            request["lines"] = json!(self.lines);
        }
        if let Some(calendar) = &self.calendar {
            request["calendar"] = json!(calendar);
        }
        if let Some(part) = &self.part_of {
            request["part_of"] = json!({
                "sequence": part.sequence,
                "execution": part.execution,
                "kind": part.kind.as_str(),
                "audience": part.audience.as_ref().map(Slug::as_str),
            });
        }
        if let Some(reminder) = &self.reminder {
            request["reminder"] = json!(reminder);
        }
        if self.test {
            request["test"] = true.into();
        }
        canonical::hash(&request)
    }
}
