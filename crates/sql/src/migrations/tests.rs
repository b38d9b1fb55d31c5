//! From an older version to the newest, with data in it; never from a newer one.

use rusqlite::Connection;

use super::{MIGRATIONS, Migration, apply_on_sqlite, run_sqlite, version};
use crate::database::{DatabaseError, Tx};

fn version_of(connection: &Connection) -> i64 {
    version(&mut Tx::on_sqlite(connection)).unwrap()
}

#[test]
fn versions_count_up_without_gaps() {
    let versions: Vec<i64> = MIGRATIONS.iter().map(|migration| migration.version).collect();
    assert_eq!(versions, (1..=MIGRATIONS.len() as i64).collect::<Vec<_>>());
}

#[test]
fn every_older_version_is_brought_up_to_date_and_keeps_its_items() {
    for older in 1..MIGRATIONS.len() {
        let connection = Connection::open_in_memory().unwrap();
        apply_on_sqlite(&connection, &MIGRATIONS[..older]).unwrap();
        let insert =
            "INSERT INTO items_main (workspace, pk, sk, item) VALUES ('w', 'a', 'b', '{}')";
        connection.execute(insert, []).unwrap();
        assert_eq!(version_of(&connection), older as i64);

        run_sqlite(&connection).unwrap();

        assert_eq!(version_of(&connection), MIGRATIONS.len() as i64);
        let kept: i64 =
            connection.query_row("SELECT count(*) FROM items_main", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, 1);
    }
}

#[test]
fn running_them_again_changes_nothing() {
    let connection = Connection::open_in_memory().unwrap();
    run_sqlite(&connection).unwrap();
    run_sqlite(&connection).unwrap();
    assert_eq!(version_of(&connection), MIGRATIONS.len() as i64);
}

#[test]
fn a_newer_schema_is_refused() {
    let connection = Connection::open_in_memory().unwrap();
    run_sqlite(&connection).unwrap();
    let refused = apply_on_sqlite(&connection, &MIGRATIONS[..1]);
    let newest = MIGRATIONS.len() as i64;
    assert!(
        matches!(refused, Err(DatabaseError::Newer { found, known: 1 }) if found == newest),
        "{refused:?}"
    );
}

#[test]
fn a_migration_that_fails_leaves_nothing_behind() {
    let connection = Connection::open_in_memory().unwrap();
    let broken = Migration { version: 1, name: "broken", sql: "CREATE TABLE a (b TEXT); nonsense" };
    apply_on_sqlite(&connection, &[broken]).unwrap_err();
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 0);
}
