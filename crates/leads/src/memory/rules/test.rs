//! How something in a payload compares. The words are those of audiences and sequences.

use std::cmp::Ordering;

use serde_json::Value as Json;
use tidings_kernel::{Number, Value, plain};

/// What is not there meets only `NotEquals` and `Exists(false)`.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    Equals(Json),
    NotEquals(Json),
    GreaterThan(Json),
    LessThan(Json),
    AtLeast(Json),
    AtMost(Json),
    In(Vec<Json>),
    /// A text that has this inside, or a list that has this in it.
    Contains(Json),
    Exists(bool),
}

impl Test {
    pub(super) const NAMES: [&str; 9] = [
        "equals",
        "not_equals",
        "greater_than",
        "less_than",
        "at_least",
        "at_most",
        "in",
        "contains",
        "exists",
    ];

    /// Reads a test by its name, or tells what is wrong with what it compares with.
    pub(super) fn parse(name: &str, wanted: &Json) -> Result<Self, &'static str> {
        let one = || match wanted {
            Json::String(_) | Json::Number(_) | Json::Bool(_) => Ok(wanted.clone()),
            Json::Null | Json::Array(_) | Json::Object(_) => {
                Err("use a text, a number, or true or false")
            }
        };
        let ordered = || match wanted {
            Json::String(_) | Json::Number(_) => Ok(wanted.clone()),
            _ => Err("use a number or a text"),
        };
        match name {
            "equals" => one().map(Self::Equals),
            "not_equals" => one().map(Self::NotEquals),
            "contains" => one().map(Self::Contains),
            "greater_than" => ordered().map(Self::GreaterThan),
            "less_than" => ordered().map(Self::LessThan),
            "at_least" => ordered().map(Self::AtLeast),
            "at_most" => ordered().map(Self::AtMost),
            "in" => match wanted {
                Json::Array(list) if (1..=100).contains(&list.len()) => Ok(Self::In(list.clone())),
                _ => Err("use a list of 1 to 100 values"),
            },
            "exists" => wanted.as_bool().map(Self::Exists).ok_or("use true or false"),
            _ => Err("this test is not known"),
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Equals(_) => "equals",
            Self::NotEquals(_) => "not_equals",
            Self::GreaterThan(_) => "greater_than",
            Self::LessThan(_) => "less_than",
            Self::AtLeast(_) => "at_least",
            Self::AtMost(_) => "at_most",
            Self::In(_) => "in",
            Self::Contains(_) => "contains",
            Self::Exists(_) => "exists",
        }
    }

    pub(super) fn wanted(&self) -> Json {
        match self {
            Self::Equals(json)
            | Self::NotEquals(json)
            | Self::GreaterThan(json)
            | Self::LessThan(json)
            | Self::AtLeast(json)
            | Self::AtMost(json)
            | Self::Contains(json) => json.clone(),
            Self::In(list) => Json::Array(list.clone()),
            Self::Exists(there) => Json::Bool(*there),
        }
    }

    pub(super) fn holds(&self, found: Option<&Json>) -> bool {
        let Some(found) = found else {
            return matches!(self, Self::NotEquals(_) | Self::Exists(false));
        };
        let order = |wanted| compare(found, wanted);
        match self {
            Self::Equals(wanted) => is_same(found, wanted),
            Self::NotEquals(wanted) => !is_same(found, wanted),
            Self::GreaterThan(wanted) => order(wanted).is_some_and(Ordering::is_gt),
            Self::LessThan(wanted) => order(wanted).is_some_and(Ordering::is_lt),
            Self::AtLeast(wanted) => order(wanted).is_some_and(Ordering::is_ge),
            Self::AtMost(wanted) => order(wanted).is_some_and(Ordering::is_le),
            Self::In(list) => list.iter().any(|wanted| is_same(found, wanted)),
            Self::Contains(wanted) => match (found, wanted) {
                (Json::String(text), Json::String(part)) => text.contains(part.as_str()),
                (Json::Array(list), wanted) => list.iter().any(|one| is_same(one, wanted)),
                _ => false,
            },
            Self::Exists(there) => *there,
        }
    }
}

/// 1 and 1.0 are the same.
fn is_same(a: &Json, b: &Json) -> bool {
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

fn compare(a: &Json, b: &Json) -> Option<Ordering> {
    match (a, b) {
        (Json::String(a), Json::String(b)) => Some(a.cmp(b)),
        _ => Some(number(a)?.cmp(&number(b)?)),
    }
}

fn number(json: &Json) -> Option<Number> {
    match plain::to_value(json).ok()? {
        Value::N(number) => Some(number),
        _ => None,
    }
}
