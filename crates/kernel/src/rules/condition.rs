//! Conditions: what a write expects of the item it meets, and what a query lets through.

use std::cmp::Ordering;

use crate::item::{Item, Path, Segment, Value};
use crate::rules::limits::{Invalid, check_name, check_value};

/// What one `In` may compare with.
const MAX_IN: usize = 100;

/// What a write expects to find under its key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Expect {
    #[default]
    Anything,
    Absent,
    Present,
    /// An absent item is met as an empty one.
    That(Condition),
}

impl Expect {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        match self {
            Expect::Anything | Expect::Absent | Expect::Present => Ok(()),
            Expect::That(condition) => condition.validate(),
        }
    }

    pub fn holds(&self, current: Option<&Item>) -> bool {
        match self {
            Expect::Anything => true,
            Expect::Absent => current.is_none(),
            Expect::Present => current.is_some(),
            Expect::That(condition) => match current {
                Some(item) => condition.holds(item),
                None => condition.holds(&Item::new()),
            },
        }
    }
}

/// A statement about an item, with DynamoDB's meaning: values of different types are never equal and never
/// ordered, and a comparison with what is not there is false (`Ne` is true).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    Exists(Path),
    NotExists(Path),
    Eq(Path, Value),
    Ne(Path, Value),
    Lt(Path, Value),
    Le(Path, Value),
    Gt(Path, Value),
    Ge(Path, Value),
    Between(Path, Value, Value),
    In(Path, Vec<Value>),
    /// A string (or bytes) that begins so.
    BeginsWith(Path, Value),
    /// A string that has this part, a set that has this member, or a list that has this element.
    Contains(Path, Value),
    /// All of them; true if there are none.
    All(Vec<Condition>),
    /// At least one of them; false if there are none.
    AnyOf(Vec<Condition>),
    Not(Box<Condition>),
}

impl Condition {
    pub fn eq(path: impl Into<Path>, value: impl Into<Value>) -> Self {
        Self::Eq(path.into(), value.into())
    }

    pub fn exists(path: impl Into<Path>) -> Self {
        Self::Exists(path.into())
    }

    pub fn not_exists(path: impl Into<Path>) -> Self {
        Self::NotExists(path.into())
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match self {
            Self::All(mut all) => {
                all.push(other);
                Self::All(all)
            }
            first => Self::All(vec![first, other]),
        }
    }

    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::AnyOf(mut any) => {
                any.push(other);
                Self::AnyOf(any)
            }
            first => Self::AnyOf(vec![first, other]),
        }
    }

    /// Whether DynamoDB would take it at all, whatever the item.
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        let ok = |holds: bool| if holds { Ok(()) } else { Err(Invalid::BadCondition) };
        let orderable = |value: &Value| compare(value, value).is_some();
        if let Some(path) = self.path() {
            check_path(path)?;
        }
        match self {
            Self::Exists(_) | Self::NotExists(_) => Ok(()),
            Self::Eq(_, value) | Self::Ne(_, value) | Self::Contains(_, value) => {
                check_value(value)
            }
            Self::Lt(_, value) | Self::Le(_, value) | Self::Gt(_, value) | Self::Ge(_, value) => {
                ok(orderable(value))
            }
            Self::Between(_, low, high) => ok(compare(low, high).is_some_and(Ordering::is_le)),
            Self::In(_, values) => {
                ok((1..=MAX_IN).contains(&values.len()))?;
                values.iter().try_for_each(check_value)
            }
            Self::BeginsWith(_, prefix) => ok(matches!(prefix, Value::S(_) | Value::B(_))),
            Self::All(conditions) | Self::AnyOf(conditions) => {
                conditions.iter().try_for_each(Self::validate)
            }
            Self::Not(condition) => condition.validate(),
        }
    }

    /// The attributes that it speaks of, outermost only.
    pub(super) fn attributes(&self) -> Vec<&str> {
        match self {
            Self::All(conditions) | Self::AnyOf(conditions) => {
                conditions.iter().flat_map(Self::attributes).collect()
            }
            Self::Not(condition) => condition.attributes(),
            simple => simple.path().into_iter().map(Path::attribute).collect(),
        }
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::Exists(path)
            | Self::NotExists(path)
            | Self::Eq(path, _)
            | Self::Ne(path, _)
            | Self::Lt(path, _)
            | Self::Le(path, _)
            | Self::Gt(path, _)
            | Self::Ge(path, _)
            | Self::Between(path, _, _)
            | Self::In(path, _)
            | Self::BeginsWith(path, _)
            | Self::Contains(path, _) => Some(path),
            Self::All(_) | Self::AnyOf(_) | Self::Not(_) => None,
        }
    }

    pub fn holds(&self, item: &Item) -> bool {
        let order = |path: &Path, value: &Value| path.find(item).and_then(|v| compare(v, value));
        match self {
            Self::Exists(path) => path.find(item).is_some(),
            Self::NotExists(path) => path.find(item).is_none(),
            Self::Eq(path, value) => path.find(item) == Some(value),
            Self::Ne(path, value) => path.find(item) != Some(value),
            Self::Lt(path, value) => order(path, value).is_some_and(Ordering::is_lt),
            Self::Le(path, value) => order(path, value).is_some_and(Ordering::is_le),
            Self::Gt(path, value) => order(path, value).is_some_and(Ordering::is_gt),
            Self::Ge(path, value) => order(path, value).is_some_and(Ordering::is_ge),
            Self::Between(path, low, high) => {
                order(path, low).is_some_and(Ordering::is_ge)
                    && order(path, high).is_some_and(Ordering::is_le)
            }
            Self::In(path, values) => path.find(item).is_some_and(|v| values.contains(v)),
            Self::BeginsWith(path, prefix) => match (path.find(item), prefix) {
                (Some(Value::S(text)), Value::S(prefix)) => text.starts_with(prefix.as_str()),
                (Some(Value::B(bytes)), Value::B(prefix)) => bytes.starts_with(prefix),
                _ => false,
            },
            Self::Contains(path, part) => path.find(item).is_some_and(|v| contains(v, part)),
            Self::All(conditions) => conditions.iter().all(|c| c.holds(item)),
            Self::AnyOf(conditions) => conditions.iter().any(|c| c.holds(item)),
            Self::Not(condition) => !condition.holds(item),
        }
    }
}

pub(super) fn check_path(path: &Path) -> Result<(), Invalid> {
    check_name(path.attribute())?;
    path.rest().iter().try_for_each(|segment| match segment {
        Segment::Key(name) => check_name(name),
        Segment::Index(_) => Ok(()),
    })
}

fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::S(a), Value::S(b)) => Some(a.cmp(b)),
        (Value::N(a), Value::N(b)) => Some(a.cmp(b)),
        (Value::B(a), Value::B(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::S(text), Value::S(part)) => text.contains(part.as_str()),
        (Value::B(bytes), Value::B(part)) => {
            part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
        }
        (Value::Ss(texts), Value::S(part)) => texts.contains(part),
        (Value::Ns(numbers), Value::N(part)) => numbers.contains(part),
        (Value::Bs(blobs), Value::B(part)) => blobs.contains(part),
        (Value::L(list), part) => list.contains(part),
        _ => false,
    }
}
