//! Transactions that only add rows. Nothing has to be read for them but what they want to be absent besides: the database says of
//! each row whether it was there.
//!
//! They are the most of what is written in bulk. One that finds a row in its place is taken back as a whole, and decided as
//! any other.

use std::collections::HashMap;

use super::batch::Transaction;
use super::rows::{self, RowBody, RowKey};
use crate::database::{DatabaseError, Tx};

/// Stores those of the transactions that only add rows which no other one of the batch names, and tells of each whether
/// it is stored.
pub(super) fn store(
    tx: &mut Tx<'_>,
    transactions: &[&Transaction],
) -> Result<Vec<bool>, DatabaseError> {
    let mut is_stored: Vec<_> =
        transactions.iter().map(|transaction| transaction.only_adds()).collect();
    if is_stored.contains(&true) {
        leave_shared(transactions, &mut is_stored);
        leave_refused(tx, transactions, &mut is_stored)?;
        let added = add(tx, transactions, &mut is_stored)?;
        take_back(tx, added, &is_stored)?;
    }
    Ok(is_stored)
}

/// What two of them name is decided for one after the other.
fn leave_shared(transactions: &[&Transaction], is_stored: &mut [bool]) {
    let mut named: HashMap<&RowKey, usize> = HashMap::new();
    for key in transactions.iter().flat_map(|transaction| transaction.keys()) {
        *named.entry(key).or_default() += 1;
    }
    for (transaction, is_stored) in transactions.iter().zip(is_stored) {
        *is_stored &= transaction.keys().all(|key| named.get(key) == Some(&1));
    }
}

/// One that finds a row where it wants none is decided as any other, which tells it why it fails.
fn leave_refused(
    tx: &mut Tx<'_>,
    transactions: &[&Transaction],
    is_stored: &mut [bool],
) -> Result<(), DatabaseError> {
    let marked = transactions.iter().enumerate().filter(|(number, _)| is_stored[*number]);
    let mut checked: Vec<(&RowKey, usize)> = marked
        .flat_map(|(number, transaction)| transaction.checked().map(move |key| (key, number)))
        .collect();
    checked.sort_unstable();
    for of_table in checked.chunk_by(|(a, _), (b, _)| a.table == b.table) {
        let keys: Vec<_> = of_table.iter().map(|(key, _)| *key).collect();
        let found = rows::load(tx, keys[0].table, &keys)?;
        for ((_, owner), found) in of_table.iter().zip(found) {
            is_stored[*owner] &= found.is_none();
        }
    }
    Ok(())
}

/// Adds the rows of those that are marked, and takes the mark from those that found one in its place. The rows that
/// were added are told with the transaction that they belong to.
fn add<'a>(
    tx: &mut Tx<'_>,
    transactions: &[&'a Transaction],
    is_stored: &mut [bool],
) -> Result<Vec<(usize, &'a RowKey)>, DatabaseError> {
    let marked = transactions.iter().enumerate().filter(|(number, _)| is_stored[*number]);
    let mut rows: Vec<(usize, (&'a RowKey, RowBody))> = marked
        .flat_map(|(number, transaction)| transaction.rows().map(move |row| (number, row)))
        .collect();
    // As everywhere: every node locks rows in the same order, and neighbours in the tree are written together.
    rows.sort_by_key(|(_, (key, _))| *key);
    let (owners, rows): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    let (mut owners, mut added) = (owners.into_iter(), Vec::new());
    for of_table in rows.chunk_by(|(a, _), (b, _)| a.table == b.table) {
        let written = rows::store_new(tx, of_table[0].0.table, of_table)?;
        for ((key, _), (owner, written)) in of_table.iter().zip(owners.by_ref().zip(written)) {
            if written {
                added.push((owner, *key));
            } else {
                is_stored[owner] = false;
            }
        }
    }
    Ok(added)
}

/// One that cannot be stored as a whole leaves nothing.
fn take_back(
    tx: &mut Tx<'_>,
    mut added: Vec<(usize, &RowKey)>,
    is_stored: &[bool],
) -> Result<(), DatabaseError> {
    added.retain(|(owner, _)| !is_stored[*owner]);
    for of_table in added.chunk_by(|(_, a), (_, b)| a.table == b.table) {
        let keys: Vec<_> = of_table.iter().map(|(_, key)| *key).collect();
        rows::remove(tx, keys[0].table, &keys)?;
    }
    Ok(())
}
