//! Pages of messages: those of the user and those of everyone as one row, by id.
//!
//! One walk goes down the user's partition, where his receipts are too, and in step with it down the public messages that
//! are in memory; only those that are shown are fetched. A walk that finds little ends early, and says where to go on.

use std::collections::HashMap;
use std::fmt;
use std::iter::Peekable;
use std::str::FromStr;

use tidings_access::Cx;
use tidings_kernel::{Item, Query, StoreError, tables};

use super::{Counts, Shown};
use crate::Inbox;
use crate::damage::readable;
use crate::ids::MessageId;
use crate::keys::{self, Category};
use crate::public::Known;
use crate::records::{Marks, Own, Receipt, Stored};
use crate::rules::Standing;
use crate::view::{LookError, Reader, View, look};

/// What a page can hold.
pub const MAX_LIMIT: usize = 100;
/// So many items of the user are looked at for one page.
const MAX_LOOKED_AT: usize = 400;
/// So many are read at once where most may be left out. With one more it is still few enough for a glance.
const FILTERED: usize = 99;

/// Which messages, and how many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// 1 to 100; what is outside is brought inside.
    pub limit: usize,
    pub cursor: Option<Cursor>,
    pub category: Option<Category>,
    pub unread_only: bool,
    /// Those that were archived, instead of those that were not.
    pub archived: bool,
}

/// Messages, newest first. It may hold less than was asked for and still not be the last.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    pub messages: Vec<Shown>,
    /// Where to go on; nothing if there is nothing more.
    pub next: Option<Cursor>,
    /// How many there are in all, at the same moment.
    pub counts: Counts,
}

/// Messages that came after another one, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Newer {
    pub messages: Vec<Shown>,
    /// Whether there are more than were asked for.
    pub more: bool,
}

/// Where a page ended, opaque to those who carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(MessageId);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no cursor of a list of messages: use one that an answer had")]
pub struct CursorError;

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        text.parse().map(Self).map_err(|_| CursorError)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A page of a user's messages.
pub async fn list(
    cx: &Cx,
    inbox: &Inbox,
    reader: &Reader,
    listing: Listing,
) -> Result<Page, LookError> {
    let view = look(cx, inbox, reader).await?;
    list_in(cx, reader, &view, listing).await
}

pub(crate) async fn list_in(
    cx: &Cx,
    reader: &Reader,
    view: &View,
    listing: Listing,
) -> Result<Page, LookError> {
    let limit = listing.limit.clamp(1, MAX_LIMIT);
    let filtered = listing.unread_only || listing.archived || listing.category.is_some();
    // One more tells whether there is a next page.
    let at_once = if filtered { FILTERED.max(limit + 1) } else { limit + 1 };
    let mut below = listing.cursor.clone().map(|cursor| cursor.0);
    let (mut picked, mut looked_at) = (Vec::new(), 0);
    let next = loop {
        let part = Part::before(cx, reader, below.as_ref(), at_once).await?;
        looked_at += part.looked_at;
        let wanted = view.index.wanted(view.since(), listing.category.as_ref());
        let publics = view.index.below(below.as_ref(), wanted);
        let publics =
            publics.take_while(|known| part.end.as_ref().is_none_or(|end| known.id >= *end));
        let merged = Merged {
            rows: part.rows.into_iter().peekable(),
            publics: publics.peekable(),
            order: Order::Newest,
        };
        let fitting = merged.filter(|pick| pick.fits(view, &listing));
        picked.extend(fitting.take(limit + 1 - picked.len()));
        if picked.len() > limit {
            picked.truncate(limit);
            break picked.last().map(|pick: &Pick<'_>| pick.id().clone());
        }
        below = part.end;
        if below.is_none() || looked_at >= MAX_LOOKED_AT {
            break below;
        }
    };
    let messages = shown(cx, reader, view, picked).await?;
    Ok(Page { messages, next: next.map(Cursor), counts: view.counts() })
}

/// The greatest id of what a user has, archived messages and receipts too, and how many there are at the same moment. Whatever has
/// a greater one has come since.
pub async fn newest(
    cx: &Cx,
    inbox: &Inbox,
    reader: &Reader,
) -> Result<(Option<MessageId>, Counts), LookError> {
    let view = look(cx, inbox, reader).await?;
    let part = Part::before(cx, reader, None, 1).await?;
    // Where there is an end, it is that of a row which nobody can read.
    let own = part.rows.first().map(|row| row.id().clone()).or(part.end);
    let wanted = view.index.wanted(view.since(), None);
    let public = view.index.below(None, wanted).next().map(|known| known.id);
    Ok((own.max(public), view.counts()))
}

/// Up to `limit` messages with greater ids than this one, archived ones too.
pub async fn newer(
    cx: &Cx,
    inbox: &Inbox,
    reader: &Reader,
    after: &MessageId,
    limit: usize,
) -> Result<Newer, LookError> {
    let view = look(cx, inbox, reader).await?;
    let limit = limit.clamp(1, MAX_LIMIT);
    let (mut after, mut picked, mut looked_at) = (after.clone(), Vec::new(), 0);
    let more = loop {
        let part = Part::after(cx, reader, &after, limit + 1).await?;
        looked_at += part.looked_at;
        let publics = view.index.above(&after, view.index.wanted(view.since(), None));
        let publics =
            publics.take_while(|known| part.end.as_ref().is_none_or(|end| known.id <= *end));
        let merged = Merged {
            rows: part.rows.into_iter().peekable(),
            publics: publics.peekable(),
            order: Order::Oldest,
        };
        picked.extend(merged.take(limit + 1 - picked.len()));
        if picked.len() > limit {
            picked.truncate(limit);
            break true;
        }
        match part.end {
            Some(end) if looked_at < MAX_LOOKED_AT => after = end,
            end => break end.is_some(),
        }
    };
    let messages = shown(cx, reader, &view, picked).await?;
    Ok(Newer { messages, more })
}

/// What stands in the user's partition: messages of his own and receipts.
enum Row {
    Own(Own),
    Receipt(Receipt),
}

impl Row {
    fn id(&self) -> &MessageId {
        match self {
            Self::Own(own) => &own.message.id,
            Self::Receipt(receipt) => &receipt.id,
        }
    }
}

/// A part of the user's partition.
struct Part {
    rows: Vec<Row>,
    /// How many items were read for it.
    looked_at: usize,
    /// The id up to which it was read; nothing if it was read to its end.
    end: Option<MessageId>,
}

impl Part {
    /// Downwards from an id, without it.
    async fn before(
        cx: &Cx,
        reader: &Reader,
        id: Option<&MessageId>,
        limit: usize,
    ) -> Result<Self, LookError> {
        let from = keys::MESSAGES;
        let query = match id {
            Some(id) => Self::query(cx, reader).between(from, format!("{from}{id}")),
            None => Self::query(cx, reader).begins_with(from),
        };
        Self::read(cx, query.backward(), id, limit).await
    }

    /// Upwards from an id, without it.
    async fn after(
        cx: &Cx,
        reader: &Reader,
        id: &MessageId,
        limit: usize,
    ) -> Result<Self, LookError> {
        // Nothing stands between the last message and `m$`: the character after # is $.
        let query = Self::query(cx, reader).between(format!("{}{id}", keys::MESSAGES), "m$");
        Self::read(cx, query, Some(id), limit).await
    }

    fn query(cx: &Cx, reader: &Reader) -> Query {
        Query::new(&tables::INBOX, keys::user(cx.workspace(), &reader.inbox, &reader.uid))
    }

    async fn read(
        cx: &Cx,
        query: Query,
        without: Option<&MessageId>,
        limit: usize,
    ) -> Result<Self, LookError> {
        // The bounds of a range belong to it.
        let page = cx.items().await?.query(query.limit(limit + 1)).await?;
        let mut rows = Vec::with_capacity(page.items.len());
        for item in &page.items {
            let row = match readable(cx, item) {
                Some(Stored::Own(own)) => Row::Own(own),
                Some(Stored::Receipt(receipt)) => Row::Receipt(receipt),
                Some(Stored::Public(_)) | None => continue,
            };
            if without != Some(row.id()) {
                rows.push(row);
            }
        }
        // By the keys: the last may be one that nobody can read.
        let id = |item: &Item| item.text("SK")?.strip_prefix(keys::MESSAGES)?.parse().ok();
        let last = || page.items.iter().rev().find_map(id).ok_or_else(no_end);
        let end = if page.cursor.is_some() { Some(last()?) } else { None };
        Ok(Self { rows, looked_at: page.items.len(), end })
    }
}

fn no_end() -> StoreError {
    StoreError::Corrupt("a page of messages has none, and a next".into())
}

/// A message that may be shown.
enum Pick<'a> {
    Own(Box<Own>),
    Public(Known<'a>, Marks),
}

impl Pick<'_> {
    fn id(&self) -> &MessageId {
        match self {
            Self::Own(own) => &own.message.id,
            Self::Public(known, _) => &known.id,
        }
    }

    fn standing<'v>(&self, view: &'v View) -> Standing<'v> {
        match self {
            Self::Own(own) => view.balance.of_own(own),
            Self::Public(known, marks) => view.balance.of_public(known.category, known.seq, *marks),
        }
    }

    fn category(&self) -> Option<&Category> {
        match self {
            Self::Own(own) => own.message.category.as_ref(),
            Self::Public(known, _) => known.category,
        }
    }

    fn fits(&self, view: &View, listing: &Listing) -> bool {
        let standing = self.standing(view);
        let wanted = listing.category.as_ref();
        wanted.is_none_or(|wanted| self.category() == Some(wanted))
            && standing.marks.archived.is_some() == listing.archived
            && !(listing.unread_only && standing.is_read())
    }
}

#[derive(Clone, Copy)]
enum Order {
    Newest,
    Oldest,
}

/// Both rows as one. A receipt goes with its message; one without is not shown.
struct Merged<R: Iterator<Item = Row>, P>
where
    P: Iterator,
{
    rows: Peekable<R>,
    publics: Peekable<P>,
    order: Order,
}

impl<'a, R: Iterator<Item = Row>, P: Iterator<Item = Known<'a>>> Iterator for Merged<R, P> {
    type Item = Pick<'a>;

    fn next(&mut self) -> Option<Pick<'a>> {
        loop {
            let place = match (self.rows.peek(), self.publics.peek()) {
                (None, None) => return None,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(row), Some(known)) => match self.order {
                    Order::Newest => known.id.cmp(row.id()),
                    Order::Oldest => row.id().cmp(&known.id),
                },
            };
            if place.is_gt() {
                return Some(Pick::Public(self.publics.next()?, Marks::default()));
            }
            match self.rows.next()? {
                Row::Own(own) => return Some(Pick::Own(Box::new(own))),
                Row::Receipt(receipt) if place.is_eq() => {
                    return Some(Pick::Public(self.publics.next()?, receipt.marks));
                }
                Row::Receipt(_) => {}
            }
        }
    }
}

/// The messages that were picked, those of everyone with their contents fetched.
async fn shown(
    cx: &Cx,
    reader: &Reader,
    view: &View,
    picked: Vec<Pick<'_>>,
) -> Result<Vec<Shown>, LookError> {
    let partition = keys::public(cx.workspace(), &reader.inbox);
    let is_public = |pick: &&Pick<'_>| matches!(pick, Pick::Public(..));
    let wanted = picked.iter().filter(is_public).map(|pick| keys::message(&partition, pick.id()));
    let wanted: Vec<_> = wanted.collect();
    let mut fetched = HashMap::new();
    if !wanted.is_empty() {
        for item in cx.items().await?.batch_get(&tables::INBOX, &wanted).await?.iter().flatten() {
            if let Some(public) = readable(cx, item).and_then(Stored::public) {
                fetched.insert(public.message.id.clone(), public.message);
            }
        }
    }
    let shown = picked.into_iter().filter_map(|pick| match pick {
        Pick::Own(own) => Some(view.show_own(*own)),
        Pick::Public(known, marks) => {
            let message = fetched.remove(&known.id)?;
            view.show_public(&known, message, marks)
        }
    });
    Ok(shown.collect())
}
