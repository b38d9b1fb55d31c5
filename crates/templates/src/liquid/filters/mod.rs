//! Liquid's filters. None fails on what it cannot use: it gives back what it got, or nothing.
//!
//! Only what would become too big is refused, because a template must not be able to eat the machine.

mod lists;
mod numbers;
mod texts;

use serde_json::Value;

use self::lists::{compact, concat, end, field, join, list, lower, sorted, split, uniq, wanted};
use self::numbers::{arithmetic, bound, math, round, whole};
use self::texts::{
    capitalize, escape, escape_once, joined, kept, newline_to_br, replaced, strip_html, text,
    truncate, truncatewords, url_decode, url_encode,
};
use super::value::{Val, as_number, blank, in_words};

/// The longest text that a filter may make.
pub(crate) const MAX_TEXT: usize = 1024 * 1024;
/// The longest list.
const MAX_LIST: usize = 10_000;

/// A filter by its name, and how many arguments it takes.
pub(crate) struct Filter {
    pub(crate) name: &'static str,
    pub(crate) least: usize,
    pub(crate) most: usize,
    pub(crate) run: fn(Val, &Arguments) -> Result<Val, TooBig>,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

pub(crate) struct Arguments {
    pub(crate) values: Vec<Value>,
    pub(crate) allow_false: bool,
    /// Whether the output is HTML.
    pub(crate) html: bool,
}

/// A filter would make something beyond the bounds.
#[derive(Debug)]
pub(crate) struct TooBig;

impl Arguments {
    fn get(&self, position: usize) -> &Value {
        self.values.get(position).unwrap_or(&Value::Null)
    }

    fn text(&self, position: usize) -> String {
        in_words(self.get(position))
    }

    fn integer(&self, position: usize) -> Option<i64> {
        let value = self.values.get(position)?;
        as_number(value).and_then(|number| number.as_i64().or(number.as_f64().map(|n| n as i64)))
    }
}

pub(crate) fn find(name: &str) -> Option<&'static Filter> {
    FILTERS.iter().find(|filter| filter.name == name)
}

macro_rules! filters {
    ($($name:literal $least:literal..=$most:literal $run:expr),* $(,)?) => {
        &[$(Filter { name: $name, least: $least, most: $most, run: $run }),*]
    };
}

/// A macro, because a table of forty-odd struct literals hides what differs.
static FILTERS: &[Filter] = filters![
    "abs" 0..=0 |v, _| Ok(math(&v, |n| n.checked_abs(), f64::abs)),
    "append" 1..=1 |v, a| joined(&in_words(&v.value), &a.text(0)),
    "at_least" 1..=1 |v, a| Ok(bound(&v, a, std::cmp::Ordering::Less)),
    "at_most" 1..=1 |v, a| Ok(bound(&v, a, std::cmp::Ordering::Greater)),
    "capitalize" 0..=0 |v, _| text(&v, capitalize),
    "ceil" 0..=0 |v, _| Ok(whole(&v, f64::ceil)),
    "compact" 0..=1 |v, a| Ok(list(v, |items| compact(items, a))),
    "concat" 1..=1 concat,
    "date" 1..=1 |v, a| Ok(super::dates::date(v, &a.text(0))),
    "default" 0..=1 default,
    "divided_by" 1..=1 |v, a| Ok(arithmetic(&v, a, i64::checked_div_euclid, |x, y| x / y)),
    "downcase" 0..=0 |v, _| text(&v, str::to_lowercase),
    "escape" 0..=0 |v, _| escape(v),
    "escape_once" 0..=0 |v, _| escape_once(&v),
    "first" 0..=0 |v, _| Ok(end(&v, |items| items.first().cloned())),
    "floor" 0..=0 |v, _| Ok(whole(&v, f64::floor)),
    "join" 0..=1 join,
    "last" 0..=0 |v, _| Ok(end(&v, |items| items.last().cloned())),
    "lstrip" 0..=0 |v, _| Ok(kept(&v, |text| text.trim_start().to_owned())),
    "map" 1..=1 |v, a| Ok(list(v, |items| items.iter().map(|i| field(i, &a.text(0))).collect())),
    "minus" 1..=1 |v, a| Ok(arithmetic(&v, a, i64::checked_sub, |x, y| x - y)),
    "modulo" 1..=1 |v, a| Ok(arithmetic(&v, a, i64::checked_rem_euclid, |x, y| x % y)),
    "newline_to_br" 0..=0 |v, a| newline_to_br(&v, a),
    "plus" 1..=1 |v, a| Ok(arithmetic(&v, a, i64::checked_add, |x, y| x + y)),
    "prepend" 1..=1 |v, a| joined(&a.text(0), &in_words(&v.value)),
    "raw" 0..=0 |v, _| Ok(Val { value: v.value, safe: true }),
    "remove" 1..=1 |v, a| replaced(&v, &a.text(0), "", usize::MAX),
    "remove_first" 1..=1 |v, a| replaced(&v, &a.text(0), "", 1),
    "replace" 1..=2 |v, a| replaced(&v, &a.text(0), &a.text(1), usize::MAX),
    "replace_first" 1..=2 |v, a| replaced(&v, &a.text(0), &a.text(1), 1),
    "reverse" 0..=0 |v, _| Ok(list(v, |mut items| { items.reverse(); items })),
    "round" 0..=1 |v, a| Ok(round(&v, a)),
    "rstrip" 0..=0 |v, _| Ok(kept(&v, |text| text.trim_end().to_owned())),
    "size" 0..=0 |v, _| Ok(Val::new(super::value::size(&v.value))),
    "slice" 1..=2 |v, a| Ok(slice(v, a)),
    "sort" 0..=1 |v, a| Ok(list(v, |items| sorted(items, a, |v| v.clone()))),
    "sort_natural" 0..=1 |v, a| Ok(list(v, |items| sorted(items, a, lower))),
    "split" 1..=1 |v, a| split(&v, a),
    "strip" 0..=0 |v, _| Ok(kept(&v, |text| text.trim().to_owned())),
    "strip_html" 0..=0 |v, _| text(&v, strip_html),
    "strip_newlines" 0..=0 |v, _| text(&v, |text| text.replace(['\r', '\n'], "")),
    "times" 1..=1 |v, a| Ok(arithmetic(&v, a, i64::checked_mul, |x, y| x * y)),
    "truncate" 0..=2 truncate,
    "truncatewords" 0..=2 truncatewords,
    "uniq" 0..=0 |v, _| Ok(list(v, uniq)),
    "upcase" 0..=0 |v, _| text(&v, str::to_uppercase),
    "url_decode" 0..=0 |v, _| text(&v, url_decode),
    "url_encode" 0..=0 |v, _| text(&v, url_encode),
    "where" 1..=2 |v, a| Ok(list(v, |items| wanted(items, a))),
];

fn default(v: Val, a: &Arguments) -> Result<Val, TooBig> {
    let is_false = v.value == Value::Bool(false);
    let missing = match &v.value {
        Value::Bool(false) => !a.allow_false,
        value => !is_false && (value.is_null() || (blank(value) && !value.is_boolean())),
    };
    Ok(if missing { Val::new(a.get(0).clone()) } else { v })
}

fn slice(v: Val, a: &Arguments) -> Val {
    let start = a.integer(0).unwrap_or(0);
    let length = usize::try_from(a.integer(1).unwrap_or(1)).unwrap_or(0);
    let from = |count: usize| {
        if start < 0 { count.saturating_sub(start.unsigned_abs() as usize) } else { start as usize }
    };
    match v.value {
        Value::Array(items) => {
            let skip = from(items.len());
            Val::new(Value::Array(items.into_iter().skip(skip).take(length).collect()))
        }
        other => {
            let text = in_words(&other);
            let skip = from(text.chars().count());
            Val::new(text.chars().skip(skip).take(length).collect::<String>())
        }
    }
}
