//! A letter, and how it becomes a message.
//!
//! Here: what a letter consists of and `compose`. What may not be in it is in `rules`.

mod mime;
mod rules;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use tidings_kernel::{EmailAddress, Lane, Mail};

pub use rules::{Violation, check_attachment, check_calendar, check_header};

/// What somebody wants to say to somebody.
#[derive(Debug, Clone)]
pub struct Letter {
    pub from: Mailbox,
    pub reply_to: Option<EmailAddress>,
    pub to: Mailbox,
    pub cc: Vec<Mailbox>,
    /// They get it, and nobody is told.
    pub bcc: Vec<EmailAddress>,
    /// On one line: breaks and tabs in it become spaces.
    pub subject: String,
    pub html: Option<String>,
    pub text: String,
    /// With or without `<>` around.
    pub message_id: String,
    pub date: Timestamp,
    pub kind: Kind,
    pub feedback_id: Option<String>,
    /// Headers of the caller's own, at most 20.
    pub headers: Vec<(String, String)>,
    /// At most 10, and 10 MB together.
    pub attachments: Vec<Attachment>,
    pub calendar: Option<Calendar>,
}

/// An address and the name beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mailbox {
    pub name: Option<String>,
    pub email: EmailAddress,
}

/// Whether the reader can get rid of such mail. Only marketing says how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Transactional,
    Marketing { list_unsubscribe: ListUnsubscribe, list_id: Option<String> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListUnsubscribe {
    /// Takes a POST without a question (RFC 8058).
    pub url: String,
    pub mailto: Option<EmailAddress>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    pub filename: Option<String>,
    /// `type/subtype`, with parameters if need be.
    pub content_type: String,
    pub content: Content,
    pub disposition: Disposition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Bytes(Vec<u8>),
    Text(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disposition {
    Attachment,
    /// Shown where the HTML says `cid:…`, or after the text.
    Inline {
        cid: Option<String>,
    },
}

/// An invitation, which mail programs show as such.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    /// `REQUEST`, `CANCEL`, `PUBLISH`, `REPLY`.
    pub method: String,
    pub ics: String,
}

/// All that is wrong with a letter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the letter cannot be written: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct ComposeError(pub Vec<Violation>);

impl Mailbox {
    pub fn plain(email: EmailAddress) -> Self {
        Self { name: None, email }
    }
}

impl Content {
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Text(text) => text.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The message as it goes over the wire. The same letter always becomes the same bytes. Its envelope names the sender
/// of the letter and everybody who gets it; the caller may add tags.
pub fn compose(letter: &Letter) -> Result<Mail, ComposeError> {
    let violations = rules::check(letter);
    if !violations.is_empty() {
        return Err(ComposeError(violations));
    }
    let mut to = vec![letter.to.email.clone()];
    let others = letter.cc.iter().map(|mailbox| &mailbox.email).chain(&letter.bcc);
    for other in others {
        if !to.contains(other) {
            to.push(other.clone());
        }
    }
    let lane = match letter.kind {
        Kind::Transactional => Lane::Transactional,
        Kind::Marketing { .. } => Lane::Campaign,
    };
    let (from, mime) = (letter.from.email.clone(), mime::write(letter));
    Ok(Mail { from, to, mime, tags: Vec::new(), lane })
}
