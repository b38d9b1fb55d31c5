//! What bounds a request: all that is wrong with it in itself.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Map, Value};
use tidings_access::Slug;

use super::{
    Content, MAX_CONTENT_BYTES, MAX_CONTEXT_BYTES, MAX_COPIES, MAX_DEPTH, MAX_EXECUTION,
    MAX_HEADERS, MAX_KEY, MAX_LINE, MAX_METADATA_BYTES, MAX_PART_CHARS, MAX_PARTS, PartBody,
    PartKind, Send, Wrong,
};

/// What the keys begin with that we make ourselves.
const OWN_KEYS: [&str; 6] = ["auto:", "confirm:", "erased:", "forward:", "reminder/", "sequence/"];

/// Whether a caller can use this key, however long it is. Those that we make ourselves are not for callers: theirs would be taken for ours.
pub fn check_key(key: &str) -> Result<(), Wrong> {
    if !OWN_KEYS.iter().any(|own| key.starts_with(own)) {
        return Ok(());
    }
    let message = format!("use a key that begins with none of {}", OWN_KEYS.join(", "));
    Err(Wrong { field: "idempotency_key".to_owned(), message })
}

impl Send {
    /// All that is wrong with it in itself.
    pub fn check(&self, now: Timestamp) -> Vec<Wrong> {
        let mut found = Found(Vec::new());
        self.check_content(&mut found);
        self.check_lines(&mut found);
        self.check_parts(&mut found);
        self.check_calendar(&mut found);
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
        self.check_part(&mut found);
        if let Some(key) = &self.idempotency_key {
            check_key_length(&mut found, key);
        }
        found.0
    }

    fn check_content(&self, found: &mut Found) {
        let parts = self.parts.iter().map(|part| part.body.as_str().len());
        let calendar = self.calendar.as_ref().map_or(0, |calendar| calendar.ics.len());
        let mut bytes: usize = parts.sum::<usize>() + calendar;
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

    fn check_part(&self, found: &mut Found) {
        let Some(part) = &self.part_of else { return };
        if part.sequence.parse::<Slug>().is_err() {
            found.wrong("part_of.sequence", "use the id of a sequence");
        }
        let is_id = |id: &String| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            (1..=MAX_EXECUTION).contains(&id.len()) && id.chars().all(plain)
        };
        if part.execution.as_ref().is_some_and(|id| !is_id(id)) {
            let told = format!("use 1 to {MAX_EXECUTION} letters, digits, - and _");
            found.wrong("part_of.execution", told);
        }
        // With the link in it, whoever has a copy could take the person off the list.
        if part.kind == PartKind::Marketing && !(self.cc.is_empty() && self.bcc.is_empty()) {
            found.wrong("cc", "mail that can be unsubscribed from has no copies");
        }
    }

    fn check_lines(&self, found: &mut Found) {
        let lines = [("subject", &self.lines.subject), ("preheader", &self.lines.preheader)];
        for (field, line) in lines {
            let Some(line) = line else { continue };
            if line.trim().is_empty() || line.chars().count() > MAX_LINE {
                found.wrong(field, format!("use 1 to {MAX_LINE} characters"));
            }
            if line.chars().any(char::is_control) {
                found.wrong(field, "use one line without control characters");
            }
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

    fn check_calendar(&self, found: &mut Found) {
        let Some(calendar) = &self.calendar else { return };
        for violation in tidings_mail::check_calendar(&calendar.invitation()) {
            found.wrong(&format!("calendar.{}", violation.field), violation.problem);
        }
        if calendar.ics.contains('\0') {
            found.wrong("calendar.ics", "use no U+0000");
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
}

struct Found(Vec<Wrong>);

impl Found {
    fn wrong(&mut self, field: &str, message: impl Into<String>) {
        let field = field.chars().take(100).collect();
        self.0.push(Wrong { field, message: message.into() });
    }
}

fn check_key_length(found: &mut Found, key: &str) {
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
