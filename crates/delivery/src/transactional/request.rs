//! What a caller asks for: a message as it was written, what bounds it, and how two requests are told apart.
//!
//! Pure: whether the template, the sender and the topic exist is asked elsewhere (`accept`).

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::{Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tidings_access::{ClientId, Slug};
use tidings_kernel::{EmailAddress, hex};
use tidings_mail::Attachment;

/// The longest idempotency key.
pub const MAX_KEY: usize = 255;
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
    pub topic: Option<Slug>,
    /// The caller's own notes, which come back with the message.
    pub metadata: Map<String, Value>,
    pub scheduled_at: Option<Timestamp>,
    pub idempotency_key: Option<String>,
    pub tracking: Tracking,
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
            topic: None,
            metadata: Map::new(),
            scheduled_at: None,
            idempotency_key: None,
            tracking: Tracking::On,
            test: false,
        }
    }

    /// All that is wrong with it in itself.
    pub fn check(&self, now: Timestamp) -> Vec<Wrong> {
        let mut found = Found(Vec::new());
        self.check_content(&mut found);
        self.lines.check(&mut found);
        self.check_parts(&mut found);
        self.check_headers(&mut found);
        check_object(&mut found, "context", &self.context, MAX_CONTEXT_BYTES);
        check_object(&mut found, "metadata", &self.metadata, MAX_METADATA_BYTES);
        for (field, copies) in [("cc", &self.cc), ("bcc", &self.bcc)] {
            if copies.len() > MAX_COPIES {
                found.wrong(field, format!("use at most {MAX_COPIES} addresses"));
            }
        }
        if let Some(at) = self.scheduled_at
            && at > now.saturating_add((365 * 24).hours()).unwrap_or(Timestamp::MAX)
        {
            found.wrong("scheduled_at", "use a time within a year from now");
        }
        if let Some(key) = &self.idempotency_key {
            check_key(&mut found, key);
        }
        found.0
    }

    fn check_content(&self, found: &mut Found) {
        let parts = self.parts.iter().map(|part| part.body.as_str().len());
        let mut bytes: usize = parts.sum();
        match &self.content {
            Content::Template(key) | Content::Version(key, _) => {
                if key.is_empty() || key.len() > MAX_KEY || key.contains('\0') {
                    found.wrong("template", "use the key of a template");
                }
            }
            Content::Inline { subject, html, text } => {
                bytes += [Some(subject), html.as_ref(), text.as_ref()]
                    .into_iter()
                    .flatten()
                    .map(String::len)
                    .sum::<usize>();
                if subject.trim().is_empty() || subject.chars().count() > MAX_LINE {
                    found.wrong("subject", format!("use 1 to {MAX_LINE} characters"));
                }
                if subject.chars().any(char::is_control) {
                    found.wrong("subject", "use one line without control characters");
                }
                if html.is_none() && text.is_none() {
                    found.wrong("html", "a mail needs html, text or both, or a template");
                }
                for (field, body) in [("html", html), ("text", text)] {
                    if body.as_ref().is_some_and(|body| body.contains('\0')) {
                        found.wrong(field, "use no U+0000");
                    }
                }
            }
        }
        if bytes > MAX_CONTENT_BYTES {
            let most = format!(
                "subject, bodies and parts have {bytes} bytes, and {MAX_CONTENT_BYTES} are the most"
            );
            found.wrong("parts", most);
        }
    }

    fn check_parts(&self, found: &mut Found) {
        if self.parts.len() > MAX_PARTS {
            found.wrong("parts", format!("use at most {MAX_PARTS} parts"));
        }
        for (place, part) in self.parts.iter().enumerate().take(MAX_PARTS) {
            let field = |name: &str| format!("parts[{place}].{name}");
            for violation in tidings_mail::check_attachment(&part.attachment()) {
                found.wrong(&field(&violation.field), violation.problem);
            }
            match &part.body {
                PartBody::Text(text) => {
                    if text.chars().count() > MAX_PART_CHARS {
                        found.wrong(
                            &field("text"),
                            format!("use at most {MAX_PART_CHARS} characters"),
                        );
                    }
                    if text.contains('\0') {
                        found.wrong(&field("text"), "use no U+0000");
                    }
                }
                PartBody::Base64(text) => {
                    if BASE64_STANDARD.decode(text).is_err() {
                        found.wrong(&field("base64"), "use base64 with padding");
                    }
                }
            }
        }
    }

    fn check_headers(&self, found: &mut Found) {
        if self.headers.len() > MAX_HEADERS {
            found.wrong("headers", format!("use at most {MAX_HEADERS} headers"));
        }
        let mut seen = BTreeSet::new();
        for (name, value) in self.headers.iter().take(MAX_HEADERS) {
            let field = format!("headers.{name}");
            for violation in tidings_mail::check_header(name, value) {
                found.wrong(&field, format!("{}: {}", violation.field, violation.problem));
            }
            if !seen.insert(name.to_ascii_lowercase()) {
                found.wrong(&field, "use each header once, in whatever case");
            }
        }
    }

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
        if self.test {
            request["test"] = true.into();
        }
        let mut hash = Sha256::new();
        canonical(&request, &mut hash);
        hex(&hash.finalize())
    }
}

impl Lines {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn check(&self, found: &mut Found) {
        for (field, line) in [("subject", &self.subject), ("preheader", &self.preheader)] {
            let Some(line) = line else { continue };
            if line.trim().is_empty() || line.chars().count() > MAX_LINE {
                found.wrong(field, format!("use 1 to {MAX_LINE} characters"));
            }
            if line.chars().any(char::is_control) {
                found.wrong(field, "use one line without control characters");
            }
        }
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

struct Found(Vec<Wrong>);

impl Found {
    fn wrong(&mut self, field: &str, message: impl Into<String>) {
        let field = field.chars().take(100).collect();
        self.0.push(Wrong { field, message: message.into() });
    }
}

fn check_key(found: &mut Found, key: &str) {
    let printable = key.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    if !(1..=MAX_KEY).contains(&key.len()) || !printable {
        found.wrong("idempotency_key", "use 1 to 255 printable ASCII characters");
    }
}

fn check_object(found: &mut Found, field: &str, object: &Map<String, Value>, most: usize) {
    let bytes = object.iter().map(|(name, value)| name.len() + 4 + size(value)).sum::<usize>();
    if bytes > most {
        found.wrong(field, format!("it has about {bytes} bytes, and {most} are the most"));
    } else if object.values().any(|value| depth(value) > MAX_DEPTH - 1) {
        found.wrong(field, format!("it is nested more than {MAX_DEPTH} deep"));
    } else if object.iter().any(|(name, value)| name.contains('\0') || holds_nul(value)) {
        found.wrong(field, "use no U+0000");
    }
}

/// In bytes of JSON, roughly.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(values) => 2 + values.iter().map(|value| size(value) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| name.len() + 4 + size(value)).sum::<usize>()
        }
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// PostgreSQL cannot store it, and it would come to light only once the mail is rendered.
fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(holds_nul),
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name.contains('\0') || holds_nul(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Feeds a value so that two values with the same fields give the same bytes, in whatever order they were written.
fn canonical(value: &Value, hash: &mut Sha256) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            hash.update(format!("o{}:", fields.len()));
            for (name, value) in fields {
                hash.update(format!("{}:{name}", name.len()));
                canonical(value, hash);
            }
        }
        Value::Array(values) => {
            hash.update(format!("a{}:", values.len()));
            values.iter().for_each(|value| canonical(value, hash));
        }
        Value::String(text) => hash.update(format!("s{}:{text}", text.len())),
        Value::Null | Value::Bool(_) | Value::Number(_) => hash.update(format!("v{value};")),
    }
}
