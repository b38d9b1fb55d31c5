//! Marking messages: read, unread, seen, archived, and all of them at once.
//!
//! Here: marking up to 50 messages in one transaction with what it changes in the counts. Not here: what a mark makes of
//! those before (`rules`), and read-alls (`read_all`, `newer`).
//!
//! A transaction expects each message as it was loaded, and that there was no read-all and no clean-up since, because what a
//! message adds to the counts follows from those. So whoever marks something else at the same time is not in the way, and
//! whoever marks the same counts once.

mod newer;
mod read_all;

use std::collections::BTreeSet;

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{
    Condition, Expect, Item, MAX_TXN_WRITES, Outgoing, StoreError, Txn, Update, Value, tables,
};

pub use self::newer::MAX_NEWER;
pub use self::read_all::{ReadAll, ReadUpTo, read_all};
use crate::Inbox;
use crate::counting::{Counting, still, unchanged};
use crate::damage::readable;
use crate::horizon::take_in;
use crate::ids::MessageId;
use crate::keys::{self, Category};
use crate::race::{ATTEMPTS, lost};
use crate::records::{EXPIRY, Expiring, Marks, Stored};
pub use crate::rules::Mark;
use crate::rules::{Difference, Standing};
use crate::timeline::{self, Marked};
use crate::view::{LookError, Reader, View, look};

/// So many messages can be marked at once.
pub const MAX_IDS: usize = 50;

#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    #[error("up to {MAX_IDS} messages can be marked at once, and these are {0}")]
    TooMany(usize),
    #[error("more than {MAX_NEWER} unread messages came after {0}; mark up to a later one, or all")]
    TooManyNewer(MessageId),
    #[error("the user was forgotten or signed out after he was let in")]
    Forgotten,
    #[error("others kept changing the inbox")]
    Busy,
    #[error("what was marked could not be saved")]
    Store(#[from] StorageError),
}

impl From<LookError> for MarkError {
    fn from(error: LookError) -> Self {
        match error {
            LookError::Forgotten => Self::Forgotten,
            LookError::Busy => Self::Busy,
            LookError::Store(error) => Self::Store(error),
        }
    }
}

impl From<StoreError> for MarkError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}

/// How a message is marked now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub id: MessageId,
    pub is_unread: bool,
    /// The first time wins.
    pub read_at: Option<Timestamp>,
    pub seen_at: Option<Timestamp>,
    pub archived_at: Option<Timestamp>,
}

/// Marks messages, and tells how each of them is marked then. Those that the user does not have, or not any more, are left out.
pub async fn mark(
    cx: &Cx,
    inbox: &Inbox,
    reader: &Reader,
    mark: Mark,
    ids: &[MessageId],
) -> Result<Vec<Receipt>, MarkError> {
    let ids: BTreeSet<&MessageId> = ids.iter().collect();
    if ids.len() > MAX_IDS {
        return Err(MarkError::TooMany(ids.len()));
    }
    let items = cx.items().await?;
    let counting = Counting::of_user(cx.workspace(), &reader.inbox, &reader.uid);
    let is_told = timeline::is_known(cx, &reader.uid).await?;
    for _ in 0..ATTEMPTS {
        let view = look(cx, inbox, reader).await?;
        let found = find(cx, &counting, &view, &ids).await?;
        let next =
            |found: &Found<'_>| found.standing.marked(mark, cx.now(), view.balance.stats.marks);
        let changed = found.iter().filter(|found| next(found) != found.standing.marks);
        let changed: Vec<_> = changed.map(|found| (found, next(found))).collect();
        if changed.is_empty() {
            return Ok(found.iter().map(|found| found.receipt(found.standing.marks)).collect());
        }
        let told = is_told.then_some((cx, reader));
        let (txn, made) = transaction(&counting, &view, &changed, told);
        match items.transact(txn).await {
            Ok(()) => inbox.hints.changed(cx.workspace(), &reader.inbox, Some(&reader.uid)),
            Err(error) if lost(&error) => continue,
            Err(error) => return Err(error.into()),
        }
        if made == changed.len() {
            return Ok(found.iter().map(|found| found.receipt(next(found))).collect());
        }
    }
    Err(MarkError::Busy)
}

/// A message that the user has.
struct Found<'a> {
    id: MessageId,
    category: Option<Category>,
    /// His message or his receipt, as it is stored.
    item: Option<Item>,
    /// What a receipt has to say of a public message.
    public: Option<(i64, Timestamp)>,
    standing: Standing<'a>,
}

impl Found<'_> {
    fn receipt(&self, marks: Marks) -> Receipt {
        let standing = Standing { marks, ..self.standing };
        Receipt {
            id: self.id.clone(),
            is_unread: !standing.is_read(),
            read_at: standing.read_at(),
            seen_at: marks.seen,
            archived_at: marks.archived,
        }
    }
}

async fn find<'v>(
    cx: &Cx,
    counting: &Counting<'_>,
    view: &'v View,
    ids: &BTreeSet<&MessageId>,
) -> Result<Vec<Found<'v>>, MarkError> {
    let wanted: Vec<_> = ids.iter().map(|id| keys::message(&counting.partition, id)).collect();
    let items = cx.items().await?.batch_get(&tables::INBOX, &wanted).await?;
    let mut found = Vec::with_capacity(ids.len());
    for (id, item) in ids.iter().zip(items) {
        let stored = item.as_ref().map(|item| readable(cx, item));
        // What it added to the counts cannot be told, so nothing can be marked on it.
        if matches!(stored, Some(None)) {
            continue;
        }
        let stored = stored.flatten();
        if let Some(Stored::Own(own)) = &stored {
            let (category, standing) = (own.message.category.clone(), view.balance.of_own(own));
            let id = own.message.id.clone();
            found.push(Found { id, category, item, public: None, standing });
            continue;
        }
        let Some(known) = view.public(id) else { continue };
        let marks = stored.and_then(Stored::receipt).map(|receipt| receipt.marks);
        let standing = view.balance.of_public(known.category, known.seq, marks.unwrap_or_default());
        let (category, public) = (known.category.cloned(), Some((known.seq, known.expires)));
        found.push(Found { id: known.id, category, item, public, standing });
    }
    Ok(found)
}

/// As many of the changes as one transaction holds, and how many those are: all of them, unless each has another category.
fn transaction(
    counting: &Counting<'_>,
    view: &View,
    changed: &[(&Found<'_>, Marks)],
    told: Option<(&Cx, &Reader)>,
) -> (Txn, usize) {
    let (mut txn, mut difference, mut made) = (Txn::new(), Difference::default(), 0);
    let mut come = Vec::new();
    for (found, marks) in changed {
        let is_new = |category: &Category| !difference.categories.contains_key(category);
        let more = 1 + usize::from(found.category.as_ref().is_some_and(is_new));
        let after = Standing { marks: *marks, ..found.standing };
        let told = told.and_then(|(cx, reader)| found.told(cx, reader, &after));
        let with_all = 1 + txn.writes.len() + txn.messages.len() + difference.categories.len();
        if with_all + more + usize::from(told.is_some()) > MAX_TXN_WRITES {
            break;
        }
        let counted = after.counted() - found.standing.counted();
        difference.add(found.category.as_ref(), 0, counted);
        txn = txn.update(found.update(counting, marks));
        txn = told.into_iter().fold(txn, Txn::enqueue);
        made += 1;
        // What is the user's own was taken in when it came, and a receipt that counts already when it began to.
        let begins = found.standing.counted() == 0 && counted != 0;
        if let Some((_, expires)) = found.public.filter(|_| begins) {
            come.push(Expiring::new(&found.id, expires));
        }
    }
    let stats = &view.balance.stats;
    let known = still("marks", stats.marks).and(still("cleaned", stats.cleaned));
    let all = take_in(counting.all(), known, stats, come);
    (counting.add(txn, &difference, all, &view.balance.categories), made)
}

impl Found<'_> {
    /// What goes on the user's timeline when he marks it so.
    fn told(&self, cx: &Cx, reader: &Reader, after: &Standing<'_>) -> Option<Outgoing> {
        let was_unread = !self.standing.is_read();
        let event_type = match (self.standing.marks.archived, after.marks.archived) {
            (None, Some(_)) => timeline::ARCHIVED,
            _ if was_unread && after.is_read() => timeline::READ,
            _ if !was_unread && !after.is_read() => timeline::UNREAD,
            _ => return None,
        };
        let marked = Marked {
            id: &self.id,
            category: self.category.as_ref(),
            was_unread,
            is_public: self.public.is_some(),
        };
        Some(timeline::marked(cx, reader, event_type, &marked))
    }

    fn update(&self, counting: &Counting<'_>, marks: &Marks) -> Update {
        let update = Update::new(&tables::INBOX, keys::message(&counting.partition, &self.id));
        let update = match self.public {
            Some((seq, expires)) => as_receipt(update, self.category.as_ref(), seq, expires),
            None => update,
        };
        // An update would make a message that is gone anew.
        let kind = match self.public {
            Some(_) => Condition::not_exists("kind"),
            None => Condition::exists("kind"),
        };
        let names = ["readat", "seenat", "archivedat", "unread"];
        let expected = names
            .into_iter()
            .fold(kind, |expected, name| expected.and(unchanged(self.item.as_ref(), name)));
        set_marks(update, marks).expect(Expect::That(expected))
    }
}

/// What a receipt holds besides the marks.
fn as_receipt(update: Update, category: Option<&Category>, seq: i64, expires: Timestamp) -> Update {
    let update = update.set("receipt", true).set("seq", seq).set(EXPIRY, expires.as_second());
    match category {
        Some(category) => {
            let taxonomy = [("category".to_owned(), Value::from(category.as_str()))];
            update.set("taxonomy", Value::M(taxonomy.into()))
        }
        None => update,
    }
}

fn set_marks(update: Update, marks: &Marks) -> Update {
    let ms = |at: Option<Timestamp>| at.map(|at| at.as_millisecond());
    let marks = [
        ("readat", ms(marks.read)),
        ("seenat", ms(marks.seen)),
        ("archivedat", ms(marks.archived)),
        ("unread", marks.unread),
    ];
    marks.into_iter().fold(update, |update, (name, number)| match number {
        Some(number) => update.set(name, number),
        None => update.remove(name),
    })
}
