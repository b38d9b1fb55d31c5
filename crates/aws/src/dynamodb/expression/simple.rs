//! Conditions made simple enough for DynamoDB, which has no words for true and false.

use tidings_kernel::Condition;

const MAX_OPERATORS: usize = 300;
const MAX_EXPRESSION_BYTES: usize = 4096;

/// A condition without anything that is decided already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Simple {
    Always,
    Never,
    When(Condition),
}

pub(crate) fn simplify(condition: &Condition) -> Simple {
    match condition {
        Condition::All(conditions) => all(conditions),
        Condition::AnyOf(conditions) => any(conditions),
        Condition::Not(inner) => match simplify(inner) {
            Simple::Always => Simple::Never,
            Simple::Never => Simple::Always,
            Simple::When(Condition::Not(inner)) => Simple::When(*inner),
            Simple::When(inner) => Simple::When(Condition::Not(Box::new(inner))),
        },
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
        | Condition::Contains(..) => Simple::When(condition.clone()),
    }
}

fn all(conditions: &[Condition]) -> Simple {
    let mut parts = Vec::new();
    for condition in conditions {
        match simplify(condition) {
            Simple::Always => {}
            Simple::Never => return Simple::Never,
            Simple::When(Condition::All(inner)) => parts.extend(inner),
            Simple::When(part) => parts.push(part),
        }
    }
    match parts.len() {
        0 => Simple::Always,
        1 => Simple::When(parts.remove(0)),
        _ => Simple::When(Condition::All(parts)),
    }
}

fn any(conditions: &[Condition]) -> Simple {
    let mut parts = Vec::new();
    for condition in conditions {
        match simplify(condition) {
            Simple::Never => {}
            Simple::Always => return Simple::Always,
            Simple::When(Condition::AnyOf(inner)) => parts.extend(inner),
            Simple::When(part) => parts.push(part),
        }
    }
    match parts.len() {
        0 => Simple::Never,
        1 => Simple::When(parts.remove(0)),
        _ => Simple::When(Condition::AnyOf(parts)),
    }
}

/// Whether DynamoDB takes an expression of this length and with this many operators.
pub(crate) fn fits(condition: &Condition, text: &str) -> bool {
    text.len() <= MAX_EXPRESSION_BYTES && operators(condition) <= MAX_OPERATORS
}

fn operators(condition: &Condition) -> usize {
    match condition {
        Condition::All(parts) | Condition::AnyOf(parts) => {
            parts.len() + parts.iter().map(operators).sum::<usize>()
        }
        Condition::Not(inner) => 1 + operators(inner),
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
        | Condition::Contains(..) => 1,
    }
}
