//! Firing: from the earliest hour that may have timers to the present one.

use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use tidings_kernel::{
    Cancellation, Condition, Delete, Expect, Fired, Item, Key, Outgoing, Path, Query, Queue,
    SortRange, StoreError, Txn, Write, queues, tables::MAIN,
};
use tracing::error;

use super::hours::Hour;
use super::{AT_ONCE, SHARDS, entry_partition, pointer_key, sort_of};
use crate::dynamodb::store::Store;

/// A timer that is due, if its pointer still names it.
struct Entry {
    /// Where it lies.
    place: Key,
    name: String,
    key: String,
    queue: &'static Queue,
    body: String,
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Fired,
    /// It was stale, or another node has fired it.
    Gone,
    /// Other writers kept it, or nobody here knows its queue: it is tried again the next time.
    Left,
}

impl Store {
    pub(super) async fn fire(&self, limit: usize) -> Result<Fired, StoreError> {
        let now = self.clock.now();
        let mut count = 0;
        for hour in self.hours_to_look_at(now).await? {
            let fired = self.fire_hour(hour, now, limit - count).await?;
            count += fired.count;
            if count >= limit {
                // There may be more, here or in later hours.
                return Ok(Fired { count, next_due: Some(now) });
            }
            if fired.next_due.is_none() {
                self.close_hour(hour, now).await?;
            } else if hour == Hour::of(now) {
                return Ok(Fired { count, next_due: fired.next_due });
            }
        }
        Ok(Fired { count, next_due: None })
    }

    /// Fires up to `limit` timers of an hour, and tells when the first one is due that is left in it.
    async fn fire_hour(
        &self,
        hour: Hour,
        now: Timestamp,
        limit: usize,
    ) -> Result<Fired, StoreError> {
        let mut count = 0;
        loop {
            let next_due = self.first_due(hour).await?;
            if count >= limit || next_due.is_none_or(|due| due > now) {
                return Ok(Fired { count, next_due });
            }
            let entries = self.due_entries(hour, now, limit - count).await?;
            let outcomes = entries.into_iter().map(|entry| self.fire_entry(entry));
            let outcomes: Vec<Outcome> =
                stream::iter(outcomes).buffer_unordered(AT_ONCE).try_collect().await?;
            count += outcomes.iter().filter(|outcome| **outcome == Outcome::Fired).count();
            if outcomes.iter().all(|outcome| *outcome == Outcome::Left) {
                return Ok(Fired { count, next_due });
            }
        }
    }

    /// When the first entry of an hour is due, read without its neighbours: bodies can be large.
    async fn first_due(&self, hour: Hour) -> Result<Option<Timestamp>, StoreError> {
        let firsts = (0..SHARDS).map(|shard| async move {
            let query = Query::new(&MAIN, entry_partition(hour, shard)).limit(1);
            self.query_page(&query).await
        });
        let pages: Vec<_> =
            stream::iter(firsts).buffer_unordered(SHARDS as usize).try_collect().await?;
        let dues = pages.iter().flat_map(|page| &page.items).filter_map(due_of);
        Ok(dues.min())
    }

    async fn due_entries(
        &self,
        hour: Hour,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        // All sorts of this millisecond come before the next one's.
        let end = sort_of(now.as_millisecond().saturating_add(1));
        let due = (0..SHARDS).map(|shard| {
            let query = Query::new(&MAIN, entry_partition(hour, shard));
            let query = query.range(SortRange::Lt(end.clone())).limit(limit.clamp(1, 100));
            async move { self.query_page(&query).await }
        });
        let pages: Vec<_> =
            stream::iter(due).buffer_unordered(SHARDS as usize).try_collect().await?;
        let mut items: Vec<Item> = pages.into_iter().flat_map(|page| page.items).collect();
        items.sort_by_cached_key(|item| item.text("SK").map(str::to_owned));
        let entries = items.iter().filter_map(|item| self.read_entry(item));
        Ok(entries.take(limit).collect())
    }

    /// One transaction moves the timer. It fails for all nodes but one, and for an entry that is not the one its
    /// pointer names.
    async fn fire_entry(&self, entry: Entry) -> Result<Outcome, StoreError> {
        let named = Condition::Eq(Path::of("entry"), entry.name.as_str().into());
        let txn = Txn::new()
            .delete(&MAIN, pointer_key(&entry.key), Expect::That(named))
            .delete(&MAIN, entry.place.clone(), Expect::Present)
            .enqueue(Outgoing::new(entry.queue, entry.body));
        let reasons = match self.commit(txn).await {
            Ok(()) => return Ok(Outcome::Fired),
            Err(StoreError::Cancelled(reasons)) => reasons,
            Err(StoreError::Conflict) => return Ok(Outcome::Left),
            Err(error) => return Err(error),
        };
        let failed = |reason: &Cancellation| matches!(reason, Cancellation::ConditionFailed { .. });
        match &reasons[..] {
            [_, entry] if failed(entry) => Ok(Outcome::Gone),
            [pointer, _] if failed(pointer) => {
                self.write(Write::Delete(Delete::new(&MAIN, entry.place))).await?;
                Ok(Outcome::Gone)
            }
            _ => Err(StoreError::Cancelled(reasons)),
        }
    }

    /// A newer node may know a queue that this one does not: its timers are left to it.
    fn read_entry(&self, item: &Item) -> Option<Entry> {
        let place = MAIN.key_of(item).ok()?;
        let read = || {
            let text = |name: &str| item.text(name).map(str::to_owned);
            let queue = queues::by_name(item.text("queue")?)?;
            Some((text("entry")?, text("key")?, queue, text("body")?))
        };
        let Some((name, key, queue, body)) = read() else {
            error!(
                workspace = %self.workspace,
                "The timer at {place} of {} has no queue that is known here", self.workspace
            );
            return None;
        };
        Some(Entry { place, name, key, queue, body })
    }
}

fn due_of(item: &Item) -> Option<Timestamp> {
    let (due, _) = item.text("SK")?.split_once('#')?;
    Timestamp::from_millisecond(due.parse().ok()?).ok()
}
