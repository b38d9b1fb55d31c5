//! A reply passed on to people, so that they can read it and answer the one who wrote it.
//!
//! The message is read and its header written anew: a signature over the old one would not hold, and lines that go on
//! would be taken apart. The body stays as it came.

use jiff::Timestamp;
use mail_builder::headers::Header as _;
use mail_builder::headers::address::Address;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId;
use mail_builder::headers::raw::Raw;
use mail_builder::headers::text::Text;
use tidings_kernel::{EmailAddress, Lane, Mail};

use super::{InboundError, parse, read};

/// To whom, and in whose name.
#[derive(Debug, Clone)]
pub struct Forward {
    /// The address that the reply came to; the mail goes out from it.
    pub captured: EmailAddress,
    pub to: EmailAddress,
    /// Of the forwarded message, without `<>`: the original one may arrive at the same people.
    pub message_id: String,
    pub date: Timestamp,
}

/// Headers that say how the body is to be read. They belong to it.
const BODY_HEADERS: [&str; 4] =
    ["content-type", "content-transfer-encoding", "content-disposition", "content-language"];

/// The message as it goes out: from `"Reply from X" <captured address>`, answers to who wrote it.
pub fn forward(mime: &[u8], cmd: &Forward) -> Result<Mail, InboundError> {
    let inbound = parse(mime)?;
    let message = read(mime)?;
    let who = inbound.from_name.clone().unwrap_or_else(|| inbound.from.to_string());
    let who: String = who.chars().filter(|c| !c.is_control()).take(150).collect();

    let mut written = Vec::with_capacity(mime.len() + 1024);
    let mut write = |name: &str, value: &mail_builder::headers::HeaderType<'_>| {
        written.extend_from_slice(name.as_bytes());
        written.extend_from_slice(b": ");
        value.write_header(&mut written, name.len() + 2);
    };
    let from = Address::new_address(Some(format!("Reply from {who}")), cmd.captured.as_str());
    let subject: String = inbound.subject.chars().filter(|c| !c.is_control()).collect();
    write("From", &from.into());
    write("To", &Address::from(cmd.to.as_str()).into());
    write("Reply-To", &Address::from(inbound.from.as_str()).into());
    write("Subject", &Text::new(subject).into());
    write("Date", &Date::new(cmd.date.as_second()).into());
    write("Message-ID", &MessageId::new(cmd.message_id.as_str()).into());
    write("X-Original-From", &Address::from(inbound.from.as_str()).into());
    // Who forwards must not be answered by a machine, which would be forwarded again.
    write("Auto-Submitted", &Raw::new("auto-generated").into());
    write("X-Auto-Response-Suppress", &Raw::new("All").into());
    write("MIME-Version", &Raw::new("1.0").into());

    let root = message.root_part();
    for header in &root.headers {
        if BODY_HEADERS.contains(&header.name().to_ascii_lowercase().as_str()) {
            written.extend_from_slice(header.name().as_bytes());
            written.extend_from_slice(b":");
            written.extend(with_crlf(slice(mime, header.offset_start(), header.offset_end())));
        }
    }
    written.extend_from_slice(b"\r\n");
    written.extend(with_crlf(slice(mime, root.offset_body, root.offset_end)));
    Ok(Mail {
        from: cmd.captured.clone(),
        to: vec![cmd.to.clone()],
        mime: written,
        tags: Vec::new(),
        lane: Lane::Transactional,
    })
}

fn slice(mime: &[u8], start: u32, end: u32) -> &[u8] {
    mime.get(start as usize..end as usize).unwrap_or_default()
}

/// Mail from a file may have other line ends than mail on the wire.
fn with_crlf(bytes: &[u8]) -> Vec<u8> {
    let mut written = Vec::with_capacity(bytes.len());
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b'\r' if bytes.get(index + 1) != Some(&b'\n') => written.extend_from_slice(b"\r\n"),
            b'\n' if index == 0 || bytes.get(index - 1) != Some(&b'\r') => {
                written.extend_from_slice(b"\r\n");
            }
            byte => written.push(*byte),
        }
    }
    written
}
