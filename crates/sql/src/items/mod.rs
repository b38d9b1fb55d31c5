//! Items on SQL: the kernel's model as rows with plain JSON in them.
//!
//! Reads run on snapshots. Writes of all callers are gathered into batches (`writer`), decided in memory by the
//! kernel's rules (`batch`) and stored together. Not here: what any item means.

mod batch;
mod changes;
mod fresh;
mod looks;
mod reads;
mod rows;
mod sweep;
mod writer;

use std::sync::Arc;

use async_trait::async_trait;
use tidings_kernel::{
    Cancellation, ChangeBatch, Clock, Delete, Invalid, Item, ItemEngine, ItemStore, Key,
    MAX_BATCH_GET, Page, Put, Query, Scan, StoreError, Table, Txn, Update, Workspace, Write,
};

use crate::database::{Database, DatabaseError, Dialect, Tx};
use batch::Answer;
use looks::Looks;
use rows::RowKey;
use writer::Writer;

/// How often one sweep goes on trimming change streams.
const MAX_TRIMS: usize = 100;

/// The item engine on SQLite and PostgreSQL.
#[derive(Clone)]
pub struct SqlItems {
    database: Database,
    writer: Writer,
    looks: Looks,
    clock: Arc<dyn Clock>,
}

/// What is kept of the changes of tables that have a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Streams {
    /// All of them, with both images.
    #[default]
    Everything,
    /// Only what has expired. Where nobody reads more, this is far less to store, and on PostgreSQL writers need not wait for each other.
    Expiries,
}

impl Streams {
    /// Whether what callers write to this table is kept.
    fn keep_writes_to(self, table: &Table) -> bool {
        table.stream && self == Self::Everything
    }
}

impl SqlItems {
    pub fn new(database: Database, clock: Arc<dyn Clock>) -> Self {
        Self::with_streams(database, clock, Streams::default())
    }

    pub fn with_streams(database: Database, clock: Arc<dyn Clock>, streams: Streams) -> Self {
        let writer = Writer::start(database.clone(), Arc::clone(&clock), streams);
        let looks = Looks::new(database.clone());
        Self { database, writer, looks, clock }
    }
}

#[async_trait]
impl ItemEngine for SqlItems {
    async fn open(&self, workspace: &Workspace) -> Result<Arc<dyn ItemStore>, StoreError> {
        Ok(Arc::new(WorkspaceItems { items: self.clone(), workspace: workspace.clone() }))
    }

    async fn sweep(&self, limit: usize) -> Result<usize, StoreError> {
        let now = self.clock.now();
        let swept = self.database.write(move |tx| sweep::sweep(tx, now, limit)).await;
        let swept = swept.map_err(store_error)?;
        // As much as came in since the last time, in units that do not keep other writers waiting.
        for _ in 0..MAX_TRIMS {
            let trimmed = self.database.write(move |tx| changes::trim(tx, now, limit)).await;
            if trimmed.map_err(store_error)? < limit {
                break;
            }
        }
        Ok(swept)
    }

    async fn behind(
        &self,
        table: &'static Table,
        consumer: &str,
    ) -> Result<Option<Vec<Workspace>>, StoreError> {
        tidings_kernel::check_consumer(table, consumer)?;
        let consumer = consumer.to_owned();
        let found = self.database.read(move |tx| changes::behind(tx, table, &consumer)).await;
        found.map(Some).map_err(store_error)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        let answered = self.database.read(|tx| tx.query("SELECT 1", &[]).map(drop)).await;
        answered.map_err(store_error)
    }
}

struct WorkspaceItems {
    items: SqlItems,
    workspace: Workspace,
}

impl WorkspaceItems {
    /// One write on its own, which answers with an item.
    async fn write_one(&self, write: Write, answer: Answer) -> Result<Option<Item>, StoreError> {
        write.validate()?;
        let written =
            self.items.writer.write(&self.workspace, Txn::new().write(write), answer).await;
        written.map_err(|error| match error {
            StoreError::Cancelled(mut reasons) => match reasons.pop() {
                Some(Cancellation::ConditionFailed { current }) => {
                    StoreError::ConditionFailed { current: current.map(Box::new) }
                }
                Some(Cancellation::Invalid(invalid)) => invalid.into(),
                Some(Cancellation::Conflict | Cancellation::None) | None => StoreError::Conflict,
            },
            other => other,
        })
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&mut reads::Reader<'_, '_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let answer = self.items.database.read(self.over_snapshot(read));
        answer.await.map_err(Failed::into_store_error)
    }

    /// Of a few rows, and one statement on PostgreSQL.
    async fn glance<T: Send + 'static>(
        &self,
        read: impl Fn(&mut reads::Reader<'_, '_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let answer = self.items.database.glance(self.over_snapshot(read));
        answer.await.map_err(Failed::into_store_error)
    }

    /// A few items by their keys.
    async fn look(
        &self,
        table: &'static Table,
        keys: Vec<Key>,
    ) -> Result<Vec<Option<Item>>, StoreError> {
        if self.items.database.dialect() == Dialect::Sqlite {
            return self.glance(move |reader| reader.batch_get(table, &keys)).await;
        }
        let now = self.items.clock.now();
        let keys = keys.iter().map(|key| RowKey::new(table, self.workspace.as_str(), key));
        let found = self.items.looks.get(table, keys.collect()).await?;
        found.into_iter().map(|json| reads::lasting(table, json.as_deref(), now)).collect()
    }

    fn over_snapshot<T>(
        &self,
        read: impl Fn(&mut reads::Reader<'_, '_>) -> Result<T, StoreError> + Send + 'static,
    ) -> impl FnMut(&mut Tx<'_>) -> Result<T, Failed> + Send + 'static {
        let workspace = self.workspace.clone();
        let now = self.items.clock.now();
        move |tx| {
            let mut reader = reads::Reader { tx, workspace: workspace.as_str(), now };
            read(&mut reader).map_err(Failed::Store)
        }
    }
}

#[async_trait]
impl ItemStore for WorkspaceItems {
    fn is_one_database(&self) -> bool {
        true
    }

    async fn get(&self, table: &'static Table, key: &Key) -> Result<Option<Item>, StoreError> {
        table.check_key(key)?;
        let found = self.look(table, vec![key.clone()]).await?;
        Ok(found.into_iter().next().flatten())
    }

    async fn batch_get(
        &self,
        table: &'static Table,
        keys: &[Key],
    ) -> Result<Vec<Option<Item>>, StoreError> {
        if keys.len() > MAX_BATCH_GET {
            return Err(Invalid::BatchTooLarge.into());
        }
        keys.iter().try_for_each(|key| table.check_key(key))?;
        let keys = keys.to_vec();
        if keys.len() > reads::FEW {
            return self.read(move |reader| reader.batch_get(table, &keys)).await;
        }
        self.look(table, keys).await
    }

    async fn put(&self, put: Put) -> Result<Option<Item>, StoreError> {
        self.write_one(Write::Put(put), Answer::Old).await
    }

    async fn update(&self, update: Update) -> Result<Option<Item>, StoreError> {
        let answer = update.returns.into();
        self.write_one(Write::Update(update), answer).await
    }

    async fn delete(&self, delete: Delete) -> Result<Option<Item>, StoreError> {
        self.write_one(Write::Delete(delete), Answer::Old).await
    }

    async fn transact(&self, txn: Txn) -> Result<(), StoreError> {
        txn.validate()?;
        let done = self.items.writer.write(&self.workspace, txn, Answer::Nothing).await;
        done.map(drop)
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        query.validate()?;
        if reads::is_small(&query) {
            return self.glance(move |reader| reader.query(&query)).await;
        }
        self.read(move |reader| reader.query(&query)).await
    }

    async fn count(&self, query: Query) -> Result<u64, StoreError> {
        query.validate()?;
        self.read(move |reader| reader.count(&query)).await
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        scan.validate()?;
        self.read(move |reader| reader.scan(&scan)).await
    }

    async fn changes(
        &self,
        table: &'static Table,
        consumer: &str,
        limit: usize,
    ) -> Result<ChangeBatch, StoreError> {
        tidings_kernel::check_consumer(table, consumer)?;
        let name = consumer.to_owned();
        let found = self.read(move |reader| changes::after(reader, table, &name, limit)).await?;
        if let Some(batch) = found {
            return Ok(batch);
        }
        // From now on nothing is trimmed that this consumer has not acknowledged.
        self.acknowledge(table, consumer, "0").await?;
        let name = consumer.to_owned();
        let found = self.read(move |reader| changes::after(reader, table, &name, limit)).await?;
        Ok(found.unwrap_or_default())
    }

    async fn acknowledge(
        &self,
        table: &'static Table,
        consumer: &str,
        position: &str,
    ) -> Result<(), StoreError> {
        tidings_kernel::check_consumer(table, consumer)?;
        let position = changes::parse_position(position)?;
        let (workspace, consumer) = (self.workspace.clone(), consumer.to_owned());
        let done = self.items.database.write(move |tx| {
            changes::acknowledge(tx, workspace.as_str(), table, &consumer, position)
        });
        done.await.map_err(store_error)
    }
}

/// Why a read ended: the database's reason, or the store's.
enum Failed {
    Database(DatabaseError),
    Store(StoreError),
}

impl From<DatabaseError> for Failed {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

impl Failed {
    fn into_store_error(self) -> StoreError {
        match self {
            Self::Database(error) => store_error(error),
            Self::Store(error) => error,
        }
    }
}

pub(crate) fn store_error(error: DatabaseError) -> StoreError {
    match error {
        DatabaseError::Conflict => StoreError::Conflict,
        DatabaseError::Uncertain(_) => StoreError::Uncertain(Box::new(error)),
        DatabaseError::Column { .. } | DatabaseError::NoRow | DatabaseError::Damaged(_) => {
            StoreError::Corrupt(Box::new(error))
        }
        DatabaseError::Statement(_) | DatabaseError::Constraint(_) | DatabaseError::Panicked => {
            StoreError::Failed(Box::new(error))
        }
        other => StoreError::Unavailable(Box::new(other)),
    }
}
