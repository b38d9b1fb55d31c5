//! The users of a large post, who do not fit into the transaction that accepts it, and are written before it.
//!
//! Before the first of them there is a draft, and the transaction that accepts the post takes its place: so whoever is forgotten is
//! found on every page that there is. If the post does not come to be, the draft and its pages go: by whoever could not accept it, or, if he died over it, by a
//! worker whom a timer wakes. Pages are written, and a post is accepted, only while nobody has given the draft up.

use jiff::SignedDuration;
use tidings_access::{Cx, StorageError};
use tidings_jobs::contracts::InboxTask;
use tidings_kernel::{
    Condition, Expect, Item, Key, Query, StoreError, Timer, Txn, Update, queues, tables,
};

use super::job;
use crate::ids::MessageId;
use crate::keys::{self, InboxKey};
use crate::race::lost;
use crate::records::{EXPIRY, Post};

/// So many pages of users are written at once.
pub(super) const PAGES: usize = 10;
/// After so long whoever accepts a post is taken to have died over it.
const PATIENCE: SignedDuration = SignedDuration::from_mins(15);
/// That it was given up.
const OVER: &str = "over";

/// The draft of one post.
#[derive(Clone, Copy)]
pub(super) struct Draft<'a> {
    pub(super) cx: &'a Cx,
    pub(super) inbox: &'a InboxKey,
    pub(super) id: &'a MessageId,
}

impl Draft<'_> {
    /// From now on there can be pages.
    pub(super) async fn begin(&self, post: &Post) -> Result<(), StorageError> {
        let mut item = tables::INBOX.bare_item(&self.key());
        item.set("id", self.id.as_str());
        // No page outlives it.
        item.set(EXPIRY, post.kept_until.as_second());
        let timer = Timer {
            key: keys::draft_timer(self.inbox, self.id),
            due: self.cx.now().checked_add(PATIENCE).unwrap_or(jiff::Timestamp::MAX),
            queue: &queues::INBOX_POSTS,
            body: job(self.cx, self.inbox, self.id, InboxTask::Redact),
        };
        let txn = Txn::new().put(&tables::INBOX, item, Expect::Absent).arm(timer);
        Ok(self.cx.items().await?.transact(txn).await?)
    }

    /// Writes some pages of users. Tells whether the draft was still there.
    pub(super) async fn write(&self, pages: Vec<Item>) -> Result<bool, StorageError> {
        let txn = Txn::new().check(&tables::INBOX, self.key(), open());
        let put = |txn: Txn, page| txn.put(&tables::INBOX, page, Expect::Anything);
        match self.cx.items().await?.transact(pages.into_iter().fold(txn, put)).await {
            Ok(()) => Ok(true),
            Err(error) if lost(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// In the transaction that accepts the post.
    pub(super) fn accepted(&self, txn: Txn) -> Txn {
        txn.delete(&tables::INBOX, self.key(), open())
            .cancel_timer(keys::draft_timer(self.inbox, self.id))
    }

    /// The post never comes to be, and nobody on its pages is known any more. If there is no draft, there is a post or nothing. It can be cut
    /// short and done again.
    pub(super) async fn give_up(&self) -> Result<(), StorageError> {
        let items = self.cx.items().await?;
        let over = Update::new(&tables::INBOX, self.key()).set(OVER, true);
        match items.update(over.expect(Expect::That(Condition::exists("id")))).await {
            Ok(_) => {}
            Err(error) if error.is_condition_failed() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let pages = keys::all_recipients(self.cx.workspace(), self.inbox, self.id);
        loop {
            let query = Query::new(&tables::INBOX, pages.as_str()).and_expired().limit(PAGES);
            let found = items.query(query).await?.items;
            if found.is_empty() {
                break;
            }
            let mut txn = Txn::new();
            for page in &found {
                let key = tables::INBOX.key_of(page).map_err(StoreError::from)?;
                txn = txn.delete(&tables::INBOX, key, Expect::Anything);
            }
            items.transact(txn).await?;
        }
        let txn = Txn::new()
            .delete(&tables::INBOX, self.key(), Expect::Anything)
            .cancel_timer(keys::draft_timer(self.inbox, self.id));
        Ok(items.transact(txn).await?)
    }

    fn key(&self) -> Key {
        keys::draft(self.cx.workspace(), self.inbox, self.id)
    }
}

/// That it is there, and nobody has given it up.
fn open() -> Expect {
    Expect::That(Condition::exists("id").and(Condition::not_exists(OVER)))
}
