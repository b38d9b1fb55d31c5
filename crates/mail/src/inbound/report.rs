//! Reports: what mail servers tell by mail of a mail that they had. RFC 3464 for what became of it, RFC 5965 for complaints.
//!
//! Here: what a report says. Not here: whether the mail was ours, and what follows from it (`signals`). Anybody can write a
//! report; only the Message-ID of the mail that it gives back can show that its writer has seen that mail.

use jiff::Timestamp;
use mail_parser::{HeaderForm, HeaderValue, Message, MessageParser, MessagePart, MimeHeaders as _};
use tidings_kernel::EmailAddress;

use super::{InboundError, MAX_LINE_BYTES, MAX_LISTED, cut, date_of, ids, read};

/// Of what a server said to another.
const MAX_DIAGNOSTIC_BYTES: usize = 1000;
/// Of the fields of a report. Those of a real one have a few hundred.
const MAX_FIELDS_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Of the report itself.
    pub message_id: Option<String>,
    pub date: Option<Timestamp>,
    /// Ids of the mail that it is about, the surest first. Mostly they are all the same.
    pub about: Vec<String>,
    pub says: Says,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says {
    /// What became of a mail, for each recipient that the report names.
    Delivery(Vec<Fate>),
    Complaint {
        /// `abuse`, `not-spam` and the like.
        feedback: Option<String>,
        /// Whom the mail went to, if the report says so. Most do not.
        recipients: Vec<EmailAddress>,
    },
    /// That somebody has read it, or something that we do not know.
    Other,
}

/// What became of a mail for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fate {
    /// As the mail was addressed, and whom that was in the end.
    pub recipients: Vec<EmailAddress>,
    pub action: Action,
    /// The code by RFC 3463, such as `5.1.1`.
    pub status: Option<String>,
    /// What a server said.
    pub diagnostic: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Failed,
    /// It is tried again.
    Delayed,
    /// It arrived, or went on to where nobody reports from.
    Other,
}

/// What a mail reports, if it is a report.
pub fn report(mime: &[u8]) -> Result<Option<Report>, InboundError> {
    // Most mail is none, and need not be read for that.
    if !MessageParser::new().parse_headers(mime).is_some_and(|head| is_report(&head)) {
        return Ok(None);
    }
    let message = read(mime)?;
    let parts = || message.parts.iter();
    let status = parts().find(|part| is(part, &["delivery-status", "global-delivery-status"]));
    let feedback = parts().find(|part| is(part, &["feedback-report"]));
    let mut about: Vec<String> = parts().filter_map(returned_id).collect();
    let says = match (status, feedback) {
        (Some(status), _) => {
            let groups = fields(status);
            about.extend(groups.iter().filter_map(|group| value(group, "X-Original-Message-ID")));
            Says::Delivery(groups.iter().filter_map(|group| fate(group)).take(MAX_LISTED).collect())
        }
        (None, Some(feedback)) => {
            let groups = fields(feedback);
            let said = groups.first().and_then(|group| value(group, "Feedback-Type"));
            let to = groups.first().and_then(|group| value(group, "Original-Rcpt-To"));
            Says::Complaint {
                feedback: said.map(|said| said.to_ascii_lowercase()),
                recipients: to.and_then(|to| bare(&to)).into_iter().collect(),
            }
        }
        (None, None) => Says::Other,
    };
    about.extend(ids(message.in_reply_to()));
    about.extend(ids(message.references()).into_iter().rev());
    about.truncate(MAX_LISTED);
    Ok(Some(Report {
        message_id: message.message_id().map(|id| cut(id, MAX_LINE_BYTES).to_owned()),
        date: date_of(&message),
        about,
        says,
    }))
}

fn is_report(head: &Message<'_>) -> bool {
    let kind = head.content_type();
    kind.is_some_and(|kind| kind.ctype() == "multipart" && kind.subtype() == Some("report"))
}

fn is(part: &MessagePart<'_>, subtypes: &[&str]) -> bool {
    part.content_type().is_some_and(|kind| {
        kind.subtype().is_some_and(|own| subtypes.iter().any(|one| own.eq_ignore_ascii_case(one)))
    })
}

/// The Message-ID of the mail that came back, of which some servers give the header alone.
fn returned_id(part: &MessagePart<'_>) -> Option<String> {
    if let Some(message) = part.message() {
        return message.message_id().map(|id| cut(id, MAX_LINE_BYTES).to_owned());
    }
    if !is(part, &["rfc822-headers", "global-headers", "rfc822", "global"]) {
        return None;
    }
    let head = MessageParser::new().parse_headers(part.contents())?;
    head.message_id().map(|id| cut(id, MAX_LINE_BYTES).to_owned())
}

/// The groups of fields that a part consists of. They look like headers, with empty lines between.
fn fields(part: &MessagePart<'_>) -> Vec<String> {
    let bytes = part.contents();
    let bytes = bytes.get(..MAX_FIELDS_BYTES).unwrap_or(bytes);
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let groups = text.split("\n\n").map(str::trim).filter(|group| !group.is_empty());
    groups.map(|group| format!("{group}\n\n")).collect()
}

fn value(group: &str, name: &'static str) -> Option<String> {
    let head = MessageParser::new().parse_headers(group)?;
    let found = head.header_as(name, HeaderForm::Text).pop().and_then(HeaderValue::into_text)?;
    Some(cut(found.trim(), MAX_DIAGNOSTIC_BYTES).to_owned()).filter(|value| !value.is_empty())
}

/// What a group says of a recipient. The first group is about the report itself, and says nothing of anybody.
fn fate(group: &str) -> Option<Fate> {
    let action = match value(group, "Action")?.to_ascii_lowercase().as_str() {
        "failed" => Action::Failed,
        "delayed" => Action::Delayed,
        _ => Action::Other,
    };
    let recipients = ["Original-Recipient", "Final-Recipient"];
    Some(Fate {
        recipients: recipients.iter().filter_map(|name| address(&value(group, name)?)).collect(),
        action,
        // Some add in brackets what it means.
        status: value(group, "Status").and_then(|status| {
            status.split_whitespace().next().map(|code| cut(code, 20).to_owned())
        }),
        diagnostic: value(group, "Diagnostic-Code"),
    })
}

/// `rfc822; ada@example.org`, with `<>` or without.
fn address(typed: &str) -> Option<EmailAddress> {
    let (_, address) = typed.split_once(';')?;
    bare(address)
}

fn bare(address: &str) -> Option<EmailAddress> {
    address.trim().trim_start_matches('<').trim_end_matches('>').parse().ok()
}
