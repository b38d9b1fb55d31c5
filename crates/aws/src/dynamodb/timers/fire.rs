//! Firing: from the earliest hour that may have timers to the present one.

use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use tidings_kernel::{
    Cancellation, Condition, Delete, Expect, Fired, Item, Key, Outgoing, Path, Query, Queue,
    SortRange, StoreError, Txn, Write, queues, tables::MAIN,
};
use tracing::warn;

use super::hours::Hour;
use super::{AT_ONCE, SHARDS, entry_partition, pointer_key, sort_of};
use crate::dynamodb::store::Store;
use crate::dynamodb::workspaces::Round;

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
    /// Other writers kept it: it is tried again the next time.
    Left,
}

impl Store {
    pub(super) async fn fire(&self, limit: usize) -> Result<Fired, StoreError> {
        let now = self.clock.now();
        let mut round = Round::new();
        let (mut unknown, mut next_due) = (0, None);
        for hour in self.hours_to_look_at(now).await? {
            next_due = match self.fire_hour(hour, now, limit, &mut round).await {
                Ok(next_due) => next_due,
                Err(error) => {
                    round.fail(error);
                    break;
                }
            };
            if round.count >= limit {
                // There may be more, here or in later hours.
                next_due = Some(now);
                break;
            }
            if next_due.is_none() && hour.is_long_over(now) {
                match self.close_or_count(hour).await {
                    Ok(left) => unknown += left,
                    Err(error) => round.fail(error),
                }
            }
        }
        if unknown > 0 {
            warn!(
                workspace = %self.workspace,
                timers = unknown,
                "{unknown} timers of {} wait for a node that knows their queues", self.workspace
            );
        }
        Ok(Fired { count: round.end()?, next_due })
    }

    /// Fires timers of an hour until there are so many in all, and tells when the first one is due that is left.
    async fn fire_hour(
        &self,
        hour: Hour,
        now: Timestamp,
        limit: usize,
        round: &mut Round<StoreError>,
    ) -> Result<Option<Timestamp>, StoreError> {
        loop {
            let next_due = self.first_due(hour).await?;
            if round.count >= limit || next_due.is_none_or(|due| due > now) {
                return Ok(next_due);
            }
            let entries = self.due_entries(hour, now, limit - round.count).await?;
            let tries = entries.into_iter().map(|entry| self.fire_entry(entry));
            let outcomes: Vec<_> = stream::iter(tries).buffer_unordered(AT_ONCE).collect().await;
            let mut all_left = true;
            for outcome in outcomes {
                match outcome {
                    Ok(Outcome::Fired) => round.count += 1,
                    Ok(Outcome::Gone) => {}
                    Ok(Outcome::Left) => continue,
                    Err(error) => {
                        round.fail(error);
                        continue;
                    }
                }
                all_left = false;
            }
            if all_left {
                return Ok(next_due);
            }
        }
    }

    /// When the first entry of an hour is due, read without its neighbours: bodies can be large.
    async fn first_due(&self, hour: Hour) -> Result<Option<Timestamp>, StoreError> {
        let firsts = (0..SHARDS).map(|shard| async move {
            self.query_page(&entries_of(hour, shard).filter(is_known()).limit(1)).await
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
            let query = entries_of(hour, shard).range(SortRange::Lt(end.clone()));
            let query = query.filter(is_known()).limit(limit.clamp(1, 100));
            async move { self.query_page(&query).await }
        });
        let pages: Vec<_> =
            stream::iter(due).buffer_unordered(SHARDS as usize).try_collect().await?;
        let mut items: Vec<Item> = pages.into_iter().flat_map(|page| page.items).collect();
        items.sort_by_cached_key(|item| item.text("SK").map(str::to_owned));
        Ok(items.iter().filter_map(read_entry).take(limit).collect())
    }

    /// Whether there is nothing in an hour, of any queue.
    pub(super) async fn is_empty(&self, hour: Hour) -> Result<bool, StoreError> {
        let firsts = (0..SHARDS)
            .map(|shard| async move { self.query_page(&entries_of(hour, shard).limit(1)).await });
        let pages: Vec<_> =
            stream::iter(firsts).buffer_unordered(SHARDS as usize).try_collect().await?;
        Ok(pages.iter().all(|page| page.items.is_empty()))
    }

    /// Closes an hour in which nothing is left that is known here. What a newer node knows keeps it open, and is
    /// counted.
    async fn close_or_count(&self, hour: Hour) -> Result<u64, StoreError> {
        let counts = (0..SHARDS)
            .map(|shard| async move { self.count_items(&entries_of(hour, shard)).await });
        let counts: Vec<u64> =
            stream::iter(counts).buffer_unordered(SHARDS as usize).try_collect().await?;
        let left = counts.iter().sum();
        if left == 0 {
            self.close_hour(hour).await?;
        }
        Ok(left)
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
}

fn entries_of(hour: Hour, shard: u64) -> Query {
    Query::new(&MAIN, entry_partition(hour, shard))
}

/// A newer node may know a queue that this one does not: its timers are left to it, and do not stand in the way.
fn is_known() -> Condition {
    let names = queues::ALL.iter().map(|queue| queue.name.into());
    Condition::In(Path::of("queue"), names.collect())
}

fn read_entry(item: &Item) -> Option<Entry> {
    let text = |name: &str| item.text(name).map(str::to_owned);
    Some(Entry {
        place: MAIN.key_of(item).ok()?,
        name: text("entry")?,
        key: text("key")?,
        queue: queues::by_name(item.text("queue")?)?,
        body: text("body")?,
    })
}

fn due_of(item: &Item) -> Option<Timestamp> {
    let (due, _) = item.text("SK")?.split_once('#')?;
    Timestamp::from_millisecond(due.parse().ok()?).ok()
}
