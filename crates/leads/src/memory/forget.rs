//! Dropping what was stated, so that only what events say counts.

use serde_json::json;
use tidings_access::{Change, Cx, StorageError};
use tidings_kernel::{Key, StoreError, Txn, tables};

use super::remembered::{Remembered, expect};
use super::{ATTEMPTS, MemoryKey, MemoryType, names};
use crate::features::changed;
use crate::identity;

/// Forgets what was stated of this, also what was stated of somebody who has become him. What events say of it counts again, and of what
/// they say nothing nothing is left. Tells whether anything was stated.
pub async fn forget(
    cx: &Cx,
    lead_organization_id: &str,
    (memory_type, key): (&MemoryType, &MemoryKey),
) -> Result<bool, StorageError> {
    let sort = names::sort(memory_type, key);
    for _ in 0..ATTEMPTS {
        let Some(owner) = identity::owner(cx, lead_organization_id).await? else {
            return Ok(false);
        };
        let items = cx.items().await?;
        let keys: Vec<Key> = owner
            .partitions
            .iter()
            .map(|partition| Key::new(partition.as_str(), sort.as_str()))
            .collect();
        let found = items.batch_get(&tables::MEMORY, &keys).await?;
        let mut txn = Txn::new();
        for (place, item) in keys.iter().zip(&found) {
            let Some(item) = item else { continue };
            let known = Remembered::from_item(item);
            let rest = known.without_stated();
            if rest == known {
                continue;
            }
            let expect = expect(Some(item), cx.now());
            txn = if rest.is_kept(cx.now()) {
                txn.put(&tables::MEMORY, rest.to_item(place), expect)
            } else {
                txn.delete(&tables::MEMORY, place.clone(), expect)
            };
        }
        if txn.writes.is_empty() {
            return Ok(false);
        }
        let told = Change::new("memory.forget", "contact", owner.lead_id)
            .before(json!({ "type": memory_type.as_str(), "key": key.as_str() }));
        let txn = changed(cx, txn, &[&owner.lead_organization_id]).await?;
        match items.transact(txn.enqueue(cx.audited(&told))).await {
            Ok(()) => return Ok(true),
            Err(error) if error.is_condition_failed() => {}
            Err(StoreError::Conflict | StoreError::Cancelled(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}
