//! Filters of numbers.

use serde_json::Value;

use super::Arguments;
use crate::liquid::value::{Val, compare, number};

pub(super) fn math(v: &Val, int: impl Fn(i64) -> Option<i64>, float: impl Fn(f64) -> f64) -> Val {
    let n = number(&v.value);
    match n.as_i64().and_then(int) {
        Some(result) => Val::new(result),
        None => Val::new(float(n.as_f64().unwrap_or_default())),
    }
}

pub(super) fn whole(v: &Val, float: impl Fn(f64) -> f64) -> Val {
    let n = number(&v.value);
    match n.as_i64() {
        Some(int) => Val::new(int),
        None => Val::new(float(n.as_f64().unwrap_or_default()) as i64),
    }
}

pub(super) fn arithmetic(
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

pub(super) fn bound(v: &Val, a: &Arguments, replace_when: std::cmp::Ordering) -> Val {
    let (x, y) = (Value::Number(number(&v.value)), Value::Number(number(a.get(0))));
    if compare(&x, &y) == Some(replace_when) { Val::new(y) } else { Val::new(x) }
}

pub(super) fn round(v: &Val, a: &Arguments) -> Val {
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
