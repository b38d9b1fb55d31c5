//! Counting anew: all features of somebody from all his events.
//!
//! While it runs, the item says so, and events have to wait: nothing is added to what is about to be replaced. Events that
//! were not counted yet are marked as they are read, each time under the condition that it is still this run that counts: so whoever
//! took over after a crash reads what was marked before, and no event counts twice or not at all. Whoever is at it says so again and
//! again, so that nobody takes over from the living.

use jiff::{SignedDuration, Timestamp};
use tidings_access::{Cx, StorageError};
use tidings_kernel::{Expect, Item, Key, Query, StoreError, Txn, tables};

use super::registry::ALL;
use super::state::day_of;
use super::store::{self, Kept};
use super::take::{MARK, mark, was_too_slow};
use super::{PAGE, changed, erase};
use crate::event::StoredEvent;
use crate::identity::{self, Owner};

/// So long nobody else begins, if it is not renewed.
const LEASE: SignedDuration = SignedDuration::from_secs(60);
/// So many events are marked in one transaction, besides the check of the item.
const MARKS: usize = 90;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebuilt {
    Done,
    /// The timeline is part of another person's, or nobody's: there is nothing to keep.
    Nothing,
    /// Somebody else is at it right now.
    Busy,
}

/// Counts all features of whoever this timeline is the first of.
pub async fn rebuild(cx: &Cx, lead_organization_id: &str) -> Result<Rebuilt, StorageError> {
    let owner = identity::owner(cx, lead_organization_id).await?;
    let Some(owner) = owner.filter(|owner| owner.lead_organization_id == lead_organization_id)
    else {
        erase(cx, lead_organization_id).await?;
        return Ok(Rebuilt::Nothing);
    };
    let rebuilt = match run(cx, &owner).await {
        Err(StorageError::Items(error)) if was_too_slow(&error) => Rebuilt::Busy,
        answer => answer?,
    };
    // Whoever was erased meanwhile has features again now: either the erasure finds them, or this look finds the erasure.
    if identity::owner(cx, lead_organization_id).await?.is_none() {
        erase(cx, lead_organization_id).await?;
        return Ok(Rebuilt::Nothing);
    }
    Ok(rebuilt)
}

async fn run(cx: &Cx, owner: &Owner) -> Result<Rebuilt, StorageError> {
    let (items, now) = (cx.items().await?, cx.now());
    let id = owner.lead_organization_id.as_str();
    let item = items.get(&tables::FEATURE, &store::key(id)).await?;
    let kept = Kept::read(id, item.as_ref());
    if kept.is_being_rebuilt(cx.time()) {
        return Ok(Rebuilt::Busy);
    }
    let until = lease_from(cx.time());
    let begun = kept.to_rebuilding(now, until)?;
    items.transact(Txn::new().put(&tables::FEATURE, begun, kept.expect())).await?;

    let mut held = Held { cx, id, kept: kept.after_write().cleared(), until };
    for partition in &owner.partitions {
        let mut cursor = None;
        loop {
            held.renew().await?;
            let query = Query::new(&tables::EVENT, partition.as_str()).limit(PAGE).after(cursor);
            let page = items.query(query).await?;
            held.mark_all(&page.items).await?;
            for event in page.items.iter().filter_map(StoredEvent::from_item) {
                held.kept.state.add(&event, day_of(now));
            }
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
    }
    let mut kept = held.kept;
    kept.compute(ALL.iter(), now);
    let txn = Txn::new().put(&tables::FEATURE, kept.to_item(now)?, kept.expect());
    items.transact(changed(cx, txn, &[id]).await?).await?;
    Ok(Rebuilt::Done)
}

fn lease_from(now: Timestamp) -> Timestamp {
    now.checked_add(LEASE).unwrap_or(Timestamp::MAX)
}

/// Somebody's features while they are counted anew: nobody else does the same until then.
struct Held<'a> {
    cx: &'a Cx,
    id: &'a str,
    kept: Kept,
    until: Timestamp,
}

impl Held<'_> {
    /// Holds on to it once half of its time is over: a timeline can be long. It fails if somebody has taken over.
    async fn renew(&mut self) -> Result<(), StorageError> {
        let now = self.cx.time();
        if now.checked_add(LEASE / 2).is_ok_and(|then| then < self.until) {
            return Ok(());
        }
        self.until = lease_from(now);
        self.cx.items().await?.update(self.kept.renewal(self.until)).await?;
        self.kept = self.kept.clone().after_write();
        Ok(())
    }

    async fn mark_all(&mut self, events: &[Item]) -> Result<(), StorageError> {
        let unmarked = events.iter().filter(|item| item.get(MARK).is_none());
        let keys: Result<Vec<Key>, _> = unmarked.map(|item| tables::EVENT.key_of(item)).collect();
        for some in keys.map_err(StoreError::from)?.chunks(MARKS) {
            self.renew().await?;
            let check = Txn::new().check(&tables::FEATURE, store::key(self.id), self.kept.expect());
            let txn = some.iter().fold(check, |txn, key| {
                txn.update(mark(key.clone(), self.cx).expect(Expect::Present))
            });
            self.cx.items().await?.transact(txn).await?;
        }
        Ok(())
    }
}
