//! Deriving anew: everything that is remembered of somebody from all his events.
//!
//! What is there is read first, then the events, and each thing is written only if it is still as it was read. So an event that
//! comes in meanwhile is either among those that were read, or changes what the write expects. What was stated stays.

use std::collections::BTreeMap;

use tidings_access::{Cx, StorageError};
use tidings_kernel::{Item, Key, Query, StoreError, Txn, tables};

use super::derive::derive;
use super::remembered::{Remembered, Stated, expect};
use super::{ATTEMPTS, erase, names, rules, settle};
use crate::event::StoredEvent;
use crate::features::changed;
use crate::identity;

/// So many items are read or written at once.
const PAGE: usize = 500;
const WRITES: usize = 50;

/// Derives everything anew that is remembered of whoever this timeline is the first of. Of one that is part of another
/// person's only what was stated is kept, for the day when they are taken apart. Tells how many things changed.
pub async fn rebuild(cx: &Cx, lead_organization_id: &str) -> Result<usize, StorageError> {
    let mut changes = 0;
    for _ in 0..ATTEMPTS {
        match run(cx, lead_organization_id, &mut changes).await {
            Err(StorageError::Items(StoreError::Conflict | StoreError::Cancelled(_))) => {}
            answer => return answer.map(|()| changes),
        }
    }
    Err(StoreError::Conflict.into())
}

async fn run(cx: &Cx, id: &str, changes: &mut usize) -> Result<(), StorageError> {
    let Some(owner) = identity::owner(cx, id).await? else {
        // Nobody's: whoever it was is erased, and the last time may have been cut short after its write.
        return erase(cx, id).await;
    };
    let known = items_of(cx, id).await?;
    let mut wanted: BTreeMap<String, Remembered> = BTreeMap::new();
    for (sort, item) in &known {
        let stated = Remembered::from_item(item).only_stated();
        if stated.stated.is_some() {
            wanted.insert(sort.clone(), stated);
        }
    }
    if owner.lead_organization_id == id {
        for other in owner.partitions.iter().filter(|other| *other != id) {
            for (sort, item) in items_of(cx, other).await? {
                if let Some(stated) = Remembered::from_item(&item).stated {
                    borrow(wanted.entry(sort).or_default(), stated);
                }
            }
        }
        let rules = rules::Known::default().of(cx).await?;
        for partition in &owner.partitions {
            add_events(cx, partition, &rules, &mut wanted).await?;
        }
    }
    wanted.retain(|_, remembered| remembered.is_kept(cx.now()));
    write(cx, id, (&known, &wanted), changes).await?;
    settle(cx, id).await.map(drop)
}

/// What was stated last elsewhere counts.
fn borrow(remembered: &mut Remembered, stated: Stated) {
    if remembered.borrowed.as_ref().is_none_or(|known| known.at < stated.at) {
        remembered.borrowed = Some(stated);
    }
}

async fn items_of(cx: &Cx, partition: &str) -> Result<BTreeMap<String, Item>, StorageError> {
    let (items, mut all, mut cursor) = (cx.items().await?, BTreeMap::new(), None);
    loop {
        let query = Query::new(&tables::MEMORY, partition).limit(PAGE).after(cursor);
        let page = items.query(query).await?;
        for item in page.items {
            if let Some(sort) = item.text("memory_type#key").map(ToOwned::to_owned) {
                all.insert(sort, item);
            }
        }
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(all);
        }
    }
}

async fn add_events(
    cx: &Cx,
    partition: &str,
    rules: &[super::RuleSet],
    wanted: &mut BTreeMap<String, Remembered>,
) -> Result<(), StorageError> {
    let (items, mut cursor) = (cx.items().await?, None);
    loop {
        let query = Query::new(&tables::EVENT, partition).limit(PAGE).after(cursor);
        let page = items.query(query).await?;
        for event in page.items.iter().filter_map(StoredEvent::from_item) {
            for derived in derive(&event, rules) {
                let sort = names::sort(&derived.memory_type, &derived.key);
                wanted.entry(sort).or_default().add(&event, &derived);
            }
        }
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

async fn write(
    cx: &Cx,
    id: &str,
    (known, wanted): (&BTreeMap<String, Item>, &BTreeMap<String, Remembered>),
    changes: &mut usize,
) -> Result<(), StorageError> {
    let mut all: Vec<Txn> = Vec::new();
    for (sort, remembered) in wanted {
        let (key, before) = (Key::new(id, sort.as_str()), known.get(sort));
        let item = remembered.to_item(&key);
        if before != Some(&item) {
            all.push(Txn::new().put(&tables::MEMORY, item, expect(before, cx.now())));
        }
    }
    for (sort, item) in known.iter().filter(|(sort, _)| !wanted.contains_key(*sort)) {
        let key = Key::new(id, sort.as_str());
        all.push(Txn::new().delete(&tables::MEMORY, key, expect(Some(item), cx.now())));
    }
    for some in all.chunks(WRITES) {
        let txn = some.iter().cloned().fold(Txn::new(), Txn::and);
        cx.items().await?.transact(changed(cx, txn, &[id]).await?).await?;
        *changes += some.len();
    }
    Ok(())
}
