//! A condition as a value, and its one written form.
//!
//! What comes in may be written in several ways (`parse`); what goes out is always the same: `all`, `any`, `not`, and one
//! clause to an object. Reading it again gives the same condition.

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;
use tidings_access::Slug;
use tidings_kernel::{EmailAddress, Value};
use tidings_people::contacts::Tag;

use super::parse;

/// Who is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Everyone who meets all of these. Without any it is everyone.
    All(Vec<Condition>),
    /// Everyone who meets one of these. There is at least one.
    Any(Vec<Condition>),
    Not(Box<Condition>),
    /// Subscribed to the whole audience, or to the part of the client who writes.
    Audience(Slug),
    /// In the segment, as its members are kept.
    Segment(Slug),
    Tag(Tag),
    /// Something known of him compares so.
    Known(Subject, Test),
    /// Those who have one of these addresses.
    Contacts(Addresses),
}

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// An attribute of the profile.
    Attribute(String),
    /// A number that was computed of the timeline.
    Feature(String),
    /// What was derived from the timeline.
    Memory { memory_type: String, key: String },
}

/// How it compares. What is not known meets only `NotEquals` and `Exists(false)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    Equals(Value),
    NotEquals(Value),
    GreaterThan(Value),
    LessThan(Value),
    AtLeast(Value),
    AtMost(Value),
    /// Equals one of these.
    In(Vec<Value>),
    /// A text that has this inside, or a list that has this in it.
    Contains(Value),
    Exists(bool),
}

/// Addresses in their order, none of them twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses(Vec<EmailAddress>);

impl Condition {
    /// Whom no condition leaves out.
    pub const EVERYONE: Self = Self::All(Vec::new());

    /// Reads a condition, or tells all that is wrong with it. `field` is the name of what is read, for the paths.
    pub fn parse(json: &Json, field: &str) -> Result<Self, Vec<parse::Violation>> {
        parse::parse(json, field)
    }

    /// The one form in which a condition is stored and shown.
    pub fn to_json(&self) -> Json {
        serde_json::to_value(self).expect("names are texts, and so it has a JSON form")
    }

    /// How many conditions it is made of, itself among them.
    pub fn size(&self) -> usize {
        let mut size = 0;
        self.visit(&mut |_| size += 1);
        size
    }

    /// How deep they are nested. One alone is 1 deep.
    pub fn depth(&self) -> usize {
        1 + match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().map(Self::depth).max().unwrap_or(0),
            Self::Not(inner) => inner.depth(),
            Self::Audience(_)
            | Self::Segment(_)
            | Self::Tag(_)
            | Self::Known(..)
            | Self::Contacts(_) => 0,
        }
    }

    /// The audiences that it names, wherever.
    pub fn audiences(&self) -> Vec<&Slug> {
        let mut named = Vec::new();
        self.visit(&mut |part| {
            if let Self::Audience(slug) = part {
                named.push(slug);
            }
        });
        named
    }

    /// The segments that it names, wherever.
    pub fn segments(&self) -> Vec<&Slug> {
        let mut named = Vec::new();
        self.visit(&mut |part| {
            if let Self::Segment(slug) = part {
                named.push(slug);
            }
        });
        named
    }

    /// What it compares.
    pub fn subjects(&self) -> Vec<&Subject> {
        let mut named = Vec::new();
        self.visit(&mut |part| {
            if let Self::Known(subject, _) = part {
                named.push(subject);
            }
        });
        named
    }

    /// Whether somebody's profile has to be known to answer it.
    pub fn asks_profile(&self) -> bool {
        let mut asks = false;
        self.visit(&mut |part| {
            asks |= matches!(part, Self::Tag(_) | Self::Known(Subject::Attribute(_), _));
        });
        asks
    }

    /// What must be true of everybody whom it means, one by one: the clauses that nothing but `all` stands above.
    pub fn required(&self) -> Vec<&Self> {
        match self {
            Self::All(parts) => parts.iter().flat_map(Self::required).collect(),
            Self::Any(parts) if parts.len() == 1 => parts[0].required(),
            other => vec![other],
        }
    }

    fn visit<'c>(&'c self, see: &mut dyn FnMut(&'c Self)) {
        see(self);
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.visit(see)),
            Self::Not(inner) => inner.visit(see),
            Self::Audience(_)
            | Self::Segment(_)
            | Self::Tag(_)
            | Self::Known(..)
            | Self::Contacts(_) => {}
        }
    }
}

impl Default for Condition {
    fn default() -> Self {
        Self::EVERYONE
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(None)?;
        match self {
            Self::All(parts) if parts.is_empty() => {}
            Self::All(parts) => map.serialize_entry("all", parts)?,
            Self::Any(parts) => map.serialize_entry("any", parts)?,
            Self::Not(inner) => map.serialize_entry("not", inner)?,
            Self::Audience(slug) => map.serialize_entry("audience", slug.as_str())?,
            Self::Segment(slug) => map.serialize_entry("segment", slug.as_str())?,
            Self::Tag(tag) => map.serialize_entry("tag", tag.as_str())?,
            Self::Contacts(addresses) => {
                let texts: Vec<_> = addresses.0.iter().map(EmailAddress::as_str).collect();
                map.serialize_entry("contacts", &texts)?;
            }
            Self::Known(subject, test) => {
                map.serialize_entry(subject.kind(), &subject.name())?;
                map.serialize_entry(test.name(), &test.wanted())?;
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(input)?;
        parse::parse(&json, "").map_err(|violations| {
            let told: Vec<_> = violations.iter().map(ToString::to_string).collect();
            serde::de::Error::custom(told.join("; "))
        })
    }
}

impl Subject {
    /// The word that names it in a clause.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Attribute(_) => "attribute",
            Self::Feature(_) => "feature",
            Self::Memory { .. } => "memory",
        }
    }

    pub fn name(&self) -> String {
        match self {
            Self::Attribute(name) | Self::Feature(name) => name.clone(),
            Self::Memory { memory_type, key } => format!("{memory_type}/{key}"),
        }
    }
}

impl Test {
    /// The names of all tests.
    pub const NAMES: [&str; 9] = [
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

    /// Reads a test by its name and what it compares with, or tells all that is wrong with it.
    pub fn parse(name: &str, wanted: &Json, field: &str) -> Result<Self, Vec<parse::Violation>> {
        parse::test(name, wanted, field)
    }

    /// What it compares with, as it is written beside its name.
    pub fn wanted(&self) -> Json {
        let written = match self {
            Self::In(values) => serde_json::to_value(values),
            Self::Exists(there) => Ok(Json::Bool(*there)),
            Self::Equals(value)
            | Self::NotEquals(value)
            | Self::GreaterThan(value)
            | Self::LessThan(value)
            | Self::AtLeast(value)
            | Self::AtMost(value)
            | Self::Contains(value) => serde_json::to_value(value),
        };
        written.expect("names are texts, and so it has a JSON form")
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
}

impl Addresses {
    pub fn new(mut addresses: Vec<EmailAddress>) -> Self {
        addresses.sort();
        addresses.dedup();
        Self(addresses)
    }

    pub fn as_slice(&self) -> &[EmailAddress] {
        &self.0
    }

    pub fn contains(&self, address: &EmailAddress) -> bool {
        self.0.binary_search(address).is_ok()
    }
}
