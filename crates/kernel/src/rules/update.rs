//! Updates: what to change in an item, and the pure function that changes it.

use crate::item::{Item, Number, Path, Segment, Value};
use crate::rules::condition::{Expect, check_path};
use crate::rules::limits::{Invalid, check_index_key, check_item, check_key, check_value};
use crate::table::{Key, Table};

/// Changes one item in place, and makes it if there is none (unless it only takes away).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    pub table: &'static Table,
    pub key: Key,
    pub actions: Vec<Action>,
    pub expect: Expect,
    pub returns: Returns,
}

/// What an update answers with. Inside a transaction it answers nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Returns {
    #[default]
    Nothing,
    Old,
    New,
}

/// One change. All of an update's actions read the item as it was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Set(Path, Value),
    /// Leaves a value that is already there alone.
    SetIfAbsent(Path, Value),
    /// Adds to the end of a list; an absent one is empty.
    Append(Path, Vec<Value>),
    Remove(Path),
    /// Adds to a number; an absent one is 0.
    Add(String, Number),
    /// Adds members to a set; an absent one is empty.
    AddToSet(String, Value),
    /// Takes members from a set. The last one takes the attribute with it.
    DeleteFromSet(String, Value),
}

impl Action {
    pub fn path(&self) -> Path {
        match self {
            Action::Set(path, _)
            | Action::SetIfAbsent(path, _)
            | Action::Append(path, _)
            | Action::Remove(path) => path.clone(),
            Action::Add(name, _) | Action::AddToSet(name, _) | Action::DeleteFromSet(name, _) => {
                Path::of(name.as_str())
            }
        }
    }

    fn validate(&self) -> Result<(), Invalid> {
        check_path(&self.path())?;
        match self {
            Action::Set(_, value) | Action::SetIfAbsent(_, value) => check_value(value),
            Action::Append(_, values) => values.iter().try_for_each(check_value),
            Action::AddToSet(name, set) | Action::DeleteFromSet(name, set) => match set {
                Value::Ss(_) | Value::Ns(_) | Value::Bs(_) => check_value(set),
                _ => Err(Invalid::NotASet { name: name.clone() }),
            },
            Action::Remove(_) | Action::Add(..) => Ok(()),
        }
    }

    /// A guess at the bytes this action adds, for the limit of a transaction.
    fn size(&self) -> usize {
        self.path().to_string().len()
            + match self {
                Action::Set(_, value)
                | Action::SetIfAbsent(_, value)
                | Action::AddToSet(_, value)
                | Action::DeleteFromSet(_, value) => value.size(),
                Action::Append(_, values) => values.iter().map(Value::size).sum(),
                Action::Add(_, number) => number.size(),
                Action::Remove(_) => 0,
            }
    }
}

impl Update {
    pub fn new(table: &'static Table, key: Key) -> Self {
        let (expect, returns) = (Expect::Anything, Returns::Nothing);
        Self { table, key, actions: Vec::new(), expect, returns }
    }

    #[must_use]
    pub fn set(self, path: impl Into<Path>, value: impl Into<Value>) -> Self {
        self.action(Action::Set(path.into(), value.into()))
    }

    #[must_use]
    pub fn set_if_absent(self, path: impl Into<Path>, value: impl Into<Value>) -> Self {
        self.action(Action::SetIfAbsent(path.into(), value.into()))
    }

    #[must_use]
    pub fn append(self, path: impl Into<Path>, values: Vec<Value>) -> Self {
        self.action(Action::Append(path.into(), values))
    }

    #[must_use]
    pub fn remove(self, path: impl Into<Path>) -> Self {
        self.action(Action::Remove(path.into()))
    }

    #[must_use]
    pub fn add(self, name: impl Into<String>, number: impl Into<Number>) -> Self {
        self.action(Action::Add(name.into(), number.into()))
    }

    #[must_use]
    pub fn add_to_set(self, name: impl Into<String>, set: Value) -> Self {
        self.action(Action::AddToSet(name.into(), set))
    }

    #[must_use]
    pub fn delete_from_set(self, name: impl Into<String>, set: Value) -> Self {
        self.action(Action::DeleteFromSet(name.into(), set))
    }

    #[must_use]
    pub fn action(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }

    #[must_use]
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    #[must_use]
    pub fn returning(mut self, returns: Returns) -> Self {
        self.returns = returns;
        self
    }

    pub fn validate(&self) -> Result<(), Invalid> {
        check_key(self.table, &self.key)?;
        let paths: Vec<Path> = self.actions.iter().map(Action::path).collect();
        for (position, path) in paths.iter().enumerate() {
            if self.table.is_key_attribute(path.attribute()) {
                return Err(Invalid::UpdatesKey { path: path.to_string() });
            }
            if let Some(other) = paths[..position].iter().find(|other| other.overlaps(path)) {
                let (first, second) = (other.to_string(), path.to_string());
                return Err(Invalid::Overlap { first, second });
            }
        }
        for action in &self.actions {
            action.validate()?;
            if let Action::Set(path, value) | Action::SetIfAbsent(path, value) = action
                && path.rest().is_empty()
            {
                check_index_key(self.table, path.attribute(), value)?;
            }
        }
        Ok(())
    }

    pub(super) fn size(&self) -> usize {
        let sort = self.key.sort.as_ref().map_or(0, String::len);
        self.key.partition.len() + sort + self.actions.iter().map(Action::size).sum::<usize>()
    }

    /// The item as it is afterwards.
    pub fn apply(&self, current: Option<&Item>) -> Result<Option<Item>, Invalid> {
        let before = match current {
            Some(item) => item.clone(),
            // As in DynamoDB, an update that only takes away makes no item, while an empty one does.
            None if self.only_takes_away() => return Ok(None),
            None => self.table.bare_item(&self.key),
        };
        let mut after = before.clone();
        // As in DynamoDB, what is set past the end of a list keeps the order of its positions.
        let mut actions: Vec<&Action> = self.actions.iter().collect();
        actions.sort_by_cached_key(|action| action.path());
        // Removals of list elements go last and from the back, so that positions keep their meaning.
        let mut removals = Vec::new();
        for action in actions {
            match action {
                Action::Set(path, value) => place(&mut after, path, value.clone())?,
                Action::SetIfAbsent(path, value) => {
                    let value = path.find(&before).unwrap_or(value).clone();
                    place(&mut after, path, value)?;
                }
                Action::Append(path, values) => {
                    let list = appended(path, path.find(&before), values)?;
                    place(&mut after, path, Value::L(list))?;
                }
                Action::Remove(path) => removals.push(path),
                Action::Add(name, number) => {
                    let sum = added(name, before.get(name), *number)?;
                    after.set(name, sum);
                }
                Action::AddToSet(name, set) => {
                    let union = united(name, before.get(name), set)?;
                    after.set(name, union);
                }
                Action::DeleteFromSet(name, set) => match reduced(name, before.get(name), set)? {
                    Some(rest) => after.set(name, rest),
                    None => drop(after.remove(name)),
                },
            }
        }
        removals.sort_by(|a, b| b.cmp(a));
        for path in removals {
            take(&mut after, path)?;
        }
        check_item(self.table, &after)?;
        Ok(Some(after))
    }

    fn only_takes_away(&self) -> bool {
        let takes_away =
            |action: &Action| matches!(action, Action::Remove(_) | Action::DeleteFromSet(..));
        !self.actions.is_empty() && self.actions.iter().all(takes_away)
    }
}

/// The map or list that holds the last segment of a path.
fn parent<'a>(item: &'a mut Item, path: &Path) -> Result<&'a mut Value, Invalid> {
    let missing = || Invalid::NoSuchPlace { path: path.to_string() };
    let root = item.attributes_mut().get_mut(path.attribute()).ok_or_else(missing)?;
    let inner = path.rest().split_last().map_or(&[][..], |(_, inner)| inner);
    inner.iter().try_fold(root, |value, segment| match (value, segment) {
        (Value::M(map), Segment::Key(name)) => map.get_mut(name).ok_or_else(missing),
        (Value::L(list), Segment::Index(position)) => list.get_mut(*position).ok_or_else(missing),
        _ => Err(missing()),
    })
}

fn place(item: &mut Item, path: &Path, value: Value) -> Result<(), Invalid> {
    let Some(last) = path.rest().last() else {
        item.set(path.attribute(), value);
        return Ok(());
    };
    match (parent(item, path)?, last) {
        (Value::M(map), Segment::Key(name)) => drop(map.insert(name.clone(), value)),
        // As in DynamoDB, a position past the end means the end.
        (Value::L(list), Segment::Index(position)) => match list.get_mut(*position) {
            Some(element) => *element = value,
            None => list.push(value),
        },
        _ => return Err(Invalid::NoSuchPlace { path: path.to_string() }),
    }
    Ok(())
}

fn take(item: &mut Item, path: &Path) -> Result<(), Invalid> {
    let Some(last) = path.rest().last() else {
        item.remove(path.attribute());
        return Ok(());
    };
    match (parent(item, path)?, last) {
        (Value::M(map), Segment::Key(name)) => drop(map.remove(name)),
        (Value::L(list), Segment::Index(position)) => {
            if *position < list.len() {
                list.remove(*position);
            }
        }
        _ => return Err(Invalid::NoSuchPlace { path: path.to_string() }),
    }
    Ok(())
}

fn appended(path: &Path, current: Option<&Value>, values: &[Value]) -> Result<Vec<Value>, Invalid> {
    match current {
        None => Ok(values.to_vec()),
        Some(Value::L(list)) => Ok(list.iter().chain(values).cloned().collect()),
        Some(other) => Err(wrong_type(&path.to_string(), other, "a list")),
    }
}

fn added(name: &str, current: Option<&Value>, number: Number) -> Result<Number, Invalid> {
    match current {
        None => Ok(number),
        Some(Value::N(current)) => Ok(current.checked_add(number)?),
        Some(other) => Err(wrong_type(name, other, "a number")),
    }
}

fn united(name: &str, current: Option<&Value>, set: &Value) -> Result<Value, Invalid> {
    match (current, set) {
        (None, set) => Ok(set.clone()),
        (Some(Value::Ss(a)), Value::Ss(b)) => Ok(Value::Ss(a | b)),
        (Some(Value::Ns(a)), Value::Ns(b)) => Ok(Value::Ns(a | b)),
        (Some(Value::Bs(a)), Value::Bs(b)) => Ok(Value::Bs(a | b)),
        (Some(other), set) => Err(wrong_type(name, other, set.kind())),
    }
}

fn reduced(name: &str, current: Option<&Value>, set: &Value) -> Result<Option<Value>, Invalid> {
    match (current, set) {
        (None, _) => Ok(None),
        (Some(Value::Ss(a)), Value::Ss(b)) => Ok(non_empty(a - b, Value::Ss)),
        (Some(Value::Ns(a)), Value::Ns(b)) => Ok(non_empty(a - b, Value::Ns)),
        (Some(Value::Bs(a)), Value::Bs(b)) => Ok(non_empty(a - b, Value::Bs)),
        (Some(other), set) => Err(wrong_type(name, other, set.kind())),
    }
}

fn non_empty<T>(
    set: std::collections::BTreeSet<T>,
    wrap: impl Fn(std::collections::BTreeSet<T>) -> Value,
) -> Option<Value> {
    if set.is_empty() { None } else { Some(wrap(set)) }
}

fn wrong_type(path: &str, found: &Value, expected: &'static str) -> Invalid {
    Invalid::WrongType { path: path.to_owned(), found: found.kind(), expected }
}
