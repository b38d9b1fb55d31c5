//! A store that counts what is asked of it: for tests of what must cost the same however much is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tidings_access::{Access, Cx};
use tidings_kernel::{
    ChangeBatch, Delete, Item, ItemEngine, ItemStore, Key, Page, Put, Query, Scan, StoreError,
    Table, Txn, Update, Workspace, Write,
};

use crate::{Bed, items};

/// What was read and written of items.
#[derive(Debug, Default)]
pub struct Meter {
    calls: AtomicUsize,
    items: AtomicUsize,
    bytes: AtomicUsize,
    writes: AtomicUsize,
    bytes_written: AtomicUsize,
}

/// As much as was read and written until now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Of the store.
    pub calls: usize,
    /// That were read.
    pub items: usize,
    pub bytes: usize,
    pub writes: usize,
    /// Of items that were put.
    pub bytes_written: usize,
}

impl Meter {
    pub fn cost(&self) -> Cost {
        let read = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        Cost {
            calls: read(&self.calls),
            items: read(&self.items),
            bytes: read(&self.bytes),
            writes: read(&self.writes),
            bytes_written: read(&self.bytes_written),
        }
    }

    fn called(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
    }

    fn read<'a>(&self, items: impl IntoIterator<Item = &'a Item>) {
        for item in items {
            self.items.fetch_add(1, Ordering::SeqCst);
            self.bytes.fetch_add(item.size(), Ordering::SeqCst);
        }
    }

    fn wrote(&self, put: Option<&Item>) {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.bytes_written.fetch_add(put.map_or(0, Item::size), Ordering::SeqCst);
    }
}

/// The same workspaces on a store that counts.
pub fn metered_access(bed: &Bed, cx: &Cx) -> (Access, Arc<Meter>) {
    let meter = Arc::new(Meter::default());
    let engine = Arc::new(items(cx.database(), &bed.clock));
    let engine = Arc::new(Metered { inner: engine as Arc<dyn ItemEngine>, meter: meter.clone() });
    (Access::new(cx.database().clone(), engine, bed.clock.clone()), meter)
}

struct Metered<T: ?Sized> {
    inner: Arc<T>,
    meter: Arc<Meter>,
}

#[async_trait]
impl ItemStore for Metered<dyn ItemStore> {
    fn is_one_database(&self) -> bool {
        self.inner.is_one_database()
    }

    async fn get(&self, table: &'static Table, key: &Key) -> Result<Option<Item>, StoreError> {
        self.meter.called();
        let found = self.inner.get(table, key).await?;
        self.meter.read(&found);
        Ok(found)
    }

    async fn batch_get(
        &self,
        table: &'static Table,
        keys: &[Key],
    ) -> Result<Vec<Option<Item>>, StoreError> {
        self.meter.called();
        let found = self.inner.batch_get(table, keys).await?;
        self.meter.read(found.iter().flatten());
        Ok(found)
    }

    async fn put(&self, put: Put) -> Result<Option<Item>, StoreError> {
        self.meter.called();
        self.meter.wrote(Some(&put.item));
        self.inner.put(put).await
    }

    async fn update(&self, update: Update) -> Result<Option<Item>, StoreError> {
        self.meter.called();
        self.meter.wrote(None);
        self.inner.update(update).await
    }

    async fn delete(&self, delete: Delete) -> Result<Option<Item>, StoreError> {
        self.meter.called();
        self.meter.wrote(None);
        self.inner.delete(delete).await
    }

    async fn transact(&self, txn: Txn) -> Result<(), StoreError> {
        self.meter.called();
        for write in &txn.writes {
            match write {
                Write::Put(put) => self.meter.wrote(Some(&put.item)),
                Write::Update(_) | Write::Delete(_) | Write::Check(_) => self.meter.wrote(None),
            }
        }
        self.inner.transact(txn).await
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        self.meter.called();
        let page = self.inner.query(query).await?;
        self.meter.read(&page.items);
        Ok(page)
    }

    async fn count(&self, query: Query) -> Result<u64, StoreError> {
        self.meter.called();
        self.inner.count(query).await
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        self.meter.called();
        let page = self.inner.scan(scan).await?;
        self.meter.read(&page.items);
        Ok(page)
    }

    async fn changes(
        &self,
        table: &'static Table,
        consumer: &str,
        limit: usize,
    ) -> Result<ChangeBatch, StoreError> {
        self.inner.changes(table, consumer, limit).await
    }

    async fn acknowledge(
        &self,
        table: &'static Table,
        consumer: &str,
        position: &str,
    ) -> Result<(), StoreError> {
        self.inner.acknowledge(table, consumer, position).await
    }
}

#[async_trait]
impl ItemEngine for Metered<dyn ItemEngine> {
    async fn open(&self, workspace: &Workspace) -> Result<Arc<dyn ItemStore>, StoreError> {
        let inner = self.inner.open(workspace).await?;
        Ok(Arc::new(Metered { inner, meter: self.meter.clone() }))
    }

    async fn sweep(&self, limit: usize) -> Result<usize, StoreError> {
        self.inner.sweep(limit).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.inner.ping().await
    }

    async fn behind(
        &self,
        table: &'static Table,
        consumer: &str,
    ) -> Result<Option<Vec<Workspace>>, StoreError> {
        self.inner.behind(table, consumer).await
    }
}
