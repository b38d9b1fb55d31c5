//! What an edit makes of a profile: pure, so that it can be decided again when somebody else was faster.

use std::collections::{BTreeMap, BTreeSet};

use tidings_kernel::Value;

use super::profile::Profile;
use super::values::{
    Attributes, FirstName, MAX_ATTRIBUTES, MAX_ATTRIBUTES_BYTES, MAX_TAGS, Tag, TagChange, Zone,
    size,
};

/// What is to become of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Change<T> {
    #[default]
    Keep,
    Set(T),
    Clear,
}

/// What is to become of a contact. What it does not name stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edit {
    pub first_name: Change<FirstName>,
    /// In the relations, so that no plan has it.
    pub timezone: Change<Zone>,
    pub attributes: Attributes,
    pub tags: Option<TagChange>,
}

/// An edit that would make a contact larger than it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooMuch {
    #[error("a contact has at most 45 tags")]
    Tags,
    #[error("a contact has at most 100 attributes")]
    Attributes,
    #[error("the attributes of a contact have at most 32 KB together")]
    Bytes,
}

/// What to write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Plan {
    pub(crate) set: BTreeMap<String, Value>,
    pub(crate) remove: BTreeSet<String>,
    /// All of them as they are afterwards, if they change.
    pub(crate) tags: Option<BTreeSet<String>>,
    pub(crate) tagged: BTreeSet<String>,
    pub(crate) untagged: BTreeSet<String>,
}

impl Plan {
    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty() && self.tags.is_none()
    }
}

pub(crate) fn plan(current: &Profile, edit: &Edit) -> Result<Plan, TooMuch> {
    let mut plan = Plan::default();
    match &edit.first_name {
        Change::Set(name) if current.first_name() != Some(name.as_str()) => {
            plan.set.insert("firstName".to_owned(), name.as_str().into());
        }
        Change::Clear if current.first_name().is_some() => {
            plan.remove.insert("firstName".to_owned());
        }
        Change::Keep | Change::Set(_) | Change::Clear => {}
    }
    plan_attributes(&mut plan, current, &edit.attributes)?;
    if let Some(change) = &edit.tags {
        plan_tags(&mut plan, &current.tags(), change)?;
    }
    Ok(plan)
}

fn plan_attributes(
    plan: &mut Plan,
    current: &Profile,
    changes: &Attributes,
) -> Result<(), TooMuch> {
    let before = current.attributes();
    let mut after = before.clone();
    for (name, change) in changes.iter() {
        match change {
            Some(value) if before.get(name) != Some(value) => {
                after.insert(name.clone(), value.clone());
                plan.set.insert(name.clone(), value.clone());
            }
            None if before.contains_key(name) => {
                after.remove(name);
                plan.remove.insert(name.clone());
            }
            Some(_) | None => {}
        }
    }
    // Whoever is over a limit from before may still do what does not make it worse.
    if after.len() > MAX_ATTRIBUTES.max(before.len()) {
        return Err(TooMuch::Attributes);
    }
    if bytes(&after) > MAX_ATTRIBUTES_BYTES.max(bytes(&before)) {
        return Err(TooMuch::Bytes);
    }
    Ok(())
}

fn bytes(attributes: &BTreeMap<String, Value>) -> usize {
    attributes.iter().map(|(name, value)| name.len() + size(value)).sum()
}

fn plan_tags(
    plan: &mut Plan,
    before: &BTreeSet<String>,
    change: &TagChange,
) -> Result<(), TooMuch> {
    let named = |tags: &BTreeSet<Tag>| -> BTreeSet<String> {
        tags.iter().map(ToString::to_string).collect()
    };
    let after: BTreeSet<String> = match change {
        TagChange::Replace(tags) => named(tags),
        TagChange::Add(tags) => before | &named(tags),
        TagChange::Remove(tags) => before - &named(tags),
        TagChange::AddAndRemove(add, remove) => &(before | &named(add)) - &named(remove),
    };
    if after.len() > MAX_TAGS && after.len() >= before.len() && &after != before {
        return Err(TooMuch::Tags);
    }
    plan.tagged = after.difference(before).cloned().collect();
    plan.untagged = before.difference(&after).cloned().collect();
    plan.tags = (&after != before).then_some(after);
    Ok(())
}
