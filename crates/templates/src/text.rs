//! The text part, made of the HTML where the author wrote none.

use std::cell::RefCell;
use std::rc::Rc;

use lol_html::{RewriteStrSettings, element, end_tag, rewrite_str};

/// As wide as mail in plain text is.
const WIDTH: usize = 78;

/// Deeper than any mail. What takes the HTML apart needs time by the square of it.
const MAX_DEPTH: usize = 500;
/// Elements that end where their like begins, or what they are in ends.
const SELF_CLOSING: [&str; 8] = ["p", "li", "td", "tr", "th", "option", "dt", "dd"];
/// Elements whose end is the end of those inside them as well.
const BLOCKS: [&str; 26] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "center",
    "div",
    "dl",
    "fieldset",
    "figure",
    "footer",
    "form",
    "header",
    "main",
    "menu",
    "nav",
    "ol",
    "pre",
    "section",
    "select",
    "table",
    "tbody",
    "td",
    "tfoot",
    "thead",
    "tr",
    "ul",
];

/// Links are kept as numbered notes below the text.
pub(crate) fn of_html(html: &str) -> String {
    if is_deep(html) {
        return without_tags(html);
    }
    let config = html2text::config::plain().no_table_borders().raw_mode(true).no_link_wrapping();
    let text = config.string_from_read(html.as_bytes(), WIDTH).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut out = String::with_capacity(text.len());
    let mut empty = 0;
    for line in lines {
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty < 2 {
            out.push_str(line);
            out.push('\n');
        }
    }
    out.trim_matches('\n').to_owned()
}

pub(crate) fn is_deep(html: &str) -> bool {
    // Every level has a tag of its own.
    if html.bytes().filter(|byte| *byte == b'<').nth(MAX_DEPTH).is_none() {
        return false;
    }
    let open = Rc::new(RefCell::new(Open::default()));
    let count = element!("*", |element| {
        if !element.can_have_content() {
            return Ok(());
        }
        open.borrow_mut().begin(element.tag_name());
        if open.borrow().0.len() > MAX_DEPTH {
            return Err("it is too deep".into());
        }
        let open = Rc::clone(&open);
        element.on_end_tag(end_tag!(move |end| {
            open.borrow_mut().end(&end.name());
            Ok(())
        }))
    });
    let settings = RewriteStrSettings::new().append_element_content_handler(count);
    // What cannot be followed may be as deep as it likes.
    rewrite_str(html, settings).is_err()
}

/// The elements that are open, the innermost last. Never fewer than a browser would have: an end that it may pass over
/// is passed over here.
#[derive(Default)]
struct Open(Vec<String>);

impl Open {
    fn begin(&mut self, name: String) {
        if SELF_CLOSING.contains(&name.as_str()) {
            let like = |other: &str| match name.as_str() {
                "td" | "th" => matches!(other, "td" | "th"),
                "dt" | "dd" => matches!(other, "dt" | "dd"),
                name => other == name,
            };
            let passed = |other: &str| match name.as_str() {
                "td" | "th" | "tr" => SELF_CLOSING.contains(&other),
                "li" | "dt" | "dd" => other == "p",
                _ => false,
            };
            self.close(like, passed);
        }
        self.0.push(name);
    }

    fn end(&mut self, name: &str) {
        let passed = |other: &str| match name {
            "li" | "dt" | "dd" => other == "p",
            name => BLOCKS.contains(&name) && SELF_CLOSING.contains(&other),
        };
        self.close(|other| other == name, passed);
    }

    /// Closes the innermost that is meant, if there are only such around it that may be passed over.
    fn close(&mut self, meant: impl Fn(&str) -> bool, passed: impl Fn(&str) -> bool) {
        let found = self.0.iter().rposition(|name| meant(name) || !passed(name));
        if let Some(place) = found.filter(|place| meant(&self.0[*place])) {
            self.0.truncate(place);
        }
    }
}

/// The words alone.
fn without_tags(html: &str) -> String {
    let mut words = String::new();
    for part in html.split('<') {
        let text = part.split_once('>').map_or(part, |(_, text)| text);
        words.push_str(text);
        words.push(' ');
    }
    let decoded = html_escape::decode_html_entities(&words);
    decoded.split_whitespace().collect::<Vec<_>>().join(" ")
}
