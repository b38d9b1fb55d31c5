//! A checked letter as bytes.
//!
//! The shape is: the text and the HTML as alternatives, pictures that the HTML shows related to it, an invitation as a
//! third alternative, attachments mixed in after all of them. Encoding and folding are mail-builder's.

use std::borrow::Cow;

use mail_builder::MessageBuilder;
use mail_builder::headers::HeaderType;
use mail_builder::headers::address::Address;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId;
use mail_builder::headers::raw::Raw;
use mail_builder::headers::text::Text;
use mail_builder::mime::{BodyPart, MimePart};
use ring::digest::{SHA256, digest};

use super::rules::{bare_id, one_line, parse_content_type, with_crlf};
use super::{Attachment, Content, Disposition, Kind, Letter, Mailbox};

pub(super) fn write(letter: &Letter) -> Vec<u8> {
    let id = bare_id(&letter.message_id);
    let mut message = MessageBuilder::new()
        .header("From", address(&letter.from))
        .header("To", address(&letter.to));
    if !letter.cc.is_empty() {
        message = message.header("Cc", Address::new_list(letter.cc.iter().map(address).collect()));
    }
    if let Some(reply_to) = &letter.reply_to {
        message = message.header("Reply-To", Address::from(reply_to.as_str()));
    }
    message = message
        .header("Subject", Text::new(one_line(&letter.subject)))
        .header("Date", Date::new(letter.date.as_second()))
        .header("Message-ID", MessageId::new(id))
        .header("MIME-Version", Raw::new("1.0"))
        .header("Auto-Submitted", Raw::new("auto-generated"))
        .header("X-Auto-Response-Suppress", Raw::new("All"));
    for (name, value) in list_headers(&letter.kind) {
        message = message.header(name, Raw::new(value));
    }
    if let Some(feedback_id) = &letter.feedback_id {
        message = message.header("Feedback-ID", Raw::new(feedback_id.as_str()));
    }
    for (name, value) in &letter.headers {
        message = message.header(name.as_str(), custom(value));
    }
    let mut written = Vec::new();
    message.body(body(letter, id)).serialize(&mut written);
    written
}

fn list_headers(kind: &Kind) -> Vec<(&'static str, String)> {
    let Kind::Marketing { list_unsubscribe, list_id } = kind else { return Vec::new() };
    let mut ways = format!("<{}>", list_unsubscribe.url);
    if let Some(mailto) = &list_unsubscribe.mailto {
        ways.push_str(&format!(", <mailto:{mailto}?subject=unsubscribe>"));
    }
    let mut headers = vec![
        ("List-Unsubscribe", ways),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".to_owned()),
        ("Precedence", "bulk".to_owned()),
    ];
    if let Some(list_id) = list_id {
        headers.push(("List-ID", format!("<{list_id}>")));
    }
    headers
}

fn address(mailbox: &Mailbox) -> Address<'_> {
    let name = mailbox.name.as_deref().map(one_line).filter(|name| !name.is_empty());
    Address::new_address(name, mailbox.email.as_str())
}

/// As it stands if that is plain text, else encoded: what looks like an encoded word would be read as one.
fn custom(value: &str) -> HeaderType<'_> {
    if value.is_ascii() && !value.contains("=?") {
        Raw::new(value).into()
    } else {
        Text::new(value).into()
    }
}

fn body<'x>(letter: &'x Letter, id: &str) -> MimePart<'x> {
    let (shown, attached): (Vec<_>, Vec<_>) =
        letter.attachments.iter().partition(|one| letter.html.is_some() && is_shown(one));
    let mut ways = vec![text_part("text/plain", &letter.text)];
    if let Some(html) = &letter.html {
        let html = text_part("text/html", html);
        ways.push(if shown.is_empty() {
            html
        } else {
            let parts = std::iter::once(html).chain(shown.into_iter().map(attachment)).collect();
            multipart("multipart/related", id, parts)
        });
    }
    if let Some(calendar) = &letter.calendar {
        let kind = ContentType::new("text/calendar")
            .attribute("charset", "utf-8")
            .attribute("method", calendar.method.as_str());
        ways.push(MimePart::new(kind, with_crlf(&calendar.ics)));
    }
    let said = match <[MimePart<'_>; 1]>::try_from(ways) {
        Ok([only]) => only,
        Err(ways) => multipart("multipart/alternative", id, ways),
    };
    if attached.is_empty() {
        return said;
    }
    let parts = std::iter::once(said).chain(attached.into_iter().map(attachment)).collect();
    multipart("multipart/mixed", id, parts)
}

fn is_shown(attachment: &Attachment) -> bool {
    matches!(attachment.disposition, Disposition::Inline { cid: Some(_) })
}

fn text_part<'x>(kind: &'static str, text: &str) -> MimePart<'x> {
    MimePart::new(kind, with_crlf(text))
}

fn attachment(attachment: &Attachment) -> MimePart<'_> {
    let (kind, parameters) = parse_content_type(&attachment.content_type)
        .unwrap_or_else(|| ("application/octet-stream".to_owned(), Vec::new()));
    let mut kind = ContentType::new(kind);
    for (name, value) in parameters {
        kind = kind.attribute(name, value);
    }
    let content = match &attachment.content {
        Content::Bytes(bytes) => BodyPart::Binary(Cow::Borrowed(bytes)),
        Content::Text(text) => {
            if !kind.attributes.is_empty()
                && kind.attributes.iter().all(|(name, _)| name != "charset")
            {
                kind = kind.attribute("charset", "utf-8");
            }
            BodyPart::Text(with_crlf(text).into())
        }
    };
    let mut part = MimePart::new(kind, content);
    let mut disposition = ContentType::new(match attachment.disposition {
        Disposition::Attachment => "attachment",
        Disposition::Inline { .. } => "inline",
    });
    if let Some(filename) = &attachment.filename {
        disposition = disposition.attribute("filename", filename.as_str());
    }
    part = part.header("Content-Disposition", disposition);
    match &attachment.disposition {
        Disposition::Inline { cid: Some(cid) } => part.cid(cid.as_str()),
        Disposition::Inline { cid: None } | Disposition::Attachment => part,
    }
}

/// Its boundary is made of the message id, so that the same letter always becomes the same bytes.
fn multipart<'x>(kind: &'static str, id: &str, parts: Vec<MimePart<'x>>) -> MimePart<'x> {
    let hash = digest(&SHA256, format!("{kind} {id}").as_bytes());
    let boundary = tidings_kernel::hex(&hash.as_ref()[..16]);
    MimePart::new(ContentType::new(kind).attribute("boundary", format!("={boundary}")), parts)
}
