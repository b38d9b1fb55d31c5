//! Going through the users of a post, to give it to them or to take it away, a transaction of some of them after the other.
//!
//! How many are done is written in the same transaction as their copies, so nobody gets it twice and nobody is left out.
//! Whoever does the last of a page hands the next page on, so that no worker holds a message for long.

use tidings_access::{Cx, StorageError};
use tidings_jobs::contracts::InboxTask;
use tidings_kernel::{Expect, ItemStore, Key, StoreError, Txn, tables};

use super::copies::Copies;
use super::{CHUNK, CHUNK_TOLD, message, moved, post as load, unfiled};
use crate::Inbox;
use crate::counting::still;
use crate::keys::{self, InboxKey, PAGE, UserId};
use crate::race::{ATTEMPTS, lost};
use crate::records::{FORGOTTEN, Post, State, damaged};
use crate::timeline;

/// Goes on from where the post is to the end of the page, if it is a post that has anything to do. Answers with how far it
/// is then.
pub(super) async fn page(
    inbox: &Inbox,
    cx: &Cx,
    key: &InboxKey,
    mut post: Post,
) -> Result<Post, StorageError> {
    let Some(task) = task(&post) else { return Ok(post) };
    let items = cx.items().await?;
    let page = Page::at(done(&post, task));
    let mut named = page.load(cx, key, &post, items.as_ref()).await?;
    let known = timeline::known(cx, &named.uids).await?;
    let chunk = if known.is_empty() { CHUNK } else { CHUNK_TOLD };
    let (mut size, mut misses) = (chunk, 0);
    while self::task(&post) == Some(task) && Page::at(done(&post, task)) == page {
        let left = usize::try_from(all(&post, task) - done(&post, task)).unwrap_or(0);
        let next = page.next(&named.uids, done(&post, task), size.min(left))?;
        let after = advanced(&post, task, next.len() as i64);
        let mut txn = named.still(Txn::new().update(moved(cx, key, &post, &after)));
        if self::task(&after).is_some() && Page::at(done(&after, task)) != page {
            txn = txn.enqueue(message(cx, key, &post.id, task));
        }
        if after.state == State::Redacted {
            txn = unfiled(cx, key, &post, txn);
        }
        let copies = Copies { cx, inbox: key, post: &post, known: &known };
        let txn = match task {
            InboxTask::Deliver => copies.put(items.as_ref(), txn, next).await?,
            InboxTask::Redact => copies.take(items.as_ref(), txn, next).await?,
        };
        match items.transact(txn).await {
            Ok(()) => {
                for uid in next {
                    inbox.hints.changed(cx.workspace(), key, Some(uid));
                }
                (post, size, misses) = (after, chunk, 0);
            }
            Err(error) if lost(&error) && misses < ATTEMPTS => {
                // Fewer of them are less likely to meet somebody who is marking something.
                (size, misses) = ((size / 2).max(1), misses + 1);
                match load(cx, key, &post.id).await? {
                    Some(now) => post = now,
                    None => return Ok(post),
                }
                named = page.load(cx, key, &post, items.as_ref()).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(post)
}

/// What there is to do with its users.
fn task(post: &Post) -> Option<InboxTask> {
    match post.state {
        State::Delivering => Some(InboxTask::Deliver),
        State::Redacting => Some(InboxTask::Redact),
        State::Scheduled | State::Done | State::Redacted | State::Cancelled => None,
    }
}

/// For how many it is done.
fn done(post: &Post, task: InboxTask) -> i64 {
    match task {
        InboxTask::Deliver => post.delivered,
        InboxTask::Redact => post.redacted,
    }
}

/// For how many it is to be done. Who has not got it, it cannot be taken away from.
fn all(post: &Post, task: InboxTask) -> i64 {
    match task {
        InboxTask::Deliver => post.recipients,
        InboxTask::Redact => post.delivered,
    }
}

/// The post when it is done for so many more.
fn advanced(post: &Post, task: InboxTask, more: i64) -> Post {
    let mut after = post.clone();
    match task {
        InboxTask::Deliver => after.delivered += more,
        InboxTask::Redact => after.redacted += more,
    }
    if done(&after, task) >= all(&after, task) {
        after.content = None;
        after.state = match task {
            InboxTask::Deliver => State::Done,
            InboxTask::Redact => State::Redacted,
        };
    }
    after
}

/// One page of a post's users, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Page(usize);

impl Page {
    /// The one on which the next user stands when so many are done.
    fn at(done: i64) -> Self {
        Self(usize::try_from(done).unwrap_or(0) / PAGE)
    }

    async fn load(
        self,
        cx: &Cx,
        inbox: &InboxKey,
        post: &Post,
        items: &dyn ItemStore,
    ) -> Result<Named, StorageError> {
        let key = keys::recipients(cx.workspace(), inbox, &post.id, self.0 + 1);
        let found = items.get(&tables::INBOX, &key).await?;
        let found = found.ok_or_else(|| damaged("a post", "page of its users"))?;
        let forgotten = found.integer(FORGOTTEN).unwrap_or(0);
        Ok(Named { uids: Post::read_recipients(&found)?, key, forgotten })
    }

    /// Up to so many users after those who are done.
    fn next(self, uids: &[UserId], done: i64, size: usize) -> Result<&[UserId], StoreError> {
        let from = usize::try_from(done).unwrap_or(0) - self.0 * PAGE;
        let next = uids.get(from..uids.len().min(from + size)).filter(|next| !next.is_empty());
        next.ok_or_else(|| damaged("a page of recipients", "next user"))
    }
}

/// Who stands on a page.
struct Named {
    uids: Vec<UserId>,
    key: Key,
    /// How many of them were forgotten when it was read.
    forgotten: i64,
}

impl Named {
    /// Nobody on the page was forgotten since: who was must not get a copy that nobody would take away from him.
    fn still(&self, txn: Txn) -> Txn {
        let unchanged = Expect::That(still(FORGOTTEN, self.forgotten));
        txn.check(&tables::INBOX, self.key.clone(), unchanged)
    }
}
