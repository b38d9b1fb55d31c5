//! The text part, made of the HTML where the author wrote none.

/// As wide as mail in plain text is.
const WIDTH: usize = 78;

/// Deeper than any mail. What takes the HTML apart needs time by the square of it.
const MAX_DEPTH: usize = 500;
/// Elements that hold nothing.
const VOID: [&str; 8] = ["area", "br", "col", "hr", "img", "input", "link", "meta"];

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

fn is_deep(html: &str) -> bool {
    let mut depth = 0usize;
    for part in html.split('<').skip(1) {
        let closes = part.starts_with('/');
        let name = part.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        if closes {
            depth = depth.saturating_sub(1);
        } else if !name.is_empty() && !VOID.iter().any(|void| name.eq_ignore_ascii_case(void)) {
            depth += 1;
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
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
