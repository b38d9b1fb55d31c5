//! SQLite: one thread that writes, several that read, one that checkpoints.
//!
//! The writer runs the waiting units one after the other, each so that it can be undone alone, and commits them
//! as a group with one fsync. Only then are they answered. A unit that fails takes nothing with it but itself.

mod checkpoint;
pub(super) mod statements;

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags};

use super::unit::{Unit, Verdict, run_guarded};
use super::{Database, DatabaseError, Dialect, Glances, Lane, QUEUE, Shared, Tx, Wakers, spawn};
use crate::migrations;
use checkpoint::{Checkpointer, Gate};

/// `TIDG`, in the file's header, so that no other program's file is taken for ours.
const APPLICATION_ID: i64 = 0x5449_4447;
/// How much work goes into one commit before those who wait for it are answered.
const MAX_WEIGHT: usize = 256;
/// How long another process (a backup, an operator's command) may keep the file locked.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// How many reads run at once.
    pub readers: usize,
    /// Memory for pages of the connection that writes. Those for short reads have a quarter of it each, those for long
    /// ones a sixteenth: the system keeps their pages too.
    pub page_cache_bytes: usize,
    /// The write-ahead log is copied into the file when it has grown to this.
    pub checkpoint_bytes: usize,
}

impl Default for SqliteOptions {
    /// A commit after which a tree was balanced makes SQLite go through all places of its cache: with twice as much that was
    /// 8 % of a campaign's time. With half of it, large inboxes and imports were slower.
    fn default() -> Self {
        Self { readers: 4, page_cache_bytes: 32 << 20, checkpoint_bytes: 128 << 20 }
    }
}

pub(super) fn open(path: &Path, options: &SqliteOptions) -> Result<Database, DatabaseError> {
    create_private(path)?;
    let lock = lock_shared(path)?;
    let mut writer = connect(path, options.page_cache_bytes)?;
    recognise(&writer)?;
    migrations::run_sqlite(&writer)?;
    let (writers, urgent, work) = Work::queues();
    let (readers, reads) = async_channel::bounded(QUEUE);
    let mut reading = Vec::new();
    for number in 0..options.readers.max(1) {
        let connection = connect_to_read(path, options.page_cache_bytes / 16)?;
        let reads = reads.clone();
        reading
            .push(spawn(&format!("sqlite-read-{number}"), move || read_all(&connection, &reads))?);
    }
    let glances = Arc::new(Glances::new(looking(path, options)?));
    let last_glance = Arc::clone(&glances);
    let gate = Arc::new(Gate::default());
    let checkpointer = Checkpointer::start(connect(path, 0)?, options, Arc::clone(&gate))?;
    checkpointer.watch(&mut writer)?;
    let wakers = Arc::new(Wakers::default());
    let waking = Arc::clone(&wakers);
    let writing = spawn("sqlite-write", move || {
        write_all(&writer, &work, &gate, &waking);
        // The writer's connection goes last: the last one to close folds the log into the file.
        for reader in reading {
            if reader.join().is_err() {
                tracing::error!("A reading thread ended in a panic");
            }
        }
        last_glance.close();
        checkpointer.stop();
        drop(writer);
        drop(lock);
    })?;
    let threads = Mutex::new(vec![writing]);
    let path = Some(path.to_owned());
    let dialect = Dialect::Sqlite;
    let urgent = Some(urgent);
    let lookers = None;
    let shared =
        Shared { dialect, path, writers, urgent, readers, lookers, glances, threads, wakers };
    Ok(Database(Arc::new(shared), Lane::Ordinary))
}

/// One connection for each who can look at the same time.
fn looking(path: &Path, options: &SqliteOptions) -> Result<Vec<Connection>, DatabaseError> {
    let count = thread::available_parallelism().map_or(1, usize::from).min(options.readers.max(1));
    let connections = (0..count).map(|_| connect_to_read(path, options.page_cache_bytes / 4));
    connections.collect()
}

fn connect_to_read(path: &Path, cache: usize) -> Result<Connection, DatabaseError> {
    let connection = connect(path, cache)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// One connection does everything: a second one would see another, empty database.
pub(super) fn open_memory() -> Result<Database, DatabaseError> {
    let connection = Connection::open_in_memory()?;
    set_up(&connection, SqliteOptions::default().page_cache_bytes)?;
    migrations::run_sqlite(&connection)?;
    let (writers, urgent, work) = Work::queues();
    let gate = Gate::default();
    let wakers = Arc::new(Wakers::default());
    let waking = Arc::clone(&wakers);
    let thread = spawn("sqlite-memory", move || write_all(&connection, &work, &gate, &waking))?;
    let (readers, threads) = (writers.clone(), Mutex::new(vec![thread]));
    let (dialect, urgent, glances) = (Dialect::Sqlite, Some(urgent), Arc::default());
    let (path, lookers) = (None, None);
    let shared =
        Shared { dialect, path, writers, urgent, readers, lookers, glances, threads, wakers };
    Ok(Database(Arc::new(shared), Lane::Ordinary))
}

/// The file holds people's addresses: nobody but its owner may read it. The log inherits the mode.
fn create_private(path: &Path) -> Result<(), DatabaseError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop).map_err(|error| file_error(path, error))
}

fn file_error(path: &Path, error: std::io::Error) -> DatabaseError {
    DatabaseError::File { path: path.display().to_string(), source: Arc::new(error) }
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-lock");
    name.into()
}

fn open_lock(path: &Path) -> Result<File, DatabaseError> {
    let path = lock_path(path);
    let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    opened.map_err(|error| file_error(&path, error))
}

/// Every process that has the database open holds this lock together with the others.
pub(crate) fn lock_shared(path: &Path) -> Result<File, DatabaseError> {
    let file = open_lock(path)?;
    match file.try_lock_shared() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DatabaseError::Locked),
        Err(TryLockError::Error(error)) => Err(file_error(path, error)),
    }
}

/// Held while the file is replaced. Fails if any process has the database open.
pub(crate) fn lock_exclusive(path: &Path) -> Result<File, DatabaseError> {
    let file = open_lock(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DatabaseError::Locked),
        Err(TryLockError::Error(error)) => Err(file_error(path, error)),
    }
}

pub(crate) fn connect(path: &Path, cache: usize) -> Result<Connection, DatabaseError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(LOCK_PATIENCE)?;
    set_up(&connection, cache)?;
    Ok(connection)
}

fn set_up(connection: &Connection, cache: usize) -> Result<(), DatabaseError> {
    connection.pragma_update(None, "page_size", 4096)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    if cache > 0 {
        connection.pragma_update(None, "cache_size", -((cache / 1024) as i64))?;
    }
    // A plan must not depend on what is bound: SQLite would prepare a statement again whenever a value might matter to a
    // partial index, which cost the writer an eighth of its time while a campaign was sent.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(256);
    // PostgreSQL has a function of this name. Scans split a table by it; the two need not agree.
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("hashtext", 1, flags, |context| {
        let text = context.get_raw(0).as_bytes().unwrap_or_default();
        let hash = text.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Ok(i64::from((hash >> 32) as u32))
    })?;
    Ok(())
}

/// Marks a new file as ours, and refuses one that is somebody else's.
fn recognise(connection: &Connection) -> Result<(), DatabaseError> {
    let found: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if found == APPLICATION_ID {
        return Ok(());
    }
    let count = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = connection.query_row(count, [], |row| row.get(0))?;
    if found != 0 || tables > 0 {
        return Err(DatabaseError::Foreign);
    }
    Ok(connection.pragma_update(None, "application_id", APPLICATION_ID)?)
}

/// Whether a file is a database of Tidings, whatever its version.
pub(crate) fn is_ours(connection: &Connection) -> Result<bool, DatabaseError> {
    let found: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    Ok(found == APPLICATION_ID)
}

fn read_all(connection: &Connection, reads: &async_channel::Receiver<Box<dyn Unit>>) {
    while let Ok(mut unit) = reads.recv_blocking() {
        let outcome = read_one(connection, &mut *unit);
        unit.finish(outcome);
    }
}

pub(super) fn read_one(connection: &Connection, unit: &mut dyn Unit) -> Result<(), DatabaseError> {
    run_cached(connection, "BEGIN")?;
    let ran = run_guarded(unit, &mut Tx::on_sqlite(connection));
    run_cached(connection, "ROLLBACK")?;
    ran.map(drop)
}

/// Units that ran together.
#[derive(Default)]
struct Group {
    /// Each with how it went by itself.
    units: Vec<(Box<dyn Unit>, Result<(), DatabaseError>)>,
    is_urgent: bool,
    wakes: BTreeSet<&'static str>,
}

/// What the one thread that writes has before it.
struct Work {
    ordinary: Queue,
    /// What somebody waits for. Whoever puts something in says a word in the other queue.
    urgent: Queue,
}

type Queue = async_channel::Receiver<Box<dyn Unit>>;
type Entrance = async_channel::Sender<Box<dyn Unit>>;

impl Work {
    fn queues() -> (Entrance, Entrance, Self) {
        let (writers, ordinary) = async_channel::bounded(QUEUE);
        let (urgently, urgent) = async_channel::bounded(QUEUE);
        (writers, urgently, Self { ordinary, urgent })
    }

    fn next_urgent(&self) -> Option<Box<dyn Unit>> {
        self.urgent.try_recv().ok()
    }

    fn next_ordinary(&self) -> Option<Box<dyn Unit>> {
        loop {
            let unit = self.ordinary.try_recv().ok()?;
            if !unit.is_a_word() {
                return Some(unit);
            }
        }
    }

    /// What a group begins with. After something urgent it is the turn of the others.
    fn first(&self, after_urgent: bool) -> Option<(Box<dyn Unit>, bool)> {
        loop {
            if after_urgent && let Some(unit) = self.next_ordinary() {
                return Some((unit, false));
            }
            if let Some(unit) = self.next_urgent() {
                return Some((unit, true));
            }
            match self.ordinary.recv_blocking() {
                Ok(unit) if unit.is_a_word() => {}
                Ok(unit) => return Some((unit, false)),
                // Closed, and empty. Somebody may have been quick.
                Err(_) => return self.next_urgent().map(|unit| (unit, true)),
            }
        }
    }
}

fn write_all(connection: &Connection, work: &Work, gate: &Gate, wakers: &Wakers) {
    let mut was_urgent = false;
    while let Some((first, is_urgent)) = work.first(was_urgent) {
        let mut group = Group { is_urgent, ..Group::default() };
        let open = gate.enter();
        let committed = write_group(connection, first, work, &mut group);
        drop(open);
        was_urgent = group.is_urgent;
        metrics::histogram!("tidings_sqlite_group_units").record(group.units.len() as f64);
        if committed.is_ok() {
            wakers.wake(&group.wakes);
        }
        for (unit, outcome) in group.units {
            unit.finish(committed.clone().and(outcome));
        }
    }
}

/// Runs `first` and what else waits, and commits them together. Once there is something urgent among them, nothing else is begun
/// before the commit. The error, if any, concerns them all.
fn write_group(
    connection: &Connection,
    first: Box<dyn Unit>,
    work: &Work,
    group: &mut Group,
) -> Result<(), DatabaseError> {
    if let Err(error) = run_cached(connection, "BEGIN IMMEDIATE") {
        group.units.push((first, Ok(())));
        return Err(error);
    }
    let mut weight = 0;
    let mut next = Some(first);
    while let Some(mut unit) = next.take() {
        let mut tx = Tx::on_sqlite(connection);
        let outcome = if group.units.is_empty() {
            run_first(connection, &mut *unit, &mut tx)
        } else {
            run_in_savepoint(connection, &mut *unit, &mut tx)
        };
        weight += unit.weight();
        group.units.push((unit, outcome));
        // A unit that was rolled back may wake somebody for nothing.
        group.wakes.append(&mut tx.wakes);
        if connection.is_autocommit() {
            // A full disk makes SQLite roll everything back by itself, the units before this one too.
            let gone = std::io::Error::other("SQLite rolled the whole transaction back");
            return Err(DatabaseError::Unavailable(Arc::new(gone)));
        }
        if weight < MAX_WEIGHT {
            next = work.next_urgent();
            group.is_urgent |= next.is_some();
            if !group.is_urgent {
                next = work.next_ordinary();
            }
        }
    }
    if let Err(error) = run_cached(connection, "COMMIT") {
        if !connection.is_autocommit() {
            run_cached(connection, "ROLLBACK")?;
        }
        return Err(match error {
            // The log may hold the commit already, and a crash before the next one would bring it back.
            DatabaseError::Unavailable(source) => DatabaseError::Uncertain(source),
            other => other,
        });
    }
    Ok(())
}

fn run_cached(connection: &Connection, sql: &str) -> Result<(), DatabaseError> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// The first unit of a group needs no savepoint, which would copy every page before it is changed: if the unit
/// fails, the transaction holds nothing else and is begun again.
fn run_first(
    connection: &Connection,
    unit: &mut dyn Unit,
    tx: &mut Tx<'_>,
) -> Result<(), DatabaseError> {
    let verdict = run_guarded(unit, tx);
    if !matches!(verdict, Ok(Verdict::Commit)) && !connection.is_autocommit() {
        run_cached(connection, "ROLLBACK")?;
        run_cached(connection, "BEGIN IMMEDIATE")?;
    }
    verdict.map(drop)
}

fn run_in_savepoint(
    connection: &Connection,
    unit: &mut dyn Unit,
    tx: &mut Tx<'_>,
) -> Result<(), DatabaseError> {
    run_cached(connection, "SAVEPOINT unit")?;
    let verdict = run_guarded(unit, tx);
    if !matches!(verdict, Ok(Verdict::Commit)) && !connection.is_autocommit() {
        run_cached(connection, "ROLLBACK TO unit")?;
    }
    if !connection.is_autocommit() {
        run_cached(connection, "RELEASE unit")?;
    }
    verdict.map(drop)
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, StatementStatus};

    use super::set_up;

    #[test]
    fn a_statement_is_prepared_once_whatever_is_bound() {
        let connection = Connection::open_in_memory().unwrap();
        set_up(&connection, 0).unwrap();
        let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, status TEXT, due INTEGER);
                      CREATE INDEX claimed ON t (due) WHERE status = 'claimed'";
        connection.execute_batch(schema).unwrap();
        let sql = "SELECT id FROM t WHERE ?1 = 'sending' AND status = ?2 AND due <= ?3";
        let mut statement = connection.prepare(sql).unwrap();
        for (status, due) in [("claimed", 1), ("pending", 2), ("claimed", 3)] {
            let mut rows = statement.query(("sending", status, due)).unwrap();
            assert!(rows.next().unwrap().is_none());
        }
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }
}
