//! Mail that others sent: what it says, whom it answers, and whether a person wrote it.
//!
//! Here: `parse`, `report` for what servers tell of our mail, `contents` for whoever only wants to look, and `pieces` for
//! whoever passes it on. Not here: which message a reply belongs to and what follows from it (`signals`).

mod automatic;
mod pieces;
mod report;
#[cfg(test)]
mod report_tests;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use mail_parser::{Address, HeaderValue, Message, MessageParser, MimeHeaders as _};
use tidings_kernel::EmailAddress;

pub use pieces::{Pieces, pieces};
pub use report::{Action, Fate, Report, Says, report};

/// What a reply that was passed on has in its head, so that it is not passed on again.
pub const FORWARD_HEADER: &str = "X-Tidings-Forward";

/// More is not read.
pub const MAX_BYTES: usize = 25 * 1024 * 1024;
/// Of the text. The rest of a longer one is cut off.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;
/// A subject, or a name.
const MAX_LINE_BYTES: usize = 1000;
/// Recipients, and message ids in `References`: the newest are kept.
const MAX_LISTED: usize = 100;
/// Parts inside parts. More is somebody's attempt to keep us busy.
const MAX_PARTS: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbound {
    pub from: EmailAddress,
    pub from_name: Option<String>,
    /// Everybody in `To` and `Cc` whose address we can read.
    pub to: Vec<EmailAddress>,
    pub subject: String,
    /// What was written, at most 64 KB. Out of the HTML if there is no text.
    pub text: String,
    /// Without `<>`, like every message id here.
    pub in_reply_to: Option<String>,
    /// The oldest first.
    pub references: Vec<String>,
    pub message_id: Option<String>,
    pub date: Option<Timestamp>,
    /// No person wrote it: an out-of-office note, a list, a robot.
    pub auto_reply: bool,
    /// It is a reply that we have passed on.
    pub forwarded: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InboundError {
    #[error("the message has more than 25 MB")]
    TooBig,
    #[error("this is not a message")]
    Unreadable,
    #[error("the message does not say from which address it is")]
    NoSender,
}

/// What a message shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    pub subject: Option<String>,
    pub text: Option<String>,
    pub html: Option<String>,
}

pub fn parse(mime: &[u8]) -> Result<Inbound, InboundError> {
    let message = read(mime)?;
    let from = message.from().and_then(Address::first).ok_or(InboundError::NoSender)?;
    let address = from.address().and_then(|address| address.parse::<EmailAddress>().ok());
    let people = [message.to(), message.cc()].into_iter().flatten().flat_map(Address::iter);
    let to = people.filter_map(|one| one.address()?.parse().ok()).take(MAX_LISTED).collect();
    let subject = cut(message.subject().unwrap_or_default(), MAX_LINE_BYTES).to_owned();
    Ok(Inbound {
        from: address.ok_or(InboundError::NoSender)?,
        from_name: from.name().map(|name| cut(name, MAX_LINE_BYTES).to_owned()),
        to,
        text: text_of(&message),
        in_reply_to: ids(message.in_reply_to()).pop(),
        references: ids(message.references()),
        message_id: message.message_id().map(|id| cut(id, MAX_LINE_BYTES).to_owned()),
        date: date_of(&message),
        auto_reply: automatic::wrote(&message, &subject),
        forwarded: message.header(FORWARD_HEADER).is_some(),
        subject,
    })
}

/// Subject and bodies of a message, ours or another's. Nothing where it cannot be read.
pub fn contents(mime: &[u8]) -> Contents {
    let Ok(message) = read(mime) else {
        return Contents { subject: None, text: None, html: None };
    };
    let has = |kind: &str| message.parts.iter().any(|part| part.is_content_type("text", kind));
    let html = has("html").then(|| message.body_html(0).map(|html| html.into_owned())).flatten();
    let text = (has("plain") || html.is_none()).then(|| message.body_text(0)).flatten();
    Contents {
        subject: message.subject().map(str::to_owned),
        text: text.map(|text| text.into_owned()),
        html,
    }
}

/// The subject alone, without reading the body.
pub fn subject(mime: &[u8]) -> Option<String> {
    MessageParser::new()
        .parse_headers(mime)?
        .subject()
        .map(|text| cut(text, MAX_LINE_BYTES).to_owned())
}

fn read(mime: &[u8]) -> Result<Message<'_>, InboundError> {
    if mime.len() > MAX_BYTES {
        return Err(InboundError::TooBig);
    }
    let message = MessageParser::default().parse(mime).ok_or(InboundError::Unreadable)?;
    if message.parts.len() > MAX_PARTS {
        return Err(InboundError::Unreadable);
    }
    Ok(message)
}

/// The library makes text of HTML where there is no text.
fn text_of(message: &Message<'_>) -> String {
    let text = message.body_text(0).unwrap_or_default();
    let text: String =
        text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    cut(text.trim(), MAX_TEXT_BYTES).to_owned()
}

fn date_of(message: &Message<'_>) -> Option<Timestamp> {
    message.date().and_then(|date| Timestamp::from_second(date.to_timestamp()).ok())
}

fn ids(value: &HeaderValue<'_>) -> Vec<String> {
    let found: Vec<&str> = match value {
        HeaderValue::Text(id) => vec![id],
        HeaderValue::TextList(ids) => ids.iter().map(AsRef::as_ref).collect(),
        _ => Vec::new(),
    };
    let surplus = found.len().saturating_sub(MAX_LISTED);
    found
        .into_iter()
        .skip(surplus)
        .filter(|id| id.len() <= MAX_LINE_BYTES)
        .map(str::to_owned)
        .collect()
}

/// At most so many bytes, without a half character.
fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
