//! Filters as they are typed: `status=active`, `attempts>=3`.

use tidings_kernel::{Condition, Path, Value};

/// Longer operators first, or `>=` would be read as `>`.
const OPERATORS: [&str; 6] = ["!=", "<=", ">=", "=", "<", ">"];

pub(super) fn parse(text: &str) -> Result<Condition, String> {
    // The leftmost operator divides; what follows it may hold others.
    let found = OPERATORS
        .iter()
        .filter_map(|operator| text.find(operator).map(|at| (at, *operator)))
        .min_by_key(|(at, operator)| (*at, std::cmp::Reverse(operator.len())));
    let Some((at, operator)) = found.filter(|(at, _)| *at > 0) else {
        return Err("give it as name=value; != < <= > >= work too".to_owned());
    };
    let name = Path::of(text[..at].trim());
    let value = value(text[at + operator.len()..].trim())?;
    Ok(match operator {
        "=" => Condition::Eq(name, value),
        "!=" => Condition::Ne(name, value),
        "<" => Condition::Lt(name, value),
        "<=" => Condition::Le(name, value),
        ">" => Condition::Gt(name, value),
        _ => Condition::Ge(name, value),
    })
}

/// `3` is a number, `"3"` and `three` are text.
fn value(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) if text.starts_with(['{', '[', '"']) => {
            Err(format!("the value is no JSON: {error}"))
        }
        Err(_) => Ok(Value::from(text)),
    }
}

#[cfg(test)]
mod tests {
    use tidings_kernel::{Condition, Path, Value};

    use super::parse;

    #[test]
    fn a_filter_is_a_condition() {
        let text = |text: &str| Value::from(text);
        let number = |number: i64| Value::from(number);
        let path = |name: &str| Path::of(name);
        for (typed, condition) in [
            ("status=active", Condition::Eq(path("status"), text("active"))),
            ("status = active ", Condition::Eq(path("status"), text("active"))),
            ("attempts=3", Condition::Eq(path("attempts"), number(3))),
            ("zip=\"3\"", Condition::Eq(path("zip"), text("3"))),
            ("paid=true", Condition::Eq(path("paid"), Value::Bool(true))),
            ("attempts>=3", Condition::Ge(path("attempts"), number(3))),
            ("attempts<=3", Condition::Le(path("attempts"), number(3))),
            ("attempts>3", Condition::Gt(path("attempts"), number(3))),
            ("attempts<3", Condition::Lt(path("attempts"), number(3))),
            ("status!=active", Condition::Ne(path("status"), text("active"))),
            ("url=https://x/?a>=b", Condition::Eq(path("url"), text("https://x/?a>=b"))),
            ("occurred_at#id=x", Condition::Eq(path("occurred_at#id"), text("x"))),
            ("empty=", Condition::Eq(path("empty"), text(""))),
            ("tags={\"$ss\":[\"a\"]}", Condition::Eq(path("tags"), Value::texts(["a"]))),
        ] {
            assert_eq!(parse(typed), Ok(condition), "{typed}");
        }
        for bad in ["", "status", "=x", "a={", "a=[1"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
