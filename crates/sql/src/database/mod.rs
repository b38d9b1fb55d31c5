//! A database that runs units of work: closures over a transaction, on SQLite or PostgreSQL alike.
//!
//! A unit is done when its commit is on disk, and then it is answered. Units run on threads of the database's
//! own, so a caller that goes away in the middle leaves nothing half-done. Not here: any table.

mod among;
mod error;
mod glances;
mod many;
mod postgres;
mod sqlite;
mod tls;
mod tx;
mod unit;
mod wakers;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use tokio::sync::{broadcast, oneshot, watch};

pub use among::Among;
pub use error::DatabaseError;
pub use postgres::PostgresOptions;
pub(crate) use postgres::Session;
pub use sqlite::SqliteOptions;
pub(crate) use sqlite::{connect, is_ours, lock_exclusive, lock_shared};
pub use tls::Tls;
pub use tx::{Cell, Param, Row, Tx};
pub(crate) use unit::{Unit, Verdict};
pub use wakers::Heard;

use glances::Glances;
use unit::{Access, Closure, Isolation, Word};
use wakers::Wakers;

/// How many units may wait. More make their callers wait, instead of the machine's memory.
const QUEUE: usize = 4096;

/// The SQL that the engine speaks. Nearly all of it is the same text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

/// A handle to an open database. Clones share it.
#[derive(Clone)]
pub struct Database(Arc<Shared>, Lane);

/// Which way writes take to the one thread that writes, where there is only one (SQLite).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Ordinary,
    /// Somebody waits: before what others have in the queue, and committed without them.
    Urgent,
}

struct Shared {
    dialect: Dialect,
    path: Option<PathBuf>,
    writers: async_channel::Sender<Box<dyn Unit>>,
    /// Of the only thread that writes. On PostgreSQL many do, and nobody has to be faster.
    urgent: Option<async_channel::Sender<Box<dyn Unit>>>,
    readers: async_channel::Sender<Box<dyn Unit>>,
    /// To those who answer for many callers at once, on PostgreSQL.
    lookers: Option<async_channel::Sender<Box<dyn Unit>>>,
    glances: Arc<Glances>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    wakers: Arc<Wakers>,
}

impl Drop for Shared {
    /// The threads that write and read end with their queues; those that tell and listen have to be told.
    fn drop(&mut self) {
        self.wakers.close();
    }
}

impl Database {
    /// Opens a file, makes it if there is none, and brings its schema up to date.
    pub async fn sqlite(path: &Path, options: SqliteOptions) -> Result<Self, DatabaseError> {
        let path = path.to_owned();
        blocking(move || sqlite::open(&path, &options)).await
    }

    /// A database that lives as long as its handle, for tests.
    pub async fn memory() -> Result<Self, DatabaseError> {
        blocking(sqlite::open_memory).await
    }

    /// Connects to a server by its URL and brings the schema up to date.
    pub async fn postgres(url: &str, options: PostgresOptions) -> Result<Self, DatabaseError> {
        let url = url.to_owned();
        blocking(move || postgres::open(&url, &options)).await
    }

    /// Runs a unit of work and answers once it is durable. An error rolls it back. It may run more than once:
    /// PostgreSQL asks for that when it met another one.
    pub async fn write<T, E>(
        &self,
        work: impl FnMut(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DatabaseError> + Send + 'static,
    {
        self.run_write(Isolation::Serializable, work).await
    }

    /// The same database for what somebody waits for: a few rows, which large work of others must not delay.
    pub fn urgent(&self) -> Self {
        Self(Arc::clone(&self.0), Lane::Urgent)
    }

    /// The same for statements that are right by themselves, such as taking rows that nobody else has taken.
    /// PostgreSQL would make most of them run again if they had to look as if they ran alone.
    pub async fn write_committed<T, E>(
        &self,
        work: impl FnMut(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DatabaseError> + Send + 'static,
    {
        self.run_write(Isolation::ReadCommitted, work).await
    }

    async fn run_write<T, E>(
        &self,
        isolation: Isolation,
        work: impl FnMut(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DatabaseError> + Send + 'static,
    {
        let access = Access::Write(isolation);
        let Some(urgent) = self.0.urgent.as_ref().filter(|_| self.1 == Lane::Urgent) else {
            return run(&self.0.writers, access, work).await;
        };
        let (unit, answer) = Closure::new(access, work);
        hand_over(urgent, Some(Box::new(unit))).await;
        // If its queue is full, the thread is awake.
        drop(self.0.writers.try_send(Box::new(Word)));
        answered(answer).await
    }

    /// Tells when something may have happened that concerns `name`: see `Tx::wake`.
    pub(crate) fn wakes(&self, name: &'static str) -> watch::Receiver<()> {
        self.0.wakers.subscribe(name)
    }

    /// Tells the other processes something, where they can hear it (PostgreSQL). A word has one line of at most 1,000
    /// bytes. It is a hint: it goes out after what it is about was committed, and may be lost.
    pub fn tell(&self, topic: &'static str, word: &str) {
        debug_assert!(word.len() <= 1_000 && !word.contains('\n'), "a word has one short line");
        self.0.wakers.tell(topic, word);
    }

    /// What other processes tell about the topic, from now on.
    pub fn hear(&self, topic: &'static str) -> broadcast::Receiver<Heard> {
        self.0.wakers.hear(topic)
    }

    /// Runs a closure over one snapshot. What it writes is refused or thrown away.
    pub async fn read<T, E>(
        &self,
        work: impl FnMut(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DatabaseError> + Send + 'static,
    {
        run(&self.0.readers, Access::Read, work).await
    }

    /// The same for what takes microseconds: a few rows by their keys, and one statement on PostgreSQL. It costs
    /// less, because SQLite looks on the caller's own thread and PostgreSQL opens no transaction.
    pub async fn glance<T, E>(
        &self,
        work: impl FnMut(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DatabaseError> + Send + 'static,
    {
        let (unit, answer) = Closure::new(Access::Glance, work);
        hand_over(&self.0.readers, self.0.glances.run(Box::new(unit))).await;
        answered(answer).await
    }

    /// Hands over a unit that answers for all who wait for the like (`items::looks`). Few of them are at work at once, so that
    /// many callers wait together.
    pub(crate) async fn look(&self, unit: Box<dyn Unit>) -> Result<(), DatabaseError> {
        let lookers = self.0.lookers.as_ref().unwrap_or(&self.0.readers);
        lookers.send(unit).await.map_err(|_| DatabaseError::Closed)
    }

    /// Hands over a unit that answers by itself. Blocks while the queue is full.
    pub(crate) fn submit(&self, unit: Box<dyn Unit>) {
        if let Err(refused) = self.0.writers.send_blocking(unit) {
            refused.into_inner().finish(Err(DatabaseError::Closed));
        }
    }

    pub fn dialect(&self) -> Dialect {
        self.0.dialect
    }

    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The version of the schema, which is the number of the last migration.
    pub async fn schema_version(&self) -> Result<i64, DatabaseError> {
        self.read(crate::migrations::version).await
    }

    /// What the database takes for the time, in seconds since 1970.
    pub async fn server_time(&self) -> Result<i64, DatabaseError> {
        let sql = match self.0.dialect {
            Dialect::Sqlite => "SELECT CAST(strftime('%s', 'now') AS INTEGER)",
            Dialect::Postgres => "SELECT CAST(extract(epoch FROM clock_timestamp()) AS BIGINT)",
        };
        self.read(move |tx| tx.query(sql, &[])?.first().ok_or(DatabaseError::NoRow)?.int(0)).await
    }

    /// Finishes what is queued, refuses what comes later, and ends the threads.
    pub async fn close(&self) {
        // First what is seen to last, so that nothing comes into it when nobody looks any more.
        if let Some(urgent) = &self.0.urgent {
            urgent.close();
        }
        self.0.writers.close();
        self.0.readers.close();
        if let Some(lookers) = &self.0.lookers {
            lookers.close();
        }
        self.0.glances.close();
        self.0.wakers.close();
        let threads =
            std::mem::take(&mut *self.0.threads.lock().expect("no thread panics with it"));
        let joined = tokio::task::spawn_blocking(move || {
            for thread in threads {
                if thread.join().is_err() {
                    tracing::error!("A database thread ended in a panic");
                }
            }
        });
        if joined.await.is_err() {
            tracing::error!("The database threads could not be waited for");
        }
    }
}

async fn run<T, E>(
    queue: &async_channel::Sender<Box<dyn Unit>>,
    access: Access,
    work: impl FnMut(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<DatabaseError> + Send + 'static,
{
    let (unit, answer) = Closure::new(access, work);
    hand_over(queue, Some(Box::new(unit))).await;
    answered(answer).await
}

/// A unit that cannot be handed over any more is dropped, and whoever waits for it is told so by that.
async fn hand_over(queue: &async_channel::Sender<Box<dyn Unit>>, unit: Option<Box<dyn Unit>>) {
    if let Some(unit) = unit {
        drop(queue.send(unit).await);
    }
}

async fn answered<T, E: From<DatabaseError>>(
    answer: oneshot::Receiver<Result<T, E>>,
) -> Result<T, E> {
    answer.await.unwrap_or_else(|_| Err(DatabaseError::Closed.into()))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DatabaseError> + Send + 'static,
) -> Result<T, DatabaseError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(DatabaseError::Panicked))
}

fn spawn(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, DatabaseError> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map_err(|error| DatabaseError::Unavailable(Arc::new(error)))
}
