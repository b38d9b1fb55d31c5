//! Schemas in words: what a value is, and what bounds it.

use maud::{Markup, html};
use serde_json::Value;

use super::{anchor, inline, prose, text};

const COMPONENTS: &str = "#/components/schemas/";
const RESPONSES: &str = "#/components/responses/";

/// Every schema that has a name, with its fields.
pub(super) fn all(document: &Value) -> Markup {
    html! {
        @for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
            article id=(named(name)) {
                h3 { (name) }
                (prose(text(schema, "description")))
                (fields(schema))
            }
        }
    }
}

/// A schema, or the one that it refers to.
pub(super) fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match reference(schema) {
        Some(name) => &document["components"]["schemas"][name],
        None => schema,
    }
}

/// An answer, or the one that it refers to.
pub(super) fn resolved_response<'a>(document: &'a Value, response: &'a Value) -> &'a Value {
    match response["$ref"].as_str().and_then(|path| path.strip_prefix(RESPONSES)) {
        Some(name) => &document["components"]["responses"][name],
        None => response,
    }
}

/// The fields of an object; what anything else is.
pub(super) fn fields(schema: &Value) -> Markup {
    let Some(properties) = schema["properties"].as_object() else {
        return html! { p { (kind(schema)) (bounds(schema)) } };
    };
    let is_required = |name: &str| {
        schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name))
    };
    let (required, optional): (Vec<_>, Vec<_>) =
        properties.iter().partition(|(name, _)| is_required(name));
    html! {
        div.wide { table {
            @for (name, field) in required.into_iter().chain(optional) {
                tr {
                    th { code { (name) } @if is_required(name) { span.required { " required" } } }
                    td { (kind(field)) }
                    td { (inline(text(field, "description"))) (bounds(field)) }
                }
            }
        } }
    }
}

/// What a value is: `string or null`, `array of MessagePart`.
pub(super) fn kind(schema: &Value) -> Markup {
    if let Some(name) = reference(schema) {
        return html! { a href=(format!("#{}", named(name))) { (name) } };
    }
    for choice in ["oneOf", "anyOf", "allOf"] {
        if let Some(choices) = schema[choice].as_array() {
            let between = if choice == "allOf" { " and " } else { " or " };
            return list(choices, between);
        }
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => vec!["anything"],
    };
    html! {
        @for (position, name) in types.iter().enumerate() {
            @if position > 0 { " or " }
            @if *name == "array" { "array of " (kind(&schema["items"])) } @else { (name) }
        }
        @if let Some(format) = schema["format"].as_str() { " (" (format) ")" }
    }
}

fn list(schemas: &[Value], between: &str) -> Markup {
    html! {
        @for (position, schema) in schemas.iter().enumerate() {
            @if position > 0 { (between) }
            (kind(schema))
        }
    }
}

/// What bounds a value, and an example of it.
pub(super) fn bounds(schema: &Value) -> Markup {
    let number = |name: &str| schema[name].as_number();
    let span = |from: &str, to: &str, what: &str| match (number(from), number(to)) {
        (Some(from), Some(to)) => Some(format!("{from} to {to}{what}")),
        (Some(from), None) => Some(format!("at least {from}{what}")),
        (None, Some(to)) => Some(format!("at most {to}{what}")),
        (None, None) => None,
    };
    let mut words: Vec<String> = [
        span("minLength", "maxLength", " characters"),
        span("minItems", "maxItems", " entries"),
        span("minimum", "maximum", ""),
    ]
    .into_iter()
    .flatten()
    .collect();
    let code = |name: &str| schema[name].as_str().map(|text| format!("`{text}`"));
    words.extend(code("pattern"));
    let plain = |value: &Value| match value {
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    };
    if let Some(default) = schema.get("default") {
        words.push(format!("default {}", plain(default)));
    }
    if let Some(example) = schema.get("example") {
        words.push(format!("such as {}", plain(example)));
    }
    html! {
        @if !words.is_empty() { span.bounds { " " (inline(&words.join("; "))) } }
    }
}

fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix(COMPONENTS)
}

fn named(name: &str) -> String {
    format!("schema-{}", anchor(name))
}
