//! The words in which a contract is described: a shape has fields, and a field is of a kind.
//!
//! Here: the description, and how it reads in a sentence. Not here: holding a message against it (`check`), and its
//! JSON Schema (`schema`).

use std::fmt;

/// What a message of one contract looks like.
#[derive(Debug, PartialEq)]
pub struct Shape {
    pub name: &'static str,
    pub version: u64,
    /// What such a message asks for.
    pub doc: &'static str,
    /// Where such messages are found.
    pub queues: &'static [&'static str],
    /// Besides `contract` and `version`, which every message has.
    pub fields: &'static [Field],
}

#[derive(Debug, PartialEq)]
pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    pub presence: Presence,
    pub doc: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Required,
    /// May be missing, and `null` is the same as missing.
    Optional,
}

/// What a value has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// From 1 to [`i64::MAX`], written without a decimal point and without an exponent.
    PositiveInteger,
    /// Not only white space, and not longer than so many characters.
    Text { max: usize },
    /// A date and a time with `Z` or an offset, as in RFC 3339, in at most nanoseconds.
    Timestamp,
    /// One of these strings and no other.
    OneOf(&'static [&'static str]),
    /// The name of a workspace.
    Workspace,
    /// With at least these fields, which may be none.
    Object(&'static [Field]),
    /// At least one value and not more than so many.
    Array { of: &'static Kind, max: usize },
}

impl Kind {
    /// Ids, keys, names: long enough for any that we have seen, short enough to index and to log.
    pub const TEXT: Self = Self::Text { max: 1024 };
    pub const ANY_OBJECT: Self = Self::Object(&[]);
}

impl Field {
    pub const fn required(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { name, kind, presence: Presence::Required, doc }
    }

    pub const fn optional(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { name, kind, presence: Presence::Optional, doc }
    }
}

/// Reads after "must be".
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PositiveInteger => f.write_str("a positive integer"),
            Self::Text { max } => write!(f, "a non-blank string of at most {max} characters"),
            Self::Timestamp => f.write_str("a timestamp such as 2026-05-24T12:00:00Z"),
            Self::OneOf([only]) => write!(f, "{only:?}"),
            Self::OneOf(names) => write!(f, "one of {}", names.join(", ")),
            Self::Workspace => f.write_str(
                "a workspace name of 1 to 40 lower-case letters, digits and hyphens, not beginning with a hyphen",
            ),
            Self::Object([]) => f.write_str("an object"),
            Self::Object(fields) => {
                let names: Vec<_> = fields.iter().map(|field| field.name).collect();
                write!(f, "an object with {}", names.join(" and "))
            }
            Self::Array { of, max } => write!(f, "an array of 1 to {max} values, each {of}"),
        }
    }
}
