//! What has to be known of somebody to say whether a condition means him.

use std::collections::{BTreeMap, BTreeSet};

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
    /// Features and memory.
    pub derived: BTreeMap<Subject, Value>,
}
