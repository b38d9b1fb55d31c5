//! A definition as a file that a person can go on with: YAML in blocks, with what matters first.

use serde_json::{Map, Value};

/// The order in which people write these names. All others come after them, by their letters.
const ORDER: [&str; 47] = [
    "id",
    "name",
    "description",
    "client",
    "sender",
    "transactional",
    "audience",
    "topic",
    "trigger",
    "event",
    "field",
    "value",
    "path",
    "template",
    "send",
    "wait",
    "wait_for",
    "choice",
    "condition",
    "tag",
    "set",
    "webhook",
    "exit",
    "subject",
    "map",
    "email",
    "firstName",
    "attributes",
    "filter",
    "timeout",
    "reentry",
    "after",
    "window",
    "days",
    "from",
    "until",
    "weekday",
    "zone",
    "exitOn",
    "events",
    "steps",
    "branches",
    "then",
    "else",
    "default",
    "add",
    "remove",
];
/// What YAML would read as something else than a text.
const OTHERS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

pub(super) fn yaml(definition: &Value) -> String {
    let mut out = String::new();
    match definition {
        Value::Object(fields) => object(fields, 0, &mut out),
        other => out.push_str(&scalar(other)),
    }
    out
}

fn object(fields: &Map<String, Value>, depth: usize, out: &mut String) {
    let mut names: Vec<&String> = fields.keys().collect();
    let rank = |name: &String| ORDER.iter().position(|one| one == name).unwrap_or(ORDER.len());
    names.sort_by_key(|name| (rank(name), name.as_str()));
    for (place, name) in names.into_iter().enumerate() {
        // The first one stands behind the dash of its list, if it is in one.
        if place > 0 || out.is_empty() || out.ends_with('\n') {
            out.push_str(&"  ".repeat(depth));
        }
        out.push_str(&text(name));
        out.push(':');
        value(&fields[name], depth, out);
    }
}

/// What stands behind a name.
fn value(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            object(fields, depth + 1, out);
        }
        Value::Array(values) if !is_short(values) => {
            out.push('\n');
            list(values, depth + 1, out);
        }
        other => {
            out.push(' ');
            out.push_str(&scalar(other));
            out.push('\n');
        }
    }
}

fn list(values: &[Value], depth: usize, out: &mut String) {
    for one in values {
        out.push_str(&"  ".repeat(depth));
        out.push_str("- ");
        match one {
            Value::Object(fields) if !fields.is_empty() => object(fields, depth + 1, out),
            other => {
                out.push_str(&scalar(other));
                out.push('\n');
            }
        }
    }
}

/// A few words that fit on a line.
fn is_short(values: &[Value]) -> bool {
    let plain = values.iter().all(|value| !value.is_object() && !value.is_array());
    plain && values.iter().map(|value| value.to_string().len() + 2).sum::<usize>() < 80
}

/// On one line. JSON is YAML, too.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(one) => text(one),
        Value::Array(values) => {
            format!("[{}]", values.iter().map(scalar).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Without quotes where nobody can take it for something else.
fn text(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || " _./$-".contains(c);
    let begins = match text.chars().next() {
        Some(first) if first.is_ascii_alphabetic() || first == '$' => true,
        // `2 days` is a text, `1e3` is none.
        Some(first) => first.is_ascii_digit() && text.contains(' '),
        None => false,
    };
    let plain = begins
        && text.chars().all(allowed)
        && text.trim() == text
        && !OTHERS.contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidings_sequences::definition::{read, to_json};

    use super::{text, yaml};

    const EXAMPLES: [&str; 3] = [
        include_str!("../../../../examples/sequences/sequences/onboarding.yaml"),
        include_str!("../../../../examples/sequences/sequences/trial-ending.yaml"),
        include_str!("../../../../examples/sequences/sequences/win-back.yaml"),
    ];

    #[test]
    fn what_is_written_is_read_as_the_same() {
        for example in EXAMPLES {
            let mut definition = read(example).unwrap();
            let written = yaml(&to_json(&definition));
            let again = read(&written).unwrap_or_else(|faults| panic!("{faults:?}\n{written}"));
            assert_eq!(to_json(&again), to_json(&definition), "{written}");
            definition.description = Some("a: b # \"c\" - é\\".to_owned());
            let again = read(&yaml(&to_json(&definition))).unwrap();
            assert_eq!(again.description, definition.description);
        }
    }

    #[test]
    fn what_could_be_something_else_is_quoted() {
        for (plain, written) in [
            ("onboarding/welcome", "onboarding/welcome"),
            ("2 days 4 hours", "2 days 4 hours"),
            ("$.user.plan", "$.user.plan"),
            ("09:00", "\"09:00\""),
            ("No", "\"No\""),
            ("12", "\"12\""),
            ("", "\"\""),
            ("- x", "\"- x\""),
        ] {
            assert_eq!(text(plain), written);
        }
        let shown = yaml(&json!({"steps": [{"send": "a"}, {"exit": {}}], "id": "x"}));
        assert_eq!(shown, "id: x\nsteps:\n  - send: a\n  - exit: {}\n");
    }
}
