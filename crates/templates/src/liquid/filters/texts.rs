//! Filters of texts.

use serde_json::Value;

use super::{Arguments, MAX_TEXT, TooBig};
use crate::liquid::value::{Val, escape_char, escaped, in_words};

pub(super) fn text(v: &Val, change: impl Fn(&str) -> String) -> Result<Val, TooBig> {
    bounded(change(&in_words(&v.value)))
}

/// A text stays as safe as it was.
pub(super) fn kept(v: &Val, change: impl Fn(&str) -> String) -> Val {
    Val { value: Value::String(change(&in_words(&v.value))), safe: v.safe }
}

pub(super) fn bounded(text: String) -> Result<Val, TooBig> {
    if text.len() > MAX_TEXT { Err(TooBig) } else { Ok(Val::new(text)) }
}

pub(super) fn joined(left: &str, right: &str) -> Result<Val, TooBig> {
    bounded(format!("{left}{right}"))
}

pub(super) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars.flat_map(char::to_lowercase)).collect(),
        None => String::new(),
    }
}

pub(super) fn escape(v: Val) -> Result<Val, TooBig> {
    if v.safe {
        return Ok(v);
    }
    safe(escaped(&in_words(&v.value)))
}

pub(super) fn safe(text: String) -> Result<Val, TooBig> {
    let mut val = bounded(text)?;
    val.safe = true;
    Ok(val)
}

/// Leaves what is an entity already.
pub(super) fn escape_once(v: &Val) -> Result<Val, TooBig> {
    let text = in_words(&v.value);
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if c == '&' && starts_entity(&text[at..]) {
            out.push('&');
        } else {
            escape_char(&mut out, c);
        }
    }
    safe(out)
}

pub(super) fn starts_entity(text: &str) -> bool {
    let Some(end) = text.bytes().take(12).position(|b| b == b';') else { return false };
    let name = text[1..end].strip_prefix('#').unwrap_or(&text[1..end]);
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// In HTML the text is escaped first, so that only the line breaks are markup.
pub(super) fn newline_to_br(v: &Val, a: &Arguments) -> Result<Val, TooBig> {
    let text = in_words(&v.value);
    let text = if a.html && !v.safe { escaped(&text) } else { text };
    let broken = text.replace("\r\n", "\n").replace('\n', "<br />\n");
    if a.html { safe(broken) } else { bounded(broken) }
}

pub(super) fn replaced(v: &Val, from: &str, to: &str, times: usize) -> Result<Val, TooBig> {
    let text = in_words(&v.value);
    if from.is_empty() {
        return Ok(Val::new(text));
    }
    let count = text.matches(from).count().min(times);
    if text.len().saturating_add(count.saturating_mul(to.len())) > 2 * MAX_TEXT {
        return Err(TooBig);
    }
    bounded(text.replacen(from, to, times))
}

pub(super) fn truncate(v: Val, a: &Arguments) -> Result<Val, TooBig> {
    let text = in_words(&v.value);
    let length = usize::try_from(a.integer(0).unwrap_or(50)).unwrap_or(0);
    let mark = if a.values.len() > 1 { a.text(1) } else { "...".to_owned() };
    if text.chars().count() <= length {
        return Ok(v);
    }
    let kept = length.saturating_sub(mark.chars().count());
    bounded(text.chars().take(kept).collect::<String>() + &mark)
}

pub(super) fn truncatewords(v: Val, a: &Arguments) -> Result<Val, TooBig> {
    let text = in_words(&v.value);
    let length = usize::try_from(a.integer(0).unwrap_or(15)).unwrap_or(0).max(1);
    let mark = if a.values.len() > 1 { a.text(1) } else { "...".to_owned() };
    let mut words = text.split_whitespace();
    let kept: Vec<&str> = words.by_ref().take(length).collect();
    if words.next().is_none() {
        return Ok(v);
    }
    bounded(kept.join(" ") + &mark)
}

pub(super) fn strip_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        match c {
            '<' => inside = true,
            '>' if inside => inside = false,
            _ if !inside => out.push(c),
            _ => {}
        }
    }
    out
}

pub(super) fn url_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(byte.into());
            }
            b' ' => out.push('+'),
            _ => {
                out.push('%');
                out.push_str(&format!("{byte:02X}"));
            }
        }
    }
    out
}

pub(super) fn url_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[at], hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}
