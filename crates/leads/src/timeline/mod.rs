//! The story of a person: what happened, newest first, over all that was merged into him.
//!
//! Here: reading it a page at a time, telling it in words (`story`), and finding one event by what its source calls it (`told`).
//! Not here: how events come in (`ingestion`).

mod story;
#[cfg(test)]
mod tests;
mod told;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use futures_util::future::try_join_all;
use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{ItemStore, Query, tables};

pub use story::{ago, sentence};
pub use told::told_as;

use crate::event::{StoredEvent, time};
use crate::identity::{Owner, Whom, find};

/// So many events are told at once.
pub const MAX_LIMIT: usize = 200;
/// So many types can be asked for.
pub const MAX_TYPES: usize = 10;
/// From so many partitions, or types of one, events are read at once: not from all of them, so that what is held for one page has an end.
const AT_ONCE: usize = 4;

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
    /// Without what their sources sent.
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
    let parts: Vec<Part> = owner
        .partitions
        .iter()
        .flat_map(|partition| types.iter().map(move |kind| Part { partition, kind: *kind }))
        .collect();
    // One more than is told, so that it shows whether there is more.
    let mut newest = Newest::new(limit + 1);
    for some in parts.chunks(AT_ONCE) {
        let range = Range::of(listing, &newest);
        let reads = some.iter().map(|part| part.read(items.as_ref(), &range, limit + 1));
        for events in try_join_all(reads).await? {
            newest.add(events);
        }
    }
    let mut events = newest.into_events();
    let more = events.len() > limit;
    events.truncate(limit);
    let next = events.last().filter(|_| more).map(|event| Cursor(sort_of(event)));
    Ok(Some(Page { owner, events, next }))
}

fn sort_of(event: &StoredEvent) -> String {
    event.key().sort.unwrap_or_default()
}

/// The newest of all events that were read, as many as are wanted: a person can have many partitions, and an event 64 KB.
struct Newest {
    wanted: usize,
    /// By their keys, so that each is there once.
    events: BTreeMap<String, StoredEvent>,
}

impl Newest {
    fn new(wanted: usize) -> Self {
        Self { wanted, events: BTreeMap::new() }
    }

    fn add(&mut self, events: Vec<StoredEvent>) {
        for event in events {
            self.events.insert(sort_of(&event), event);
            if self.events.len() > self.wanted {
                self.events.pop_first();
            }
        }
    }

    /// What is older than this is told by none of those that are there.
    fn oldest(&self) -> Option<&str> {
        let is_full = self.events.len() >= self.wanted;
        self.events.first_key_value().filter(|_| is_full).map(|(sort, _)| sort.as_str())
    }

    fn into_events(self) -> Vec<StoredEvent> {
        self.events.into_values().rev().collect()
    }
}

/// Between which sort keys events are wanted. The last one is left out.
struct Range {
    low: String,
    high: String,
}

impl Range {
    fn of(listing: &Listing, newest: &Newest) -> Self {
        let begin = listing.after.map_or_else(|| "0".to_owned(), time);
        let low =
            newest.oldest().map_or(begin.as_str(), |oldest| oldest.max(begin.as_str())).to_owned();
        let end = listing.before.map_or_else(|| "~".to_owned(), time);
        let cursor = listing.cursor.as_ref().map(|cursor| cursor.0.as_str());
        let high = cursor.map_or(end.as_str(), |cursor| cursor.min(end.as_str())).to_owned();
        Self { low, high }
    }

    fn has(&self, sort: &str) -> bool {
        self.low.as_str() <= sort && sort < self.high.as_str()
    }
}

/// One partition, or its events of one type.
struct Part<'a> {
    partition: &'a str,
    kind: Option<&'a str>,
}

impl Part<'_> {
    /// The newest that are in a range, `wanted` at least if there are as many. Those of a type come in the order of their times alone, so the
    /// last of them come with all of the same time.
    async fn read(
        &self,
        items: &dyn ItemStore,
        range: &Range,
        wanted: usize,
    ) -> Result<Vec<StoredEvent>, StorageError> {
        if range.low > range.high {
            return Ok(Vec::new());
        }
        let base = Query::new(&tables::EVENT, self.partition).backward().limit(wanted);
        let query = match self.kind {
            None => base.between(range.low.as_str(), range.high.as_str()),
            Some(kind) => {
                // The index has no ids: what happened in the same moment is sorted out below.
                let (low, high) = (moment(&range.low), moment(&range.high));
                base.index("event-type-index")
                    .between(format!("{kind}#{low}"), format!("{kind}#{high}"))
            }
        };
        let (mut found, mut next) = (Vec::new(), None);
        loop {
            let page = items.query(query.clone().after(next)).await?;
            let events = page.items.iter().filter_map(StoredEvent::from_item);
            let wanted_ones = events.filter(|event| range.has(&sort_of(event)));
            // What the source sent is as large as all the rest, and no story tells it.
            found.extend(wanted_ones.map(|event| StoredEvent { raw_payload: None, ..event }));
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

/// The time of a sort key.
fn moment(sort: &str) -> &str {
    sort.split_once('#').map_or(sort, |(time, _)| time)
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
