//! An item: named attributes with DynamoDB's types.

mod json;
mod number;
mod path;
pub mod plain;

use std::collections::{BTreeMap, BTreeSet};

pub use number::{Number, NumberError};
pub use path::{Path, Segment};

/// An attribute's value. The names are DynamoDB's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    S(String),
    N(Number),
    B(Vec<u8>),
    Bool(bool),
    Null,
    M(BTreeMap<String, Value>),
    L(Vec<Value>),
    Ss(BTreeSet<String>),
    Ns(BTreeSet<Number>),
    Bs(BTreeSet<Vec<u8>>),
}

impl Value {
    /// The type in words, for error messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::S(_) => "a string",
            Value::N(_) => "a number",
            Value::B(_) => "bytes",
            Value::Bool(_) => "a boolean",
            Value::Null => "null",
            Value::M(_) => "a map",
            Value::L(_) => "a list",
            Value::Ss(_) => "a set of strings",
            Value::Ns(_) => "a set of numbers",
            Value::Bs(_) => "a set of bytes",
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        if let Value::S(text) = self { Some(text) } else { None }
    }

    pub fn as_number(&self) -> Option<Number> {
        if let Value::N(number) = self { Some(*number) } else { None }
    }

    /// A set of strings.
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Value::Ss(texts.into_iter().map(Into::into).collect())
    }

    /// A set of numbers.
    pub fn numbers<T: Into<Number>>(numbers: impl IntoIterator<Item = T>) -> Self {
        Value::Ns(numbers.into_iter().map(Into::into).collect())
    }

    /// The bytes that DynamoDB counts for this value.
    pub(crate) fn size(&self) -> usize {
        match self {
            Value::S(text) => text.len(),
            Value::N(number) => number.size(),
            Value::B(bytes) => bytes.len(),
            Value::Bool(_) | Value::Null => 1,
            Value::M(map) => 3 + map.iter().map(|(k, v)| 1 + k.len() + v.size()).sum::<usize>(),
            Value::L(list) => 3 + list.iter().map(|v| 1 + v.size()).sum::<usize>(),
            Value::Ss(texts) => texts.iter().map(String::len).sum(),
            Value::Ns(numbers) => numbers.iter().map(|n| n.size()).sum(),
            Value::Bs(blobs) => blobs.iter().map(Vec::len).sum(),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::S(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::S(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::N(number.into())
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        Value::N(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Bool(flag)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Value::B(bytes)
    }
}

impl From<Vec<Value>> for Value {
    fn from(list: Vec<Value>) -> Self {
        Value::L(list)
    }
}

impl From<BTreeMap<String, Value>> for Value {
    fn from(map: BTreeMap<String, Value>) -> Self {
        Value::M(map)
    }
}

/// Attributes by name, the key's among them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Item(BTreeMap<String, Value>);

impl Item {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.set(name, value);
        self
    }

    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The attribute as a string, if it is one.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_text()
    }

    /// The attribute as an integer, if it is one.
    pub fn integer(&self, name: &str) -> Option<i64> {
        self.get(name)?.as_number()?.to_i64()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn attributes_mut(&mut self) -> &mut BTreeMap<String, Value> {
        &mut self.0
    }

    /// The bytes that DynamoDB counts for this item: names and values.
    pub fn size(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.size()).sum()
    }
}

impl From<BTreeMap<String, Value>> for Item {
    fn from(attributes: BTreeMap<String, Value>) -> Self {
        Self(attributes)
    }
}

impl IntoIterator for Item {
    type Item = (String, Value);
    type IntoIter = std::collections::btree_map::IntoIter<String, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
