//! A store that fails at one call, before it is made or after: then the caller does not know. For tests of what a crash
//! leaves behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use crate::{Bed, items};
use async_trait::async_trait;
use tidings_access::{Access, Actor, Cx, workspaces};
use tidings_kernel::{
    ChangeBatch, Delete, Item, ItemEngine, ItemStore, Key, Page, Put, Query, Scan, StoreError,
    Table, Txn, Update, Workspace,
};
use tidings_sql::SqlItems;

/// The same workspace, for somebody whose process dies at this call of the items: before it, or after.
pub async fn dying(bed: &Bed, cx: &Cx, place: isize, after: bool) -> Cx {
    let access = dying_access(bed, cx, place, after);
    let found = workspaces::find(&access, "acme".parse().unwrap()).await.unwrap();
    access.inside(&found, Actor::Operator)
}

/// The same for whoever finds his workspaces by himself.
pub fn dying_access(bed: &Bed, cx: &Cx, place: isize, after: bool) -> Access {
    let engine = Failing {
        engine: items(cx.database(), &bed.clock),
        left: Arc::new(AtomicIsize::new(place)),
        after,
    };
    Access::new(cx.database().clone(), Arc::new(engine), bed.clock.clone())
}

struct Failing {
    engine: SqlItems,
    left: Arc<AtomicIsize>,
    after: bool,
}

struct FailingStore {
    store: Arc<dyn ItemStore>,
    left: Arc<AtomicIsize>,
    after: bool,
}

impl FailingStore {
    fn fails(&self) -> bool {
        self.left.fetch_sub(1, Ordering::SeqCst) == 0
    }

    fn error() -> StoreError {
        StoreError::Uncertain("the process died here".into())
    }
}

/// Makes a call, or fails before or after it. A macro, because each call answers with another type.
macro_rules! maybe {
    ($self:ident, $call:expr) => {{
        let fails = $self.fails();
        if fails && !$self.after {
            return Err(FailingStore::error());
        }
        let answer = $call.await;
        if fails { Err(FailingStore::error()) } else { answer }
    }};
}

#[async_trait]
impl ItemStore for FailingStore {
    async fn get(&self, table: &'static Table, key: &Key) -> Result<Option<Item>, StoreError> {
        maybe!(self, self.store.get(table, key))
    }

    async fn batch_get(
        &self,
        table: &'static Table,
        keys: &[Key],
    ) -> Result<Vec<Option<Item>>, StoreError> {
        maybe!(self, self.store.batch_get(table, keys))
    }

    async fn put(&self, put: Put) -> Result<Option<Item>, StoreError> {
        maybe!(self, self.store.put(put))
    }

    async fn update(&self, update: Update) -> Result<Option<Item>, StoreError> {
        maybe!(self, self.store.update(update))
    }

    async fn delete(&self, delete: Delete) -> Result<Option<Item>, StoreError> {
        maybe!(self, self.store.delete(delete))
    }

    async fn transact(&self, txn: Txn) -> Result<(), StoreError> {
        maybe!(self, self.store.transact(txn))
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        maybe!(self, self.store.query(query))
    }

    async fn count(&self, query: Query) -> Result<u64, StoreError> {
        maybe!(self, self.store.count(query))
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        maybe!(self, self.store.scan(scan))
    }

    async fn changes(
        &self,
        table: &'static Table,
        consumer: &str,
        limit: usize,
    ) -> Result<ChangeBatch, StoreError> {
        maybe!(self, self.store.changes(table, consumer, limit))
    }

    async fn acknowledge(
        &self,
        table: &'static Table,
        consumer: &str,
        position: &str,
    ) -> Result<(), StoreError> {
        maybe!(self, self.store.acknowledge(table, consumer, position))
    }
}

#[async_trait]
impl ItemEngine for Failing {
    async fn open(&self, workspace: &Workspace) -> Result<Arc<dyn ItemStore>, StoreError> {
        let store = self.engine.open(workspace).await?;
        Ok(Arc::new(FailingStore { store, left: Arc::clone(&self.left), after: self.after }))
    }

    async fn sweep(&self, limit: usize) -> Result<usize, StoreError> {
        self.engine.sweep(limit).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.engine.ping().await
    }

    async fn behind(
        &self,
        table: &'static Table,
        consumer: &str,
    ) -> Result<Option<Vec<Workspace>>, StoreError> {
        self.engine.behind(table, consumer).await
    }
}
