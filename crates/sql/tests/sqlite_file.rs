//! The file: locked by others, somebody else's, copied while in use, put back, private.
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tidings_sql::{
    BackupProgress, Database, DatabaseError, Param, RestoreError, SqliteOptions, restore,
};

async fn open(path: &Path) -> Database {
    Database::sqlite(path, SqliteOptions::default()).await.unwrap()
}

async fn insert(database: &Database, name: String) -> Result<(), DatabaseError> {
    let sql = "INSERT INTO item_consumers (workspace, table_name, consumer, seq)
               VALUES ('w', 't', $1, 0)";
    database.write(move |tx| tx.execute(sql, &[Param::Text(&name)]).map(drop)).await
}

async fn count(database: &Database) -> i64 {
    let sql = "SELECT count(*) FROM item_consumers";
    database.read(move |tx| tx.query(sql, &[])?[0].int(0)).await.unwrap()
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidings.db");
    (folder, path)
}

#[tokio::test]
async fn another_process_with_the_lock_only_makes_writers_wait() {
    let (_folder, path) = folder();
    let database = open(&path).await;
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();

    let writer = database.clone();
    let waiting = tokio::spawn(async move { insert(&writer, "a".into()).await });
    assert_eq!(count(&database).await, 0, "readers do not wait");
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    other.execute_batch("COMMIT").unwrap();

    waiting.await.unwrap().unwrap();
    assert_eq!(count(&database).await, 1);
}

#[tokio::test]
async fn the_log_starts_anew_under_a_steady_load() {
    let (_folder, path) = folder();
    let options = SqliteOptions { checkpoint_bytes: 1 << 20, ..SqliteOptions::default() };
    let database = Database::sqlite(&path, options).await.unwrap();
    let log = path.with_file_name("tidings.db-wal");
    let mut longest = 0;
    for round in 0..400 {
        for unit in 0..4 {
            insert(&database, format!("{round}-{unit}")).await.unwrap();
        }
        longest = longest.max(std::fs::metadata(&log).unwrap().len());
    }
    // 1,600 commits of three pages or more would make a log of 20 MB.
    assert!(longest < 10 << 20, "the log grew to {longest} bytes");
    assert_eq!(count(&database).await, 1600);
    database.close().await;
    assert!(!log.exists(), "closing folds the log into the file");
}

#[tokio::test]
async fn nobody_else_may_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, path) = folder();
    let database = open(&path).await;
    insert(&database, "a".into()).await.unwrap();
    for name in ["tidings.db", "tidings.db-wal"] {
        let mode = std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name} has mode {mode:o}");
    }
}

#[tokio::test]
async fn a_file_of_another_program_is_left_alone() {
    let (_folder, path) = folder();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    let refused = Database::sqlite(&path, SqliteOptions::default()).await.err().unwrap();
    assert!(matches!(refused, DatabaseError::Foreign), "{refused:?}");
    std::fs::write(&path, "this is a letter, not a database. ".repeat(100)).unwrap();
    let refused = Database::sqlite(&path, SqliteOptions::default()).await.err().unwrap();
    assert!(matches!(refused, DatabaseError::Foreign), "{refused:?}");
}

#[tokio::test]
async fn a_backup_taken_under_load_is_one_moment_and_can_be_put_back() {
    let (folder, path) = folder();
    let database = open(&path).await;
    for number in 0..500 {
        insert(&database, format!("before-{number}")).await.unwrap();
    }
    let writer = database.clone();
    let load = tokio::spawn(async move {
        for number in 0..500 {
            insert(&writer, format!("during-{number}")).await.unwrap();
        }
    });
    let backup = folder.path().join("backup.db");
    let (told, progress) = std::sync::mpsc::channel::<BackupProgress>();
    tidings_sql::backup(&path, &backup, move |step| told.send(step).unwrap()).await.unwrap();
    load.await.unwrap();
    insert(&database, "after".into()).await.unwrap();
    let last = progress.try_iter().last().unwrap();
    assert_eq!(last.copied_pages, last.total_pages);
    assert_eq!(files_beside(&backup), ["backup.db"], "one file, and nothing beside it");

    assert!(matches!(restore(&backup, &path), Err(RestoreError::InUse(_))));
    database.close().await;
    restore(&backup, &path).unwrap();

    let restored = open(&path).await;
    let kept = count(&restored).await;
    assert!((500..=1000).contains(&kept), "{kept}");
    insert(&restored, "goes on".into()).await.unwrap();
    assert_eq!(count(&restored).await, kept + 1);
}

#[tokio::test]
async fn what_a_killed_server_left_in_its_log_is_restored_too_and_stays_private() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, path) = folder();
    let database = open(&path).await;
    insert(&database, "in the log".into()).await.unwrap();
    let left = folder.path().join("left.db");
    std::fs::copy(&path, &left).unwrap();
    std::fs::copy(path.with_file_name("tidings.db-wal"), folder.path().join("left.db-wal"))
        .unwrap();
    std::fs::set_permissions(&left, PermissionsExt::from_mode(0o644)).unwrap();
    let to = folder.path().join("restored.db");

    restore(&left, &to).unwrap();

    assert_eq!(count(&open(&to).await).await, 1);
    let mode = std::fs::metadata(&to).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

fn files_beside(path: &Path) -> Vec<String> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let entries = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|other| other.starts_with(name)).collect()
}

#[tokio::test]
async fn what_is_not_a_sound_backup_is_not_put_back() {
    let (folder, path) = folder();
    let database = open(&path).await;
    for number in 0..2000 {
        insert(&database, format!("{number}")).await.unwrap();
    }
    let backup = folder.path().join("backup.db");
    tidings_sql::backup(&path, &backup, |_| {}).await.unwrap();
    database.close().await;
    let sound = std::fs::read(&backup).unwrap();

    let missing = restore(&folder.path().join("nowhere.db"), &path);
    assert!(matches!(missing, Err(RestoreError::NotABackup(_))));
    std::fs::write(&backup, "a letter").unwrap();
    assert!(matches!(restore(&backup, &path), Err(RestoreError::NotABackup(_))));
    let mut damaged = sound.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 20_000].fill(0x5a);
    std::fs::write(&backup, damaged).unwrap();
    assert!(matches!(restore(&backup, &path), Err(RestoreError::Damaged(_))));
    std::fs::write(&backup, &sound[..sound.len() / 2]).unwrap();
    assert!(matches!(restore(&backup, &path), Err(RestoreError::Damaged(_))));

    assert_eq!(count(&open(&path).await).await, 2000, "the database is as it was");
}
