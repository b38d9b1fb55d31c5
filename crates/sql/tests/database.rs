//! Units of work on both engines: atomic, isolated from each other's failures, never lost and never surfacing
//! what only the engine should know.
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

mod engines;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engines::{Engine, connect};
use tidings_sql::{Database, DatabaseError, Dialect, Param, SqliteOptions, Tx};

const INSERT: &str = "INSERT INTO item_consumers (workspace, table_name, consumer, seq)
                      VALUES ('w', 't', $1, $2)";

fn insert(tx: &mut Tx<'_>, name: &str, seq: i64) -> Result<(), DatabaseError> {
    tx.execute(INSERT, &[Param::Text(name), Param::Int(seq)]).map(drop)
}

async fn names(database: &Database) -> Vec<String> {
    let read = database.read(|tx| {
        let rows = tx.query("SELECT consumer FROM item_consumers ORDER BY consumer", &[])?;
        rows.iter().map(|row| row.text(0).map(str::to_owned)).collect::<Result<_, DatabaseError>>()
    });
    read.await.unwrap()
}

/// Runs each story on every engine, as tests of their own.
macro_rules! each_engine {
    ($($story:ident),* $(,)?) => {
        mod memory { $(#[tokio::test] async fn $story() { super::$story(super::Engine::memory().await).await }
        )* }
        mod file { $(#[tokio::test] async fn $story() { super::$story(super::Engine::file().await).await }
        )* }
        mod postgres { $(#[tokio::test] async fn $story() { super::$story(super::Engine::postgres().await).await }
        )* }
    };
}

each_engine!(
    a_unit_is_there_when_it_is_answered,
    a_failing_unit_does_not_spoil_its_group,
    a_panicking_unit_does_not_spoil_its_group,
    a_constraint_is_told_apart,
    parameters_go_by_their_numbers,
    a_unit_that_passes_over_a_failed_statement_is_undone,
    a_read_sees_one_snapshot_and_cannot_write,
    a_glance_sees_what_was_written_and_cannot_write,
    glances_all_get_an_answer_until_the_database_is_closed,
    racing_increments_are_all_counted,
    more_callers_than_the_queue_holds_all_get_an_answer,
    a_caller_that_goes_away_leaves_a_whole_unit,
    closing_finishes_what_is_queued,
    what_somebody_waits_for_is_committed_before_the_work_of_others,
    nothing_urgent_is_left_when_the_database_is_closed,
    the_database_knows_the_time_and_its_version,
    an_older_schema_is_brought_up_to_date_and_keeps_its_items,
);

async fn a_unit_is_there_when_it_is_answered(engine: Engine) {
    let database = engine.database();
    let answer: Result<i64, DatabaseError> =
        database.write(|tx| insert(tx, "a", 1).map(|()| 7)).await;
    assert_eq!(answer.unwrap(), 7);
    assert_eq!(names(database).await, ["a"]);
}

/// Runs units side by side, so that they share a group; those with an odd number go wrong.
async fn side_by_side(
    database: &Database,
    go_wrong: fn(&mut Tx<'_>) -> Result<(), DatabaseError>,
) -> Vec<Result<(), DatabaseError>> {
    let units = (0..100).map(|number| {
        let database = database.clone();
        tokio::spawn(async move {
            let unit = database.write(move |tx| {
                insert(tx, &format!("{number:03}"), number)?;
                if number % 2 == 1 { go_wrong(tx) } else { Ok(()) }
            });
            unit.await
        })
    });
    let mut answers = Vec::new();
    for unit in units.collect::<Vec<_>>() {
        answers.push(unit.await.unwrap());
    }
    answers
}

async fn only_even_ones_stay(database: &Database, answers: Vec<Result<(), DatabaseError>>) {
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer.is_ok(), number % 2 == 0, "{number}: {answer:?}");
    }
    let even: Vec<String> = (0..100).step_by(2).map(|number| format!("{number:03}")).collect();
    assert_eq!(names(database).await, even);
}

async fn a_failing_unit_does_not_spoil_its_group(engine: Engine) {
    let database = engine.database();
    let answers = side_by_side(database, |tx| tx.execute("nonsense", &[]).map(drop)).await;
    only_even_ones_stay(database, answers).await;
}

async fn a_panicking_unit_does_not_spoil_its_group(engine: Engine) {
    let database = engine.database();
    let answers = side_by_side(database, |_| panic!("as the test wants it")).await;
    assert!(
        answers
            .iter()
            .flat_map(|answer| answer.as_ref().err())
            .all(|error| { matches!(error, DatabaseError::Panicked) })
    );
    only_even_ones_stay(database, answers).await;
}

async fn a_constraint_is_told_apart(engine: Engine) {
    let database = engine.database();
    database.write(|tx| insert(tx, "a", 1)).await.unwrap();
    let refused: Result<(), DatabaseError> = database.write(|tx| insert(tx, "a", 2)).await;
    assert!(matches!(refused, Err(DatabaseError::Constraint(_))), "{refused:?}");
}

async fn parameters_go_by_their_numbers(engine: Engine) {
    let sql = "SELECT CAST($2 AS TEXT), CAST($1 AS TEXT), '$1', CAST($2 AS TEXT)";
    let read = engine.database().read(move |tx| {
        let rows = tx.query(sql, &[Param::Text("first"), Param::Text("second")])?;
        (0..4).map(|column| rows[0].text(column).map(str::to_owned)).collect()
    });
    let row: Result<Vec<String>, DatabaseError> = read.await;
    assert_eq!(row.unwrap(), ["second", "first", "$1", "second"]);
}

/// PostgreSQL answers the commit of a broken transaction with success, and keeps nothing of it.
async fn a_unit_that_passes_over_a_failed_statement_is_undone(engine: Engine) {
    let database = engine.database();
    database.write(|tx| insert(tx, "a", 1)).await.unwrap();
    let answer: Result<(), DatabaseError> = database
        .write(|tx| {
            insert(tx, "b", 1)?;
            let _ = insert(tx, "a", 2);
            Ok(())
        })
        .await;
    assert!(matches!(answer, Err(DatabaseError::Constraint(_))), "{answer:?}");
    assert_eq!(names(database).await, ["a"]);
}

async fn a_read_sees_one_snapshot_and_cannot_write(engine: Engine) {
    let database = engine.database();
    let refused: Result<(), DatabaseError> = database.read(|tx| insert(tx, "a", 1)).await;
    // A database in memory has one connection; there the write is thrown away instead of refused.
    assert!(refused.is_err() || names(database).await.is_empty());

    if database.path().is_none() && database.dialect() == tidings_sql::Dialect::Sqlite {
        return;
    }
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (written, is_written) = std::sync::mpsc::channel::<()>();
    let is_written = std::sync::Mutex::new(is_written);
    let reader = database.clone();
    let reading = tokio::spawn(async move {
        let read = reader.read(move |tx| {
            let count =
                |tx: &mut Tx<'_>| tx.query("SELECT count(*) FROM item_consumers", &[])?[0].int(0);
            let before = count(tx)?;
            begun.send(()).unwrap();
            is_written.lock().unwrap().recv().unwrap();
            Ok::<_, DatabaseError>((before, count(tx)?))
        });
        read.await.unwrap()
    });
    tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
    database.write(|tx| insert(tx, "b", 1)).await.unwrap();
    written.send(()).unwrap();
    assert_eq!(reading.await.unwrap(), (0, 0));
    assert_eq!(names(database).await, ["b"]);
}

async fn a_glance_sees_what_was_written_and_cannot_write(engine: Engine) {
    let database = engine.database();
    let count = |tx: &mut Tx<'_>| tx.query("SELECT count(*) FROM item_consumers", &[])?[0].int(0);
    for number in 0..20 {
        database.write(move |tx| insert(tx, &format!("{number}"), number)).await.unwrap();
        assert_eq!(database.glance(count).await.unwrap(), number + 1);
    }
    let refused: Result<(), DatabaseError> = database.glance(|tx| insert(tx, "late", 1)).await;
    // As above, a database in memory throws it away.
    assert!(refused.is_err() || names(database).await.len() == 20);
    assert_eq!(database.glance(count).await.unwrap(), 20);

    let failed: Result<(), DatabaseError> =
        database.glance(|tx| tx.query("nonsense", &[]).map(drop)).await;
    assert!(matches!(failed, Err(DatabaseError::Statement(_))), "{failed:?}");
    let panicked: Result<(), DatabaseError> = database.glance(|_| panic!("on purpose")).await;
    assert!(matches!(panicked, Err(DatabaseError::Panicked)), "{panicked:?}");
    // Without a transaction two statements might not see the same.
    let twice = database.glance(move |tx| count(tx).and_then(|_| count(tx))).await;
    assert_eq!(twice.is_err(), database.dialect() == Dialect::Postgres, "{twice:?}");
    assert_eq!(database.glance(count).await.unwrap(), 20);
}

async fn glances_all_get_an_answer_until_the_database_is_closed(engine: Engine) {
    let database = engine.database();
    let look = |number: i64| {
        let database = database.clone();
        // On threads of their own, as many at once as the machine runs.
        tokio::task::spawn_blocking(move || {
            let look = database.glance(move |tx| {
                let rows = tx.query("SELECT CAST($1 AS BIGINT)", &[Param::Int(number)])?;
                rows[0].int(0)
            });
            tokio::runtime::Handle::current().block_on(look)
        })
    };
    let callers: Vec<_> = (0..500).map(look).collect();
    let mut sum = 0;
    for caller in callers {
        sum += caller.await.unwrap().unwrap();
    }
    assert_eq!(sum, (0..500).sum::<i64>());
    database.close().await;
    let late = look(1).await.unwrap();
    assert!(matches!(late, Err(DatabaseError::Closed)), "{late:?}");
}

/// Reads, then writes what it read plus one: without isolation, some would be lost.
async fn racing_increments_are_all_counted(engine: Engine) {
    let database = engine.database();
    database.write(|tx| insert(tx, "counter", 0)).await.unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let callers = (0..32).map(|_| {
        let (database, runs) = (database.clone(), Arc::clone(&runs));
        tokio::spawn(async move {
            for _ in 0..4 {
                let runs = Arc::clone(&runs);
                let unit = database.write(move |tx| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    let sql = "SELECT seq FROM item_consumers WHERE consumer = 'counter'";
                    let value = tx.query(sql, &[])?[0].int(0)?;
                    let sql = "UPDATE item_consumers SET seq = $1 WHERE consumer = 'counter'";
                    tx.execute(sql, &[Param::Int(value + 1)]).map(drop)
                });
                unit.await?;
            }
            Ok::<_, DatabaseError>(())
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap().unwrap();
    }
    let sql = "SELECT seq FROM item_consumers WHERE consumer = 'counter'";
    let total = database.read(move |tx| tx.query(sql, &[])?[0].int(0)).await;
    assert_eq!(total.unwrap(), 128);
    assert!(runs.load(Ordering::Relaxed) >= 128);
}

async fn more_callers_than_the_queue_holds_all_get_an_answer(engine: Engine) {
    let database = engine.database();
    let callers = (0..6000).map(|number| {
        let database = database.clone();
        tokio::spawn(async move {
            database.read(move |_| Ok::<_, DatabaseError>(number)).await.unwrap()
        })
    });
    let mut sum = 0;
    for caller in callers.collect::<Vec<_>>() {
        sum += caller.await.unwrap();
    }
    assert_eq!(sum, (0..6000).sum::<i32>());
}

async fn a_caller_that_goes_away_leaves_a_whole_unit(engine: Engine) {
    let database = engine.database();
    let (begun, mut has_begun) = tokio::sync::mpsc::channel(1);
    let worker = database.clone();
    let caller = tokio::spawn(async move {
        let unit = worker.write(move |tx| {
            insert(tx, "a", 1)?;
            begun.blocking_send(()).unwrap();
            insert(tx, "b", 2)
        });
        unit.await
    });
    has_begun.recv().await.unwrap();
    caller.abort();
    drop(caller);
    // The unit is done or not begun for whoever comes next, never half.
    database.write(|tx| insert(tx, "c", 3)).await.unwrap();
    loop {
        let seen = names(database).await;
        if seen == ["a", "b", "c"] {
            break;
        }
        assert_eq!(seen, ["c"], "half a unit can be seen");
    }
}

/// The same data through a new handle, if they outlive the first one.
async fn reopen(engine: &Engine) -> Option<Database> {
    match engine {
        Engine::Memory(_) => None,
        Engine::File(_, folder) => {
            let path = folder.path().join("tidings.db");
            Some(Database::sqlite(&path, SqliteOptions::default()).await.unwrap())
        }
        Engine::Postgres(_, place) => Some(connect(&place.url).await),
    }
}

async fn closing_finishes_what_is_queued(engine: Engine) {
    let database = engine.database();
    let units = (0..200).map(|number| {
        let database = database.clone();
        tokio::spawn(async move {
            database.write(move |tx| insert(tx, &format!("{number:03}"), number)).await
        })
    });
    let units: Vec<_> = units.collect();
    tokio::task::yield_now().await;
    database.close().await;
    let mut done = 0;
    for unit in units {
        match unit.await.unwrap() {
            Ok(()) => done += 1,
            Err(DatabaseError::Closed) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    let late: Result<(), DatabaseError> = database.write(|tx| insert(tx, "late", 0)).await;
    assert!(matches!(late, Err(DatabaseError::Closed)));
    if let Some(reopened) = reopen(&engine).await {
        assert_eq!(names(&reopened).await.len(), done);
    }
}

/// A unit that waits for a word, but not for ever.
fn waiting(
    database: &Database,
    name: &'static str,
    word: Receiver<()>,
) -> impl Future<Output = Result<(), DatabaseError>> {
    let database = database.clone();
    let word = Mutex::new(word);
    async move {
        let unit = database.write(move |tx| {
            let came = word.lock().unwrap().recv_timeout(Duration::from_secs(30));
            assert!(came.is_ok(), "nobody said a word to {name}");
            insert(tx, name, 1)
        });
        unit.await
    }
}

async fn what_somebody_waits_for_is_committed_before_the_work_of_others(engine: Engine) {
    let database = engine.database();
    let ((go_first, first), (go_second, second)) = (channel(), channel());
    // The first one is being run or is next; the second waits behind it, until the urgent one is answered.
    let urgent = async {
        database.urgent().write(|tx| insert(tx, "urgent", 1)).await.unwrap();
        go_second.send(()).unwrap();
    };
    let (first, second, (), sent) = tokio::join!(
        waiting(database, "first", first),
        waiting(database, "second", second),
        urgent,
        async { go_first.send(()) },
    );
    first.and(second).unwrap();
    sent.unwrap();
    assert_eq!(names(database).await, ["first", "second", "urgent"]);
}

async fn nothing_urgent_is_left_when_the_database_is_closed(engine: Engine) {
    let database = engine.database().clone();
    let callers: Vec<_> = (0..200)
        .map(|number| {
            let database = if number % 2 == 0 { database.urgent() } else { database.clone() };
            let unit =
                async move { database.write(move |tx| insert(tx, &format!("{number}"), 1)).await };
            tokio::spawn(unit)
        })
        .collect();
    tokio::task::yield_now().await;
    database.close().await;
    for caller in callers {
        let answer = caller.await.unwrap();
        assert!(matches!(answer, Ok(()) | Err(DatabaseError::Closed)), "{answer:?}");
    }
}

async fn the_database_knows_the_time_and_its_version(engine: Engine) {
    let database = engine.database();
    assert!(database.server_time().await.unwrap() > 1_700_000_000);
    assert!(database.schema_version().await.unwrap() >= 2);
}

/// Version 1 had the items and nothing else.
async fn an_older_schema_is_brought_up_to_date_and_keeps_its_items(engine: Engine) {
    let database = engine.database();
    let newest = database.schema_version().await.unwrap();
    let older = database.write(|tx| {
        for table in tables_beside_the_items(tx)? {
            let sql = match tx.dialect() {
                Dialect::Sqlite => format!("DROP TABLE {table}"),
                Dialect::Postgres => format!("DROP TABLE {table} CASCADE"),
            };
            tx.execute(&sql, &[])?;
        }
        if tx.dialect() == Dialect::Postgres {
            // A table takes its triggers with it, and not what they call.
            tx.execute("DROP FUNCTION audit_log_refuses", &[])?;
        }
        for sql in [
            "DELETE FROM schema_migrations WHERE version > 1",
            "INSERT INTO items_main (workspace, pk, sk, item) VALUES ('w', 'a', 'b', '{}')",
        ] {
            tx.execute(sql, &[])?;
        }
        Ok::<_, DatabaseError>(())
    });
    older.await.unwrap();
    assert_eq!(database.schema_version().await.unwrap(), 1);
    database.close().await;
    let Some(reopened) = reopen(&engine).await else { return };
    assert_eq!(reopened.schema_version().await.unwrap(), newest);
    reopened.write(|tx| insert(tx, "a", 1)).await.unwrap();
    let count = reopened.read(|tx| tx.query("SELECT count(*) FROM items_main", &[])?[0].int(0));
    assert_eq!(count.await.unwrap(), 1);
}

fn tables_beside_the_items(tx: &mut Tx<'_>) -> Result<Vec<String>, DatabaseError> {
    let sql = match tx.dialect() {
        // The newest first: what refers to another table goes before it.
        Dialect::Sqlite => {
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid DESC"
        }
        Dialect::Postgres => "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
    };
    let rows = tx.query(sql, &[])?;
    let names = rows.iter().map(|row| row.text(0).map(str::to_owned));
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let stays = |name: &str| {
        name.starts_with("items_") || name.starts_with("sqlite_") || name == "schema_migrations"
    };
    Ok(names.into_iter().filter(|name| !stays(name)).collect())
}
