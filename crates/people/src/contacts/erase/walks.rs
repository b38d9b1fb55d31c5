//! What is kept of somebody's walks through sequences: where he is in each, and those that failed.
//!
//! Whoever is erased leaves the funnel as if he had been taken out. Of those that failed the number stays: it names nobody.

use std::sync::Arc;

use jiff::Timestamp;
use tidings_access::StorageError;
use tidings_kernel::{
    Condition, EmailAddress, Expect, Item, ItemStore, Key, MAX_TXN_WRITES, Query, StoreError, Txn,
    Update, tables,
};

use crate::{keys, race};

/// An execution is at most four items, a timer, which counts as two, two numbers and the mark that it was taken out.
const WALKS: usize = MAX_TXN_WRITES / 9;
/// A failed one is three items.
const FAILED: usize = MAX_TXN_WRITES / 3;

/// Ends the walks that go on, with their timers, and forgets those that failed. Tells whether there were any.
pub(super) async fn end(
    items: &Arc<dyn ItemStore>,
    email: &EmailAddress,
    now: Timestamp,
) -> Result<bool, StorageError> {
    let (mut any, mut lost) = (false, 0);
    while lost < race::ATTEMPTS {
        let rows = some(items, email, keys::EXECUTION, WALKS).await?;
        if rows.is_empty() {
            return Ok(forget_failed(items, email).await? || any);
        }
        any = true;
        let mut txn = Txn::new();
        for row in &rows {
            let state = match id_of(row) {
                Some(id) => items.get(&tables::MAIN, &keys::execution(id)).await?,
                None => None,
            };
            txn = without_walk(txn, row, state.as_ref(), now)?;
        }
        match items.transact(txn).await {
            Ok(()) => {}
            // One of them has moved: where it is now is what is counted.
            Err(error) if race::lost(&error) => lost += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}

async fn forget_failed(
    items: &Arc<dyn ItemStore>,
    email: &EmailAddress,
) -> Result<bool, StorageError> {
    let mut any = false;
    loop {
        let found = some(items, email, keys::FAILED, FAILED).await?;
        if found.is_empty() {
            return Ok(any);
        }
        let mut txn = Txn::new();
        for item in &found {
            txn = without_failed(txn, tables::MAIN.key_of(item).map_err(StoreError::from)?);
        }
        items.transact(txn).await?;
        any = true;
    }
}

async fn some(
    items: &Arc<dyn ItemStore>,
    email: &EmailAddress,
    prefix: &str,
    at_once: usize,
) -> Result<Vec<Item>, StoreError> {
    let query = Query::new(&tables::MAIN, keys::subscriber(email)).begins_with(prefix);
    Ok(items.query(query.limit(at_once)).await?.items)
}

fn id_of(row: &Item) -> Option<&str> {
    row.text("executionArn").and_then(keys::execution_id)
}

/// Both sides, the line by time, where it is, and what would take it further. A worker that has it in hand finds the mark.
fn without_walk(
    txn: Txn,
    row: &Item,
    state: Option<&Item>,
    now: Timestamp,
) -> Result<Txn, StoreError> {
    let own = tables::MAIN.key_of(row).map_err(StoreError::from)?;
    let partner = Key::new(own.sort.clone().unwrap_or_default(), own.partition.clone());
    let same = match row.text("executionArn") {
        Some(arn) => Expect::That(Condition::eq("executionArn", arn)),
        None => Expect::Anything,
    };
    let txn = txn.delete(&tables::MAIN, own, same).delete(&tables::MAIN, partner, Expect::Anything);
    // Of an execution that somebody else has written we know no more than that.
    let Some(id) = id_of(row) else { return Ok(txn) };
    let there = match state.and_then(|state| state.integer("rev")) {
        Some(rev) => Expect::That(Condition::eq("rev", rev)),
        None => Expect::Anything,
    };
    let until = now.saturating_add(keys::STOP_REMEMBERED).unwrap_or(Timestamp::MAX);
    let mark = tables::MAIN.bare_item(&keys::stopped(id)).with("ttl", until.as_second());
    let txn = txn
        .delete(&tables::MAIN, keys::execution(id), there)
        .put(&tables::MAIN, mark, Expect::Anything)
        .cancel_timer(keys::execution_timer(id));
    let (Some(sequence), Some(at)) = (row.text("sequenceId"), row.text("startedAt")) else {
        return Ok(txn);
    };
    let txn = txn.delete(&tables::MAIN, keys::started(sequence, at, id), Expect::Anything);
    Ok(match state {
        Some(state) => left(txn, sequence, id, state),
        None => txn,
    })
}

/// Counts that he went out, of the step where he was and of the whole.
fn left(mut txn: Txn, sequence: &str, id: &str, state: &Item) -> Txn {
    let Some(version) = state.integer("version") else { return txn };
    let step = state.text("step").filter(|step| !step.is_empty());
    for step in step.into_iter().chain([""]) {
        let key = keys::funnel(sequence, version, step, id);
        let update = Update::new(&tables::MAIN, key).set("version", version).set("step", step);
        txn = txn.update(update.add("left", 1));
    }
    txn
}

/// The one in the list of the sequence, and what leads to it.
fn without_failed(mut txn: Txn, own: Key) -> Txn {
    let sort = own.sort.as_deref().unwrap_or_default();
    if let Some(partner) = keys::failed_of(sort) {
        txn = txn.delete(&tables::MAIN, partner, Expect::Anything);
    }
    if let Some((_, id)) = sort.rsplit_once('#') {
        txn = txn.delete(&tables::MAIN, keys::failed_at(id), Expect::Anything);
    }
    txn.delete(&tables::MAIN, own, Expect::Anything)
}
