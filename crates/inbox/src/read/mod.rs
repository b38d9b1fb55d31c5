//! Reading an inbox: its messages, newest first, one of them, what came since, and how many there are.
//!
//! Here: what is shown of a message (`Shown`), one message, and counts. Not here: pages of them (`list`), and marking (`marks`).

mod list;

use std::collections::BTreeMap;

use jiff::Timestamp;
use tidings_access::Cx;
use tidings_kernel::tables;

pub use self::list::{Cursor, CursorError, Listing, MAX_LIMIT, Newer, Page, list, newer, newest};
use crate::Inbox;
use crate::damage::readable;
use crate::ids::MessageId;
use crate::keys::{self, Category};
use crate::public::Known;
use crate::records::{self, Marks, Own, Stored};
use crate::rules::Standing;
use crate::view::{LookError, Reader, View, look};

/// A message as its reader has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// It always has its content.
    pub message: records::Message,
    pub is_public: bool,
    pub is_unread: bool,
    /// When it was first marked, or when the latest read-all was that covers it.
    pub read_at: Option<Timestamp>,
    pub seen_at: Option<Timestamp>,
    pub archived_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    pub total: i64,
    pub unread: i64,
    pub categories: BTreeMap<Category, Count>,
    /// Another one whenever anything has changed that the user sees in this inbox.
    pub rev: String,
    /// How often anything of the user has changed, and anything of everyone. A message that comes is one change.
    pub own_rev: i64,
    pub public_rev: i64,
    /// From when on it may be otherwise because something is past its time; nothing if nothing expires.
    pub until: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    pub total: i64,
    pub unread: i64,
}

/// An inbox as it is at one moment. Its messages are read when they are asked for.
#[derive(Debug)]
pub struct Open {
    reader: Reader,
    view: View,
}

/// Looks at an inbox, so that more than one thing can be read of it.
pub async fn open(cx: &Cx, inbox: &Inbox, reader: Reader) -> Result<Open, LookError> {
    let view = look(cx, inbox, &reader).await?;
    Ok(Open { reader, view })
}

impl Open {
    /// The same as of its counts.
    pub fn rev(&self) -> String {
        self.view.rev()
    }

    pub fn counts(&self) -> Counts {
        self.view.counts()
    }

    /// A page of the messages.
    pub async fn list(&self, cx: &Cx, listing: Listing) -> Result<Page, LookError> {
        list::list_in(cx, &self.reader, &self.view, listing).await
    }
}

/// How many messages a user has, and how many of them are unread. No message is looked at for it.
pub async fn counts(cx: &Cx, inbox: &Inbox, reader: &Reader) -> Result<Counts, LookError> {
    Ok(look(cx, inbox, reader).await?.counts())
}

/// One message. `None` if the user has no such message, or none any more.
pub async fn message(
    cx: &Cx,
    inbox: &Inbox,
    reader: &Reader,
    id: &MessageId,
) -> Result<Option<Shown>, LookError> {
    let view = look(cx, inbox, reader).await?;
    let items = cx.items().await?;
    let partition = keys::user(cx.workspace(), &reader.inbox, &reader.uid);
    let item = items.get(&tables::INBOX, &keys::message(&partition, id)).await?;
    let marks = match item.as_ref().and_then(|item| readable(cx, item)) {
        Some(Stored::Own(own)) => return Ok(Some(view.show_own(own))),
        Some(Stored::Receipt(receipt)) => receipt.marks,
        Some(Stored::Public(_)) | None => Marks::default(),
    };
    let Some(known) = view.public(id) else { return Ok(None) };
    let key = keys::message(&keys::public(cx.workspace(), &reader.inbox), id);
    let item = items.get(&tables::INBOX, &key).await?;
    let public = item.as_ref().and_then(|item| readable(cx, item)).and_then(Stored::public);
    Ok(public.and_then(|public| view.show_public(&known, public.message, marks)))
}

impl View {
    pub(crate) fn counts(&self) -> Counts {
        let mut categories: BTreeMap<Category, Count> = BTreeMap::new();
        let mut unread = self.index.without_category(self.floor(None));
        for (category, visible) in self.index.by_category(|category| self.floor(Some(category))) {
            unread += visible;
            categories.entry(category.clone()).or_default().unread += visible;
        }
        for (category, total) in self.index.by_category(|_| self.since()) {
            categories.entry(category.clone()).or_default().total += total;
        }
        for (category, stats) in &self.balance.categories {
            let count = categories.entry(category.clone()).or_default();
            count.total += stats.published;
            count.unread += stats.published - stats.read;
        }
        // What a store has removed before anybody looked is counted out a little later: for that while a sum may be less than nothing.
        for count in categories.values_mut() {
            *count = Count { total: count.total.max(0), unread: count.unread.max(0) };
        }
        categories.retain(|_, count| *count != Count::default());
        let total = self.balance.stats.published + self.index.after(self.since());
        let unread = unread + self.balance.stats.published - self.balance.stats.read;
        let (own_rev, public_rev) = (self.balance.stats.rev, self.index.stats.rev);
        let (total, unread) = (total.max(0), unread.max(0));
        let (rev, until) = (self.rev(), self.until());
        Counts { total, unread, categories, rev, own_rev, public_rev, until }
    }

    /// Public messages expire in the index, which changes nothing that is stored. And a user who was forgotten and comes again begins
    /// with the same numbers.
    fn rev(&self) -> String {
        let (own, seen) = (&self.balance.stats, self.index.after(0));
        format!("{}.{}.{seen}.{}", own.rev, self.index.stats.rev, own.came)
    }

    /// A public message that this user can see.
    pub(crate) fn public(&self, id: &MessageId) -> Option<Known<'_>> {
        // A node whose clock is ahead may have begun the counts: they have no room for what is gone by its time.
        let settled = self.balance.stats.settled;
        let lasts = |known: &Known<'_>| known.expires.as_second() > settled;
        self.index.find(id).filter(|known| known.seq > self.since() && lasts(known))
    }

    fn show_own(&self, own: Own) -> Shown {
        let standing = self.balance.of_own(&own);
        show(own.message, standing)
    }

    /// `None` if it was redacted a moment ago.
    fn show_public(
        &self,
        known: &Known<'_>,
        message: records::Message,
        marks: Marks,
    ) -> Option<Shown> {
        message.content.as_ref()?;
        let standing = self.balance.of_public(known.category, known.seq, marks);
        Some(show(message, standing))
    }
}

fn show(message: records::Message, standing: Standing<'_>) -> Shown {
    Shown {
        is_public: standing.is_public,
        is_unread: !standing.is_read(),
        read_at: standing.read_at(),
        seen_at: standing.marks.seen,
        archived_at: standing.marks.archived,
        message,
    }
}
