//! What a caller asks for: a message as it was written. What bounds it is in `check`, and how two requests are told apart in
//! `fingerprint`.
//!
//! Pure: whether the template, the sender and the topic exist is asked elsewhere (`accept`).

mod check;
mod fingerprint;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidings_access::{ClientId, Slug};
use tidings_kernel::EmailAddress;
use tidings_mail::Attachment;

pub use check::check_key;

/// The longest idempotency key.
pub const MAX_KEY: usize = 255;
/// The longest id of an execution.
pub const MAX_EXECUTION: usize = 64;
/// The most copies of each kind.
pub const MAX_COPIES: usize = 10;
/// The most headers of the caller's own.
pub const MAX_HEADERS: usize = 20;
/// The most attachments.
pub const MAX_PARTS: usize = 10;
/// The most characters of one attachment that is text.
pub const MAX_PART_CHARS: usize = 200_000;
/// The most bytes of context, as JSON.
pub const MAX_CONTEXT_BYTES: usize = 64 * 1024;
/// The most bytes of metadata, as JSON.
pub const MAX_METADATA_BYTES: usize = 16 * 1024;
/// How deep context and metadata can be.
pub const MAX_DEPTH: usize = 8;
/// The most bytes of subject, bodies and attachments together, as they are sent to us.
pub const MAX_CONTENT_BYTES: usize = 1_500_000;
/// The longest subject, name of a file, and value of a header: a line of a mail.
pub const MAX_LINE: usize = 998;

/// One mail to one person.
#[derive(Debug, Clone, PartialEq)]
pub struct Send {
    pub client: ClientId,
    pub to: EmailAddress,
    pub content: Content,
    /// What stands in the place of the content's own.
    pub lines: Lines,
    /// Variables for the content.
    pub context: Map<String, Value>,
    /// One of the client's senders; else the template's, else the client's default.
    pub sender: Option<Slug>,
    pub reply_to: Option<EmailAddress>,
    pub cc: Vec<EmailAddress>,
    pub bcc: Vec<EmailAddress>,
    pub headers: BTreeMap<String, String>,
    pub parts: Vec<Part>,
    /// An invitation, which mail programs show as such.
    pub calendar: Option<Calendar>,
    pub topic: Option<Slug>,
    /// The caller's own notes, which come back with the message.
    pub metadata: Map<String, Value>,
    pub scheduled_at: Option<Timestamp>,
    pub idempotency_key: Option<String>,
    pub tracking: Tracking,
    /// The sequence that it belongs to, if it is not sent for itself.
    pub part_of: Option<PartOf>,
    /// The draft of a reminder that it was made from, which is told what becomes of it.
    pub reminder: Option<String>,
    /// Somebody tries a template: examples stand in for what is absent, and the subject says so.
    pub test: bool,
}

/// What the mail says. Both are templates: what is not the caller's own text belongs into `context`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The active version of a stored template.
    Template(String),
    /// One version of it, active or not.
    Version(String, i64),
    Inline {
        subject: String,
        html: Option<String>,
        text: Option<String>,
    },
}

/// A mail of a sequence. It has a queue of its own, and is counted and logged under the sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartOf {
    /// What the sequence is called: a slug.
    pub sequence: String,
    /// Whose walk through it, if it is part of one. 1 to 64 letters, digits, `-` and `_`.
    pub execution: Option<String>,
    /// Which of its steps. That is for the sequence to read, and is told back if the mail is not sent. 1 to 1000 characters.
    pub step: Option<String>,
    pub kind: PartKind,
    /// Whose consent counts, if it is marketing.
    pub audience: Option<Slug>,
}

/// What a mail of a sequence is to the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// It goes to those only who want it, and can be left with one click.
    Marketing,
    /// He caused it, and waits for it.
    Transactional,
}

/// Another subject and another preheader than those of the content. Both are Liquid.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lines {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preheader: Option<String>,
}

/// Something that comes with the mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// `text/calendar; method=REQUEST`
    pub content_type: String,
    pub filename: Option<String>,
    pub disposition: Disposition,
    pub body: PartBody,
}

/// Something for the calendar, as one more way to read the mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calendar {
    /// `REQUEST`, `CANCEL`, `PUBLISH` or `REPLY`.
    pub method: String,
    /// iCalendar, up to 200,000 bytes.
    pub ics: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartBody {
    Text(String),
    Base64(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Disposition {
    #[default]
    Attachment,
    Inline,
}

/// Whether opens and clicks are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tracking {
    #[default]
    On,
    Off,
}

/// One thing that is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Where: `headers.X-Trace`, `cc`.
    pub field: String,
    /// What would be right.
    pub message: String,
}

impl Send {
    /// The least that a mail needs, from a stored template.
    pub fn of_template(client: ClientId, to: EmailAddress, key: impl Into<String>) -> Self {
        Self::of(client, to, Content::Template(key.into()))
    }

    pub fn of(client: ClientId, to: EmailAddress, content: Content) -> Self {
        Self {
            client,
            to,
            content,
            lines: Lines::default(),
            context: Map::new(),
            sender: None,
            reply_to: None,
            cc: Vec::new(),
            bcc: Vec::new(),
            headers: BTreeMap::new(),
            parts: Vec::new(),
            calendar: None,
            topic: None,
            metadata: Map::new(),
            scheduled_at: None,
            idempotency_key: None,
            tracking: Tracking::On,
            part_of: None,
            reminder: None,
            test: false,
        }
    }
}

impl PartKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Marketing => "marketing",
            Self::Transactional => "transactional",
        }
    }
}

impl Lines {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Part {
    /// As a letter has it.
    pub(super) fn attachment(&self) -> Attachment {
        Attachment {
            filename: self.filename.clone(),
            content_type: self.content_type.clone(),
            content: match &self.body {
                PartBody::Text(text) => tidings_mail::Content::Text(text.clone()),
                PartBody::Base64(_) => tidings_mail::Content::Bytes(self.body.bytes()),
            },
            disposition: match self.disposition {
                Disposition::Attachment => tidings_mail::Disposition::Attachment,
                Disposition::Inline => tidings_mail::Disposition::Inline { cid: None },
            },
        }
    }
}

impl Calendar {
    /// As a letter has it.
    pub(super) fn invitation(&self) -> tidings_mail::Calendar {
        tidings_mail::Calendar { method: self.method.clone(), ics: self.ics.clone() }
    }
}

impl PartBody {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Text(text) | Self::Base64(text) => text,
        }
    }

    /// As it is attached. `check` has refused what is not base64.
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Base64(text) => BASE64_STANDARD.decode(text).unwrap_or_default(),
        }
    }
}
