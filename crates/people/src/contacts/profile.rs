//! A PROFILE as seed 000 has it: attributes are columns beside ours.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tidings_kernel::{EmailAddress, Item, Key, Value, tables};

use super::values::SYSTEM;
use crate::keys;

/// The item of a subscriber, or what is known where there is none: nothing.
#[derive(Debug, Clone, Default)]
pub struct Profile(Item);

impl Profile {
    pub fn first_name(&self) -> Option<&str> {
        self.0.text("firstName")
    }

    pub fn tags(&self) -> BTreeSet<String> {
        match self.0.get("tags") {
            Some(Value::L(list)) => {
                list.iter().filter_map(Value::as_text).map(Into::into).collect()
            }
            Some(Value::Ss(set)) => set.clone(),
            _ => BTreeSet::new(),
        }
    }

    pub fn attributes(&self) -> BTreeMap<String, Value> {
        let own = self.0.iter().filter(|(name, _)| !SYSTEM.contains(&name.as_str()));
        own.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    pub(crate) fn unsubscribed(&self) -> bool {
        says(&self.0, "unsubscribed")
    }

    pub(crate) fn suppressed(&self) -> bool {
        says(&self.0, "suppressed")
    }

    pub fn has_tag(&self, tag: &str) -> bool {
        match self.0.get("tags") {
            Some(Value::L(list)) => list.iter().any(|one| one.as_text() == Some(tag)),
            Some(Value::Ss(set)) => set.contains(tag),
            _ => false,
        }
    }

    pub fn attribute(&self, name: &str) -> Option<&Value> {
        if SYSTEM.contains(&name) { None } else { self.0.get(name) }
    }

    pub(crate) fn created_at(&self) -> Option<Timestamp> {
        time(&self.0, "createdAt")
    }

    pub(crate) fn updated_at(&self) -> Option<Timestamp> {
        time(&self.0, "updatedAt")
    }

    pub(crate) fn item(&self) -> &Item {
        &self.0
    }

    /// `None` where there is no item.
    pub fn into_item(self) -> Option<Item> {
        if self.0.is_empty() { None } else { Some(self.0) }
    }
}

impl From<Item> for Profile {
    fn from(item: Item) -> Self {
        Self(item)
    }
}

/// What the item of a profile says of its subscriber: `unsubscribed` or `suppressed`.
pub(crate) fn says(item: &Item, flag: &str) -> bool {
    item.get(flag) == Some(&Value::Bool(true))
}

/// The list of tags as the item has it.
pub(crate) fn tag_list(tags: &BTreeSet<String>) -> Value {
    Value::L(tags.iter().map(|tag| tag.as_str().into()).collect())
}

/// An entry of the index of a tag.
pub(crate) fn tag_item(tag: &str, email: &EmailAddress, at: Timestamp) -> Item {
    let key: Key = keys::tag(tag, email);
    tables::MAIN.bare_item(&key).with("email", email.as_str()).with("taggedAt", keys::time(at))
}

/// A time in an item; `None` if there is none that can be read.
pub(crate) fn time(item: &Item, name: &str) -> Option<Timestamp> {
    item.text(name)?.parse().ok()
}
