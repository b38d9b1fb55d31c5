//! Values while a template is rendered, and how Liquid prints, compares and weighs them.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// A value, and whether it is markup already.
#[derive(Debug, Clone)]
pub(crate) struct Val {
    pub(crate) value: Value,
    pub(crate) safe: bool,
}

impl Val {
    pub(crate) fn new(value: impl Into<Value>) -> Self {
        Self { value: value.into(), safe: false }
    }

    pub(crate) fn nil() -> Self {
        Self::new(Value::Null)
    }
}

/// As it is printed: nothing for nil, a list without anything between its items.
pub(crate) fn in_words(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
        Value::Array(items) => items.iter().map(in_words).collect(),
    }
}

pub(crate) fn truthy(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

/// "", [] and {}.
pub(crate) fn empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

pub(crate) fn blank(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.trim().is_empty(),
        other => empty(other),
    }
}

pub(crate) fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// A number, also one that is written as a text.
pub(crate) fn as_number(value: &Value) -> Option<Number> {
    match value {
        Value::Number(number) => Some(number.clone()),
        Value::String(text) => {
            let text = text.trim();
            let whole = text.parse::<i64>().ok().map(Number::from);
            whole.or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64))
        }
        _ => None,
    }
}

/// A number, or zero.
pub(crate) fn number(value: &Value) -> Number {
    as_number(value).unwrap_or_else(|| Number::from(0))
}

/// `None` if the two cannot be compared.
pub(crate) fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
        },
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    compare(left, right).map_or_else(|| left == right, Ordering::is_eq)
}

pub(crate) fn contains(haystack: &Value, needle: &Value) -> bool {
    match haystack {
        Value::String(text) => !needle.is_null() && text.contains(&in_words(needle)),
        Value::Array(items) => items.iter().any(|item| equal(item, needle)),
        Value::Object(map) => needle.as_str().is_some_and(|name| map.contains_key(name)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Roughly how many bytes it takes to copy.
pub(crate) fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 16,
        Value::String(text) => 16 + text.len(),
        Value::Array(items) => 16 + items.iter().map(weight).sum::<usize>(),
        Value::Object(map) => {
            16 + map.iter().map(|(name, value)| name.len() + weight(value)).sum::<usize>()
        }
    }
}

pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        escape_char(&mut out, c);
    }
    out
}

/// Quotes too: most values stand in an attribute.
pub(crate) fn escape_char(out: &mut String, c: char) {
    match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '"' => out.push_str("&quot;"),
        '\'' => out.push_str("&#39;"),
        c => out.push(c),
    }
}
