//! A place in the data of an event: the part of JSONPath that names one thing.
//!
//! `$` is the whole, `.name` a field, `[0]` an item of a list, and `['any name']` a field whose name is no plain word.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::{Part, Path};

const MAX_CHARACTERS: usize = 200;
const MAX_PARTS: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use a path such as $.user.plan or $.items[0].sku, of at most 200 characters and 20 parts")]
pub struct PathError;

impl Path {
    /// What is there. A null is as good as nothing.
    pub fn find<'v>(&self, data: &'v Value) -> Option<&'v Value> {
        let mut found = data;
        for part in &self.parts {
            found = match part {
                Part::Field(name) => found.as_object()?.get(name)?,
                Part::Index(place) => found.as_array()?.get(*place)?,
            };
        }
        (!found.is_null()).then_some(found)
    }
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let mut rest = text.strip_prefix('$').ok_or(PathError)?;
        if text.chars().count() > MAX_CHARACTERS || text.chars().any(char::is_control) {
            return Err(PathError);
        }
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (part, after) = part(rest).ok_or(PathError)?;
            parts.push(part);
            rest = after;
        }
        if parts.len() > MAX_PARTS {
            return Err(PathError);
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The first part, and what comes after it.
fn part(text: &str) -> Option<(Part, &str)> {
    if let Some(text) = text.strip_prefix('.') {
        let end = text.find(['.', '[']).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@');
        let is_name = !name.is_empty() && name.chars().all(plain);
        return is_name.then(|| (Part::Field(name.to_owned()), rest));
    }
    let text = text.strip_prefix('[')?;
    for quote in ['\'', '"'] {
        if let Some(text) = text.strip_prefix(quote) {
            let (name, rest) = text.split_once(quote)?;
            let rest = rest.strip_prefix(']')?;
            return (!name.is_empty()).then(|| (Part::Field(name.to_owned()), rest));
        }
    }
    let (digits, rest) = text.split_once(']')?;
    let is_place = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // Further on than any list that fits an event.
    let place = digits.parse().ok().filter(|place| is_place && *place < 100_000)?;
    Some((Part::Index(place), rest))
}
