//! MJML becomes HTML when a template is saved; its Liquid comes out as it went in.
//!
//! MJML is no XML once Liquid stands in it (`{% if a < b %}`), so every run of Liquid is a plain word while `mrml` works, and
//! is put back afterwards; so is a `>` that its parser would stumble over. Between sections and columns, where only elements
//! may stand, the word is wrapped in `<mj-raw>`.

use std::collections::BTreeMap;

use crate::fault::{Fault, MAX_FAULTS, Part};
use crate::liquid::{Kind, scan};

/// What `mrml` knows. It passes others in silence.
const ELEMENTS: [&str; 36] = [
    "mj-accordion",
    "mj-accordion-element",
    "mj-accordion-text",
    "mj-accordion-title",
    "mj-all",
    "mj-attributes",
    "mj-body",
    "mj-breakpoint",
    "mj-button",
    "mj-carousel",
    "mj-carousel-image",
    "mj-class",
    "mj-column",
    "mj-divider",
    "mj-font",
    "mj-group",
    "mj-head",
    "mj-hero",
    "mj-image",
    "mj-navbar",
    "mj-navbar-link",
    "mj-preview",
    "mj-raw",
    "mj-section",
    "mj-social",
    "mj-social-element",
    "mj-spacer",
    "mj-style",
    "mj-table",
    "mj-text",
    "mj-title",
    "mj-wrapper",
    "mjml",
    // Known to MJML, but not a part of a mail that stands alone.
    "mj-dev",
    "mj-html-attributes",
    "mj-include",
];
/// How many of the above are ours.
const KNOWN: usize = 33;
/// Elements that hold elements only.
const STRUCTURAL: [&str; 6] =
    ["mj-body", "mj-wrapper", "mj-section", "mj-group", "mj-column", "mj-hero"];
/// How deep elements may be nested.
const MAX_DEPTH: usize = 64;
/// How deep partials with MJML may be in partials.
const MAX_EXPANSION: usize = 8;

pub(crate) fn to_html(
    source: &str,
    partials: &BTreeMap<String, String>,
) -> Result<String, Vec<Fault>> {
    let expanded = expand(source, partials, 0)?;
    // Places in what was put in from elsewhere are not the author's.
    let is_source = expanded == source;
    let place = |at: usize, message: String| match is_source {
        true => Fault::at(Part::Mjml, source, at, message),
        false => Fault::of(Part::Mjml, message),
    };
    let elements = elements(&expanded);
    let faults = lint(&elements, &place);
    if !faults.is_empty() {
        return Err(faults);
    }
    let hidden = hide(&expanded, &elements);
    let made = mrml::parse(&hidden.text)
        .map_err(|error| vec![told(&error, &hidden, &place)])?
        .element
        .render(&mrml::prelude::render::RenderOptions::default())
        .map_err(|error| vec![Fault::of(Part::Mjml, error.to_string())])?;
    restore(&made, &expanded, &hidden, &place)
}

/// Puts partials that are MJML themselves where they are called: after the compilation they would be mere text.
fn expand(
    source: &str,
    partials: &BTreeMap<String, String>,
    depth: usize,
) -> Result<String, Vec<Fault>> {
    let mut out = String::with_capacity(source.len());
    let mut done = 0;
    for piece in scan(source).unwrap_or_default() {
        let Kind::Tag { name: "include" | "render", inner, .. } = piece.kind else { continue };
        let Some((name, rest)) = quoted(inner) else { continue };
        let Some(partial) = partials.get(name).filter(|text| text.contains("<mj-")) else {
            continue;
        };
        let fault = |message: String| vec![Fault::at(Part::Mjml, source, piece.start, message)];
        if !rest.trim().is_empty() {
            return Err(fault(format!("partial {name} is MJML, and cannot take variables")));
        }
        if depth == MAX_EXPANSION || out.len() > crate::MAX_SOURCE {
            return Err(fault(format!("partial {name} makes too much of this")));
        }
        out.push_str(&source[done..piece.start]);
        out.push_str(&expand(partial, partials, depth + 1)?);
        done = piece.end;
    }
    out.push_str(&source[done..]);
    Ok(out)
}

/// `'name' rest`
fn quoted(inner: &str) -> Option<(&str, &str)> {
    let inner = inner.trim_start();
    let quote = inner.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    inner[1..].split_once(quote)
}

/// A tag of MJML in the source.
struct Element<'s> {
    name: &'s str,
    start: usize,
    end: usize,
    kind: Tag,
}

#[derive(PartialEq)]
enum Tag {
    Open,
    Close,
    Alone,
}

/// Every `<mj…>` and `</mj…>`, but in comments.
fn elements(source: &str) -> Vec<Element<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = source[at..].find('<') {
        let start = at + offset;
        let rest = &source[start..];
        if rest.starts_with("<!--") {
            at = rest.find("-->").map_or(source.len(), |end| start + end + 3);
            continue;
        }
        let closes = rest.starts_with("</");
        let name_at = start + if closes { 2 } else { 1 };
        let name = &source[name_at..];
        let length =
            name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(name.len());
        let name = &name[..length];
        at = name_at;
        if name != "mjml" && !name.starts_with("mj-") {
            continue;
        }
        let end = tag_end(source, name_at + length);
        let alone = source[..end].ends_with("/>");
        let kind = if closes {
            Tag::Close
        } else if alone {
            Tag::Alone
        } else {
            Tag::Open
        };
        found.push(Element { name, start, end, kind });
        at = end;
    }
    found
}

/// After the `>` that ends a tag; one in quotes does not, nor one in Liquid.
fn tag_end(source: &str, from: usize) -> usize {
    let bytes = source.as_bytes();
    let mut at = from;
    let mut quote = None;
    while at < bytes.len() {
        if let Some(end) = liquid_end(source, at) {
            at = end;
            continue;
        }
        match (quote, bytes[at]) {
            (None, b'"' | b'\'') => quote = Some(bytes[at]),
            (Some(open), byte) if byte == open => quote = None,
            (None, b'>') => return at + 1,
            _ => {}
        }
        at += 1;
    }
    source.len()
}

/// After the Liquid that begins here, if any does.
fn liquid_end(source: &str, at: usize) -> Option<usize> {
    let close = match source.as_bytes()[at..] {
        [b'{', b'{', ..] => "}}",
        [b'{', b'%', ..] => "%}",
        _ => return None,
    };
    source[at..].find(close).map(|length| at + length + 2)
}

fn lint(elements: &[Element<'_>], place: &dyn Fn(usize, String) -> Fault) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut open: Vec<&Element<'_>> = Vec::new();
    for element in elements {
        let name = element.name;
        if faults.len() >= MAX_FAULTS {
            return faults;
        }
        if element.kind != Tag::Close && !ELEMENTS[..KNOWN].contains(&name) {
            faults.push(place(element.start, format!("there is no element <{name}> here")));
        }
        match element.kind {
            Tag::Alone => {}
            Tag::Open => {
                if open.len() == MAX_DEPTH {
                    faults.push(place(
                        element.start,
                        format!("elements are nested deeper than {MAX_DEPTH}"),
                    ));
                    return faults;
                }
                open.push(element);
            }
            Tag::Close => match open.pop() {
                Some(opened) if opened.name == name => {}
                Some(opened) => {
                    let message = format!("<{}> is not closed before </{name}>", opened.name);
                    faults.push(place(opened.start, message));
                    return faults;
                }
                None => {
                    faults.push(place(element.start, format!("</{name}> closes nothing")));
                    return faults;
                }
            },
        }
    }
    for element in open {
        faults.push(place(element.start, format!("<{}> is not closed", element.name)));
    }
    if elements.first().is_none_or(|first| first.name != "mjml") {
        faults.push(place(0, "MJML begins with <mjml>".to_owned()));
    }
    faults
}

/// A source whose Liquid is hidden.
struct Hidden {
    text: String,
    /// Each run of Liquid: where it is in the source, and where its word is in the text.
    runs: Vec<Run>,
}

struct Run {
    source: std::ops::Range<usize>,
    /// Bytes of the text that stand for the run, with what is around the word.
    text: std::ops::Range<usize>,
}

fn hide(source: &str, elements: &[Element<'_>]) -> Hidden {
    let mut text = String::with_capacity(source.len());
    let mut runs = Vec::new();
    let mut done = 0;
    let mut around = Around { elements: elements.iter(), open: Vec::new(), last: None };
    for range in liquid_runs(source) {
        text.push_str(&source[done..range.start]);
        let start = text.len();
        let word = format!("zqliquid{}qz", runs.len());
        if around.is_structural(range.start) {
            text.push_str(&format!("<mj-raw>{word}</mj-raw>"));
        } else {
            text.push_str(&word);
        }
        done = range.end;
        runs.push(Run { source: range, text: start..text.len() });
    }
    text.push_str(&source[done..]);
    Hidden { text, runs }
}

/// Whatever is not text, and what the parser of MJML cannot read.
fn liquid_runs(source: &str) -> Vec<std::ops::Range<usize>> {
    let mut runs = Vec::new();
    let mut at = 0;
    let mut unreadable = unreadable(source).into_iter().peekable();
    let texts = scan(source).unwrap_or_default().into_iter();
    for piece in texts.filter(|piece| matches!(piece.kind, Kind::Text(_))) {
        if piece.start > at {
            runs.push(at..piece.start);
        }
        while let Some(found) = unreadable.next_if(|found| *found < piece.end) {
            if found >= piece.start {
                runs.push(found..found + 1);
            }
        }
        at = piece.end;
    }
    if at < source.len() {
        runs.push(at..source.len());
    }
    runs
}

/// Each `>` between tags whose second byte before is in the middle of a character: looking back for a `]]>` there,
/// htmlparser 0.2 would cut the character in two, and panic.
fn unreadable(source: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = source[at..].find(['<', '>', '{']) {
        let place = at + offset;
        let rest = &source[place..];
        at = if rest.starts_with('{') {
            liquid_end(source, place).unwrap_or(place + 1)
        } else if rest.starts_with("<!--") {
            rest.find("-->").map_or(source.len(), |end| place + end + 3)
        } else if rest.starts_with('<') {
            tag_end(source, place + 1)
        } else {
            if place >= 2 && !source.is_char_boundary(place - 2) {
                found.push(place);
            }
            place + 1
        };
    }
    found
}

/// The elements around a place that only moves forward.
struct Around<'e, 's> {
    elements: std::slice::Iter<'e, Element<'s>>,
    open: Vec<&'s str>,
    last: Option<&'e Element<'s>>,
}

impl Around<'_, '_> {
    /// Whether only elements may stand at this place.
    fn is_structural(&mut self, at: usize) -> bool {
        while let Some(element) = self.elements.as_slice().first().filter(|next| next.start < at) {
            self.elements.next();
            self.last = Some(element);
            match element.kind {
                Tag::Open => self.open.push(element.name),
                Tag::Close => drop(self.open.pop()),
                Tag::Alone => {}
            }
        }
        let inside_a_tag = self.last.is_some_and(|element| at < element.end);
        !inside_a_tag && self.open.last().is_some_and(|name| STRUCTURAL.contains(name))
    }
}

fn told(
    error: &mrml::prelude::parser::Error,
    hidden: &Hidden,
    place: &dyn Fn(usize, String) -> Fault,
) -> Fault {
    use mrml::prelude::parser::Error as E;
    let (position, message) = match error {
        E::UnexpectedElement { position, .. } => {
            (position, "this element may not stand here".to_owned())
        }
        E::UnexpectedToken { position, .. } => (position, "this may not stand here".to_owned()),
        E::MissingAttribute { name, position, .. } => {
            (position, format!("the attribute {name} is missing"))
        }
        E::InvalidAttribute { position, .. } => {
            (position, "this attribute is not valid".to_owned())
        }
        E::InvalidFormat { position, .. } => (position, "this is not well formed".to_owned()),
        E::IncludeLoaderError { position, .. } => {
            (position, "mj-include is not possible".to_owned())
        }
        E::EndOfStream { .. } => return Fault::of(Part::Mjml, "an element is not closed"),
        E::NoRootNode => return Fault::of(Part::Mjml, "MJML begins with <mjml>"),
        other => return Fault::of(Part::Mjml, other.to_string()),
    };
    place(in_source(hidden, position.start), message)
}

/// The place in the source of a place in the text without Liquid.
fn in_source(hidden: &Hidden, at: usize) -> usize {
    let before = hidden.runs.iter().take_while(|run| run.text.start <= at).last();
    match before {
        None => at,
        Some(run) if at < run.text.end => run.source.start,
        Some(run) => run.source.end + (at - run.text.end),
    }
}

fn restore(
    made: &str,
    source: &str,
    hidden: &Hidden,
    place: &dyn Fn(usize, String) -> Fault,
) -> Result<String, Vec<Fault>> {
    let mut found = vec![false; hidden.runs.len()];
    let mut out = String::with_capacity(made.len() + source.len());
    let mut rest = made;
    while let Some(start) = rest.find("zqliquid") {
        let number = &rest[start + 8..];
        let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let index = number[..digits].parse::<usize>().ok().filter(|n| *n < hidden.runs.len());
        let (Some(index), true) = (index, number[digits..].starts_with("qz")) else {
            out.push_str(&rest[..start + 8]);
            rest = number;
            continue;
        };
        out.push_str(&rest[..start]);
        out.push_str(&source[hidden.runs[index].source.clone()]);
        found[index] = true;
        rest = &number[digits + 2..];
    }
    out.push_str(rest);
    let lost = hidden.runs.iter().zip(&found).filter(|(_, found)| !**found).take(MAX_FAULTS);
    let lost: Vec<Fault> = lost
        .map(|(run, _)| {
            let message = "Liquid cannot stand here: MJML would drop it";
            place(run.source.start, message.to_owned())
        })
        .collect();
    if !lost.is_empty() {
        return Err(lost);
    }
    if out.len() > crate::MAX_SOURCE {
        return Err(vec![Fault::of(Part::Mjml, "the HTML that MJML makes of it is too long")]);
    }
    Ok(out)
}
