//! How counts are changed: the updates of `c#*` and `c#<category>` that go into the transaction of what is counted.
//!
//! Here: the updates. Not here: by how much (`rules`).

use tidings_kernel::{Condition, Item, Key, Update, Value, Workspace, tables};

use crate::keys::{self, Category, InboxKey, PUBLIC, Partition, UserId};
use crate::records::{SOONEST, UserStats, stamp};
use crate::rules::Difference;

/// The counts of one partition.
#[derive(Debug, Clone)]
pub(crate) struct Counting<'a> {
    tenant: &'a Workspace,
    inbox: &'a InboxKey,
    uid: &'a str,
    pub(crate) partition: String,
}

impl<'a> Counting<'a> {
    pub(crate) fn of_user(tenant: &'a Workspace, inbox: &'a InboxKey, uid: &'a UserId) -> Self {
        let partition = keys::user(tenant, inbox, uid);
        Self { tenant, inbox, uid: uid.as_str(), partition }
    }

    pub(crate) fn of(tenant: &'a Workspace, partition: &'a Partition) -> Self {
        match partition {
            Partition::User { inbox, uid } => Self::of_user(tenant, inbox, uid),
            Partition::Public { inbox } => {
                let partition = keys::public(tenant, inbox);
                Self { tenant, inbox, uid: PUBLIC, partition }
            }
        }
    }

    /// `c#*`, with one change more.
    pub(crate) fn all(&self) -> Update {
        self.stamped(keys::counts(&self.partition)).add("rev", 1)
    }

    pub(crate) fn category(&self, category: &Category) -> Update {
        self.stamped(keys::category_counts(&self.partition, category))
    }

    /// The difference, as updates: `all` must be what `all()` has made, with whatever was added to it.
    pub(crate) fn add(&self, difference: &Difference, all: Update) -> Vec<Update> {
        let mut updates = vec![add(all, difference.published, difference.read)];
        for (category, published, read) in difference.changed() {
            updates.push(add(self.category(category), published, read));
        }
        updates
    }

    /// Whose it is stands in every count; this update may be what makes it.
    fn stamped(&self, key: Key) -> Update {
        let stamp = stamp(self.tenant, self.inbox, self.uid);
        let update = Update::new(&tables::INBOX, key);
        stamp.into_iter().fold(update, |update, (name, value)| update.set(name, value))
    }
}

/// Takes into `c#*` that something is counted from now on which is gone from this second on, and tells what that expects of the
/// counts. Others who do the same at the same time are not in the way, as long as theirs is on the same side.
pub(crate) fn take_in(all: Update, stats: &UserStats, expires: i64) -> (Update, Condition) {
    let path = || SOONEST.into();
    match stats.soonest {
        Some(soonest) if soonest <= expires => (all, Condition::Le(path(), expires.into())),
        Some(_) => (all.set(SOONEST, expires), Condition::Gt(path(), expires.into())),
        // These counts are made by this, and there is nothing else in them.
        None if stats.rev == 0 => (all.set(SOONEST, expires), Condition::not_exists("rev")),
        // Whoever looks next finds out.
        None => (all, Condition::not_exists(SOONEST)),
    }
}

fn add(update: Update, published: i64, read: i64) -> Update {
    let sums = [("published", published), ("read", read)];
    let sums = sums.into_iter().filter(|(_, sum)| *sum != 0);
    sums.fold(update, |update, (name, sum)| update.add(name, sum))
}

/// That an attribute is still what it was in this item, or is still not there.
pub(crate) fn unchanged(item: Option<&Item>, name: &str) -> Condition {
    match item.and_then(|item| item.get(name)) {
        Some(value) => Condition::eq(name, value.clone()),
        None => Condition::not_exists(name),
    }
}

/// That a number is still this; one that is not there is 0.
pub(crate) fn still(name: &str, number: i64) -> Condition {
    let same = Condition::eq(name, Value::from(number));
    if number == 0 { same.or(Condition::not_exists(name)) } else { same }
}
