//! HTML as a row of words and tags, read as browsers do: what looks like no tag is text, and comments are nothing.

use std::borrow::Cow;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token<'h> {
    /// With its entities.
    Text(&'h str),
    Tag(Tag<'h>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tag<'h> {
    name: &'h str,
    pub(super) is_end: bool,
    attributes: &'h str,
}

pub(super) struct Tags<'h> {
    rest: &'h str,
}

impl<'h> Tags<'h> {
    pub(super) fn new(html: &'h str) -> Self {
        Self { rest: html }
    }

    pub(super) fn next(&mut self) -> Option<Token<'h>> {
        loop {
            let rest = self.rest;
            if rest.is_empty() {
                return None;
            }
            if let Some(comment) = rest.strip_prefix("<!--") {
                // `<!-->` is a whole comment.
                let ends = comment.strip_prefix('>').or_else(|| after(comment, "-->"));
                self.rest = ends.unwrap_or_default();
            } else if rest.starts_with("<!") || rest.starts_with("<?") {
                self.rest = after(rest, ">").unwrap_or_default();
            } else if let Some((tag, rest)) = tag(rest) {
                self.rest = rest;
                return Some(Token::Tag(tag));
            } else if is_tag(rest) {
                // It has no end, and nothing comes after it.
                self.rest = "";
            } else {
                let first = usize::from(rest.starts_with('<'));
                let next = rest[first..].find('<').map_or(rest.len(), |at| first + at);
                let (text, rest) = rest.split_at(next);
                self.rest = rest;
                return Some(Token::Text(text));
            }
        }
    }

    /// Passes over what is no HTML: a script, a style sheet.
    pub(super) fn skip_to_end_of(&mut self, name: &str) {
        let mut rest = self.rest;
        while let Some(after) = after(rest, "</") {
            if after.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name)) {
                self.rest = &rest[rest.len() - after.len() - 2..];
                return;
            }
            rest = after;
        }
        self.rest = "";
    }
}

impl Tag<'_> {
    /// In lower case.
    pub(super) fn name(&self) -> Cow<'_, str> {
        if self.name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            self.name.to_ascii_lowercase().into()
        } else {
            self.name.into()
        }
    }

    /// The value of the first attribute of this name, decoded.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            if rest.is_empty() {
                return None;
            }
            // A name has at least one character, even if that is `=`.
            let length = rest.char_indices().skip(1).find(|(_, c)| ends_name(*c));
            let (found, after) = rest.split_at(length.map_or(rest.len(), |(at, _)| at));
            let after = after.trim_ascii_start();
            let (value, after) = match after.strip_prefix('=') {
                Some(value) => value_of(value.trim_ascii_start()),
                None => ("", after),
            };
            if found.eq_ignore_ascii_case(name) {
                return Some(html_escape::decode_html_entities(value).into_owned());
            }
            rest = after;
        }
    }
}

fn after<'t>(text: &'t str, what: &str) -> Option<&'t str> {
    text.find(what).map(|at| &text[at + what.len()..])
}

fn ends_name(c: char) -> bool {
    c.is_ascii_whitespace() || matches!(c, '=' | '/' | '>')
}

fn is_tag(text: &str) -> bool {
    let bytes = text.as_bytes();
    let first = if bytes.get(1) == Some(&b'/') { 2 } else { 1 };
    bytes.first() == Some(&b'<') && bytes.get(first).is_some_and(u8::is_ascii_alphabetic)
}

/// A tag at the beginning, and what comes after it.
fn tag(text: &str) -> Option<(Tag<'_>, &str)> {
    if !is_tag(text) {
        return None;
    }
    let is_end = text.as_bytes()[1] == b'/';
    let inside = &text[if is_end { 2 } else { 1 }..];
    let name = inside.find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>')?;
    let end = name + end_of_tag(&inside.as_bytes()[name..])?;
    let tag = Tag { name: &inside[..name], is_end, attributes: &inside[name..end] };
    Some((tag, &inside[end + 1..]))
}

/// The `>` that is in no value.
fn end_of_tag(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut before) = (0, b' ');
    loop {
        let byte = *bytes.get(at)?;
        match byte {
            b'>' => return Some(at),
            b'"' | b'\'' if before == b'=' => {
                at += 1 + bytes[at + 1..].iter().position(|other| *other == byte)?;
            }
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
        at += 1;
    }
}

/// A value with or without quotes, and what comes after it.
fn value_of(text: &str) -> (&str, &str) {
    let quoted = |quote: char| text.strip_prefix(quote)?.split_once(quote);
    quoted('"').or_else(|| quoted('\'')).unwrap_or_else(|| {
        let end = text.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(text.len());
        text.split_at(end)
    })
}
