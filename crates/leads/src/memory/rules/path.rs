//! A place in the payload of an event: `$.user.plan`, `$.items[0].sku`.

use std::fmt;
use std::str::FromStr;

use serde_json::Value as Json;

const MAX_CHARACTERS: usize = 200;
const MAX_PARTS: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Field(String),
    Place(usize),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use a path such as $.user.plan or $.items[0].sku, of at most 200 characters and 16 parts")]
pub struct PathError;

impl Path {
    /// What is there. A null is as good as nothing.
    pub(super) fn find<'v>(&self, data: &'v Json) -> Option<&'v Json> {
        let found = self.parts.iter().try_fold(data, |here, part| match part {
            Part::Field(name) => here.as_object()?.get(name),
            Part::Place(place) => here.as_array()?.get(*place),
        });
        found.filter(|found| !found.is_null())
    }
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut rest = text.strip_prefix('$').ok_or(PathError)?;
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (part, after) = if let Some(after) = rest.strip_prefix('.') {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let (name, after) = after.split_at(end);
                let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
                if name.is_empty() || !name.chars().all(plain) {
                    return Err(PathError);
                }
                (Part::Field(name.to_owned()), after)
            } else {
                let inside = rest.strip_prefix('[').ok_or(PathError)?;
                let (digits, after) = inside.split_once(']').ok_or(PathError)?;
                let place = digits.parse::<u16>().map_err(|_| PathError)?;
                (Part::Place(usize::from(place)), after)
            };
            parts.push(part);
            rest = after;
        }
        let fits = (1..=MAX_PARTS).contains(&parts.len()) && text.chars().count() <= MAX_CHARACTERS;
        if fits { Ok(Self { text: text.to_owned(), parts }) } else { Err(PathError) }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
