//! A store that fails at one call, before it is made or after: then the caller does not know. For tests of what a crash
//! leaves behind. One in which something happens before each call, for tests of what takes long. And one that reads a batch item by
//! item, as a store does that is not one database, with something that happens after each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use crate::{Bed, items};
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tidings_access::{Access, Actor, Cx, workspaces};
use tidings_kernel::{
    ChangeBatch, Clock, Delete, Item, ItemEngine, ItemStore, Key, Page, Put, Query, Scan,
    StoreError, Table, Txn, Update, Workspace,
};
use tidings_sql::Database;

/// The same workspace, for somebody whose process dies at this call of the items: before it, or after.
pub async fn dying(bed: &Bed, cx: &Cx, place: isize, after: bool) -> Cx {
    inside_acme(&dying_access(bed, cx, place, after)).await
}

/// The same for whoever finds his workspaces by himself.
pub fn dying_access(bed: &Bed, cx: &Cx, place: isize, after: bool) -> Access {
    let engine = dying_engine(Arc::new(items(cx.database(), &bed.clock)), place, after);
    Access::new(cx.database().clone(), engine, bed.clock.clone())
}

/// The same on any engine.
pub fn dying_engine(engine: Arc<dyn ItemEngine>, place: isize, after: bool) -> Arc<dyn ItemEngine> {
    let befalls = Befalls::Death { left: Arc::new(AtomicIsize::new(place)), after };
    Arc::new(Failing { engine, befalls })
}

/// The same workspace, for somebody to whom something happens before each call of the items.
pub async fn interrupted(
    bed: &Bed,
    cx: &Cx,
    happens: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static,
) -> Cx {
    let engine: Arc<dyn ItemEngine> = Arc::new(items(cx.database(), &bed.clock));
    let engine = Failing { engine, befalls: Befalls::Interruption(Arc::new(happens)) };
    let (database, clock): (Database, Arc<dyn Clock>) = (cx.database().clone(), bed.clock.clone());
    inside_acme(&Access::new(database, Arc::new(engine), clock)).await
}

/// The same, but it happens once: before this call.
pub async fn interrupted_at(
    bed: &Bed,
    cx: &Cx,
    place: isize,
    happens: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static,
) -> Cx {
    let left = AtomicIsize::new(place);
    let once = move || -> BoxFuture<'static, ()> {
        match left.fetch_sub(1, Ordering::SeqCst) {
            0 => happens(),
            _ => Box::pin(std::future::ready(())),
        }
    };
    interrupted(bed, cx, once).await
}

/// The same workspace on a store that is not one database: a batch is read item by item in the order of the keys, and something
/// happens after each. The change stream is behind: what it has to tell, it tells when it was asked this often.
pub async fn scattered(
    bed: &Bed,
    cx: &Cx,
    late: isize,
    happens: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static,
) -> Cx {
    let engine: Arc<dyn ItemEngine> = Arc::new(items(cx.database(), &bed.clock));
    let befalls =
        Befalls::Scattering { late: Arc::new(AtomicIsize::new(late)), happens: Arc::new(happens) };
    let (database, clock): (Database, Arc<dyn Clock>) = (cx.database().clone(), bed.clock.clone());
    inside_acme(&Access::new(database, Arc::new(Failing { engine, befalls }), clock)).await
}

async fn inside_acme(access: &Access) -> Cx {
    let found = workspaces::find(access, "acme".parse().unwrap()).await.unwrap();
    access.inside(&found, Actor::Operator)
}

type Happens = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// What befalls whoever calls the store.
#[derive(Clone)]
enum Befalls {
    Death { left: Arc<AtomicIsize>, after: bool },
    Interruption(Happens),
    Scattering { late: Arc<AtomicIsize>, happens: Happens },
}

struct Failing {
    engine: Arc<dyn ItemEngine>,
    befalls: Befalls,
}

struct FailingStore {
    store: Arc<dyn ItemStore>,
    befalls: Befalls,
}

/// How a call ends.
#[derive(PartialEq, Eq)]
enum End {
    Well,
    Before,
    After,
}

impl FailingStore {
    async fn end(&self) -> End {
        match &self.befalls {
            Befalls::Death { left, after } if left.fetch_sub(1, Ordering::SeqCst) == 0 => {
                if *after { End::After } else { End::Before }
            }
            Befalls::Death { .. } | Befalls::Scattering { .. } => End::Well,
            Befalls::Interruption(happens) => {
                happens().await;
                End::Well
            }
        }
    }

    fn error() -> StoreError {
        StoreError::Uncertain("the process died here".into())
    }
}

/// Makes a call, or fails before or after it. A macro, because each call answers with another type.
macro_rules! maybe {
    ($self:ident, $call:expr) => {{
        let end = $self.end().await;
        if end == End::Before {
            return Err(FailingStore::error());
        }
        let answer = $call.await;
        if end == End::After { Err(FailingStore::error()) } else { answer }
    }};
}

#[async_trait]
impl ItemStore for FailingStore {
    fn is_one_database(&self) -> bool {
        !matches!(self.befalls, Befalls::Scattering { .. }) && self.store.is_one_database()
    }

    async fn get(&self, table: &'static Table, key: &Key) -> Result<Option<Item>, StoreError> {
        maybe!(self, self.store.get(table, key))
    }

    async fn batch_get(
        &self,
        table: &'static Table,
        keys: &[Key],
    ) -> Result<Vec<Option<Item>>, StoreError> {
        let Befalls::Scattering { happens, .. } = &self.befalls else {
            return maybe!(self, self.store.batch_get(table, keys));
        };
        let mut found = BTreeMap::new();
        for key in keys.iter().collect::<BTreeSet<_>>() {
            found.insert(key, self.store.get(table, key).await?);
            happens().await;
        }
        Ok(keys.iter().map(|key| found.get(key).cloned().flatten()).collect())
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
        if let Befalls::Scattering { late, .. } = &self.befalls
            && late.fetch_sub(1, Ordering::SeqCst) > 0
        {
            return Ok(ChangeBatch::default());
        }
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
        Ok(Arc::new(FailingStore { store, befalls: self.befalls.clone() }))
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
