//! What is kept of somebody's walks through sequences: where he is in each, and those that failed.

use std::sync::Arc;

use tidings_access::StorageError;
use tidings_kernel::{
    EmailAddress, Expect, Item, ItemStore, Key, MAX_TXN_WRITES, Query, StoreError, Txn, tables,
};

use crate::keys;

/// An execution is at most four items and a timer, which counts as two.
const WALKS: usize = MAX_TXN_WRITES / 6;
/// A failed one is three items.
const FAILED: usize = MAX_TXN_WRITES / 3;

/// Ends the walks that go on, with their timers, and forgets those that failed. Tells whether there were any.
pub(super) async fn end(
    items: &Arc<dyn ItemStore>,
    email: &EmailAddress,
) -> Result<bool, StorageError> {
    let going_on = each(items, email, (keys::EXECUTION, WALKS), without_walk).await?;
    let failed = each(items, email, (keys::FAILED, FAILED), without_failed).await?;
    Ok(going_on || failed)
}

async fn each(
    items: &Arc<dyn ItemStore>,
    email: &EmailAddress,
    (prefix, at_once): (&str, usize),
    without: fn(Txn, &Item, Key) -> Txn,
) -> Result<bool, StorageError> {
    let mut any = false;
    loop {
        let query = Query::new(&tables::MAIN, keys::subscriber(email)).begins_with(prefix);
        let found = items.query(query.limit(at_once)).await?.items;
        if found.is_empty() {
            return Ok(any);
        }
        let mut txn = Txn::new();
        for item in &found {
            let own = tables::MAIN.key_of(item).map_err(StoreError::from)?;
            txn = without(txn, item, own);
        }
        items.transact(txn).await?;
        any = true;
    }
}

/// Both sides, the line by time, where it is, and what would take it further.
fn without_walk(txn: Txn, item: &Item, own: Key) -> Txn {
    let partner = Key::new(own.sort.clone().unwrap_or_default(), own.partition.clone());
    let txn = txn.delete(&tables::MAIN, own, Expect::Anything).delete(
        &tables::MAIN,
        partner,
        Expect::Anything,
    );
    // Of an execution that somebody else has written we know no more than that.
    let id = item.text("executionArn").and_then(keys::execution_id);
    let Some(id) = id else { return txn };
    let txn = txn
        .delete(&tables::MAIN, keys::execution(id), Expect::Anything)
        .cancel_timer(keys::execution_timer(id));
    match (item.text("sequenceId"), item.text("startedAt")) {
        (Some(sequence), Some(at)) => {
            txn.delete(&tables::MAIN, keys::started(sequence, at, id), Expect::Anything)
        }
        _ => txn,
    }
}

/// The one in the list of the sequence, and what leads to it.
fn without_failed(mut txn: Txn, _: &Item, own: Key) -> Txn {
    let sort = own.sort.as_deref().unwrap_or_default();
    if let Some(partner) = keys::failed_of(sort) {
        txn = txn.delete(&tables::MAIN, partner, Expect::Anything);
    }
    if let Some((_, id)) = sort.rsplit_once('#') {
        txn = txn.delete(&tables::MAIN, keys::failed_at(id), Expect::Anything);
    }
    txn.delete(&tables::MAIN, own, Expect::Anything)
}
