//! What a contact is made of, checked when it comes in: a first name, a time zone, tags, attributes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use jiff::tz::TimeZone;
use serde_json::{Map, Value as Json};
use tidings_kernel::Value;

/// What a replacement of all tags by others needs must fit into one transaction: a write for each tag that goes and for
/// each that comes, and a few besides.
pub const MAX_TAGS: usize = 45;
pub const MAX_ATTRIBUTES: usize = 100;
/// Of all attributes together, names and values.
pub const MAX_ATTRIBUTES_BYTES: usize = 32 * 1024;
const MAX_NAME: usize = 64;
const MAX_DEPTH: usize = 4;

/// The columns of a PROFILE that are not attributes.
pub(crate) const SYSTEM: [&str; 10] = [
    "PK",
    "SK",
    "email",
    "firstName",
    "unsubscribed",
    "suppressed",
    "createdAt",
    "updatedAt",
    "tags",
    "ttl",
];

tidings_access::row_ids! {
    /// The `leads` row of a contact.
    ContactId
}

/// A first name: 1 to 100 characters on one line, without space around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use 1 to 100 characters on one line")]
pub struct FirstNameError;

/// A mark on contacts: 1 to 64 of `a-z`, `0-9`, `-` and `_`, beginning with a letter or a digit. Upper case becomes lower.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use 1 to 64 letters, digits, hyphens and underscores, beginning with a letter or a digit")]
pub struct TagError;

/// Where somebody's clock is: the IANA name of a time zone, such as `Europe/Berlin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use the name of a time zone such as Europe/Berlin or UTC")]
pub struct ZoneError;

/// What is to become of somebody's tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagChange {
    /// These and no others; none at all if it is empty.
    Replace(BTreeSet<Tag>),
    Add(BTreeSet<Tag>),
    Remove(BTreeSet<Tag>),
    /// Adds the first ones and then removes the others.
    AddAndRemove(BTreeSet<Tag>, BTreeSet<Tag>),
}

/// What is to become of somebody's attributes: those that are not named stay, and `None` removes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes(BTreeMap<String, Option<Value>>);

/// What is wrong with one attribute.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("attribute {name}: {message}")]
pub struct Fault {
    pub name: String,
    pub message: &'static str,
}

impl FirstName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FirstName {
    type Err = FirstNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let well_formed =
            (1..=100).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        if well_formed { Ok(Self(text.to_owned())) } else { Err(FirstNameError) }
    }
}

impl Tag {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tag {
    type Err = TagError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim().to_ascii_lowercase();
        let allowed =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        let well_formed = (1..=64).contains(&text.len())
            && text.chars().all(allowed)
            && !text.starts_with(['-', '_']);
        if well_formed { Ok(Self(text)) } else { Err(TagError) }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Zone {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Zone {
    type Err = ZoneError;

    fn from_str(text: &str) -> Result<Self, ZoneError> {
        if text.len() > 64 {
            return Err(ZoneError);
        }
        let zone = TimeZone::get(text.trim()).map_err(|_| ZoneError)?;
        zone.iana_name().map(|name| Self(name.to_owned())).ok_or(ZoneError)
    }
}

impl Attributes {
    /// All that is wrong with them, if anything is. A null means that the attribute is to be removed.
    pub fn parse(object: Map<String, Json>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        if object.len() > MAX_ATTRIBUTES {
            let message = "name at most 100 attributes";
            return Err(vec![Fault { name: String::new(), message }]);
        }
        let (mut changes, mut bytes) = (BTreeMap::new(), 0);
        for (name, json) in object {
            match check_name(&name).and_then(|()| read(json)) {
                Ok(value) => {
                    bytes += name.len() + value.as_ref().map_or(0, size);
                    changes.insert(name, value);
                }
                Err(message) => faults.push(Fault { name: clipped(&name), message }),
            }
        }
        if bytes > MAX_ATTRIBUTES_BYTES {
            let message = "all attributes together have at most 32 KB";
            faults.push(Fault { name: String::new(), message });
        }
        if faults.is_empty() { Ok(Self(changes)) } else { Err(faults) }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, &Option<Value>)> {
        self.0.iter()
    }
}

/// The bytes that count for the limit of all attributes.
pub(crate) fn size(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX / 1024, |json| json.len())
}

fn clipped(name: &str) -> String {
    name.chars().take(MAX_NAME).collect()
}

/// Whether an attribute can have this name.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if SYSTEM.contains(&name) {
        return Err("this name is ours, and no attribute can have it");
    }
    let mut characters = name.chars();
    let well_formed = characters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.len() <= MAX_NAME;
    if well_formed {
        Ok(())
    } else {
        Err("a name has 1 to 64 letters, digits and underscores, and begins with a letter")
    }
}

fn read(json: Json) -> Result<Option<Value>, &'static str> {
    if json.is_null() {
        return Ok(None);
    }
    check_value(&json, 1)?;
    serde_json::from_value(json).map(Some).map_err(|_| "this cannot be stored")
}

fn check_value(json: &Json, depth: usize) -> Result<(), &'static str> {
    if depth > MAX_DEPTH {
        return Err("lists and objects can be nested at most 4 deep");
    }
    match json {
        Json::Null | Json::Bool(_) => Ok(()),
        Json::String(text) if text.contains('\0') => Err("a text cannot have the character U+0000"),
        Json::String(_) => Ok(()),
        Json::Number(number) => check_number(number),
        Json::Array(values) => values.iter().try_for_each(|value| check_value(value, depth + 1)),
        Json::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            let well_formed = (1..=MAX_NAME).contains(&name.len())
                && !name.starts_with('$')
                && !name.contains('\0');
            if !well_formed {
                return Err("names inside have 1 to 64 bytes and do not begin with $");
            }
            check_value(value, depth + 1)
        }),
    }
}

/// A number must come back as it was given, on every engine.
fn check_number(number: &serde_json::Number) -> Result<(), &'static str> {
    let stored = serde_json::from_value::<Value>(Json::Number(number.clone()));
    let back = stored.ok().and_then(|stored| serde_json::to_value(&stored).ok());
    let same = back.is_some_and(|back| match (back.as_f64(), number.as_f64()) {
        (Some(back), Some(given)) => back.to_bits() == given.to_bits() || back == given,
        _ => false,
    });
    if same { Ok(()) } else { Err("use a number with at most 15 digits") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::{Attributes, FirstName, Tag};

    fn check(object: Json, faults: &[&str]) {
        let Json::Object(object) = object else { panic!("an object") };
        let found = Attributes::parse(object).err().unwrap_or_default();
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, faults);
    }

    #[test]
    fn an_attribute_is_a_small_json_value_under_a_plain_name() {
        check(json!({"plan": "pro", "age": 7, "vip": true, "score": 1.25, "gone": null}), &[]);
        check(json!({"list": [1, "two", null], "deep": {"a": {"b": [1]}}}), &[]);
        let name = "a name has 1 to 64 letters, digits and underscores, and begins with a letter";
        for bad in ["", "1st", "a b", "a.b", "ü", "_x", &"a".repeat(65)] {
            let told: String = bad.chars().take(64).collect();
            check(json!({bad: 1}), &[&format!("attribute {told}: {name}")]);
        }
        check(
            json!({"a": {"b": {"c": {"d": {"e": 1}}}}}),
            &["attribute a: lists and objects can be nested at most 4 deep"],
        );
        check(
            json!({"a": {"$b": "aGk="}}),
            &["attribute a: names inside have 1 to 64 bytes and do not begin with $"],
        );
        check(json!({"a": 1e300}), &["attribute a: use a number with at most 15 digits"]);
        check(
            json!({"a": "x".repeat(20_000), "b": "x".repeat(20_000)}),
            &["attribute : all attributes together have at most 32 KB"],
        );
    }

    #[test]
    fn no_attribute_has_a_name_of_ours_and_every_mistake_is_told() {
        check(
            json!({"unsubscribed": false, "suppressed": false, "SK": "x", "tags": []}),
            &[
                "attribute SK: this name is ours, and no attribute can have it",
                "attribute suppressed: this name is ours, and no attribute can have it",
                "attribute tags: this name is ours, and no attribute can have it",
                "attribute unsubscribed: this name is ours, and no attribute can have it",
            ],
        );
    }

    #[test]
    fn a_tag_is_one_word_in_lower_case() {
        for (text, tag) in [("beta", "beta"), (" Beta-Users ", "beta-users"), ("0_1", "0_1")] {
            assert_eq!(text.parse::<Tag>().unwrap().as_str(), tag);
        }
        for bad in ["", "-a", "_a", "a b", "a#b", "ä", &"a".repeat(65)] {
            assert!(bad.parse::<Tag>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_first_name_fits_a_line() {
        assert_eq!(" Zoë ".parse::<FirstName>().unwrap().as_str(), "Zoë");
        for bad in ["", " ", "a\nb", &"ä".repeat(101)] {
            assert!(bad.parse::<FirstName>().is_err(), "{bad:?}");
        }
    }
}
