//! Holding a message against its shape, and writing one by it.
//!
//! Here: the rule of each kind. Not here: what the kinds are (`shape`), and how a violation reads (`error`).

use jiff::Timestamp;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;
use tidings_kernel::Workspace;

use super::error::{describe, show};
use super::{ContractError, Field, Kind, MAX_BODY_BYTES, Object, Presence, Shape, Violation};

/// The object in a body that keeps to the shape.
pub(super) fn body(shape: &Shape, body: &str) -> Result<Object, ContractError> {
    let object = object(body)?;
    envelope(shape, &object)?;
    let violations = fields(shape.fields, &object, "");
    if violations.is_empty() {
        Ok(object)
    } else {
        Err(ContractError::Fields { contract: shape.name, version: shape.version, violations })
    }
}

/// The object in a text, whatever it is about.
pub(super) fn object(text: &str) -> Result<Object, ContractError> {
    if text.len() > MAX_BODY_BYTES {
        return Err(ContractError::TooLarge { bytes: text.len() });
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(ContractError::NotAnObject { found: describe(Some(&other)) }),
        // For a `Value` it tells the place and the grammar, never the text.
        Err(error) => Err(ContractError::Malformed { reason: error.to_string() }),
    }
}

/// What is wrong with the fields of an object that is found at `path`, which is empty or ends with a dot.
pub(super) fn fields(fields: &[Field], object: &Object, path: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for field in fields {
        let found = object.get(field.name);
        let absent = matches!(found, None | Some(Value::Null));
        if absent && field.presence == Presence::Optional {
            continue;
        }
        value(field.kind, found, &format!("{path}{}", field.name), &mut violations);
    }
    violations
}

/// The body of a message, with its fields in the order of the shape.
pub(super) fn write(shape: &Shape, message: &impl Serialize) -> String {
    let fields = serde_json::to_value(message).expect("a message has only what JSON can say");
    let envelope = Envelope { shape, fields: &fields };
    serde_json::to_string(&envelope).expect("a message has only what JSON can say")
}

struct Envelope<'a> {
    shape: &'a Shape,
    fields: &'a Value,
}

impl Serialize for Envelope<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("contract", self.shape.name)?;
        map.serialize_entry("version", &self.shape.version)?;
        for Field { name, .. } in self.shape.fields {
            if !self.fields[name].is_null() {
                map.serialize_entry(name, &self.fields[name])?;
            }
        }
        map.end()
    }
}

fn envelope(shape: &Shape, object: &Object) -> Result<(), ContractError> {
    let contract = object.get("contract");
    if contract.and_then(Value::as_str) != Some(shape.name) {
        return Err(ContractError::Contract { expected: shape.name, found: show(contract) });
    }
    let version = object.get("version");
    if version.and_then(Value::as_u64) != Some(shape.version) {
        return Err(ContractError::Version {
            contract: shape.name,
            expected: shape.version,
            found: show(version),
        });
    }
    Ok(())
}

fn value(expected: Kind, found: Option<&Value>, path: &str, violations: &mut Vec<Violation>) {
    let holds = match (expected, found) {
        (Kind::PositiveInteger, Some(Value::Number(number))) => {
            number.as_i64().is_some_and(|number| number > 0)
        }
        (Kind::Text { max }, Some(Value::String(text))) => {
            !text.trim().is_empty() && text.chars().count() <= max
        }
        (Kind::Timestamp, Some(Value::String(text))) => is_timestamp(text),
        (Kind::OneOf(names), Some(Value::String(text))) => names.contains(&text.as_str()),
        (Kind::Workspace, Some(Value::String(text))) => text.parse::<Workspace>().is_ok(),
        (Kind::Object(inside), Some(Value::Object(object))) => {
            violations.extend(fields(inside, object, &format!("{path}.")));
            true
        }
        (Kind::Array { of, max }, Some(Value::Array(values))) => {
            let holds = (1..=max).contains(&values.len());
            for (at, found) in values.iter().enumerate().filter(|_| holds) {
                value(*of, Some(found), &format!("{path}[{at}]"), violations);
            }
            holds
        }
        _ => false,
    };
    if !holds {
        violations.push(Violation { field: path.to_owned(), expected, found: describe(found) });
    }
}

/// jiff reads more than RFC 3339 allows, such as a space for the `T`, so the form is checked besides.
fn is_timestamp(text: &str) -> bool {
    let Some((date_and_time, rest)) = text.split_at_checked("2026-05-24T12:00:00".len()) else {
        return false;
    };
    let offset = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    fits(date_and_time, "0000-00-00T00:00:00")
        && (offset == "Z" || fits(offset, "+00:00") || fits(offset, "-00:00"))
        && text.parse::<Timestamp>().is_ok()
}

/// Whether a text is written like the sample, where 0 stands for any digit.
fn fits(text: &str, sample: &str) -> bool {
    let fits = |(c, sample): (u8, u8)| c == sample || sample == b'0' && c.is_ascii_digit();
    text.len() == sample.len() && text.bytes().zip(sample.bytes()).all(fits)
}
