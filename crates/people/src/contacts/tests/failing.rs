//! A store that fails at the n-th call, for every n: what is repeated afterwards comes to the same end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use tidings_access::{Access, Actor, Cx, workspaces};
use tidings_kernel::{
    ChangeBatch, Clock, Delete, Item, ItemEngine, ItemStore, Key, Page, Put, Query, Scan,
    StoreError, Table, Txn, Update, Workspace, tables,
};
use tidings_sql::SqlItems;
use tidings_testbed::{Bed, each_store};

use super::{
    address, execute, partition, rows, suppress, tags_in_step, unsubscribe, upsert, with_tags,
};
use crate::contacts::erase;
use crate::suppression;

each_store!(
    an_erasure_cut_short_anywhere_is_finished_by_the_next,
    an_upsert_cut_short_converges,
    a_bounce_in_the_middle_of_an_erasure_is_remembered,
    an_upsert_in_the_middle_of_an_erasure_leaves_no_stray_tag,
);

/// Whether the n-th call did its work before it failed: then the answer was lost, not the write.
#[derive(Clone)]
enum Fails {
    Before,
    After,
    /// It does not fail: somebody else does something first.
    Not(Meddle),
}

type Later = Pin<Box<dyn Future<Output = ()> + Send>>;
type Meddle = Arc<dyn Fn() -> Later + Send + Sync>;

struct Engine {
    inner: SqlItems,
    /// The call that fails, counted down.
    left: Arc<AtomicI64>,
    fails: Fails,
}

struct Store {
    inner: Arc<dyn ItemStore>,
    left: Arc<AtomicI64>,
    fails: Fails,
}

impl Store {
    async fn call<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        if self.left.fetch_sub(1, Ordering::SeqCst) != 1 {
            return work.await;
        }
        match &self.fails {
            Fails::Before => {}
            Fails::After => drop(work.await),
            Fails::Not(meddle) => {
                meddle().await;
                return work.await;
            }
        }
        Err(StoreError::Uncertain("the test has cut the connection".into()))
    }
}

#[async_trait]
impl ItemEngine for Engine {
    async fn open(&self, workspace: &Workspace) -> Result<Arc<dyn ItemStore>, StoreError> {
        let inner = self.inner.open(workspace).await?;
        Ok(Arc::new(Store { inner, left: Arc::clone(&self.left), fails: self.fails.clone() }))
    }

    async fn sweep(&self, limit: usize) -> Result<usize, StoreError> {
        self.inner.sweep(limit).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.inner.ping().await
    }
}

#[async_trait]
impl ItemStore for Store {
    async fn get(&self, table: &'static Table, key: &Key) -> Result<Option<Item>, StoreError> {
        self.call(self.inner.get(table, key)).await
    }

    async fn batch_get(
        &self,
        table: &'static Table,
        keys: &[Key],
    ) -> Result<Vec<Option<Item>>, StoreError> {
        self.call(self.inner.batch_get(table, keys)).await
    }

    async fn put(&self, put: Put) -> Result<Option<Item>, StoreError> {
        self.call(self.inner.put(put)).await
    }

    async fn update(&self, update: Update) -> Result<Option<Item>, StoreError> {
        self.call(self.inner.update(update)).await
    }

    async fn delete(&self, delete: Delete) -> Result<Option<Item>, StoreError> {
        self.call(self.inner.delete(delete)).await
    }

    async fn transact(&self, txn: Txn) -> Result<(), StoreError> {
        self.call(self.inner.transact(txn)).await
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        self.call(self.inner.query(query)).await
    }

    async fn count(&self, query: Query) -> Result<u64, StoreError> {
        self.call(self.inner.count(query)).await
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        self.call(self.inner.scan(scan)).await
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

/// The same workspace on a store whose n-th call from now fails, and what tells whether it came to that.
async fn failing(bed: &Bed, n: i64, fails: Fails) -> (Cx, Arc<AtomicI64>) {
    failing_in(bed, "acme", n, fails).await
}

async fn failing_in(bed: &Bed, workspace: &str, n: i64, fails: Fails) -> (Cx, Arc<AtomicI64>) {
    let left = Arc::new(AtomicI64::new(n));
    let clock: Arc<dyn Clock> = bed.clock.clone();
    let database = bed.access.database().clone();
    let inner = SqlItems::new(database.clone(), Arc::clone(&clock));
    let engine = Arc::new(Engine { inner, left: Arc::clone(&left), fails });
    let access = Access::new(database, engine, clock);
    let found = workspaces::find(&access, workspace.parse().unwrap()).await.unwrap();
    (access.inside(&found, Actor::Operator), left)
}

async fn an_erasure_cut_short_anywhere_is_finished_by_the_next(bed: &Bed) {
    let ada = address("ada@example.org");
    for fails in [Fails::Before, Fails::After] {
        for n in 1.. {
            let cx = bed.cx().await;
            upsert(&cx, with_tags("ada@example.org", &["a", "b"])).await.unwrap();
            unsubscribe(&cx, "ada@example.org").await;
            suppress(&cx, "ada@example.org").await;
            super::erasing::put_history(&cx, "ada@example.org", 3).await;
            execute(&cx, "DELETE FROM captured_mails WHERE workspace_id = $1").await;
            super::erasing::put_mentions(&cx).await;

            let (broken, left) = failing(bed, n, fails.clone()).await;
            let cut_short = erase(&broken, &ada).await.is_err();
            assert_eq!(cut_short, left.load(Ordering::SeqCst) <= 0);
            erase(&cx, &ada).await.unwrap();

            assert!(tags_in_step(&cx, "ada@example.org", &["a", "b"]).await.is_empty());
            for table in [&tables::MAIN, &tables::EVENTS] {
                let rest = partition(&cx, table, "SUB#ada@example.org").await;
                assert_eq!(rest, [], "after call {n} failed");
            }
            super::erasing::no_walks(&cx).await;
            assert_eq!(partition(&cx, &tables::MAIN, "SUPPRESSIONS").await, []);
            let open = "SELECT id FROM erasures WHERE workspace_id = $1 AND done_at IS NULL";
            assert_eq!(rows(&cx, open).await.len(), 0);
            let status = suppression::status(&cx, &ada).await.unwrap();
            assert!(status.suppression.is_some() && status.unsubscribed_before_erasure);
            let mut named = super::erasing::mentions(&cx).await;
            named[0].replace_range(7..8, "0");
            assert_eq!(named, super::erasing::NAMED_NO_MORE, "after call {n} failed");
            assert!(!erase(&cx, &ada).await.unwrap().erased);
            if !cut_short {
                assert!(n > 5, "only {n} calls could fail");
                break;
            }
        }
    }
}

async fn an_upsert_cut_short_converges(bed: &Bed) {
    let known = ["a", "b", "c"];
    for fails in [Fails::Before, Fails::After] {
        for n in 1.. {
            let cx = bed.cx().await;
            upsert(&cx, with_tags("ada@example.org", &["a", "b"])).await.unwrap();
            let (broken, _) = failing(bed, n, fails.clone()).await;
            let cut_short =
                upsert(&broken, with_tags("ada@example.org", &["b", "c"])).await.is_err();
            tags_in_step(&cx, "ada@example.org", &known).await;
            upsert(&cx, with_tags("ada@example.org", &["b", "c"])).await.unwrap();
            assert_eq!(tags_in_step(&cx, "ada@example.org", &known).await, ["b", "c"]);
            if !cut_short {
                assert!(n > 2, "only {n} calls could fail");
                break;
            }
        }
    }
}

/// Erases Ada once for every call of the store, while somebody does something right before that call.
async fn erase_while(
    bed: &Bed,
    meddle: impl Fn(Cx) -> Later + Send + Sync + Copy + 'static,
    after: impl AsyncFn(&Cx, i64),
) {
    for n in 1.. {
        let cx = bed.make_workspace(&format!("w{n}")).await;
        upsert(&cx, with_tags("ada@example.org", &["a"])).await.unwrap();
        super::erasing::put_history(&cx, "ada@example.org", 1).await;
        let within = cx.clone();
        let meddle: Meddle = Arc::new(move || meddle(within.clone()));
        let (watched, left) = failing_in(bed, &format!("w{n}"), n, Fails::Not(meddle)).await;
        erase(&watched, &address("ada@example.org")).await.unwrap();
        if left.load(Ordering::SeqCst) > 0 {
            assert!(n > 5, "only {n} calls");
            break;
        }
        after(&cx, n).await;
    }
}

async fn a_bounce_in_the_middle_of_an_erasure_is_remembered(bed: &Bed) {
    let bounce =
        |cx: Cx| -> Later { Box::pin(async move { suppress(&cx, "ada@example.org").await }) };
    erase_while(bed, bounce, async |cx, n| {
        let ada = address("ada@example.org");
        let status = suppression::status(cx, &ada).await.unwrap();
        assert!(status.suppression.is_some(), "before call {n}");
    })
    .await;
}

async fn an_upsert_in_the_middle_of_an_erasure_leaves_no_stray_tag(bed: &Bed) {
    let come = |cx: Cx| -> Later {
        Box::pin(async move {
            upsert(&cx, with_tags("ada@example.org", &["b"])).await.unwrap();
        })
    };
    erase_while(bed, come, async |cx, _| {
        tags_in_step(cx, "ada@example.org", &["a", "b"]).await;
    })
    .await;
}
