//! Liquid's filters. None fails on what it cannot use: it gives back what it got, or nothing.
//!
//! Only what would become too big is refused, because a template must not be able to eat the machine.

use serde_json::Value;

use super::value::{Val, as_number, blank, compare, in_words, number, truthy};

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

fn text(v: &Val, change: impl Fn(&str) -> String) -> Result<Val, TooBig> {
    bounded(change(&in_words(&v.value)))
}

/// A text stays as safe as it was.
fn kept(v: &Val, change: impl Fn(&str) -> String) -> Val {
    Val { value: Value::String(change(&in_words(&v.value))), safe: v.safe }
}

fn bounded(text: String) -> Result<Val, TooBig> {
    if text.len() > MAX_TEXT { Err(TooBig) } else { Ok(Val::new(text)) }
}

fn joined(left: &str, right: &str) -> Result<Val, TooBig> {
    bounded(format!("{left}{right}"))
}

/// A change of a list. What is no list is a list of one, and nothing is none.
fn list(v: Val, change: impl FnOnce(Vec<Value>) -> Vec<Value>) -> Val {
    Val::new(Value::Array(change(items(v.value))))
}

fn items(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        other => vec![other],
    }
}

fn math(v: &Val, int: impl Fn(i64) -> Option<i64>, float: impl Fn(f64) -> f64) -> Val {
    let n = number(&v.value);
    match n.as_i64().and_then(int) {
        Some(result) => Val::new(result),
        None => Val::new(float(n.as_f64().unwrap_or_default())),
    }
}

fn whole(v: &Val, float: impl Fn(f64) -> f64) -> Val {
    let n = number(&v.value);
    match n.as_i64() {
        Some(int) => Val::new(int),
        None => Val::new(float(n.as_f64().unwrap_or_default()) as i64),
    }
}

fn arithmetic(
    v: &Val,
    a: &Arguments,
    int: impl Fn(i64, i64) -> Option<i64>,
    float: impl Fn(f64, f64) -> f64,
) -> Val {
    let (x, y) = (number(&v.value), number(a.get(0)));
    match (x.as_i64(), y.as_i64()) {
        // Out of range or divided by zero: nothing, rather than a wrong number.
        (Some(x), Some(y)) => int(x, y).map_or(Val::nil(), Val::new),
        _ => {
            let result = float(x.as_f64().unwrap_or_default(), y.as_f64().unwrap_or_default());
            Val::new(result)
        }
    }
}

fn bound(v: &Val, a: &Arguments, replace_when: std::cmp::Ordering) -> Val {
    let (x, y) = (Value::Number(number(&v.value)), Value::Number(number(a.get(0))));
    if compare(&x, &y) == Some(replace_when) { Val::new(y) } else { Val::new(x) }
}

fn round(v: &Val, a: &Arguments) -> Val {
    let n = number(&v.value);
    let digits = a.integer(0).unwrap_or(0).clamp(0, 15);
    if n.is_i64() {
        return Val::new(Value::Number(n));
    }
    let float = n.as_f64().unwrap_or_default();
    if digits == 0 {
        return Val::new(float.round() as i64);
    }
    let shift = 10f64.powi(digits as i32);
    Val::new((float * shift).round() / shift)
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars.flat_map(char::to_lowercase)).collect(),
        None => String::new(),
    }
}

fn default(v: Val, a: &Arguments) -> Result<Val, TooBig> {
    let is_false = v.value == Value::Bool(false);
    let missing = match &v.value {
        Value::Bool(false) => !a.allow_false,
        value => !is_false && (value.is_null() || (blank(value) && !value.is_boolean())),
    };
    Ok(if missing { Val::new(a.get(0).clone()) } else { v })
}

fn escape(v: Val) -> Result<Val, TooBig> {
    if v.safe {
        return Ok(v);
    }
    safe(super::value::escaped(&in_words(&v.value)))
}

fn safe(text: String) -> Result<Val, TooBig> {
    let mut val = bounded(text)?;
    val.safe = true;
    Ok(val)
}

/// Leaves what is an entity already.
fn escape_once(v: &Val) -> Result<Val, TooBig> {
    let text = in_words(&v.value);
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if c == '&' && starts_entity(&text[at..]) {
            out.push('&');
        } else {
            super::value::escape_char(&mut out, c);
        }
    }
    safe(out)
}

fn starts_entity(text: &str) -> bool {
    let Some(end) = text.bytes().take(12).position(|b| b == b';') else { return false };
    let name = text[1..end].strip_prefix('#').unwrap_or(&text[1..end]);
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// In HTML the text is escaped first, so that only the line breaks are markup.
fn newline_to_br(v: &Val, a: &Arguments) -> Result<Val, TooBig> {
    let text = in_words(&v.value);
    let text = if a.html && !v.safe { super::value::escaped(&text) } else { text };
    let broken = text.replace("\r\n", "\n").replace('\n', "<br />\n");
    if a.html { safe(broken) } else { bounded(broken) }
}

fn replaced(v: &Val, from: &str, to: &str, times: usize) -> Result<Val, TooBig> {
    let text = in_words(&v.value);
    if from.is_empty() {
        return Ok(Val::new(text));
    }
    let count = text.matches(from).count().min(times);
    if text.len().saturating_add(count.saturating_mul(to.len())) > 2 * MAX_TEXT {
        return Err(TooBig);
    }
    bounded(text.replacen(from, to, times))
}

fn join(v: Val, a: &Arguments) -> Result<Val, TooBig> {
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

fn concat(v: Val, a: &Arguments) -> Result<Val, TooBig> {
    let mut all = items(v.value);
    all.extend(items(a.get(0).clone()));
    if all.len() > MAX_LIST { Err(TooBig) } else { Ok(Val::new(Value::Array(all))) }
}

fn split(v: &Val, a: &Arguments) -> Result<Val, TooBig> {
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

fn end(v: &Val, pick: impl Fn(&[Value]) -> Option<Value>) -> Val {
    match &v.value {
        Value::Array(items) => Val::new(pick(items).unwrap_or_default()),
        _ => Val::nil(),
    }
}

fn field(item: &Value, name: &str) -> Value {
    item.get(name).cloned().unwrap_or_default()
}

fn compact(items: Vec<Value>, a: &Arguments) -> Vec<Value> {
    let name = a.values.first().map(in_words);
    let there = |item: &Value| match &name {
        Some(name) => !field(item, name).is_null(),
        None => !item.is_null(),
    };
    items.into_iter().filter(there).collect()
}

fn wanted(items: Vec<Value>, a: &Arguments) -> Vec<Value> {
    let name = a.text(0);
    let fits = |item: &Value| {
        let found = field(item, &name);
        if a.values.len() == 1 { truthy(&found) } else { found == *a.get(1) }
    };
    items.into_iter().filter(fits).collect()
}

fn sorted(mut items: Vec<Value>, a: &Arguments, by: impl Fn(&Value) -> Value) -> Vec<Value> {
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

fn lower(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.to_lowercase()),
        other => other.clone(),
    }
}

fn uniq(items: Vec<Value>) -> Vec<Value> {
    let mut seen = std::collections::HashSet::new();
    items.into_iter().filter(|item| seen.insert(item.to_string())).collect()
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

fn truncate(v: Val, a: &Arguments) -> Result<Val, TooBig> {
    let text = in_words(&v.value);
    let length = usize::try_from(a.integer(0).unwrap_or(50)).unwrap_or(0);
    let mark = if a.values.len() > 1 { a.text(1) } else { "...".to_owned() };
    if text.chars().count() <= length {
        return Ok(v);
    }
    let kept = length.saturating_sub(mark.chars().count());
    bounded(text.chars().take(kept).collect::<String>() + &mark)
}

fn truncatewords(v: Val, a: &Arguments) -> Result<Val, TooBig> {
    let text = in_words(&v.value);
    let length = usize::try_from(a.integer(0).unwrap_or(15)).unwrap_or(0).max(1);
    let mark = if a.values.len() > 1 { a.text(1) } else { "...".to_owned() };
    let mut words = text.split_whitespace();
    let kept: Vec<&str> = words.by_ref().take(length).collect();
    if words.next().is_none() {
        return Ok(v);
    }
    bounded(kept.join(" ") + &mark)
}

fn strip_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        match c {
            '<' => inside = true,
            '>' if inside => inside = false,
            _ if !inside => out.push(c),
            _ => {}
        }
    }
    out
}

fn url_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(byte.into());
            }
            b' ' => out.push('+'),
            _ => {
                out.push('%');
                out.push_str(&format!("{byte:02X}"));
            }
        }
    }
    out
}

fn url_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[at], hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}
