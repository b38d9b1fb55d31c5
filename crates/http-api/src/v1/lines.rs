//! JSON for people who look at changes: what fits on a line stands on one, anything longer has a line for each entry.
//!
//! Here: how the description of the API is written. Not here: what it says.

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

/// A value is folded if its line has no more columns than this.
const WIDTH: usize = 160;

pub(super) fn text(value: &impl Serialize) -> String {
    let mut text = Vec::new();
    let mut writer = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b" "));
    value.serialize(&mut writer).expect("a description has only text keys");
    fold(&String::from_utf8(text).expect("JSON is text"))
}

/// Goes through the lines once. No string has a line break or ends a line with a bracket, so brackets at the ends of
/// lines are those of objects and lists.
fn fold(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for line in text.lines() {
        lines.push(line.to_owned());
        if line.ends_with(['{', '[']) {
            open.push(lines.len() - 1);
        } else if line.trim_start().starts_with(['}', ']'])
            && let Some(start) = open.pop()
            && let Some(folded) = folded(&lines[start..])
        {
            lines.truncate(start);
            lines.push(folded);
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// One line of several, if it is short enough.
fn folded(lines: &[String]) -> Option<String> {
    let (first, rest) = lines.split_first()?;
    let (last, inner) = rest.split_last()?;
    let mut line = first.clone();
    for (place, entry) in inner.iter().enumerate() {
        if place > 0 {
            line.push(' ');
        }
        line.push_str(entry.trim_start());
        if line.len() > WIDTH {
            return None;
        }
    }
    line.push_str(last.trim_start());
    (line.len() <= WIDTH).then_some(line)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{WIDTH, text};

    #[test]
    fn what_fits_on_a_line_stands_on_one_and_nothing_is_changed() {
        let long = "x".repeat(WIDTH);
        let value = json!({
            "empty": {}, "none": [], "brackets": ["{", "]", "a [b] {c}: d,"],
            "long": {"first": {"type": "string", "of": [1, 2, {"three": null}]}, "second": long},
        });
        let told = text(&value);
        let expected = format!(
            "{{\n \"brackets\": [\"{{\", \"]\", \"a [b] {{c}}: d,\"],\n \"empty\": {{}},\n \"long\": {{\n  \
             \"first\": {{\"of\": [1, 2, {{\"three\": null}}], \"type\": \"string\"}},\n  \
             \"second\": \"{long}\"\n }},\n \"none\": []\n}}\n"
        );
        assert_eq!(told, expected);
        let read: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(read, value);
    }
}
