//! The text part, made of the HTML where the author wrote none.
//!
//! Every mail of a campaign is made text by itself, with its own links in it, so this is one pass over the HTML: `tags` takes
//! it apart, what a tag means is here, and `layout` makes lines of it. It builds no tree, so neither depth nor ends that are
//! left out matter.

mod layout;
mod tags;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use layout::{Gap, Layout};
use tags::{Tag, Tags, Token};

/// Links are kept as numbered notes below the text.
pub(crate) fn of_html(html: &str) -> String {
    let mut text = Text::default();
    let mut tags = Tags::new(html);
    while let Some(token) = tags.next() {
        match token {
            Token::Text(words) => text.layout.text(&html_escape::decode_html_entities(words)),
            Token::Tag(tag) if tag.is_end => text.end(&tag.name()),
            Token::Tag(tag) => {
                let name = tag.name();
                if matches!(&*name, "script" | "style" | "title") {
                    tags.skip_to_end_of(&name);
                } else {
                    text.begin(&name, &tag);
                }
            }
        }
    }
    text.finish()
}

#[derive(Default)]
struct Text {
    layout: Layout,
    /// Where each link leads, the first is number 1.
    links: Vec<String>,
    /// The link that is open, and how much had been written when it began.
    open: Option<(usize, usize)>,
}

impl Text {
    fn begin(&mut self, name: &str, tag: &Tag<'_>) {
        if let Some(gap) = gap_of(name) {
            self.layout.block(gap);
        }
        match name {
            "a" => {
                self.end_link();
                if let Some(href) = tag.attribute("href") {
                    self.begin_link(&href);
                }
            }
            "br" => self.layout.line_break(),
            "hr" => self.layout.rule(),
            "img" => {
                if let Some(alt) = tag.attribute("alt").filter(|alt| !alt.trim().is_empty()) {
                    self.layout.text(&format!("[{}]", alt.trim()));
                }
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.layout.begin_heading(level(name)),
            "ul" => self.layout.begin_list(None),
            "ol" => {
                let start = tag.attribute("start").and_then(|start| start.trim().parse().ok());
                self.layout.begin_list(Some(start.unwrap_or(1)));
            }
            "li" => self.layout.begin_item(),
            "blockquote" => self.layout.begin_quote(),
            "pre" => self.layout.begin_preserved(),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "a" => self.end_link(),
            "br" => self.layout.line_break(),
            "pre" => self.layout.end_preserved(),
            _ => {}
        }
        if let Some(gap) = gap_of(name) {
            self.layout.block(gap);
        }
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.layout.end_heading(),
            "ul" | "ol" => self.layout.end_list(),
            "li" => self.layout.end_item(),
            "blockquote" => self.layout.end_quote(),
            _ => {}
        }
    }

    /// A link that leads to another place of the same page leads nowhere from a text.
    fn begin_link(&mut self, href: &str) {
        let href = href.trim();
        if href.is_empty() || href.starts_with('#') {
            return;
        }
        let target = one_line(href);
        let known = self.links.iter().position(|link| *link == target);
        let number = known.unwrap_or_else(|| {
            self.links.push(target.into_owned());
            self.links.len() - 1
        });
        self.layout.glue("[");
        self.open = Some((number, self.layout.written()));
    }

    fn end_link(&mut self) {
        let Some((number, before)) = self.open.take() else { return };
        if self.layout.written() == before {
            self.layout.unglue("[");
        } else {
            self.layout.glue("]");
        }
        self.layout.glue(&format!("[{}]", number + 1));
    }

    fn finish(mut self) -> String {
        self.end_link();
        let mut text = self.layout.finish();
        for (place, link) in self.links.iter().enumerate() {
            let before = if place == 0 && !text.is_empty() { "\n\n" } else { "\n" };
            text.push_str(if text.is_empty() { "" } else { before });
            text.push_str(&format!("[{}]: {link}", place + 1));
        }
        text
    }
}

fn level(name: &str) -> usize {
    name.bytes().last().map_or(1, |digit| usize::from(digit - b'0'))
}

/// What must be between the words before a tag and those after it. `None` if the tag is inside a line.
fn gap_of(name: &str) -> Option<Gap> {
    Some(match name {
        "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "blockquote" | "pre" | "table" | "dl"
        | "figure" | "fieldset" => Gap::Blank,
        "address" | "article" | "aside" | "body" | "caption" | "center" | "dd" | "details"
        | "div" | "dt" | "figcaption" | "footer" | "form" | "header" | "html" | "legend" | "li"
        | "main" | "menu" | "nav" | "option" | "section" | "select" | "summary" | "tbody"
        | "td" | "tfoot" | "th" | "thead" | "tr" => Gap::Line,
        _ => return None,
    })
}

fn one_line(url: &str) -> Cow<'_, str> {
    if url.contains(char::is_whitespace) {
        url.split_whitespace().collect::<String>().into()
    } else {
        url.into()
    }
}
