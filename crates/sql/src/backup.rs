//! Copies of the embedded database: taken while it is in use, and put back while it is not.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::database::{self, DatabaseError};

const PAGES_AT_ONCE: i32 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupProgress {
    pub copied_pages: u64,
    pub total_pages: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("there is no database {0}")]
    NoDatabase(PathBuf),
    #[error("the backup {0} is damaged")]
    Damaged(PathBuf),
    #[error("the backup file {path} cannot be written")]
    File { path: PathBuf, source: std::io::Error },
    #[error("the database could not be copied")]
    Database(#[from] DatabaseError),
}

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("{0} is not a backup of Tidings")]
    NotABackup(PathBuf),
    #[error("the backup {0} is damaged")]
    Damaged(PathBuf),
    #[error("a process has the database {0} open")]
    InUse(PathBuf),
    #[error("the file {path} cannot be written")]
    File { path: PathBuf, source: std::io::Error },
    #[error("the backup could not be read")]
    Database(#[from] DatabaseError),
    #[error("the backup could not be copied")]
    Copy(#[from] BackupError),
}

/// Writes the database file `from`, as it is now, into a new file, whoever else is using it. The copy is there
/// whole and checked, or not at all. Its schema is the original's: nothing is migrated.
pub async fn backup(
    from: &Path,
    to: &Path,
    progress: impl FnMut(BackupProgress) + Send + 'static,
) -> Result<(), BackupError> {
    let (from, to) = (from.to_owned(), to.to_owned());
    let done = tokio::task::spawn_blocking(move || copy_out(&from, &to, progress)).await;
    done.unwrap_or(Err(BackupError::Database(DatabaseError::Panicked)))
}

fn copy_out(
    from: &Path,
    to: &Path,
    mut progress: impl FnMut(BackupProgress),
) -> Result<(), BackupError> {
    if !from.is_file() {
        return Err(BackupError::NoDatabase(from.to_owned()));
    }
    let lock = database::lock_shared(from)?;
    let source = database::connect(from, 0)?;
    if !database::is_ours(&source)? {
        return Err(DatabaseError::Foreign.into());
    }
    let partial = beside(to, ".partial");
    copy_pages(&source, &partial, &mut progress)?;
    drop(source);
    drop(lock);
    publish(&partial, to).map_err(|source| BackupError::File { path: to.to_owned(), source })
}

/// Writes what `source` sees now, its log included, into a private file, and checks it.
fn copy_pages(
    source: &Connection,
    to: &Path,
    progress: &mut impl FnMut(BackupProgress),
) -> Result<(), BackupError> {
    let failed = |source| BackupError::File { path: to.to_owned(), source };
    remove_database(to).map_err(failed)?;
    create_private(to).map_err(failed)?;
    // An open read transaction pins one snapshot: without it every write meanwhile would start the copy over.
    source
        .execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")
        .map_err(DatabaseError::from)?;
    let mut target = Connection::open(to).map_err(DatabaseError::from)?;
    let copy = Backup::new(source, &mut target).map_err(DatabaseError::from)?;
    loop {
        let step = copy.step(PAGES_AT_ONCE).map_err(DatabaseError::from)?;
        let told = copy.progress();
        let copied_pages = (told.pagecount - told.remaining).max(0) as u64;
        progress(BackupProgress { copied_pages, total_pages: told.pagecount.max(0) as u64 });
        match step {
            StepResult::Done => break,
            StepResult::More => {}
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    drop(copy);
    // One file and nothing beside it: a copy that is carried away must not need its log.
    let mode: String = target
        .pragma_update_and_check(None, "journal_mode", "delete", |row| row.get(0))
        .map_err(DatabaseError::from)?;
    tracing::debug!(mode, "Database copied");
    if is_sound(&target)? { Ok(()) } else { Err(BackupError::Damaged(to.to_owned())) }
}

/// Puts a backup in the place of a database that no process has open.
pub fn restore(from: &Path, to: &Path) -> Result<(), RestoreError> {
    let source = open_backup(from)?;
    let lock = database::lock_exclusive(to).map_err(|error| match error {
        DatabaseError::Locked => RestoreError::InUse(to.to_owned()),
        other => RestoreError::Database(other),
    })?;
    let partial = beside(to, ".restoring");
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| RestoreError::File { path, source }
    };
    copy_pages(&source, &partial, &mut |_| {})?;
    drop(source);
    // The old log must go before the new file comes: SQLite would replay it into the wrong database. What it
    // holds is folded into the old file first, which stays whole if we die before the next line but one.
    fold_log(to);
    for suffix in ["-wal", "-shm"] {
        remove_if_there(&beside(to, suffix)).map_err(failed(to))?;
    }
    publish(&partial, to).map_err(failed(to))?;
    drop(lock);
    Ok(())
}

/// Best effort: the old file may be damaged, which is why it is being replaced.
fn fold_log(path: &Path) {
    if !path.exists() {
        return;
    }
    let folded = database::connect(path, 0).and_then(|connection| {
        Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    });
    if let Err(error) = folded {
        tracing::warn!(%error, "The database that is being replaced could not be tidied first");
    }
}

fn open_backup(path: &Path) -> Result<Connection, RestoreError> {
    if !path.is_file() {
        return Err(RestoreError::NotABackup(path.to_owned()));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(DatabaseError::from)?;
    match database::is_ours(&connection) {
        Ok(true) => {}
        Ok(false) | Err(DatabaseError::Foreign) => {
            return Err(RestoreError::NotABackup(path.to_owned()));
        }
        Err(_) => return Err(RestoreError::Damaged(path.to_owned())),
    }
    match is_sound(&connection) {
        Ok(true) => Ok(connection),
        Ok(false) | Err(_) => Err(RestoreError::Damaged(path.to_owned())),
    }
}

fn is_sound(connection: &Connection) -> Result<bool, DatabaseError> {
    let verdict: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    Ok(verdict == "ok")
}

/// Makes the file durable under its real name, in one step.
fn publish(partial: &Path, to: &Path) -> std::io::Result<()> {
    File::open(partial)?.sync_all()?;
    fs::rename(partial, to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn create_private(path: &Path) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn remove_database(path: &Path) -> std::io::Result<()> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        remove_if_there(&beside(path, suffix))?;
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
