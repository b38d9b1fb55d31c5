//! Messages to everyone: one item, and the counts of the inbox.

use tidings_access::{Cx, StorageError};
use tidings_kernel::{Cancellation, Condition, Expect, ItemStore, StoreError, Txn, Update, tables};

use super::{MAX_PUBLIC, audited, moved, unfiled};
use crate::Inbox;
use crate::counting::Counting;
use crate::damage::readable;
use crate::keys::{self, InboxKey, Partition};
use crate::race::{ATTEMPTS, lost};
use crate::records::{
    CategoryStats, Post, Public, PublicStats, State, Stored, damaged, public_stamp,
};

/// What became of putting one in.
pub(super) enum Put {
    Done,
    /// What the transaction expected besides does not hold, and why.
    Lost(Vec<Cancellation>),
    /// The inbox has as many as it can have.
    Full,
}

/// Puts the message of a post in with a transaction that says what is expected besides. Its writes come first.
pub(super) async fn put(
    cx: &Cx,
    node: &Inbox,
    (inbox, post): (&InboxKey, &Post),
    base: &Txn,
) -> Result<Put, StorageError> {
    let items = cx.items().await?;
    let message = post.message(cx.now()).ok_or_else(|| damaged("a post", "message"))?;
    let (tenant, besides) = (cx.workspace(), base.writes.len());
    for _ in 0..ATTEMPTS {
        let stats = stats(cx, inbox, items.as_ref()).await?;
        if is_full(cx, node, inbox, &stats).await? {
            return Ok(Put::Full);
        }
        let seq = stats.issued + 1;
        let public = Public { message: message.clone(), seq, redacted: None };
        let all = count(cx, inbox, keys::counts(&keys::public(tenant, inbox)), 1)
            .add("rev", 1)
            .set("issued", seq)
            .expect(unchanged("issued", stats.issued));
        let txn = base
            .clone()
            .put(&tables::INBOX, public.to_item(tenant, inbox), Expect::Absent)
            .update(all);
        match items.transact(count_category(cx, inbox, txn, post)).await {
            Ok(()) => return Ok(Put::Done),
            Err(StoreError::Cancelled(reasons)) => {
                let of_base = reasons.iter().take(besides);
                let fails =
                    |reason: &Cancellation| matches!(reason, Cancellation::ConditionFailed { .. });
                if of_base.clone().any(fails) {
                    return Ok(Put::Lost(reasons));
                }
                let error = StoreError::Cancelled(reasons);
                if !lost(&error) {
                    return Err(error.into());
                }
            }
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}

/// Takes away what a post's message says, to whom and by whom. What stays tells readers' nodes that it was there. `None` if
/// somebody was faster.
pub(super) async fn redact(
    cx: &Cx,
    inbox: &InboxKey,
    post: &Post,
) -> Result<Option<Post>, StorageError> {
    let items = cx.items().await?;
    let after = post.taken_back(State::Redacted);
    let mut txn = Txn::new().update(moved(cx, inbox, post, &after)).enqueue(audited(
        cx,
        "post.redact",
        inbox,
        (Some(post), &after),
    ));
    let partition = keys::public(cx.workspace(), inbox);
    let found = items.get(&tables::INBOX, &keys::message(&partition, &post.id)).await?;
    let public = found.as_ref().map(|item| readable(cx, item));
    if matches!(public, Some(None)) {
        // It goes all the same, and counting anew finds what it has left behind.
        let key = keys::message(&partition, &post.id);
        txn = txn.delete(&tables::INBOX, key, Expect::Anything);
    }
    let public = public.flatten().and_then(Stored::public);
    // One that has expired is counted out by its expiry.
    if let Some(mut public) = public.filter(|public| public.redacted.is_none()) {
        let stats = stats(cx, inbox, items.as_ref()).await?;
        let number = stats.redactions + 1;
        public.message = public.message.tombstone();
        public.redacted = Some(number);
        let there = Condition::exists("id").and(Condition::not_exists("redacted"));
        let all = count(cx, inbox, keys::counts(&partition), -1)
            .add("rev", 1)
            .set("redactions", number)
            // Whatever is counted changes it, so that who takes the last of a category away knows that it is.
            .expect(unchanged("rev", stats.rev));
        txn = txn
            .put(&tables::INBOX, public.to_item(cx.workspace(), inbox), Expect::That(there))
            .update(all);
        if let Some(category) = &post.category {
            let key = keys::category_counts(&partition, category);
            let before = CategoryStats::read(items.get(&tables::INBOX, &key).await?.as_ref())?;
            let public = Partition::Public { inbox: inbox.clone() };
            let counting = Counting::of(cx.workspace(), &public);
            txn = counting.add_to(txn, category, &before, (-1, 0));
        }
    }
    match items.transact(unfiled(cx, inbox, post, txn)).await {
        Ok(()) => Ok(Some(after)),
        Err(error) if lost(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What has expired is counted until the store has removed it, which may take days, and takes up no room: where the count says that there is
/// none, those that can be seen say whether there is.
async fn is_full(
    cx: &Cx,
    node: &Inbox,
    inbox: &InboxKey,
    stats: &PublicStats,
) -> Result<bool, StorageError> {
    if stats.published < MAX_PUBLIC {
        return Ok(false);
    }
    let index = node.indexes.at(cx, inbox, stats.clone()).await?;
    Ok(index.after(0) >= MAX_PUBLIC)
}

async fn stats(
    cx: &Cx,
    inbox: &InboxKey,
    items: &dyn ItemStore,
) -> Result<PublicStats, StorageError> {
    let key = keys::counts(&keys::public(cx.workspace(), inbox));
    Ok(PublicStats::read(items.get(&tables::INBOX, &key).await?.as_ref())?)
}

fn count(cx: &Cx, inbox: &InboxKey, key: tidings_kernel::Key, number: i64) -> Update {
    let update = Update::new(&tables::INBOX, key).add("published", number);
    let stamp = public_stamp(cx.workspace(), inbox);
    stamp.into_iter().fold(update, |update, (name, value)| update.set(name, value))
}

fn count_category(cx: &Cx, inbox: &InboxKey, txn: Txn, post: &Post) -> Txn {
    let Some(category) = &post.category else { return txn };
    let key = keys::category_counts(&keys::public(cx.workspace(), inbox), category);
    txn.update(count(cx, inbox, key, 1))
}

/// A number that is 0 where it was never set is still the same.
fn unchanged(name: &str, number: i64) -> Expect {
    Expect::That(match number {
        0 => Condition::not_exists(name).or(Condition::eq(name, 0)),
        number => Condition::eq(name, number),
    })
}
