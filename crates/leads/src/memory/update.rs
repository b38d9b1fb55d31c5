//! One event more: what it says is added to what is remembered.

use tidings_access::{Cx, StorageError};
use tidings_jobs::contracts::LeadEvent;
use tidings_kernel::{Expect, Key, StoreError, Txn, tables};

use super::derive::derive;
use super::remembered::{Remembered, expect};
use super::{ATTEMPTS, names, rules, settle_of};
use crate::event::{self, StoredEvent, as_judged};
use crate::features::changed;
use crate::identity;

/// Remembers what an event says. Doing it again changes nothing. Tells how many things are remembered otherwise than before.
pub async fn take(cx: &Cx, message: &LeadEvent) -> Result<usize, StorageError> {
    take_by(cx, &rules::Known::default(), message).await
}

/// The same of whoever has many to take.
pub(super) async fn take_by(
    cx: &Cx,
    rules: &rules::Known,
    message: &LeadEvent,
) -> Result<usize, StorageError> {
    let partition = message.lead_organization_id.as_str();
    let event = event::key(partition, message.occurred_at, &message.event_id);
    let items = cx.items().await?;
    let rules = rules.of(cx).await?;
    for _ in 0..ATTEMPTS {
        let Some(found) = items.get(&tables::EVENT, &event).await? else { return Ok(0) };
        let Some(stored) = StoredEvent::from_item(&found) else { return Ok(0) };
        let said = derive(&stored, &rules);
        if said.is_empty() {
            return Ok(0);
        }
        let Some(owner) = identity::owner(cx, partition).await? else { return Ok(0) };
        let id = owner.lead_organization_id.as_str();
        let key = |derived: &super::Derived| {
            Key::new(id, names::sort(&derived.memory_type, &derived.key))
        };
        let keys: Vec<Key> = said.iter().map(key).collect();
        let found = items.batch_get(&tables::MEMORY, &keys).await?;
        let mut txn = Txn::new();
        for ((derived, key), found) in said.iter().zip(&keys).zip(&found) {
            let before = found.as_ref().map(Remembered::from_item).unwrap_or_default();
            let mut known = before.clone();
            known.add(&stored, derived);
            if known != before && known.is_kept(cx.now()) {
                let expect = expect(found.as_ref(), cx.now());
                txn = txn.put(&tables::MEMORY, known.to_item(key), expect);
            }
        }
        let count = txn.writes.len();
        if count == 0 {
            return Ok(0);
        }
        // Whoever is erased meanwhile loses the event before his memory; and what is judged again may say nothing more.
        let txn = txn.check(&tables::EVENT, event.clone(), Expect::That(as_judged(&stored)));
        match items.transact(changed(cx, txn, &[id]).await?).await {
            Ok(()) => {
                settle_of(cx, partition, id).await?;
                return Ok(count);
            }
            Err(error) if error.is_condition_failed() => {}
            Err(StoreError::Conflict | StoreError::Cancelled(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}
