//! Reads by key: one item, or many at once.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::types::KeysAndAttributes;
use futures_util::{StreamExt, TryStreamExt, stream};
use tidings_kernel::{Invalid, Item, Key, MAX_BATCH_GET, StoreError, Table};

use super::retry::{PATIENCE, pause};
use super::store::Store;
use super::value::{key_attributes, to_item};
use super::write::there;
use crate::trouble::Trouble;

/// What one request may ask for.
const BATCH: usize = 100;
/// Enough to hide the round trips, too little to be throttled for.
const BATCHES_AT_ONCE: usize = 4;

impl Store {
    pub(super) async fn get_item(
        &self,
        table: &'static Table,
        key: &Key,
    ) -> Result<Option<Item>, StoreError> {
        table.check_key(key)?;
        let request = self
            .client
            .get_item()
            .table_name(self.name(table))
            .set_key(Some(key_attributes(table, key)))
            .consistent_read(true);
        let answer = request.send().await.map_err(|error| Trouble::new(error).of_read())?;
        let item = there(answer.item)?;
        Ok(item.filter(|item| !table.is_expired(item, self.clock.now())))
    }

    pub(super) async fn get_items(
        &self,
        table: &'static Table,
        keys: &[Key],
    ) -> Result<Vec<Option<Item>>, StoreError> {
        if keys.len() > MAX_BATCH_GET {
            return Err(Invalid::BatchTooLarge.into());
        }
        keys.iter().try_for_each(|key| table.check_key(key))?;
        // DynamoDB refuses a batch that asks for an item twice.
        let distinct: Vec<&Key> = keys.iter().collect::<BTreeSet<_>>().into_iter().collect();
        let batches: Vec<_> =
            distinct.chunks(BATCH).map(|batch| self.get_batch(table, batch.to_vec())).collect();
        let found: Vec<HashMap<Key, Item>> =
            stream::iter(batches).buffer_unordered(BATCHES_AT_ONCE).try_collect().await?;
        let found: HashMap<Key, Item> = found.into_iter().flatten().collect();
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    /// Up to 100 items. What the server leaves for later is asked for again, as long as it gives something, and
    /// for a while if it does not.
    async fn get_batch(
        &self,
        table: &'static Table,
        keys: Vec<&Key>,
    ) -> Result<HashMap<Key, Item>, StoreError> {
        let name = self.name(table);
        let wanted = keys.into_iter().map(|key| key_attributes(table, key)).collect();
        let wanted = KeysAndAttributes::builder().set_keys(Some(wanted)).consistent_read(true);
        let mut wanted = Some(wanted.build().expect("the keys are set"));
        let mut found = HashMap::new();
        let mut tries = 0;
        while let Some(asked) = wanted {
            let request = self.client.batch_get_item().request_items(&name, asked);
            let answer = request.send().await.map_err(|error| Trouble::new(error).of_read())?;
            let items = answer.responses.unwrap_or_default().remove(&name).unwrap_or_default();
            tries = if items.is_empty() { tries + 1 } else { 1 };
            for attributes in items {
                let item = to_item(attributes)?;
                if !table.is_expired(&item, self.clock.now()) {
                    found.insert(table.key_of(&item)?, item);
                }
            }
            wanted = answer.unprocessed_keys.unwrap_or_default().remove(&name);
            if wanted.is_some() {
                if tries == PATIENCE {
                    return Err(StoreError::Unavailable("a batch was never processed".into()));
                }
                pause(tries).await;
            }
        }
        Ok(found)
    }
}
