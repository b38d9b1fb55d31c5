//! What can be wrong with a message.
//!
//! An error ends up in logs and beside dead letters, so it tells the kind and the length of what was found and never
//! the text itself, which may be about a person.

use std::fmt;

use serde_json::Value;

use super::Kind;

/// How many violations are spelt out; the others are counted.
const SPELT_OUT: usize = 20;

/// How much of a name is shown that is not ours.
const SHOWN_CHARACTERS: usize = 64;

/// Why a body is not a message of the contract. Trying again cannot help.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ContractError {
    #[error("the body has {bytes} bytes, and {max} are the most", max = super::MAX_BODY_BYTES)]
    TooLarge { bytes: usize },
    #[error("the body is not JSON: {reason}")]
    Malformed { reason: String },
    #[error("the body must be an object, but is {found}")]
    NotAnObject { found: String },
    #[error("contract must be {expected:?}, but is {found}")]
    Contract { expected: &'static str, found: String },
    #[error("version of {contract} must be {expected}, but is {found}")]
    Version { contract: &'static str, expected: u64, found: String },
    #[error("{contract} v{version} is violated: {}", spell_out(violations))]
    Fields { contract: &'static str, version: u64, violations: Vec<Violation> },
}

/// A field that is not what its contract says.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    /// The way to it: `identities[2].value`.
    pub field: String,
    pub expected: Kind,
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}, but is {}", self.field, self.expected, self.found)
    }
}

/// One after the other, in a text whose length has a bound.
pub(super) fn spell_out(violations: &[Violation]) -> String {
    let mut spelt: Vec<String> =
        violations.iter().take(SPELT_OUT).map(Violation::to_string).collect();
    if violations.len() > SPELT_OUT {
        spelt.push(format!("and {} more", violations.len() - SPELT_OUT));
    }
    spelt.join("; ")
}

/// What was found, without what it says.
pub(super) fn describe(found: Option<&Value>) -> String {
    match found {
        None => "missing".to_owned(),
        Some(Value::Null) => "null".to_owned(),
        Some(Value::Bool(_)) => "a boolean".to_owned(),
        Some(Value::Number(number)) => match (number.as_i64(), number.as_u64()) {
            (Some(0), _) => "zero".to_owned(),
            (Some(..0), _) => "a negative integer".to_owned(),
            (Some(_), _) => "an integer".to_owned(),
            (None, Some(_)) => format!("an integer above {}", i64::MAX),
            (None, None) => "a floating-point number".to_owned(),
        },
        Some(Value::String(text)) => match text.chars().count() {
            0 => "an empty string".to_owned(),
            _ if text.trim().is_empty() => "a blank string".to_owned(),
            1 => "a string of 1 character".to_owned(),
            length => format!("a string of {length} characters"),
        },
        Some(Value::Array(values)) => match values.len() {
            0 => "an empty array".to_owned(),
            1 => "an array of 1 value".to_owned(),
            length => format!("an array of {length} values"),
        },
        Some(Value::Object(_)) => "an object".to_owned(),
    }
}

/// What was found where a contract names itself: no person stands there, so it is shown.
pub(super) fn show(found: Option<&Value>) -> String {
    match found {
        Some(Value::String(name)) => {
            let shown: String = name.chars().take(SHOWN_CHARACTERS).collect();
            let more = if shown.len() < name.len() { "…" } else { "" };
            format!("{shown:?}{more}")
        }
        Some(Value::Number(number)) => number.to_string(),
        other => describe(other),
    }
}
