//! Whom an event is about, and what it says of him.
//!
//! What comes with an event comes from elsewhere, and one wrong attribute must not keep somebody out: what can be written
//! down is, and the rest is left out.

use serde_json::{Map, Value};
use tidings_kernel::EmailAddress;
use tidings_people::contacts::{Attributes, FirstName, Tag, TagChange, Zone};

use crate::definition::{Mapping, Path};
use crate::executions::Person;

/// The place that should have an address has something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoAddress;

/// The address in the data of an event, where its mapping has none: `$.email`.
pub(super) fn address_in(data: &Value) -> Option<EmailAddress> {
    data.get("email")?.as_str()?.parse().ok()
}

/// Whom a sequence takes the event to be about: where its mapping says, or else whom it is about anyway.
pub(super) fn address(
    mapping: &Mapping,
    data: &Value,
    own: Option<&EmailAddress>,
) -> Result<Option<EmailAddress>, NoAddress> {
    match mapping.email.as_ref().and_then(|path| path.find(data)) {
        None => Ok(own.cloned()),
        Some(Value::String(text)) => text.parse().map(Some).map_err(|_| NoAddress),
        Some(_) => Err(NoAddress),
    }
}

/// What a mapping finds.
pub(super) fn mapped(mapping: &Mapping, data: &Value) -> Person {
    let mut given = match mapping.all_attributes.as_ref().and_then(|path| path.find(data)) {
        Some(Value::Object(fields)) => fields.clone(),
        _ => Map::new(),
    };
    let single = |(name, path): (&String, &Path)| Some((name.clone(), path.find(data)?.clone()));
    given.extend(mapping.attributes.iter().filter_map(single));
    let first_name = mapping.first_name.as_ref().and_then(|path| path.find(data));
    Person {
        first_name: first_name.and_then(first_name_of),
        attributes: attributes(given),
        tags: None,
    }
}

/// What `subscriber.subscribed` says: `firstName`, `attributes`, and `tags`, which are all that he has then.
pub(super) fn subscribed(data: &Value) -> Person {
    let attributes_given = match data.get("attributes") {
        Some(Value::Object(fields)) => fields.clone(),
        _ => Map::new(),
    };
    let tags = data.get("tags").and_then(Value::as_array).map(|tags| {
        let tags = tags.iter().filter_map(Value::as_str);
        TagChange::Replace(tags.filter_map(|tag| tag.parse::<Tag>().ok()).collect())
    });
    Person { first_name: known_first_name(data), attributes: attributes(attributes_given), tags }
}

/// What `identify` says: each trait is an attribute, but for those that have a place of their own.
pub(super) fn identified(data: &Value) -> Person {
    let given = data.as_object().cloned().unwrap_or_default();
    let own = ["email", "firstName", "first_name", "timestamp"];
    let is_zone = |name: &str| name == "timezone" && zone(data).is_some();
    let given =
        given.into_iter().filter(|(name, _)| !own.contains(&name.as_str()) && !is_zone(name));
    let whole = || data.get("name").and_then(Value::as_str)?.split_whitespace().next();
    let first_name = known_first_name(data).or_else(|| whole()?.parse().ok());
    Person { first_name, attributes: attributes(given.collect()), tags: None }
}

/// The time zone that `identify` says, if it is one.
pub(super) fn zone(data: &Value) -> Option<Zone> {
    data.get("timezone")?.as_str()?.parse().ok()
}

fn known_first_name(data: &Value) -> Option<FirstName> {
    let places = ["firstName", "first_name"].into_iter();
    places.filter_map(|name| data.get(name)).find_map(first_name_of)
}

fn first_name_of(value: &Value) -> Option<FirstName> {
    value.as_str()?.parse().ok()
}

/// Those that can be written down.
fn attributes(given: Map<String, Value>) -> Attributes {
    let alone = |name: &String, value: &Value| {
        Attributes::parse(Map::from_iter([(name.clone(), value.clone())])).is_ok()
    };
    let right = given.into_iter().filter(|(name, value)| alone(name, value)).collect();
    Attributes::parse(right).unwrap_or_default()
}
