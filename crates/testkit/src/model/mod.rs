//! A store so simple that it is obviously right: maps behind a lock, every answer worked out from the whole.
//!
//! The suite is itself tested on it, and random operations on an engine are compared with it. What a write does
//! is the kernel's rules, as in the SQL engine; everything around them is done here in the plainest way.

mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_kernel::{
    ChangeBatch, Clock, Delete, Invalid, Item, ItemEngine, ItemStore, Key, MAX_BATCH_GET, Page,
    Put, Query, Returns, Scan, StoreError, Table, Txn, Update, Workspace, Write, check_consumer,
};

use state::State;

/// All workspaces.
pub struct ModelEngine {
    clock: Arc<dyn Clock>,
    workspaces: Mutex<BTreeMap<Workspace, Arc<ModelStore>>>,
}

struct ModelStore {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

impl ModelEngine {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, workspaces: Mutex::default() }
    }
}

#[async_trait]
impl ItemEngine for ModelEngine {
    async fn open(&self, workspace: &Workspace) -> Result<Arc<dyn ItemStore>, StoreError> {
        let mut workspaces = self.workspaces.lock().unwrap();
        let store = workspaces.entry(workspace.clone()).or_insert_with(|| {
            Arc::new(ModelStore { clock: Arc::clone(&self.clock), state: Mutex::default() })
        });
        Ok(Arc::clone(store) as Arc<dyn ItemStore>)
    }

    async fn sweep(&self, limit: usize) -> Result<usize, StoreError> {
        let now = self.clock.now();
        let workspaces = self.workspaces.lock().unwrap();
        Ok(workspaces
            .values()
            .fold(0, |swept, store| swept + store.state().sweep(now, limit - swept)))
    }

    async fn ping(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl ModelStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// One write, and the item before and after it.
    fn write(&self, write: &Write) -> Result<(Option<Item>, Option<Item>), StoreError> {
        write.validate()?;
        let mut state = self.state();
        let key = write.key()?;
        let old = state.stored(write.table(), &key).cloned();
        if !write.expectation().holds(old.as_ref()) {
            return Err(StoreError::ConditionFailed { current: old.map(Box::new) });
        }
        let new = write.apply(old.as_ref())?;
        state.store(write.table(), &key, new.clone());
        Ok((old, new))
    }
}

#[async_trait]
impl ItemStore for ModelStore {
    async fn get(&self, table: &'static Table, key: &Key) -> Result<Option<Item>, StoreError> {
        table.check_key(key)?;
        let now = self.now();
        let found = self.state().stored(table, key).cloned();
        Ok(found.filter(|item| !table.is_expired(item, now)))
    }

    async fn batch_get(
        &self,
        table: &'static Table,
        keys: &[Key],
    ) -> Result<Vec<Option<Item>>, StoreError> {
        if keys.len() > MAX_BATCH_GET {
            return Err(Invalid::BatchTooLarge.into());
        }
        let mut items = Vec::new();
        for key in keys {
            items.push(self.get(table, key).await?);
        }
        Ok(items)
    }

    async fn put(&self, put: Put) -> Result<Option<Item>, StoreError> {
        Ok(self.write(&Write::Put(put))?.0)
    }

    async fn update(&self, update: Update) -> Result<Option<Item>, StoreError> {
        let returns = update.returns;
        let (old, new) = self.write(&Write::Update(update))?;
        Ok(match returns {
            Returns::Nothing => None,
            Returns::Old => old,
            Returns::New => new,
        })
    }

    async fn delete(&self, delete: Delete) -> Result<Option<Item>, StoreError> {
        Ok(self.write(&Write::Delete(delete))?.0)
    }

    async fn transact(&self, txn: Txn) -> Result<(), StoreError> {
        txn.validate()?;
        assert!(txn.messages.is_empty() && txn.timers.is_empty(), "the model is one of items only");
        self.state().transact(&txn)
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        query.validate()?;
        let now = self.now();
        Ok(self.state().query(&query, now)?)
    }

    async fn count(&self, query: Query) -> Result<u64, StoreError> {
        query.validate()?;
        let now = self.now();
        Ok(self.state().matching(&query, now)?.len() as u64)
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        scan.validate()?;
        let now = self.now();
        Ok(self.state().scan(&scan, now)?)
    }

    async fn changes(
        &self,
        table: &'static Table,
        consumer: &str,
        limit: usize,
    ) -> Result<ChangeBatch, StoreError> {
        check_consumer(table, consumer)?;
        Ok(self.state().changes(table, consumer, limit))
    }

    async fn acknowledge(
        &self,
        table: &'static Table,
        consumer: &str,
        position: &str,
    ) -> Result<(), StoreError> {
        check_consumer(table, consumer)?;
        Ok(self.state().acknowledge(table, consumer, position)?)
    }
}
