//! What a memory is called: its type, and its key within the type. Together they are seed 004's sort key.

use std::fmt;
use std::str::FromStr;

/// So many characters a key has at most.
const MAX_KEY: usize = 200;

/// What sort of thing is remembered: `purchase`, `preference`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryType(String);

/// What of that sort: `product:whey_1kg`, `colour`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryKey(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use 1 to 64 lower-case letters, digits, _ or -, and a letter first")]
pub struct TypeError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use 1 to 200 characters on one line, without spaces around them")]
pub struct KeyError;

impl FromStr for MemoryType {
    type Err = TypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
        let fits = (1..=64).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.chars().all(plain);
        if fits { Ok(Self(text.to_owned())) } else { Err(TypeError) }
    }
}

impl FromStr for MemoryKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = (1..=MAX_KEY).contains(&text.chars().count())
            && text.trim() == text
            && !text.chars().any(char::is_control);
        if fits { Ok(Self(text.to_owned())) } else { Err(KeyError) }
    }
}

impl MemoryType {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl MemoryKey {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MemoryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for MemoryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The sort key.
pub(super) fn sort(memory_type: &MemoryType, key: &MemoryKey) -> String {
    format!("{memory_type}#{key}")
}
