//! What was learned of a person: his timeline with the guards of its events, memory and features. Seed 004's items.
//!
//! Only the keys of those items are known here; what is in them is `leads`' alone.

use std::sync::Arc;

use tidings_access::{Cx, StorageError};
use tidings_kernel::{Expect, Item, ItemStore, Key, Query, StoreError, Table, Txn, tables};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use super::super::ContactId;

/// So many events go at once, each with its guard.
const EVENTS: usize = 50;

/// Whom a contact has become, and whether he is erased. `None` if there is no such contact in the workspace.
pub(super) fn root(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
) -> Result<Option<(ContactId, bool)>, DatabaseError> {
    let sql = "WITH RECURSIVE way (id, up, erased_at) AS (
                   SELECT id, merged_into_id, erased_at FROM leads WHERE workspace_id = $1 AND id = $2
                   UNION SELECT l.id, l.merged_into_id, l.erased_at FROM leads l JOIN way w ON l.id = w.up)
               SELECT id, erased_at FROM way WHERE up IS NULL";
    let params = [Param::Int(cx.workspace_id().get()), Param::Int(contact.get())];
    let rows = tx.query(sql, &params)?;
    let read = |row: &Row| Ok((ContactId::from(row.int(0)?), row.optional_int(1)?.is_some()));
    rows.first().map(read).transpose()
}

/// A person with all who were merged into him, himself first.
pub(super) fn family(tx: &mut Tx<'_>, contact: ContactId) -> Result<Vec<ContactId>, DatabaseError> {
    let sql = "WITH RECURSIVE family (id) AS (
                   SELECT id FROM leads WHERE id = $1
                   UNION SELECT l.id FROM leads l JOIN family f ON l.merged_into_id = f.id)
               SELECT id FROM family";
    let rows = tx.query(sql, &[Param::Int(contact.get())])?;
    let mut family = vec![contact];
    for row in &rows {
        let one = ContactId::from(row.int(0)?);
        if one != contact {
            family.push(one);
        }
    }
    Ok(family)
}

/// Deletes what is under this contact's own partition. It can be done again.
pub(super) async fn clear(cx: &Cx, contact: ContactId) -> Result<(), StorageError> {
    let find = cx.database().read(move |tx| {
        let sql = "SELECT id FROM lead_organizations WHERE lead_id = $1";
        let rows = tx.query(sql, &[Param::Int(contact.get())])?;
        rows.first().map(|row| row.int(0)).transpose()
    });
    let partition: Result<Option<i64>, DatabaseError> = find.await;
    let Some(partition) = partition?.map(|id| id.to_string()) else { return Ok(()) };
    let items = cx.items().await?;
    // The events first: who learns from one checks in his transaction that it is there. So what he writes is either there
    // before the rest is deleted, or not at all.
    clear_partition(&items, &tables::EVENT, &partition).await?;
    clear_partition(&items, &tables::MEMORY, &partition).await?;
    let feature = Txn::new().delete(&tables::FEATURE, Key::single(&partition), Expect::Anything);
    Ok(items.transact(feature).await?)
}

async fn clear_partition(
    items: &Arc<dyn ItemStore>,
    table: &'static Table,
    partition: &str,
) -> Result<(), StorageError> {
    loop {
        // From the beginning each time: what was there is gone.
        let page = items.query(Query::new(table, partition).and_expired().limit(EVENTS)).await?;
        if page.items.is_empty() {
            return Ok(());
        }
        let mut txn = Txn::new();
        for item in &page.items {
            let key = table.key_of(item).map_err(StoreError::from)?;
            txn = txn.delete(table, key, Expect::Anything);
            if let Some(guard) = guard(table, item) {
                txn = txn.delete(table, guard, Expect::Anything);
            }
        }
        items.transact(txn).await?;
    }
}

/// What lets an event of a source in once. The source's own id can tell who it was, so it goes too.
fn guard(table: &Table, item: &Item) -> Option<Key> {
    if *table != tables::EVENT {
        return None;
    }
    let (source, id) = (item.text("source")?, item.text("external_event_id")?);
    Some(Key::new(format!("IDEMPOTENCY#{source}"), id))
}
