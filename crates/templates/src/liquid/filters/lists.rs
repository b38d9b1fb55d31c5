//! Filters of lists. What is no list is a list of one, and nothing is none.

use serde_json::Value;

use super::{Arguments, MAX_LIST, MAX_TEXT, TooBig};
use crate::liquid::value::{Val, compare, in_words, truthy};

/// A change of a list. What is no list is a list of one, and nothing is none.
pub(super) fn list(v: Val, change: impl FnOnce(Vec<Value>) -> Vec<Value>) -> Val {
    Val::new(Value::Array(change(items(v.value))))
}

pub(super) fn items(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        other => vec![other],
    }
}

pub(super) fn join(v: Val, a: &Arguments) -> Result<Val, TooBig> {
    let glue = if a.values.is_empty() { " ".to_owned() } else { a.text(0) };
    let mut out = String::new();
    for (position, item) in items(v.value).iter().enumerate() {
        if position > 0 {
            out.push_str(&glue);
        }
        out.push_str(&in_words(item));
        if out.len() > MAX_TEXT {
            return Err(TooBig);
        }
    }
    Ok(Val::new(out))
}

pub(super) fn concat(v: Val, a: &Arguments) -> Result<Val, TooBig> {
    let mut all = items(v.value);
    all.extend(items(a.get(0).clone()));
    if all.len() > MAX_LIST { Err(TooBig) } else { Ok(Val::new(Value::Array(all))) }
}

pub(super) fn split(v: &Val, a: &Arguments) -> Result<Val, TooBig> {
    let (text, separator) = (in_words(&v.value), a.text(0));
    let parts: Vec<Value> = if text.is_empty() {
        Vec::new()
    } else if separator.is_empty() {
        text.chars().take(MAX_LIST + 1).map(|c| Value::String(c.to_string())).collect()
    } else {
        text.split(separator.as_str()).take(MAX_LIST + 1).map(Value::from).collect()
    };
    if parts.len() > MAX_LIST { Err(TooBig) } else { Ok(Val::new(Value::Array(parts))) }
}

pub(super) fn end(v: &Val, pick: impl Fn(&[Value]) -> Option<Value>) -> Val {
    match &v.value {
        Value::Array(items) => Val::new(pick(items).unwrap_or_default()),
        _ => Val::nil(),
    }
}

pub(super) fn field(item: &Value, name: &str) -> Value {
    item.get(name).cloned().unwrap_or_default()
}

pub(super) fn compact(items: Vec<Value>, a: &Arguments) -> Vec<Value> {
    let name = a.values.first().map(in_words);
    let there = |item: &Value| match &name {
        Some(name) => !field(item, name).is_null(),
        None => !item.is_null(),
    };
    items.into_iter().filter(there).collect()
}

pub(super) fn wanted(items: Vec<Value>, a: &Arguments) -> Vec<Value> {
    let name = a.text(0);
    let fits = |item: &Value| {
        let found = field(item, &name);
        if a.values.len() == 1 { truthy(&found) } else { found == *a.get(1) }
    };
    items.into_iter().filter(fits).collect()
}

pub(super) fn sorted(
    mut items: Vec<Value>,
    a: &Arguments,
    by: impl Fn(&Value) -> Value,
) -> Vec<Value> {
    let name = a.values.first().map(in_words);
    let key = |item: &Value| match &name {
        Some(name) => by(&field(item, name)),
        None => by(item),
    };
    // A total order, whatever is in the list: numbers, then texts, then the rest as it was.
    let rank = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        _ => 2,
    };
    items.sort_by(|left, right| {
        let (left, right) = (key(left), key(right));
        match rank(&left).cmp(&rank(&right)) {
            std::cmp::Ordering::Equal => {
                compare(&left, &right).unwrap_or(std::cmp::Ordering::Equal)
            }
            different => different,
        }
    });
    items
}

pub(super) fn lower(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.to_lowercase()),
        other => other.clone(),
    }
}

pub(super) fn uniq(items: Vec<Value>) -> Vec<Value> {
    let mut seen = std::collections::HashSet::new();
    items.into_iter().filter(|item| seen.insert(item.to_string())).collect()
}
