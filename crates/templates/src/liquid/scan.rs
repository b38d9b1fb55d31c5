//! A source cut into text, `{{ outputs }}` and `{% tags %}`.
//!
//! Here: delimiters, `-` that eats white space, `raw` and `comment`. Not here: what stands between the delimiters (`expression`).

/// How many characters a tag may have for quotes to count in it.
const LONGEST: usize = 4000;
/// How many tags and outputs a source may have. Some of what is done with them takes longer than they are many.
const MAX_PIECES: usize = 10_000;

/// A part of a source, and where it is in it.
#[derive(Debug, PartialEq)]
pub(crate) struct Piece<'s> {
    pub(crate) kind: Kind<'s>,
    /// Bytes, with the delimiters.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Kind<'s> {
    Text(&'s str),
    /// What is between the delimiters, and where that begins.
    Output {
        inner: &'s str,
        at: usize,
    },
    Tag {
        name: &'s str,
        inner: &'s str,
        at: usize,
    },
}

/// What is wrong with a source, and where.
#[derive(Debug, PartialEq)]
pub(crate) struct Trouble {
    pub(crate) at: usize,
    pub(crate) message: String,
}

impl Trouble {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// Line and column of a byte, both from 1.
pub(crate) fn position(source: &str, at: usize) -> (usize, usize) {
    let mut at = at.min(source.len());
    while !source.is_char_boundary(at) {
        at -= 1;
    }
    let before = &source[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

pub(crate) fn scan(source: &str) -> Result<Vec<Piece<'_>>, Trouble> {
    let mut pieces = Vec::new();
    let mut at = 0;
    let mut eat = false;
    while at < source.len() {
        let start = next_delimiter(source, at).unwrap_or(source.len());
        let marks = source[start..].starts_with("{{-") || source[start..].starts_with("{%-");
        push_text(&mut pieces, source, at..start, (eat, marks));
        if start == source.len() {
            break;
        }
        if pieces.len() >= MAX_PIECES {
            return Err(Trouble::new(start, "there is too much Liquid in this"));
        }
        let read = delimited(source, start)?;
        (at, eat) = (read.end, read.eats_after);
        match read.piece.kind {
            Kind::Tag { name: "raw", .. } => {
                let end = closing(source, at, "raw")?;
                push_text(&mut pieces, source, at..end.start, (eat, end.eats_before));
                (at, eat) = (end.end, end.eats_after);
            }
            Kind::Tag { name: "comment", .. } => {
                let end = closing(source, at, "comment")?;
                (at, eat) = (end.end, end.eats_after);
            }
            Kind::Tag { name: "#", .. } => {}
            _ => pieces.push(read.piece),
        }
    }
    Ok(pieces)
}

struct Read<'s> {
    piece: Piece<'s>,
    end: usize,
    eats_after: bool,
}

struct Closing {
    start: usize,
    end: usize,
    eats_before: bool,
    eats_after: bool,
}

fn push_text<'s>(
    pieces: &mut Vec<Piece<'s>>,
    source: &'s str,
    range: std::ops::Range<usize>,
    (eat_start, eat_end): (bool, bool),
) {
    let (start, end) = (range.start, range.end);
    let mut text = &source[range];
    if eat_start {
        text = text.trim_start();
    }
    if eat_end {
        text = text.trim_end();
    }
    if !text.is_empty() {
        pieces.push(Piece { kind: Kind::Text(text), start, end });
    }
}

fn next_delimiter(source: &str, from: usize) -> Option<usize> {
    let bytes = source.as_bytes();
    (from..bytes.len().saturating_sub(1))
        .find(|&i| bytes[i] == b'{' && matches!(bytes[i + 1], b'{' | b'%'))
}

fn delimited(source: &str, start: usize) -> Result<Read<'_>, Trouble> {
    let is_tag = source[start..].starts_with("{%");
    let close = if is_tag { "%}" } else { "}}" };
    let mut at = start + 2;
    if source[at..].starts_with('-') {
        at += 1;
    }
    let close_at = find_close(source, at, close).ok_or_else(|| {
        Trouble::new(start, format!("{} is not closed with {close}", &source[start..start + 2]))
    })?;
    let mut inner = &source[at..close_at];
    let eats_after = inner.ends_with('-');
    if eats_after {
        inner = &inner[..inner.len() - 1];
    }
    let end = close_at + 2;
    let kind = if is_tag { tag(inner, at) } else { Kind::Output { inner, at } };
    Ok(Read { piece: Piece { kind, start, end }, end, eats_after })
}

fn tag(inner: &str, at: usize) -> Kind<'_> {
    let trimmed = inner.trim_start();
    let begin = at + (inner.len() - trimmed.len());
    if trimmed.starts_with('#') {
        return Kind::Tag { name: "#", inner: "", at: begin };
    }
    let length =
        trimmed.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(trimmed.len());
    let (name, rest) = trimmed.split_at(length);
    Kind::Tag { name, inner: rest, at: begin + length }
}

/// Where the delimiter closes. One inside quotes does not, unless nothing else near does.
fn find_close(source: &str, from: usize, close: &str) -> Option<usize> {
    let mut quote = None;
    for (offset, c) in source[from..].char_indices().take(LONGEST) {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, _) if source[from + offset..].starts_with(close) => return Some(from + offset),
            _ => {}
        }
    }
    source[from..].find(close).map(|offset| from + offset)
}

fn closing(source: &str, from: usize, name: &str) -> Result<Closing, Trouble> {
    let mut at = from;
    while let Some(offset) = source[at..].find("{%") {
        let start = at + offset;
        let rest = &source[start + 2..];
        let body = rest.strip_prefix('-').unwrap_or(rest);
        let trimmed = body.trim_start();
        let word = trimmed.strip_prefix("end").and_then(|word| word.strip_prefix(name));
        if let Some(after) = word.map(str::trim_start) {
            for (mark, eats_after) in [("%}", false), ("-%}", true)] {
                if after.starts_with(mark) {
                    let end = source.len() - after.len() + mark.len();
                    let eats_before = rest.starts_with('-');
                    return Ok(Closing { start, end, eats_before, eats_after });
                }
            }
        }
        at = start + 2;
    }
    Err(Trouble::new(from, format!("{{% {name} %}} is not closed with {{% end{name} %}}")))
}

#[cfg(test)]
mod tests {
    use super::{Kind, position, scan};

    fn check(source: &str, expected: &[&str]) {
        let said = match scan(source) {
            Ok(pieces) => pieces
                .iter()
                .map(|piece| match &piece.kind {
                    Kind::Text(text) => format!("text {text:?}"),
                    Kind::Output { inner, .. } => format!("output {}", inner.trim()),
                    Kind::Tag { name, inner, .. } => format!("tag {name} {}", inner.trim()),
                })
                .collect(),
            Err(trouble) => vec![format!("{} at {}", trouble.message, trouble.at)],
        };
        assert_eq!(said, expected, "{source}");
    }

    #[test]
    fn a_source_is_cut_at_its_delimiters() {
        check("a {{ b }} c", &["text \"a \"", "output b", "text \" c\""]);
        check("a {{- b -}} c", &["text \"a\"", "output b", "text \"c\""]);
        check("{% if a %}x{%endif%}", &["tag if a", "text \"x\"", "tag endif "]);
        check("{{ \"}}\" }}", &["output \"}}\""]);
        check("{{ it's }}", &["output it's"]);
        check("{% raw %}{{ a }}{% endraw %}b", &["text \"{{ a }}\"", "text \"b\""]);
        check("a{%- comment -%} {% if %} {%- endcomment -%} b", &["text \"a\"", "text \"b\""]);
        check("a{% # said %}b", &["text \"a\"", "text \"b\""]);
        check("a { b }} %}", &["text \"a { b }} %}\""]);
        check("a{{ b", &["{{ is not closed with }} at 1"]);
        check("{% raw %}", &["{% raw %} is not closed with {% endraw %} at 9"]);
    }

    #[test]
    fn a_position_counts_characters() {
        assert_eq!(position("äb\ncd", 4), (2, 1));
        assert_eq!(position("äb", 2), (1, 2));
        assert_eq!(position("äb", 99), (1, 3));
    }
}
