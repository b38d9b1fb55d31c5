//! What is wrong with a source, in words, and where.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::liquid::{Trouble, position};

/// How many faults are told at once.
pub(crate) const MAX_FAULTS: usize = 50;

/// A part of a source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Template,
    Subject,
    Preheader,
    Html,
    Mjml,
    Text,
    Partial(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    pub part: Part,
    /// From 1, where it is known.
    pub line: Option<usize>,
    pub column: Option<usize>,
    pub message: String,
}

impl Fault {
    pub(crate) fn of(part: Part, message: impl Into<String>) -> Self {
        Self { part, line: None, column: None, message: message.into() }
    }

    pub(crate) fn at(part: Part, source: &str, at: usize, message: impl Into<String>) -> Self {
        let (line, column) = position(source, at);
        Self { part, line: Some(line), column: Some(column), message: message.into() }
    }

    pub(crate) fn from_trouble(part: Part, source: &str, trouble: Trouble) -> Self {
        Self::at(part, source, trouble.at, trouble.message)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Template => f.write_str("template"),
            Part::Subject => f.write_str("subject"),
            Part::Preheader => f.write_str("preheader"),
            Part::Html => f.write_str("html"),
            Part::Mjml => f.write_str("mjml"),
            Part::Text => f.write_str("text"),
            Part::Partial(name) => write!(f, "partials/{name}"),
        }
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => {
                write!(f, "{} {line}:{column}: {}", self.part, self.message)
            }
            _ => write!(f, "{}: {}", self.part, self.message),
        }
    }
}
