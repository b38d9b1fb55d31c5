//! Whether somebody meets a condition: decisions without IO.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde::Serialize;
use tidings_kernel::Value;

use super::condition::{Condition, Subject, Test};
use super::facts::Facts;

/// So much of a value is told, in characters.
const SHOWN: usize = 200;

/// A condition, what came of it, and what it was decided on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Told {
    /// The clause in words: `tag beta`, `plan equals "pro"`.
    pub clause: String,
    pub met: bool,
    /// What is known: `tagged so`, `it is "free"`.
    pub fact: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Told>,
}

/// Whether somebody of whom this is known is meant.
pub fn matches(condition: &Condition, facts: &Facts) -> bool {
    match condition {
        Condition::All(parts) => parts.iter().all(|part| matches(part, facts)),
        Condition::Any(parts) => parts.iter().any(|part| matches(part, facts)),
        Condition::Not(inner) => !matches(inner, facts),
        Condition::Audience(slug) => facts.audiences.contains(slug),
        Condition::Segment(slug) => facts.segments.contains(slug),
        Condition::Tag(tag) => facts.has_tag(tag.as_str()),
        Condition::Known(subject, test) => test.holds(known(subject, facts)),
        Condition::Contacts(listed) => {
            facts.addresses.iter().any(|address| listed.contains(address))
        }
    }
}

/// The same, with the reason: every part of the condition with what it was decided on.
pub fn explain(condition: &Condition, facts: &Facts) -> Told {
    let told = |clause: String, fact: String| Told {
        clause,
        met: matches(condition, facts),
        fact,
        parts: Vec::new(),
    };
    let either = |met: &str, not: &str| {
        if matches(condition, facts) { met.to_owned() } else { not.to_owned() }
    };
    match condition {
        Condition::All(parts) if parts.is_empty() => {
            told("everyone".to_owned(), "nobody is left out".to_owned())
        }
        Condition::All(parts) => joined("all of", parts, facts, matches(condition, facts)),
        Condition::Any(parts) => joined("any of", parts, facts, matches(condition, facts)),
        Condition::Not(inner) => {
            let part = explain(inner, facts);
            let fact = if part.met { "it is met" } else { "it is not met" };
            Told {
                clause: "not".to_owned(),
                met: !part.met,
                fact: fact.to_owned(),
                parts: vec![part],
            }
        }
        Condition::Audience(slug) => {
            told(format!("audience {slug}"), either("subscribed", "not subscribed"))
        }
        Condition::Segment(slug) => told(format!("segment {slug}"), either("in it", "not in it")),
        Condition::Tag(tag) => told(format!("tag {tag}"), either("tagged so", "not tagged so")),
        Condition::Known(subject, test) => {
            let fact = match known(subject, facts) {
                Some(value) => format!("it is {}", shown(value)),
                None => "nothing is known of it".to_owned(),
            };
            told(format!("{} {} {}", subject.kind(), subject.name(), in_words(test)), fact)
        }
        Condition::Contacts(listed) => {
            let clause = format!("one of {} listed addresses", listed.as_slice().len());
            told(clause, either("listed", "not listed"))
        }
    }
}

fn joined(clause: &str, parts: &[Condition], facts: &Facts, met: bool) -> Told {
    let parts: Vec<Told> = parts.iter().map(|part| explain(part, facts)).collect();
    let met_ones = parts.iter().filter(|part| part.met).count();
    let fact = format!("{met_ones} of {} are met", parts.len());
    Told { clause: clause.to_owned(), met, fact, parts }
}

fn in_words(test: &Test) -> String {
    match test {
        Test::In(values) => {
            let values: Vec<_> = values.iter().map(shown).collect();
            clipped(&format!("is one of {}", values.join(", ")))
        }
        Test::Exists(true) => "is known".to_owned(),
        Test::Exists(false) => "is not known".to_owned(),
        Test::Equals(value)
        | Test::NotEquals(value)
        | Test::GreaterThan(value)
        | Test::LessThan(value)
        | Test::AtLeast(value)
        | Test::AtMost(value)
        | Test::Contains(value) => format!("{} {}", test.name(), shown(value)),
    }
}

/// As JSON, not too long.
fn shown(value: &Value) -> String {
    clipped(&serde_json::to_string(value).unwrap_or_default())
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What is known. Null is as good as nothing.
fn known<'f>(subject: &Subject, facts: &'f Facts) -> Option<&'f Value> {
    let value = match subject {
        Subject::Attribute(name) => facts.attribute(name),
        Subject::Feature(_) | Subject::Memory { .. } => facts.derived.get(subject),
    };
    value.filter(|value| **value != Value::Null)
}

impl Test {
    /// Whether what is known of something meets it. `None` if nothing is.
    pub fn holds(&self, known: Option<&Value>) -> bool {
        let Some(known) = known else {
            return matches!(self, Self::NotEquals(_) | Self::Exists(false));
        };
        let compares =
            |wanted, as_wanted: fn(Ordering) -> bool| order(known, wanted).is_some_and(as_wanted);
        match self {
            Self::Equals(wanted) => is_same(known, wanted),
            Self::NotEquals(wanted) => !is_same(known, wanted),
            Self::GreaterThan(wanted) => compares(wanted, Ordering::is_gt),
            Self::LessThan(wanted) => compares(wanted, Ordering::is_lt),
            Self::AtLeast(wanted) => compares(wanted, Ordering::is_ge),
            Self::AtMost(wanted) => compares(wanted, Ordering::is_le),
            Self::In(wanted) => wanted.iter().any(|wanted| is_same(known, wanted)),
            Self::Contains(wanted) => contains(known, wanted),
            Self::Exists(there) => *there,
        }
    }
}

/// Two texts that both tell a time are the same if the time is.
fn is_same(known: &Value, wanted: &Value) -> bool {
    known == wanted || order(known, wanted) == Some(Ordering::Equal)
}

/// Numbers as numbers, times as times, other texts by their characters. `None` if the two have no order.
fn order(known: &Value, wanted: &Value) -> Option<Ordering> {
    match (known, wanted) {
        (Value::N(known), Value::N(wanted)) => Some(known.cmp(wanted)),
        (Value::S(known), Value::S(wanted)) => Some(match (time(known), time(wanted)) {
            (Some(known), Some(wanted)) => known.cmp(&wanted),
            _ => known.cmp(wanted),
        }),
        _ => None,
    }
}

/// A text as RFC 3339 writes a time.
fn time(text: &str) -> Option<Timestamp> {
    // Most texts are none, and that is seen at once.
    let bytes = text.as_bytes();
    let may_be = (20..=64).contains(&bytes.len()) && bytes[4] == b'-' && bytes[13] == b':';
    if may_be { text.parse().ok() } else { None }
}

fn contains(known: &Value, wanted: &Value) -> bool {
    match (known, wanted) {
        (Value::S(known), Value::S(wanted)) => known.contains(wanted.as_str()),
        (Value::L(list), wanted) => list.iter().any(|one| is_same(one, wanted)),
        (Value::Ss(set), Value::S(wanted)) => set.contains(wanted),
        (Value::Ns(set), Value::N(wanted)) => set.contains(wanted),
        _ => false,
    }
}
