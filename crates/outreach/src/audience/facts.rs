//! What has to be known of somebody to say whether a condition means him.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tidings_access::Slug;
use tidings_kernel::{EmailAddress, Value};
use tidings_people::contacts::Profile;

use super::condition::Subject;

/// Only what a condition asks has to be there.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// All of his, the one that he is written to at first.
    pub addresses: Vec<EmailAddress>,
    /// Those that he is subscribed to, as a whole or for the client who writes.
    pub audiences: BTreeSet<Slug>,
    /// Those that he is in.
    pub segments: BTreeSet<Slug>,
    /// Of the address that he is written to at.
    pub profile: Profile,
    /// Of his other addresses that have one, in their order: they came with whoever was merged into him.
    pub others: Vec<Profile>,
    /// Features and memory.
    pub derived: BTreeMap<Subject, Value>,
    /// From when on a memory says something else although nothing happens.
    pub until: Option<Timestamp>,
}

impl Facts {
    /// Whether any of his addresses is tagged so.
    pub(super) fn has_tag(&self, tag: &str) -> bool {
        self.profiles().any(|profile| profile.has_tag(tag))
    }

    /// An attribute, of the first of his addresses that has it. Null is as good as nothing.
    pub(super) fn attribute(&self, name: &str) -> Option<&Value> {
        let mut known = self.profiles().filter_map(|profile| profile.attribute(name));
        known.find(|value| **value != Value::Null)
    }

    fn profiles(&self) -> impl Iterator<Item = &Profile> {
        std::iter::once(&self.profile).chain(&self.others)
    }
}
