//! The contents of one workspace: items by table and key, the changes so far, and who has read how many.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tidings_kernel::{
    Cancellation, Change, ChangeBatch, ChangeKind, Condition, Cursor, Direction, Index, Invalid,
    Item, Key, MAX_PAGE_BYTES, Page, Query, Scan, StoreError, Table, Txn, tables,
};

#[derive(Default)]
pub(super) struct State {
    items: BTreeMap<(&'static str, Key), Item>,
    changes: Vec<(&'static str, Change)>,
    /// How many changes of the table the consumer has acknowledged.
    checkpoints: BTreeMap<(&'static str, String), usize>,
}

/// Where an item stands in the order of a query: the sort key of the table or the index, and then, as several
/// items can have the same place in an index, the key.
type Place = (Option<String>, Key);

impl State {
    /// The item under a key, expired or not.
    pub(super) fn stored(&self, table: &'static Table, key: &Key) -> Option<&Item> {
        self.items.get(&(table.name, key.clone()))
    }

    pub(super) fn store(&mut self, table: &'static Table, key: &Key, new: Option<Item>) {
        self.replace(table, key, new, ChangeKind::Deleted);
    }

    fn replace(
        &mut self,
        table: &'static Table,
        key: &Key,
        new: Option<Item>,
        removal: ChangeKind,
    ) {
        let place = (table.name, key.clone());
        let old = match &new {
            Some(item) => self.items.insert(place, item.clone()),
            None => self.items.remove(&place),
        };
        let kind = match (&old, &new) {
            (None, Some(_)) => ChangeKind::Inserted,
            (Some(old), Some(new)) if old != new => ChangeKind::Modified,
            (Some(_), None) => removal,
            // Nothing has changed, so there is nothing to tell.
            _ => return,
        };
        self.changes.push((table.name, Change { key: key.clone(), kind, old, new }));
    }

    pub(super) fn transact(&mut self, txn: &Txn) -> Result<(), StoreError> {
        let mut reasons = Vec::new();
        let mut results = Vec::new();
        for write in &txn.writes {
            let key = write.key()?;
            let current = self.stored(write.table(), &key).cloned();
            if !write.expectation().holds(current.as_ref()) {
                reasons.push(Cancellation::ConditionFailed { current });
                continue;
            }
            match write.apply(current.as_ref()) {
                Ok(new) => {
                    reasons.push(Cancellation::None);
                    results.push((write.table(), key, new));
                }
                Err(invalid) => reasons.push(Cancellation::Invalid(invalid)),
            }
        }
        if reasons.iter().any(|reason| *reason != Cancellation::None) {
            return Err(StoreError::Cancelled(reasons));
        }
        for (table, key, new) in results {
            self.store(table, &key, new);
        }
        Ok(())
    }

    pub(super) fn sweep(&mut self, now: Timestamp, limit: usize) -> usize {
        let mut expired = Vec::new();
        for table in tables::ALL {
            for ((name, key), item) in &self.items {
                if *name == table.name && table.is_expired(item, now) {
                    expired.push((table, key.clone()));
                }
            }
        }
        expired.truncate(limit);
        for (table, key) in &expired {
            self.replace(table, key, None, ChangeKind::Expired);
        }
        expired.len()
    }

    /// Everything that a query finds after its cursor, page or not, in its order, before the filter.
    fn in_range<'a>(
        &'a self,
        query: &'a Query,
        now: Timestamp,
    ) -> Result<Vec<(Place, &'a Item)>, Invalid> {
        let index = query.on_index()?;
        let mut found = Vec::new();
        let now = if query.expired { Timestamp::MIN } else { now };
        for (key, item) in self.live(query.table, None, now) {
            let Some((partition, sort)) = place(index, key, item) else { continue };
            if partition == query.partition
                && sort.as_deref().is_none_or(|sort| query.range.contains(sort))
            {
                found.push(((sort, key.clone()), item));
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        if query.direction == Direction::Backward {
            found.reverse();
        }
        if let Some(cursor) = &query.cursor {
            let (key, in_index) = cursor.position(query.table, index)?;
            let sort = match in_index {
                Some((_, sort)) => Some(sort),
                None => key.sort.clone(),
            };
            let last = (sort, key);
            found.retain(|(place, _)| match query.direction {
                Direction::Forward => *place > last,
                Direction::Backward => *place < last,
            });
        }
        Ok(found)
    }

    /// The same as far as the filter lets it through.
    pub(super) fn matching<'a>(
        &'a self,
        query: &'a Query,
        now: Timestamp,
    ) -> Result<Vec<(Place, &'a Item)>, Invalid> {
        let mut found = self.in_range(query, now)?;
        found.retain(|(_, item)| passes(query, item));
        Ok(found)
    }

    pub(super) fn query(&self, query: &Query, now: Timestamp) -> Result<Page, Invalid> {
        let index = query.on_index()?;
        let found = self.in_range(query, now)?;
        let mut found: Vec<&Item> = found.into_iter().map(|(_, item)| item).collect();
        let cut = query.examine.filter(|most| found.len() >= *most);
        let last = cut.and_then(|most| found.get(most - 1).copied());
        found.truncate(cut.unwrap_or(usize::MAX));
        found.retain(|item| passes(query, item));
        let mut page = page(query.table, index, &found, query.limit)?;
        if let (None, Some(last)) = (&page.cursor, last) {
            page.cursor = Some(Cursor::after(query.table, index, last)?);
        }
        Ok(page)
    }

    pub(super) fn scan(&self, scan: &Scan, now: Timestamp) -> Result<Page, Invalid> {
        let last = match &scan.cursor {
            Some(cursor) => Some(cursor.position(scan.table, None)?.0),
            None => None,
        };
        let mut found = Vec::new();
        for (key, item) in self.live(scan.table, scan.filter.as_ref(), now) {
            let segment = key.partition.bytes().map(u32::from).sum::<u32>() % scan.of;
            if segment == scan.segment && last.as_ref().is_none_or(|last| key > last) {
                found.push(item);
            }
        }
        page(scan.table, None, &found, scan.limit)
    }

    fn live<'a>(
        &'a self,
        table: &'static Table,
        filter: Option<&'a Condition>,
        now: Timestamp,
    ) -> impl Iterator<Item = (&'a Key, &'a Item)> {
        self.items.iter().filter_map(move |((name, key), item)| {
            let wanted = *name == table.name
                && !table.is_expired(item, now)
                && filter.is_none_or(|filter| filter.holds(item));
            wanted.then_some((key, item))
        })
    }

    pub(super) fn changes(&self, table: &Table, consumer: &str, limit: usize) -> ChangeBatch {
        let read = self.checkpoints.get(&(table.name, consumer.to_owned())).copied().unwrap_or(0);
        let changes: Vec<Change> = self.changes_of(table).skip(read).take(limit).collect();
        let position =
            if changes.is_empty() { None } else { Some((read + changes.len()).to_string()) };
        ChangeBatch { changes, position }
    }

    pub(super) fn acknowledge(
        &mut self,
        table: &Table,
        consumer: &str,
        position: &str,
    ) -> Result<(), Invalid> {
        let position: usize = position.parse().map_err(|_| Invalid::BadCursor)?;
        if position > self.changes_of(table).count() {
            return Err(Invalid::BadCursor);
        }
        let read = self.checkpoints.entry((table.name, consumer.to_owned())).or_default();
        *read = position.max(*read);
        Ok(())
    }

    fn changes_of(&self, table: &Table) -> impl Iterator<Item = Change> {
        let name = table.name;
        self.changes.iter().filter(move |(of, _)| *of == name).map(|(_, change)| change.clone())
    }
}

/// The item's partition and sort key in the table or the index, if it is in it.
fn place(index: Option<&Index>, key: &Key, item: &Item) -> Option<(String, Option<String>)> {
    match index {
        Some(index) => {
            let (partition, sort) = index.key_of(item)?;
            Some((partition.to_owned(), Some(sort.to_owned())))
        }
        None => Some((key.partition.clone(), key.sort.clone())),
    }
}

fn passes(query: &Query, item: &Item) -> bool {
    query.filter.as_ref().is_none_or(|filter| filter.holds(item))
}

/// As many of the items as a page holds.
fn page(
    table: &Table,
    index: Option<&Index>,
    found: &[&Item],
    limit: usize,
) -> Result<Page, Invalid> {
    let mut items: Vec<Item> = Vec::new();
    let mut bytes = 0;
    for item in found {
        if items.len() == limit || bytes >= MAX_PAGE_BYTES {
            break;
        }
        bytes += item.size();
        items.push((*item).clone());
    }
    let cursor = match items.last() {
        Some(last) if items.len() < found.len() => Some(Cursor::after(table, index, last)?),
        _ => None,
    };
    Ok(Page { items, cursor })
}
