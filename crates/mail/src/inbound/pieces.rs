//! What came with a mail besides its text: its HTML, and the files.

use mail_parser::{Message, MimeHeaders as _, PartType};

use super::{InboundError, read};
use crate::letter::{Attachment, Content, Disposition, check_attachment};

/// Names are cut, and lose what no name of a file has.
const MAX_NAME_CHARS: usize = 200;
/// What a file is if it does not say, or says what a mail of ours cannot carry.
const ANY_TYPE: &str = "application/octet-stream";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pieces {
    /// As it was written.
    pub html: Option<String>,
    /// In their order. Each can be part of a letter as it is.
    pub files: Vec<Attachment>,
}

pub fn pieces(mime: &[u8]) -> Result<Pieces, InboundError> {
    let message = read(mime)?;
    let is_html = message.parts.iter().any(|part| part.is_content_type("text", "html"));
    let html = is_html.then(|| message.body_html(0)).flatten();
    let html = html.map(|html| html.chars().filter(|c| *c != '\0').collect());
    Ok(Pieces { html, files: files(&message) })
}

fn files(message: &Message<'_>) -> Vec<Attachment> {
    let mut files = Vec::new();
    for part in message.attachments() {
        let bytes = match &part.body {
            PartType::Multipart(_) => continue,
            _ => part.contents().to_vec(),
        };
        let kind = part.content_type().map_or_else(String::new, |kind| {
            format!("{}/{}", kind.ctype(), kind.subtype().unwrap_or_default())
        });
        let mut file = Attachment {
            filename: Some(name(part.attachment_name(), files.len() + 1)),
            content_type: kind.to_ascii_lowercase(),
            content: Content::Bytes(bytes),
            disposition: Disposition::Attachment,
        };
        if !check_attachment(&file).is_empty() {
            file.content_type = ANY_TYPE.to_owned();
        }
        files.push(file);
    }
    files
}

fn name(given: Option<&str>, number: usize) -> String {
    let plain = |c: &char| !c.is_control() && *c != '/' && *c != '\\';
    let name: String =
        given.unwrap_or_default().chars().filter(plain).take(MAX_NAME_CHARS).collect();
    let name = name.trim();
    if name.is_empty() { format!("attachment-{number}") } else { name.to_owned() }
}
