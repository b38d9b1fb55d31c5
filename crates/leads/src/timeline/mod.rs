//! The story of a person: what happened, newest first, over all that was merged into him.
//!
//! Here: reading it a page at a time, and telling it in words (`story`). Not here: how events come in (`ingestion`).

mod story;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use futures_util::future::try_join_all;
use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{ItemStore, Query, tables};

pub use story::{ago, sentence};

use crate::event::{StoredEvent, time};
use crate::identity::{Owner, Whom, find};

/// So many events are told at once.
pub const MAX_LIMIT: usize = 200;
/// So many types can be asked for.
pub const MAX_TYPES: usize = 10;

/// What is to be told.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Only what happened before this.
    pub before: Option<Timestamp>,
    /// Only what happened then or later.
    pub after: Option<Timestamp>,
    /// Only events of these types; of all if there are none.
    pub types: Vec<String>,
    /// 1 to 200.
    pub limit: usize,
    /// Where the page before ended.
    pub cursor: Option<Cursor>,
}

/// Where a page ended: the next one begins with what is older.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("use the cursor that came with the page before")]
pub struct CursorError;

/// Some of a person's events, and where to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    pub owner: Owner,
    pub events: Vec<StoredEvent>,
    pub next: Option<Cursor>,
}

/// What happened to somebody. `None` if nobody is meant. Limits out of bounds are moved into them.
pub async fn timeline(
    cx: &Cx,
    whom: Whom,
    listing: &Listing,
) -> Result<Option<Page>, StorageError> {
    let Some(owner) = find(cx, whom).await? else { return Ok(None) };
    let items = cx.items().await?;
    let limit = listing.limit.clamp(1, MAX_LIMIT);
    let types: Vec<Option<&str>> = match listing.types.as_slice() {
        [] => vec![None],
        some => some.iter().take(MAX_TYPES).map(|one| Some(one.as_str())).collect(),
    };
    let parts = owner.partitions.iter().flat_map(|partition| {
        types.iter().map(|kind| Part {
            items: items.as_ref(),
            partition,
            kind: *kind,
            listing,
            limit,
        })
    });
    let found = try_join_all(parts.map(Part::read)).await?;
    // By their keys: the newest first, and each once.
    let mut all = BTreeMap::new();
    for event in found.into_iter().flatten() {
        all.insert(sort_of(&event), event);
    }
    let mut events: Vec<_> = all.into_values().rev().collect();
    let more = events.len() > limit;
    events.truncate(limit);
    let next = events.last().filter(|_| more).map(|event| Cursor(sort_of(event)));
    Ok(Some(Page { owner, events, next }))
}

fn sort_of(event: &StoredEvent) -> String {
    event.key().sort.unwrap_or_default()
}

/// One partition, or its events of one type.
struct Part<'a> {
    items: &'a dyn ItemStore,
    partition: &'a str,
    kind: Option<&'a str>,
    listing: &'a Listing,
    limit: usize,
}

impl Part<'_> {
    /// One more than is wanted, so that it shows whether there is more. Those of a type come in the order of their times
    /// alone, so the last of them come with all of the same time.
    async fn read(self) -> Result<Vec<StoredEvent>, StorageError> {
        let low = self.listing.after.map_or_else(|| "0".to_owned(), time);
        let end = self.listing.before.map_or_else(|| "~".to_owned(), time);
        let cursor = self.listing.cursor.as_ref().map(|cursor| cursor.0.as_str());
        let high = cursor.map_or(end.as_str(), |cursor| cursor.min(end.as_str()));
        let wanted = self.limit + 1;
        let base = Query::new(&tables::EVENT, self.partition).backward().limit(wanted);
        let query = match self.kind {
            None if low.as_str() <= high => base.between(low.as_str(), high),
            Some(kind) if low.as_str() <= high => {
                // The index has no ids: what happened in the same moment is sorted out below.
                let high = high.split_once('#').map_or(high, |(time, _)| time);
                base.index("event-type-index")
                    .between(format!("{kind}#{low}"), format!("{kind}#{high}"))
            }
            _ => return Ok(Vec::new()),
        };
        let (mut found, mut next) = (Vec::new(), None);
        loop {
            let page = self.items.query(query.clone().after(next)).await?;
            let events = page.items.iter().filter_map(StoredEvent::from_item);
            found.extend(events.filter(|event| sort_of(event).as_str() < high));
            next = page.cursor;
            let is_whole = match (self.kind, found.get(wanted - 1), found.last()) {
                (None, full, _) => full.is_some(),
                (Some(_), Some(full), Some(last)) => last.occurred_at < full.occurred_at,
                (Some(_), _, _) => false,
            };
            if is_whole || next.is_none() {
                return Ok(found);
            }
        }
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let (at, id) = text.split_once('#').ok_or(CursorError)?;
        let is_time = at.parse::<Timestamp>().is_ok_and(|parsed| time(parsed) == at);
        let is_id = id.len() == 36 && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
        if is_time && is_id { Ok(Self(text.to_owned())) } else { Err(CursorError) }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
