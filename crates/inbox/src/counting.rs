//! How counts are changed: the updates of `c#*` and `c#<category>` that go into the transaction of what is counted.
//!
//! The counts of a category go when they come to nothing, so that a user has no more of them than there are categories of his
//! messages. A read-all of the category stands beside them: while it may cover a message to everyone, they stay, and expire.
//!
//! Here: the updates. Not here: by how much (`rules`), and when what is counted expires (`horizon`).

use std::collections::BTreeMap;

use jiff::SignedDuration;
use tidings_kernel::{Condition, Expect, Item, Key, Txn, Update, Value, Workspace, tables};

use crate::keys::{self, Category, InboxKey, PUBLIC, Partition, UserId};
use crate::records::{CategoryStats, EXPIRY, Watermark, stamp};
use crate::rules::Difference;
use crate::ttl::MAX_DAYS;

/// What was removed long after its time is still told of and judged by the read-alls; no store takes so many days for that.
const TOLD_DAYS: i64 = 30;

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

    /// `c#<category>`, in which something is counted from now on, or still.
    pub(crate) fn category(&self, category: &Category) -> Update {
        self.stamped(keys::category_counts(&self.partition, category)).remove(EXPIRY)
    }

    /// The difference, in a transaction: `all` must be what `all()` has made, with whatever was added to it, and `before` the
    /// counts by category as they were loaded.
    pub(crate) fn add(
        &self,
        txn: Txn,
        difference: &Difference,
        all: Update,
        before: &BTreeMap<Category, CategoryStats>,
    ) -> Txn {
        let mut txn = txn.update(add(all, difference.published, difference.read));
        for (category, published, read) in difference.changed() {
            let before = before.get(category).cloned().unwrap_or_default();
            txn = self.add_to(txn, category, &before, (published, read));
        }
        txn
    }

    /// The same for one category.
    pub(crate) fn add_to(
        &self,
        txn: Txn,
        category: &Category,
        before: &CategoryStats,
        (published, read): (i64, i64),
    ) -> Txn {
        if before.published + published == 0 && before.read + read == 0 {
            return self.empty(txn, category, before);
        }
        let update = add(self.category(category), published, read);
        // Of two who each take one away, one has to find out that it was the last.
        txn.update(if published < 0 { update.expect(Expect::That(same(before))) } else { update })
    }

    /// Nothing of the category is counted any more.
    pub(crate) fn empty(&self, txn: Txn, category: &Category, before: &CategoryStats) -> Txn {
        let (key, same) = (keys::category_counts(&self.partition, category), same(before));
        match &before.mark {
            None => {
                let unmarked = same.and(Condition::not_exists("mark"));
                txn.delete(&tables::INBOX, key, Expect::That(unmarked))
            }
            Some(mark) => {
                let update = self.stamped(key).set("published", 0).set("read", 0);
                let update = update.set(EXPIRY, covers_until(mark));
                txn.update(update.expect(Expect::That(same)))
            }
        }
    }

    /// `c#<category>`, in which nothing is counted, with a read-all.
    pub(crate) fn only_marked(&self, category: &Category, mark: &Watermark) -> Update {
        self.stamped(keys::category_counts(&self.partition, category))
            .set("mark", mark.to_value())
            .set("read", 0)
            .set(EXPIRY, covers_until(mark))
    }

    /// Whose it is stands in every count; this update may be what makes it.
    fn stamped(&self, key: Key) -> Update {
        let stamp = stamp(self.tenant, self.inbox, self.uid);
        let update = Update::new(&tables::INBOX, key);
        stamp.into_iter().fold(update, |update, (name, value)| update.set(name, value))
    }
}

fn add(update: Update, published: i64, read: i64) -> Update {
    let sums = [("published", published), ("read", read)];
    let sums = sums.into_iter().filter(|(_, sum)| *sum != 0);
    sums.fold(update, |update, (name, sum)| update.add(name, sum))
}

/// The second from which on nothing can be there any more that a read-all covers.
fn covers_until(mark: &Watermark) -> i64 {
    let lasts = SignedDuration::from_hours(24 * (MAX_DAYS + TOLD_DAYS));
    // One without a time is from before times were kept.
    let at = mark.at.unwrap_or(jiff::Timestamp::MAX);
    at.checked_add(lasts).unwrap_or(jiff::Timestamp::MAX).as_second()
}

fn same(before: &CategoryStats) -> Condition {
    still("published", before.published).and(still("read", before.read))
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
