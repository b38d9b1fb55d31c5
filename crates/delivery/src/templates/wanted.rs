//! What has to be looked up of a person for a mail, because its content names it. What is not named costs nothing.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value as Json};
use tidings_access::{Cx, StorageError};
use tidings_kernel::{EmailAddress, Item, Value};
use tidings_people::contacts::{self, Other};

/// What a content names of what can be known of a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    pub memory: bool,
    pub features: bool,
    /// What may be the name of an attribute, or of its label.
    attributes: BTreeSet<String>,
}

impl Wanted {
    /// By what the variables of the content begin with.
    pub fn of<'a>(roots: impl Iterator<Item = &'a str>) -> Self {
        let mut wanted = Self::default();
        for root in roots {
            match root {
                "memory" => wanted.memory = true,
                "features" => wanted.features = true,
                // These are of the mail and not of the person.
                "email" | "unsubscribeUrl" | "preferencesUrl" | "currentYear" => {}
                name => drop(wanted.attributes.insert(name.to_owned())),
            }
        }
        wanted
    }

    pub fn add(&mut self, other: &Self) {
        self.memory |= other.memory;
        self.features |= other.features;
        let new = other.attributes.difference(&self.attributes).cloned().collect::<Vec<_>>();
        self.attributes.extend(new);
    }

    /// Nobody is asked for what the message gives itself.
    #[must_use]
    pub(super) fn without(mut self, context: &Map<String, Json>) -> Self {
        self.attributes.retain(|name| !context.contains_key(name));
        self
    }

    /// Whether another address of the person may say more of this than the profile of the one that he is written to at.
    fn lacks(&self, profile: Option<&Item>) -> bool {
        let says = |name: &str| {
            profile.and_then(|item| item.get(name)).is_some_and(|value| *value != Value::Null)
        };
        self.attributes.iter().any(|name| match name.as_str() {
            // The tags of all of them are his.
            "tags" => true,
            name => !says(name) && !name.strip_suffix("Name").is_some_and(says),
        })
    }
}

/// The other addresses of these people, by the one that each is written to at, of those who may need them.
pub async fn others_of<'a>(
    cx: &Cx,
    wanted: &Wanted,
    people: impl Iterator<Item = (&'a EmailAddress, Option<&'a Item>)>,
) -> Result<HashMap<String, Vec<Other>>, StorageError> {
    let lacking = people.filter(|(_, profile)| wanted.lacks(*profile));
    let emails: Vec<&EmailAddress> = lacking.map(|(email, _)| email).collect();
    if emails.is_empty() { Ok(HashMap::new()) } else { contacts::others(cx, &emails).await }
}
