//! The copies that users get of a post, and their counts: put in, and taken away again.
//!
//! Each user's copy and his counts change in one transaction, whatever else is in it.

use std::collections::HashSet;

use tidings_access::{Cx, StorageError};
use tidings_kernel::{
    Condition, Expect, ItemStore, Outgoing, Path, StoreError, Txn, Update, tables,
};

use crate::counting::Counting;
use crate::damage::{passed_over, readable};
use crate::horizon::take_in;
use crate::keys::{self, InboxKey, UserId};
use crate::records::{
    CategoryStats, EXPIRY, Expiring, Marks, Message, Own, Post, SETTLED, Stored, UserStats,
    damaged, stamp,
};
use crate::timeline::{self, Fate};

/// The copies of one post.
#[derive(Clone, Copy)]
pub(super) struct Copies<'a> {
    pub(super) cx: &'a Cx,
    pub(super) inbox: &'a InboxKey,
    pub(super) post: &'a Post,
    /// Those of the users who have a timeline.
    pub(super) known: &'a HashSet<String>,
}

/// What a user has before his copy comes or goes.
struct Standing<'a> {
    uid: &'a UserId,
    stats: UserStats,
    category: Option<CategoryStats>,
    copy: Copy,
}

/// What stands where his copy is.
enum Copy {
    No,
    Yes(Box<Own>),
    /// Something that nobody can read, or among counts that nobody can. What it added to them cannot be told any more, and nothing
    /// is added to them.
    Damaged,
}

impl Copies<'_> {
    /// In a transaction that gives these users their copies. Each is unread, whatever was read before.
    pub(super) async fn put(
        &self,
        items: &dyn ItemStore,
        mut txn: Txn,
        uids: &[UserId],
    ) -> Result<Txn, StorageError> {
        let message = self.message()?;
        for standing in self.standings(items, uids).await? {
            txn = self.put_one(txn, &message, &standing);
            let is_told = !matches!(standing.copy, Copy::Damaged);
            if is_told && self.known.contains(standing.uid.as_str()) {
                txn = txn.enqueue(self.befell(standing.uid, Fate::Published));
            }
        }
        Ok(txn)
    }

    /// In a transaction that takes the copies of these users away. Who has none, or none any more, is passed over.
    pub(super) async fn take(
        &self,
        items: &dyn ItemStore,
        mut txn: Txn,
        uids: &[UserId],
    ) -> Result<Txn, StorageError> {
        for standing in self.standings(items, uids).await? {
            if matches!(standing.copy, Copy::Yes(_)) && self.known.contains(standing.uid.as_str()) {
                txn = txn.enqueue(self.befell(standing.uid, Fate::Withdrawn));
            }
            txn = self.take_one(txn, &standing);
        }
        Ok(txn)
    }

    /// For the timeline of one of them.
    fn befell(&self, uid: &UserId, fate: Fate) -> Outgoing {
        let message = (&self.post.id, self.post.category.as_ref());
        timeline::befell(self.cx, (self.inbox, uid), message, fate)
    }

    fn message(&self) -> Result<Message, StoreError> {
        let Self { cx, post, .. } = self;
        post.message(cx.now()).ok_or_else(|| damaged("a post", "message"))
    }

    async fn standings<'u>(
        &self,
        items: &dyn ItemStore,
        uids: &'u [UserId],
    ) -> Result<Vec<Standing<'u>>, StorageError> {
        let category = self.post.category.as_ref();
        let mut wanted = Vec::with_capacity(3 * uids.len());
        for uid in uids {
            let partition = keys::user(self.cx.workspace(), self.inbox, uid);
            wanted.push(keys::counts(&partition));
            wanted.push(keys::message(&partition, &self.post.id));
            wanted.extend(category.map(|name| keys::category_counts(&partition, name)));
        }
        let mut found = items.batch_get(&tables::INBOX, &wanted).await?.into_iter();
        let mut next = || found.next().flatten();
        let mut standings = Vec::with_capacity(uids.len());
        for uid in uids {
            let stats = UserStats::read(next().as_ref()).map_err(StorageError::from);
            let stats = passed_over(self.cx, stats)?;
            let copy = match next().map(|item| readable(self.cx, &item)) {
                None => Copy::No,
                Some(Some(Stored::Own(own))) => Copy::Yes(Box::new(own)),
                Some(Some(Stored::Public(_) | Stored::Receipt(_)) | None) => Copy::Damaged,
            };
            let of_category = category.map(|_| CategoryStats::read(next().as_ref()));
            let of_category = of_category.transpose().map_err(StorageError::from);
            standings.push(match (stats, passed_over(self.cx, of_category)?) {
                (Some(stats), Some(category)) => Standing { uid, stats, category, copy },
                _ => {
                    let (stats, copy) = (UserStats::default(), Copy::Damaged);
                    Standing { uid, stats, category: None, copy }
                }
            });
        }
        Ok(standings)
    }

    fn put_one(&self, txn: Txn, message: &Message, standing: &Standing<'_>) -> Txn {
        let Standing { uid, stats, category, copy } = standing;
        // Counts that this makes begin now: what is told later of one of the same name who was forgotten, is not his.
        let begins = stats.rev == 0;
        let settled = if begins { self.cx.now().as_second() } else { stats.settled };
        // It was delivered before: what is there stays as it is. And what is past its time already is shown to nobody.
        if !matches!(copy, Copy::No) || message.expires.as_second() <= settled {
            return txn;
        }
        let id = &self.post.id;
        // A read-all of another node, or from before a post that is late, must not read what nobody has seen.
        let covered = stats.covering_id(category.as_ref(), id).next().is_some();
        let marks = Marks { unread: covered.then_some(stats.marks), ..Marks::default() };
        let copy = Own { message: message.clone(), uid: (*uid).clone(), marks };
        let tenant = self.cx.workspace();
        let all = self.count(keys::counts(&keys::user(tenant, self.inbox, uid)), uid, 1);
        let unread = if covered {
            Condition::eq("marks", stats.marks)
        } else {
            before_mark("all", id.as_str())
        };
        let all = if begins { all.set(SETTLED, settled) } else { all };
        let expiring = Expiring::new(id, message.expires);
        let all = take_in(all.add("rev", 1), unread, stats, vec![expiring]);
        let txn =
            txn.put(&tables::INBOX, copy.to_item(tenant, self.inbox), Expect::Absent).update(all);
        let Some(name) = &self.post.category else { return txn };
        let key = keys::category_counts(&keys::user(tenant, self.inbox, uid), name);
        let of_category = self.count(key, uid, 1).remove(EXPIRY);
        txn.update(if covered {
            of_category
        } else {
            of_category.expect(Expect::That(before_mark("mark", id.as_str())))
        })
    }

    fn take_one(&self, txn: Txn, standing: &Standing<'_>) -> Txn {
        let Standing { uid, stats, category, copy } = standing;
        let partition = keys::user(self.cx.workspace(), self.inbox, uid);
        let key = keys::message(&partition, &self.post.id);
        let own = match copy {
            Copy::No => return txn,
            Copy::Yes(own) => own,
            // It goes all the same, and counting anew finds what it has left behind.
            Copy::Damaged => return txn.delete(&tables::INBOX, key, Expect::Anything),
        };
        let covering = stats.covering_id(category.as_ref(), &self.post.id);
        let read = i64::from(own.marks.is_read(covering));
        // Whatever is marked changes `rev`, so that with the same one it is as read as it was.
        let all = self
            .count(keys::counts(&partition), uid, -1)
            .add("read", -read)
            .add("rev", 1)
            .expect(Expect::That(Condition::eq("rev", stats.rev)));
        let txn = txn.delete(&tables::INBOX, key, Expect::Present).update(all);
        let (Some(name), Some(before)) = (&self.post.category, category) else { return txn };
        let counting = Counting::of_user(self.cx.workspace(), self.inbox, uid);
        counting.add_to(txn, name, before, (-1, -read))
    }

    /// Counts a copy in or out.
    fn count(&self, key: tidings_kernel::Key, uid: &UserId, number: i64) -> Update {
        let update = Update::new(&tables::INBOX, key).add("published", number);
        let stamp = stamp(self.cx.workspace(), self.inbox, uid.as_str());
        stamp.into_iter().fold(update, |update, (name, value)| update.set(name, value))
    }
}

/// That no read-all of this name is past the id.
fn before_mark(name: &str, id: &str) -> Condition {
    let path = Path::of(name).key("id");
    Condition::not_exists(name).or(Condition::Lt(path, id.into()))
}
