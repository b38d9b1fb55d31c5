//! The store dies at every call, and the next attempt goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tidings_access::{Access, Actor, Cx, workspaces};
use tidings_kernel::{
    ChangeBatch, Clock, Delete, Item, ItemEngine, ItemStore, Key, Page, Query, Scan, StoreError,
    Table, Txn, Update, Workspace,
};
use tidings_sql::SqlItems;
use tidings_testbed::{Bed, each_store};

use super::{dump, key, text};
use crate::templates::{Activate, Put, Then, activate, put};

each_store!(a_put_that_dies_leaves_all_or_nothing, an_activation_that_dies_leaves_one_active);

/// Dies at the n-th call: before it is made, or after, when nobody hears of it.
struct Dying {
    inner: SqlItems,
    left: Arc<AtomicUsize>,
    after: bool,
}

struct DyingStore {
    inner: Arc<dyn ItemStore>,
    left: Arc<AtomicUsize>,
    after: bool,
}

impl DyingStore {
    fn dies(&self) -> bool {
        let left = self.left.load(Ordering::SeqCst);
        self.left.store(left.saturating_sub(1), Ordering::SeqCst);
        left == 1
    }
}

fn death() -> StoreError {
    StoreError::Uncertain("it died".into())
}

#[async_trait]
impl ItemEngine for Dying {
    async fn open(&self, workspace: &Workspace) -> Result<Arc<dyn ItemStore>, StoreError> {
        let inner = self.inner.open(workspace).await?;
        Ok(Arc::new(DyingStore { inner, left: Arc::clone(&self.left), after: self.after }))
    }

    async fn sweep(&self, limit: usize) -> Result<usize, StoreError> {
        self.inner.sweep(limit).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.inner.ping().await
    }
}

#[async_trait]
impl ItemStore for DyingStore {
    async fn get(&self, table: &'static Table, key: &Key) -> Result<Option<Item>, StoreError> {
        if self.dies() { Err(death()) } else { self.inner.get(table, key).await }
    }

    async fn batch_get(
        &self,
        table: &'static Table,
        keys: &[Key],
    ) -> Result<Vec<Option<Item>>, StoreError> {
        self.inner.batch_get(table, keys).await
    }

    async fn put(&self, put: tidings_kernel::Put) -> Result<Option<Item>, StoreError> {
        self.inner.put(put).await
    }

    async fn update(&self, update: Update) -> Result<Option<Item>, StoreError> {
        self.inner.update(update).await
    }

    async fn delete(&self, delete: Delete) -> Result<Option<Item>, StoreError> {
        self.inner.delete(delete).await
    }

    async fn transact(&self, txn: Txn) -> Result<(), StoreError> {
        let dies = self.dies();
        if dies && !self.after {
            return Err(death());
        }
        self.inner.transact(txn).await?;
        if dies { Err(death()) } else { Ok(()) }
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        self.inner.query(query).await
    }

    async fn count(&self, query: Query) -> Result<u64, StoreError> {
        self.inner.count(query).await
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        self.inner.scan(scan).await
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

/// The workspace on a store that dies at its n-th call from now.
async fn dying(bed: &Bed, calls: usize, after: bool) -> Cx {
    let clock = Arc::clone(&bed.clock) as Arc<dyn Clock>;
    let database = bed.access.database().clone();
    let inner = SqlItems::new(database.clone(), Arc::clone(&clock));
    let left = Arc::new(AtomicUsize::new(calls));
    let access = Access::new(database, Arc::new(Dying { inner, left, after }), clock);
    let found = workspaces::find(&access, "acme".parse().unwrap()).await.unwrap();
    access.inside(&found, Actor::Operator)
}

/// Every place where it can die: `CALLS` is one more than the operation makes.
const CALLS: usize = 4;

async fn a_put_that_dies_leaves_all_or_nothing(bed: &Bed) {
    let mut expected = 0;
    for after in [false, true] {
        for calls in 1..=CALLS {
            expected += 1;
            let cmd = Put {
                key: key("a"),
                content: text("s", &format!("body {after} {calls}")),
                then: Then::Activate,
            };
            let cx = dying(bed, calls, after).await;
            let died = put(&cx, cmd.clone()).await.is_err();
            assert_eq!(died, calls < 3, "it makes two calls");
            let done = put(&bed.cx().await, cmd).await.unwrap();
            assert_eq!(done.version, expected, "{after} {calls}");
            assert_consistent(bed, expected, expected).await;
        }
    }
}

async fn an_activation_that_dies_leaves_one_active(bed: &Bed) {
    let cx = bed.cx().await;
    for n in 1..=2 {
        put(&cx, Put { key: key("a"), content: text("s", &format!("{n}")), then: Then::Activate })
            .await
            .unwrap();
    }
    let mut wanted = 2;
    for after in [false, true] {
        for calls in 1..=CALLS {
            wanted = 3 - wanted;
            let cx = dying(bed, calls, after).await;
            let cmd = Activate { key: key("a"), version: wanted };
            let died = activate(&cx, cmd.clone()).await.is_err();
            assert_eq!(died, calls < 3, "it makes two calls");
            let before = dump(bed, "a").await;
            assert_eq!(before.iter().filter(|line| line.contains("STATUS#active")).count(), 1);
            activate(&bed.cx().await, cmd).await.unwrap();
            assert_consistent(bed, wanted, 2).await;
        }
    }
}

async fn assert_consistent(bed: &Bed, active: i64, latest: i64) {
    let items = dump(bed, "a").await;
    assert_eq!(items.len() as i64, latest + 1, "{items:?}");
    assert_eq!(items[0], format!("CURRENT TEMPLATES - active={active} latest={latest}"));
    let marked: Vec<&String> = items.iter().filter(|line| line.contains("STATUS#active")).collect();
    assert_eq!(marked.len(), 1, "{items:?}");
    assert!(marked[0].starts_with(&format!("VERSION#{active} ")), "{items:?}");
}
