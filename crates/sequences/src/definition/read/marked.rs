//! YAML to JSON, with the line of everything in it.
//!
//! What makes YAML dangerous or surprising is refused and not read: anchors and aliases (a short text can stand for an
//! endless one), tags, the same key twice, several documents. Plain words are read as YAML 1.2 says: `no` is a text.

use std::borrow::Cow;
use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::{Map, Number, Value};

use super::{MAX_BYTES, MAX_FAULTS};
use crate::definition::Fault;
use crate::definition::fault::within;

/// Deeper than any definition is.
const MAX_NESTING: usize = 128;
/// More than any definition has.
const MAX_VALUES: usize = 50_000;
/// What is deeper down has the line of what it is in: the places of everything must not outweigh the text by far.
const MAX_POINTER: usize = 500;

/// What a file has, as JSON, with the line of everything in it.
pub struct Marked {
    pub value: Value,
    lines: BTreeMap<String, usize>,
}

impl Marked {
    /// The line of what is there, or of what it would be in.
    pub fn line(&self, pointer: &str) -> Option<usize> {
        let mut pointer = pointer;
        loop {
            if let Some(line) = self.lines.get(pointer) {
                return Some(*line);
            }
            pointer = &pointer[..pointer.rfind('/')?];
        }
    }
}

/// Reads a file in YAML or JSON, or tells what makes it unreadable.
pub fn parse(text: &str) -> Result<Marked, Vec<Fault>> {
    if text.len() > MAX_BYTES {
        let message = format!("a file has at most {} KB", MAX_BYTES / 1024);
        return Err(vec![Fault::new("", message)]);
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = without_surrogates(text);
    let mut loader = Loader {
        parser: Parser::new_from_str(&text),
        lines: BTreeMap::new(),
        faults: Vec::new(),
        values: 0,
    };
    match loader.document() {
        Ok(value) if loader.faults.is_empty() => Ok(Marked { value, lines: loader.lines }),
        Ok(_) => Err(loader.faults),
        Err(fault) => {
            loader.faults.push(fault);
            Err(loader.faults)
        }
    }
}

struct Loader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    lines: BTreeMap<String, usize>,
    faults: Vec<Fault>,
    values: usize,
}

impl<'t> Loader<'t> {
    /// `Err` is what makes the rest unreadable.
    fn document(&mut self) -> Result<Value, Fault> {
        loop {
            match self.next()? {
                (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
                (Event::StreamEnd | Event::DocumentEnd, _) => {
                    return Err(Fault::new("", "there is nothing in it"));
                }
                (event, span) => {
                    let value = self.value(event, span, "", 0)?;
                    self.nothing_more()?;
                    return Ok(value);
                }
            }
        }
    }

    fn nothing_more(&mut self) -> Result<(), Fault> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentStart(_), span) => {
                    let message = "a file has one document; put each into a file of its own";
                    return Err(at_line(span, "", message));
                }
                _ => {}
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), Fault> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let mut fault = Fault::new("", format!("this is no YAML: {}", error.info()));
                fault.line = Some(error.marker().line());
                Err(fault)
            }
            None => Err(Fault::new("", "it ends too early")),
        }
    }

    fn value(
        &mut self,
        event: Event<'t>,
        span: Span,
        pointer: &str,
        depth: usize,
    ) -> Result<Value, Fault> {
        if depth > MAX_NESTING {
            return Err(at_line(span, "", "this is nested too deep"));
        }
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(at_line(span, "", "there is too much in it"));
        }
        self.mark(pointer, span);
        match event {
            Event::Alias(_) => {
                self.note(span, pointer, "an alias (*name) is not read; write it out");
                Ok(Value::Null)
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.no_anchor(anchor, span, pointer);
                let is_text =
                    style != ScalarStyle::Plain || self.is_text(tag.as_ref(), (span, pointer));
                if is_text {
                    return Ok(Value::String(text.into_owned()));
                }
                Ok(plain(&text).unwrap_or_else(|message| {
                    self.note(span, pointer, message);
                    Value::Null
                }))
            }
            Event::SequenceStart(anchor, tag) => {
                self.no_anchor(anchor, span, pointer);
                self.is_text(tag.as_ref(), (span, pointer));
                self.list(pointer, depth)
            }
            Event::MappingStart(anchor, tag) => {
                self.no_anchor(anchor, span, pointer);
                self.is_text(tag.as_ref(), (span, pointer));
                self.object(pointer, depth)
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => Err(at_line(span, pointer, "it ends too early")),
        }
    }

    fn list(&mut self, pointer: &str, depth: usize) -> Result<Value, Fault> {
        let mut list = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Value::Array(list));
            }
            let pointer = format!("{pointer}/{}", list.len());
            list.push(self.value(event, span, &pointer, depth + 1)?);
        }
    }

    fn object(&mut self, pointer: &str, depth: usize) -> Result<Value, Fault> {
        let mut object = Map::new();
        loop {
            let (event, span) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(Value::Object(object)),
                Event::Scalar(text, _, anchor, _) => {
                    self.no_anchor(anchor, span, pointer);
                    text.into_owned()
                }
                _ => return Err(at_line(span, pointer, "use a plain word as a key")),
            };
            let pointer = within(pointer, &key);
            // The line of a thing is that of its key, also where it is written below.
            self.mark(&pointer, span);
            let (event, span_of_value) = self.next()?;
            let value = self.value(event, span_of_value, &pointer, depth + 1)?;
            if object.insert(key, value).is_some() {
                self.note(span, &pointer, "this key is there twice; leave one of them");
            }
        }
    }

    fn mark(&mut self, pointer: &str, span: Span) {
        if pointer.len() <= MAX_POINTER {
            self.lines.entry(pointer.to_owned()).or_insert(span.start.line());
        }
    }

    fn no_anchor(&mut self, anchor: usize, span: Span, pointer: &str) {
        if anchor != 0 {
            self.note(
                span,
                pointer,
                "an anchor (&name) is not read; write it out where it is used",
            );
        }
    }

    /// Whether its author says that it is a text. No other tag is read.
    fn is_text(&mut self, tag: Option<&Cow<'_, Tag>>, (span, pointer): (Span, &str)) -> bool {
        let Some(tag) = tag else { return false };
        if tag.is_yaml_core_schema() && tag.suffix == "str" {
            return true;
        }
        self.note(span, pointer, "tags (!name) are not read; leave it out");
        false
    }

    fn note(&mut self, span: Span, pointer: &str, message: &str) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(at_line(span, pointer, message));
        }
    }
}

fn at_line(span: Span, pointer: &str, message: &str) -> Fault {
    Fault { line: Some(span.start.line()), ..Fault::new(pointer, message) }
}

const TOO_LARGE: &str = "this number is too large; put it in quotes to make it a text";

/// What a word without quotes is, by the core schema of YAML 1.2.
fn plain(text: &str) -> Result<Value, &'static str> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.contains(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    if !is_number {
        return Ok(Value::String(text.to_owned()));
    }
    let zeros = unsigned.len() > 1
        && unsigned.starts_with('0')
        && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    if zeros {
        return Err("put this in quotes if its zeros matter, or leave them out");
    }
    let digits = text.strip_prefix('+').unwrap_or(text);
    if let Ok(number) = digits.parse::<i64>() {
        return Ok(Value::from(number));
    }
    if let Ok(number) = digits.parse::<u64>() {
        return Ok(Value::from(number));
    }
    if digits.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TOO_LARGE);
    }
    match digits.parse::<f64>() {
        Ok(number) => Number::from_f64(number).map(Value::Number).ok_or(TOO_LARGE),
        // A date, a version, a telephone number.
        Err(_) => Ok(Value::String(text.to_owned())),
    }
}

/// JSON writes a character beyond the first 65,536 as two escapes, which YAML does not know. They become the character.
fn without_surrogates(text: &str) -> Cow<'_, str> {
    let is_json = text.trim_start().starts_with('{') && text.contains("\\u");
    if !is_json || serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find('\\') {
        let (before, escape) = rest.split_at(place);
        out.push_str(before);
        match surrogates(escape) {
            Some(character) => {
                out.push(character);
                rest = &escape[12..];
            }
            None => {
                // With what it escapes, so that the second of two backslashes begins nothing.
                let length = 1 + escape[1..].chars().next().map_or(0, char::len_utf8);
                out.push_str(&escape[..length]);
                rest = &escape[length..];
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn surrogates(text: &str) -> Option<char> {
    let unit = |from: usize| {
        let hex = text.get(from..from + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(hex, 16).ok()
    };
    let (high, low) = (unit(0)?, unit(6)?);
    if !(0xd800..0xdc00).contains(&high) {
        return None;
    }
    char::decode_utf16([high, low]).next()?.ok()
}
