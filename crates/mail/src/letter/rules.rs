//! What may be in a letter, and how much of it.
//!
//! Names and the subject come out of templates and people's profiles, so they are made to fit (`one_line`). Everything
//! else that does not fit is a mistake of the caller, who gets to hear all of them at once.

use std::collections::BTreeSet;

use super::{Attachment, Calendar, Content, Disposition, Kind, Letter, ListUnsubscribe};

/// One thing wrong with a letter: which field, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Violation {
    /// As the API calls it: `headers[2].name`.
    pub field: String,
    pub problem: String,
}

const MAX_HEADERS: usize = 20;
const MAX_ATTACHMENTS: usize = 10;
const MAX_ATTACHED_BYTES: usize = 10 * 1024 * 1024;
const MAX_BODY_BYTES: usize = 5 * 1024 * 1024;
const MAX_RECIPIENTS: usize = 50;
const MAX_NAME_CHARS: usize = 200;
const MAX_SUBJECT_CHARS: usize = 998;
/// A line has at most 998 bytes, and what has no space in it cannot be folded.
const MAX_HEADER_BYTES: usize = 900;

/// What we write ourselves, or what somebody on the way does. Whole families besides: see `is_reserved`.
const RESERVED: [&str; 23] = [
    "auto-submitted",
    "bcc",
    "cc",
    "comments",
    "date",
    "dkim-signature",
    "errors-to",
    "feedback-id",
    "from",
    "in-reply-to",
    "keywords",
    "message-id",
    "mime-version",
    "precedence",
    "received",
    "references",
    "reply-to",
    "return-path",
    "sender",
    "subject",
    "to",
    "x-auto-response-suppress",
    "authentication-results",
];

pub(super) fn check(letter: &Letter) -> Vec<Violation> {
    let mut found = Found::default();
    check_people(letter, &mut found);
    found.unless(
        letter.subject.chars().count() <= MAX_SUBJECT_CHARS,
        "subject",
        "use at most 998 characters",
    );
    let written = letter.text.len() + letter.html.as_ref().map_or(0, String::len);
    found.unless(written <= MAX_BODY_BYTES, "body", "use at most 5 MB of text and HTML together");
    found.unless(
        is_message_id(&letter.message_id),
        "message_id",
        "use local@domain of at most 250 characters",
    );
    if let Kind::Marketing { list_unsubscribe, list_id } = &letter.kind {
        check_list(list_unsubscribe, list_id.as_deref(), &mut found);
    }
    if let Some(feedback_id) = &letter.feedback_id {
        let good = is_token_text(feedback_id, 200);
        found.unless(good, "feedback_id", "use at most 200 printable ASCII characters");
    }
    check_headers(&letter.headers, &mut found);
    check_attachments(&letter.attachments, &mut found);
    if let Some(calendar) = &letter.calendar {
        for violation in check_calendar(calendar) {
            found.tell(&format!("calendar.{}", violation.field), &violation.problem);
        }
    }
    found.0
}

/// One header of the caller's own; what is wrong with it is told of `name` and `value`.
pub fn check_header(name: &str, value: &str) -> Vec<Violation> {
    let mut found = Found::default();
    let well_formed = (1..=76).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    found.unless(
        well_formed,
        "name",
        "use 1 to 76 letters, digits and hyphens, beginning with a letter",
    );
    found.unless(!is_reserved(name), "name", "this header is not the caller's to set");
    found.unless(value.len() <= MAX_HEADER_BYTES, "value", "use at most 900 bytes");
    let one_line = !value.chars().any(char::is_control);
    found.unless(one_line, "value", "use one line without control characters");
    found.0
}

/// One attachment, as far as it can be judged alone.
pub fn check_attachment(attachment: &Attachment) -> Vec<Violation> {
    let mut found = Found::default();
    if let Some(filename) = &attachment.filename {
        let good = (1..=255).contains(&filename.chars().count())
            && !filename.chars().any(|c| c.is_control() || c == '/' || c == '\\');
        found.unless(good, "filename", "use 1 to 255 characters on one line, without slashes");
    }
    match parse_content_type(&attachment.content_type) {
        None => found.tell("content_type", "use type/subtype, such as application/pdf"),
        Some((kind, _)) => {
            let whole = ["multipart/", "message/"].iter().all(|family| !kind.starts_with(family));
            found.unless(whole, "content_type", "use the type of one part, not of a message");
            let fits = matches!(attachment.content, Content::Bytes(_)) || kind.starts_with("text/");
            found.unless(fits, "content_type", "use text/… for text, or give the content as bytes");
        }
    }
    if let Disposition::Inline { cid: Some(cid) } = &attachment.disposition {
        let good = is_token_text(cid, 200) && !cid.contains(['<', '>']);
        found.unless(
            good,
            "cid",
            "use at most 200 printable ASCII characters without <, > and spaces",
        );
    }
    found.0
}

fn check_people(letter: &Letter, found: &mut Found) {
    for (field, mailbox) in [("from", &letter.from), ("to", &letter.to)] {
        let short = mailbox.name.as_ref().is_none_or(|name| name.chars().count() <= MAX_NAME_CHARS);
        found.unless(short, &format!("{field}.name"), "use at most 200 characters");
    }
    for (index, mailbox) in letter.cc.iter().enumerate() {
        let short = mailbox.name.as_ref().is_none_or(|name| name.chars().count() <= MAX_NAME_CHARS);
        found.unless(short, &format!("cc[{index}].name"), "use at most 200 characters");
    }
    let recipients = 1 + letter.cc.len() + letter.bcc.len();
    found.unless(recipients <= MAX_RECIPIENTS, "cc", "use at most 50 recipients in all");
}

fn check_list(unsubscribe: &ListUnsubscribe, list_id: Option<&str>, found: &mut Found) {
    let url = &unsubscribe.url;
    let good = (url.starts_with("https://") || url.starts_with("http://"))
        && is_token_text(url, MAX_HEADER_BYTES)
        && !url.contains(['<', '>', '"']);
    found.unless(good, "list_unsubscribe.url", "use an https URL of at most 900 characters");
    if let Some(list_id) = list_id {
        let good = is_token_text(list_id, 250) && !list_id.contains(['<', '>', '"']);
        found.unless(good, "list_id", "use a name such as news.example.org");
    }
}

fn check_headers(headers: &[(String, String)], found: &mut Found) {
    found.unless(headers.len() <= MAX_HEADERS, "headers", "use at most 20 headers");
    let mut seen = BTreeSet::new();
    for (index, (name, value)) in headers.iter().enumerate() {
        for violation in check_header(name, value) {
            let field = format!("headers[{index}].{}", violation.field);
            found.tell(&field, &violation.problem);
        }
        let first = seen.insert(name.to_ascii_lowercase());
        found.unless(first, &format!("headers[{index}].name"), "use each header once");
    }
}

fn check_attachments(attachments: &[Attachment], found: &mut Found) {
    found.unless(attachments.len() <= MAX_ATTACHMENTS, "attachments", "use at most 10 attachments");
    let bytes: usize = attachments.iter().map(|attachment| attachment.content.len()).sum();
    found.unless(bytes <= MAX_ATTACHED_BYTES, "attachments", "use at most 10 MB together");
    for (index, attachment) in attachments.iter().enumerate() {
        for violation in check_attachment(attachment) {
            let field = format!("attachments[{index}].{}", violation.field);
            found.tell(&field, &violation.problem);
        }
    }
}

/// An invitation.
pub fn check_calendar(calendar: &Calendar) -> Vec<Violation> {
    let mut found = Found::default();
    let known = ["REQUEST", "CANCEL", "PUBLISH", "REPLY"].contains(&calendar.method.as_str());
    found.unless(known, "method", "use REQUEST, CANCEL, PUBLISH or REPLY");
    found.unless(calendar.ics.len() <= 200_000, "ics", "use at most 200 000 bytes");
    let begins = calendar.ics.trim_start().starts_with("BEGIN:VCALENDAR");
    found.unless(begins, "ics", "use iCalendar text, beginning with BEGIN:VCALENDAR");
    found.0
}

fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let families = ["content-", "list-", "resent-", "arc-", "x-ses-", "x-original-"];
    RESERVED.contains(&name.as_str()) || families.iter().any(|family| name.starts_with(family))
}

fn is_message_id(id: &str) -> bool {
    let id = bare_id(id);
    let parts = id.split_once('@');
    is_token_text(id, 250)
        && !id.contains(['<', '>', '"', '(', ')', ','])
        && parts.is_some_and(|(local, domain)| {
            !local.is_empty() && !domain.is_empty() && !domain.contains('@')
        })
}

/// Printable ASCII without a space.
fn is_token_text(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A message id without the brackets.
pub(super) fn bare_id(id: &str) -> &str {
    id.strip_prefix('<').and_then(|id| id.strip_suffix('>')).unwrap_or(id)
}

/// On one line: every run of spaces, breaks and control characters becomes one space.
pub(super) fn one_line(text: &str) -> String {
    let apart = |c: char| c == ' ' || c.is_control();
    text.split(apart).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// With the line ends that mail has, and without control characters that it must not have.
pub(super) fn with_crlf(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + text.len() / 40);
    let mut rest = text;
    // What is between two of them goes over as a whole: nearly everything is.
    while let Some(at) = rest.bytes().position(|byte| byte.is_ascii_control()) {
        let (before, from) = rest.split_at(at);
        written.push_str(before);
        rest = match from.as_bytes()[0] {
            b'\r' | b'\n' => {
                written.push_str("\r\n");
                from.strip_prefix("\r\n").unwrap_or(&from[1..])
            }
            b'\t' => {
                written.push('\t');
                &from[1..]
            }
            _ => &from[1..],
        };
    }
    written.push_str(rest);
    written
}

/// `type/subtype` in lower case, and the parameters.
pub(super) fn parse_content_type(text: &str) -> Option<(String, Vec<(String, String)>)> {
    if text.len() > 200 {
        return None;
    }
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next()?.to_ascii_lowercase();
    let (family, member) = kind.split_once('/')?;
    if !is_token(family) || !is_token(member) {
        return None;
    }
    let mut parameters = Vec::new();
    for part in parts {
        let (name, value) = part.split_once('=')?;
        let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
        if !is_token(name) || !is_token(value) || name.eq_ignore_ascii_case("boundary") {
            return None;
        }
        parameters.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    Some((kind, parameters))
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
}

#[derive(Default)]
struct Found(Vec<Violation>);

impl Found {
    fn unless(&mut self, good: bool, field: &str, problem: &str) {
        if !good {
            self.tell(field, problem);
        }
    }

    fn tell(&mut self, field: &str, problem: &str) {
        self.0.push(Violation { field: field.to_owned(), problem: problem.to_owned() });
    }
}
