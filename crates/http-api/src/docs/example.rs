//! A request as somebody would type it.

use serde_json::{Map, Value, json};

use super::operation::Operation;
use super::schema::resolved;

/// How deep an example goes before it is left empty.
const DEPTH: usize = 4;

pub(super) fn curl(operation: &Operation<'_>, document: &Value) -> String {
    let method = operation.method.to_uppercase();
    let mut lines = vec![format!("curl \"$TIDINGS{}\"", path(operation))];
    if method != "GET" && !(method == "POST" && operation.body().is_some()) {
        lines[0] = format!("curl -X {method} \"$TIDINGS{}\"", path(operation));
    }
    lines.push("  -H \"Authorization: Bearer $KEY\"".to_owned());
    match operation.body() {
        Some((kind, schema)) if kind.ends_with("json") => {
            lines.push(format!("  -H 'Content-Type: {kind}'"));
            let body = value(document, schema, 0).to_string().replace('\'', r"'\''");
            lines.push(format!("  -d '{body}'"));
        }
        Some((kind, _)) => {
            lines.push(format!("  -H 'Content-Type: {kind}'"));
            let file = if kind == "text/csv" { "people.csv" } else { "message.eml" };
            lines.push(format!("  --data-binary @{file}"));
        }
        None => {}
    }
    lines.join(" \\\n")
}

/// The path with values in the place of names, and the parameters that must be there.
fn path(operation: &Operation<'_>) -> String {
    let mut path = operation.path.to_owned();
    let mut query = Vec::new();
    for parameter in operation.parameters() {
        let name = parameter["name"].as_str().unwrap_or_default();
        let value = match (&parameter["example"], &parameter["schema"]["example"]) {
            (Value::String(text), _) | (_, Value::String(text)) => text.clone(),
            (Value::Number(number), _) | (_, Value::Number(number)) => number.to_string(),
            _ => named(name, &parameter["schema"]),
        };
        let value = value.replace('/', "%2F");
        match parameter["in"].as_str() {
            Some("path") => path = path.replace(&format!("{{{name}}}"), &value),
            Some("query") if parameter["required"] == true => {
                query.push(format!("{name}={value}"));
            }
            _ => {}
        }
    }
    if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
}

fn named(name: &str, schema: &Value) -> String {
    match (name, schema["type"].as_str()) {
        ("email", _) => "ada@example.org".to_owned(),
        (_, Some("integer")) => "1".to_owned(),
        _ => first_choice(schema).unwrap_or(name).to_owned(),
    }
}

/// `campaign` of `^(campaign|reminder)$`.
fn first_choice(schema: &Value) -> Option<&str> {
    let choices = schema["pattern"].as_str()?.strip_prefix("^(")?.strip_suffix(")$")?;
    let first = choices.split('|').next()?;
    first.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then_some(first)
}

/// Something that a schema takes: its own example, or the least that there must be.
fn value(document: &Value, schema: &Value, depth: usize) -> Value {
    let schema = resolved(document, schema);
    if let Some(example) = schema.get("example") {
        return example.clone();
    }
    if let Some(first) = ["oneOf", "anyOf", "allOf"].iter().find_map(|name| schema[*name].get(0)) {
        return value(document, first, depth);
    }
    let kind = match &schema["type"] {
        Value::Array(several) => several.first().and_then(Value::as_str),
        one => one.as_str(),
    };
    match kind {
        Some("object") if depth < DEPTH => object(document, schema, depth),
        Some("object") => json!({}),
        Some("array") if depth < DEPTH => json!([value(document, &schema["items"], depth + 1)]),
        Some("array") => json!([]),
        Some("integer") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("number") => json!(1),
        Some("boolean") => json!(true),
        _ => match schema["format"].as_str() {
            Some("email") => json!("ada@example.org"),
            Some("date-time") => json!("2026-12-01T00:00:00Z"),
            Some("date") => json!("2026-12-01"),
            Some("uri") => json!("https://example.org"),
            _ => json!(first_choice(schema).unwrap_or("text")),
        },
    }
}

/// What is required, or, where nothing is, what has an example.
fn object(document: &Value, schema: &Value, depth: usize) -> Value {
    let mut object = Map::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let required = schema["required"].as_array();
        let wanted = match required {
            Some(names) => names.iter().any(|one| one == name) || field.get("example").is_some(),
            None => field.get("example").is_some(),
        };
        if wanted {
            object.insert(name.clone(), value(document, field, depth + 1));
        }
    }
    Value::Object(object)
}
