//! A path into an item: an attribute, or a place inside its maps and lists.

use std::fmt;

use super::{Item, Value};

/// `attribute`, then names and list positions: `Path::of("message").key("title")`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    attribute: String,
    rest: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Segment {
    Key(String),
    Index(usize),
}

impl Path {
    /// A whole attribute. Dots and brackets are part of its name, not syntax.
    pub fn of(attribute: impl Into<String>) -> Self {
        Self { attribute: attribute.into(), rest: Vec::new() }
    }

    #[must_use]
    pub fn key(mut self, name: impl Into<String>) -> Self {
        self.rest.push(Segment::Key(name.into()));
        self
    }

    #[must_use]
    pub fn index(mut self, position: usize) -> Self {
        self.rest.push(Segment::Index(position));
        self
    }

    pub fn attribute(&self) -> &str {
        &self.attribute
    }

    pub fn rest(&self) -> &[Segment] {
        &self.rest
    }

    /// What stands at this path.
    pub fn find<'a>(&self, item: &'a Item) -> Option<&'a Value> {
        self.rest.iter().try_fold(item.get(&self.attribute)?, |value, segment| {
            match (value, segment) {
                (Value::M(map), Segment::Key(name)) => map.get(name),
                (Value::L(list), Segment::Index(position)) => list.get(*position),
                _ => None,
            }
        })
    }

    /// Whether one of the two lies inside the other, or they are the same, or they take one thing for both a
    /// map and a list: DynamoDB refuses all three.
    pub(crate) fn overlaps(&self, other: &Path) -> bool {
        let fork = self.rest.iter().zip(&other.rest).find(|(mine, theirs)| mine != theirs);
        self.attribute == other.attribute
            && match fork {
                None => true,
                Some(
                    (Segment::Key(_), Segment::Index(_)) | (Segment::Index(_), Segment::Key(_)),
                ) => true,
                Some(_) => false,
            }
    }
}

impl From<&str> for Path {
    fn from(attribute: &str) -> Self {
        Self::of(attribute)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.attribute)?;
        for segment in &self.rest {
            match segment {
                Segment::Key(name) => write!(f, ".{name}")?,
                Segment::Index(position) => write!(f, "[{position}]")?,
            }
        }
        Ok(())
    }
}
