//! A condition as text.

use tidings_kernel::{Condition, Path, Value};

use super::Placeholders;

/// The text of a condition that was simplified: nothing in it is empty.
pub(crate) fn condition(condition: &Condition, placeholders: &mut Placeholders) -> String {
    let mut compare = |path: &Path, operator: &str, value: &Value| {
        format!("{} {operator} {}", placeholders.path(path), placeholders.value(value))
    };
    match condition {
        Condition::Eq(path, value) => compare(path, "=", value),
        Condition::Ne(path, value) => compare(path, "<>", value),
        Condition::Lt(path, value) => compare(path, "<", value),
        Condition::Le(path, value) => compare(path, "<=", value),
        Condition::Gt(path, value) => compare(path, ">", value),
        Condition::Ge(path, value) => compare(path, ">=", value),
        Condition::Exists(path) => format!("attribute_exists({})", placeholders.path(path)),
        Condition::NotExists(path) => format!("attribute_not_exists({})", placeholders.path(path)),
        Condition::Between(path, low, high) => {
            let path = placeholders.path(path);
            format!("{path} BETWEEN {} AND {}", placeholders.value(low), placeholders.value(high))
        }
        Condition::In(path, values) => {
            let path = placeholders.path(path);
            let values: Vec<_> = values.iter().map(|value| placeholders.value(value)).collect();
            format!("{path} IN ({})", values.join(", "))
        }
        Condition::BeginsWith(path, prefix) => {
            format!("begins_with({}, {})", placeholders.path(path), placeholders.value(prefix))
        }
        Condition::Contains(path, part) => {
            format!("contains({}, {})", placeholders.path(path), placeholders.value(part))
        }
        Condition::All(conditions) => joined(conditions, " AND ", placeholders),
        Condition::AnyOf(conditions) => joined(conditions, " OR ", placeholders),
        Condition::Not(inner) => format!("NOT ({})", self::condition(inner, placeholders)),
    }
}

fn joined(conditions: &[Condition], operator: &str, placeholders: &mut Placeholders) -> String {
    let parts: Vec<_> = conditions.iter().map(|part| operand(part, placeholders)).collect();
    parts.join(operator)
}

/// In parentheses only where they are needed: DynamoDB refuses redundant ones.
fn operand(part: &Condition, placeholders: &mut Placeholders) -> String {
    let text = condition(part, placeholders);
    match part {
        Condition::All(_) | Condition::AnyOf(_) | Condition::Not(_) => format!("({text})"),
        Condition::Exists(_)
        | Condition::NotExists(_)
        | Condition::Eq(..)
        | Condition::Ne(..)
        | Condition::Lt(..)
        | Condition::Le(..)
        | Condition::Gt(..)
        | Condition::Ge(..)
        | Condition::Between(..)
        | Condition::In(..)
        | Condition::BeginsWith(..)
        | Condition::Contains(..) => text,
    }
}
