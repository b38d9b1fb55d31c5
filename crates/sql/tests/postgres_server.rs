//! What only a server can do to us: two nodes, lost connections, certificates, a migration raced by many.
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use tidings_kernel::{Item, ItemEngine, ItemStore, Key, Put, StoreError, SystemClock, tables};
use tidings_sql::{Database, DatabaseError, Param, PostgresOptions, SqlItems, Tls};
use tidings_testkit::PostgresDatabase;

fn options(tls: Tls) -> PostgresOptions {
    PostgresOptions { connections: 4, tls }
}

async fn open(url: &str) -> Database {
    Database::postgres(url, options(Tls::Disable)).await.unwrap()
}

const INSERT: &str = "INSERT INTO item_consumers (workspace, table_name, consumer, seq)
                      VALUES ('w', 't', $1, 0)";

async fn increment(node: &Database) -> Result<(), DatabaseError> {
    let unit = node.write(|tx| {
        let value =
            tx.query("SELECT seq FROM item_consumers WHERE consumer = 'n'", &[])?[0].int(0)?;
        let sql = "UPDATE item_consumers SET seq = $1 WHERE consumer = 'n'";
        tx.execute(sql, &[Param::Int(value + 1)]).map(drop)
    });
    unit.await
}

#[tokio::test]
async fn nodes_that_start_together_migrate_once() {
    let server = PostgresDatabase::database();
    let nodes = (0..6).map(|_| {
        let url = server.url.clone();
        tokio::spawn(async move { open(&url).await.schema_version().await.unwrap() })
    });
    for node in nodes.collect::<Vec<_>>() {
        assert!(node.await.unwrap() >= 2);
    }
}

#[tokio::test]
async fn two_nodes_never_lose_an_update() {
    let server = PostgresDatabase::database();
    let nodes = [open(&server.url).await, open(&server.url).await];
    nodes[0].write(|tx| tx.execute(INSERT, &[Param::Text("n")]).map(drop)).await.unwrap();
    let callers = (0..8).map(|caller: usize| {
        let node = nodes[caller % 2].clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                increment(&node).await.unwrap();
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let sql = "SELECT seq FROM item_consumers WHERE consumer = 'n'";
    let total = nodes[0].read(move |tx| tx.query(sql, &[])?[0].int(0)).await;
    assert_eq!(total.unwrap(), 160);
}

async fn store_on(url: &str) -> Arc<dyn ItemStore> {
    let items = SqlItems::new(open(url).await, Arc::new(SystemClock));
    items.open(&"w".parse().unwrap()).await.unwrap()
}

/// A number that is committed late, below one that was read already, would be passed over for ever.
#[tokio::test]
async fn a_consumer_misses_nothing_that_two_nodes_write_at_once() {
    const EACH: usize = 300;
    let server = PostgresDatabase::database();
    let nodes = [store_on(&server.url).await, store_on(&server.url).await];
    let writers = nodes.iter().enumerate().flat_map(|(node, store)| {
        (0..EACH).map(move |number| {
            let store = Arc::clone(store);
            let key = format!("{node}-{number}");
            tokio::spawn(async move {
                let item = Item::new().with("PK", key).with("SK", "m");
                store.put(Put::new(&tables::INBOX, item)).await.unwrap();
            })
        })
    });
    let writers: Vec<_> = writers.collect();
    let reader = store_on(&server.url).await;
    let mut seen = BTreeSet::new();
    let mut told = 0;
    while seen.len() < 2 * EACH {
        let batch = reader.changes(&tables::INBOX, "reader", 7).await.unwrap();
        told += batch.changes.len();
        seen.extend(batch.changes.into_iter().map(|change| change.key));
        match batch.position {
            Some(position) => {
                reader.acknowledge(&tables::INBOX, "reader", &position).await.unwrap()
            }
            // Nothing new although all is written would mean that some were missed.
            None => assert!(
                !writers.iter().all(|writer| writer.is_finished()) || {
                    let late = reader.changes(&tables::INBOX, "reader", 7).await.unwrap();
                    !late.changes.is_empty()
                }
            ),
        }
    }
    assert_eq!(told, 2 * EACH, "acknowledged changes do not come again");
}

#[tokio::test]
async fn a_connection_that_dies_is_made_anew_and_the_unit_runs_once() {
    let server = PostgresDatabase::database();
    let node = open(&server.url).await;
    for number in 0..10 {
        let name = format!("{number}");
        let unit = node.write(move |tx| tx.execute(INSERT, &[Param::Text(&name)]).map(drop));
        unit.await.unwrap();
        let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()";
        node.read(move |tx| tx.query(kill, &[]).map(drop)).await.unwrap();
    }
    let sql = "SELECT count(*) FROM item_consumers";
    let count = node.read(move |tx| tx.query(sql, &[])?[0].int(0)).await;
    assert_eq!(count.unwrap(), 10);
}

/// Many who ask at the same time get one answer; each has his own part of it, and none waits for ever.
#[tokio::test]
async fn whoever_asks_among_many_is_told_of_his_own_whatever_becomes_of_the_others() {
    const ASKERS: usize = 400;
    let server = PostgresDatabase::database();
    let node = open(&server.url).await;
    let items = SqlItems::new(node.clone(), Arc::new(SystemClock));
    let (one, other) = ("v".parse().unwrap(), "w".parse().unwrap());
    let stores = [items.open(&one).await.unwrap(), items.open(&other).await.unwrap()];
    let tables = [&tables::INBOX, &tables::MEMORY];
    let key = |number: usize| Key::new(format!("p{number}"), "s");
    for (of, store) in stores.iter().enumerate() {
        for (table, number) in (0..40).map(|number| (tables[number % 2], number)) {
            let item = table.bare_item(&key(number)).with("of", format!("{of} {number}"));
            store.put(Put::new(table, item)).await.unwrap();
        }
    }
    for round in 0..5 {
        let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()";
        node.read(move |tx| tx.query(kill, &[]).map(drop)).await.unwrap();
        let askers = (0..ASKERS).map(|asker| {
            let store = Arc::clone(&stores[asker % 2]);
            let (first, second) = (asker / 2 % 50, (asker / 2 + 2) % 50);
            let table = tables[first % 2];
            tokio::spawn(async move {
                let found = store.batch_get(table, &[key(first), key(second)]).await.unwrap();
                let found = found.iter().map(|item| Some(item.as_ref()?.text("of")?.to_owned()));
                let expected = |number| (number < 40).then(|| format!("{} {number}", asker % 2));
                assert_eq!(found.collect::<Vec<_>>(), [expected(first), expected(second)]);
            })
        });
        let askers: Vec<_> = askers.collect();
        // Some go away before they are told, or before they have asked.
        let (gone, left): (Vec<_>, Vec<_>) =
            askers.into_iter().enumerate().partition(|(asker, _)| asker % 7 == round);
        gone.iter().for_each(|(_, asker)| asker.abort());
        for (_, asker) in left {
            asker.await.unwrap();
        }
    }
    node.close().await;
    let refused = stores[0].get(&tables::INBOX, &key(0)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
}

/// The first statement of a unit goes out together with what begins it.
#[tokio::test]
async fn a_unit_is_undone_or_committed_whole_whatever_its_first_statement_was() {
    let server = PostgresDatabase::database();
    let node = open(&server.url).await;
    let undone = node.write(|tx| {
        tx.execute(INSERT, &[Param::Text("undone")])?;
        Err::<(), _>(DatabaseError::NoRow)
    });
    undone.await.unwrap_err();
    let refused = node.write(|tx| {
        tx.execute(INSERT, &[Param::Text("refused")])?;
        tx.execute("INSERT INTO item_consumers (workspace) VALUES ('half')", &[]).map(drop)
    });
    refused.await.unwrap_err();
    node.write(|_| Ok::<_, DatabaseError>(())).await.unwrap();
    let done = node.write(|tx| {
        tx.execute(INSERT, &[Param::Text("first")])?;
        tx.execute(INSERT, &[Param::Text("second")]).map(drop)
    });
    done.await.unwrap();
    let sql = "SELECT consumer FROM item_consumers ORDER BY consumer";
    let found = node.read(move |tx| tx.query(sql, &[])).await.unwrap();
    let found: Vec<&str> = found.iter().map(|row| row.text(0).unwrap()).collect();
    assert_eq!(found, ["first", "second"]);
}

/// Nobody waits for the end of a unit that only reads; it must come all the same, or nothing could be cleaned up.
#[tokio::test]
async fn what_only_reads_leaves_no_transaction_open() {
    let server = PostgresDatabase::database();
    let node = open(&server.url).await;
    let open = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    for _ in 0..20 {
        node.read(|tx| tx.query("SELECT 1", &[]).map(drop)).await.unwrap();
    }
    // The server may still have the word on its way.
    for _ in 0..100 {
        let left = node.glance(move |tx| tx.query(open, &[])?[0].int(0)).await.unwrap();
        if left == 0 {
            return;
        }
    }
    panic!("a transaction was left open");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_and_no_password_is_shown() {
    let url = "postgres://someone:hunter2@127.0.0.1:1/nowhere";
    let error = Database::postgres(url, options(Tls::Disable)).await.err().unwrap();
    assert!(matches!(error, DatabaseError::Unavailable(_)), "{error:?}");
    assert!(!format!("{error:?} {error}").contains("hunter2"));
    let nonsense = Database::postgres("hunter2 is my password", options(Tls::Disable)).await;
    let error = nonsense.err().unwrap();
    assert!(matches!(error, DatabaseError::Settings(_)), "{error:?}");
    assert!(!format!("{error:?} {error}").contains("hunter2"));
}

fn from_script(name: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "the script that starts the servers tells where")]
    let value = std::env::var(name);
    value.unwrap_or_else(|_| panic!("{name} is not set: run ./test, which starts the test servers"))
}

#[tokio::test]
async fn a_certificate_is_checked_against_the_authority_and_the_host() {
    let url = from_script("TIDINGS_TEST_POSTGRES_TLS");
    let authority = PathBuf::from(from_script("TIDINGS_TEST_POSTGRES_CA"));
    let trusted = Database::postgres(&url, options(Tls::VerifyFullWith(authority.clone()))).await;
    let sql = "SELECT count(*) FROM pg_stat_ssl WHERE ssl AND pid = pg_backend_pid()";
    let encrypted = trusted.unwrap().read(move |tx| tx.query(sql, &[])?[0].int(0)).await;
    assert_eq!(encrypted.unwrap(), 1);

    let unknown = Database::postgres(&url, options(Tls::VerifyFull)).await.err().unwrap();
    assert!(matches!(unknown, DatabaseError::Unavailable(_)), "{unknown:?}");

    // 127.0.0.2 is the same server under a name that the certificate does not have.
    let elsewhere = url.replace("localhost", "127.0.0.2").replace("127.0.0.1", "127.0.0.2");
    let wrong = Database::postgres(&elsewhere, options(Tls::VerifyFullWith(authority))).await;
    assert!(wrong.is_err());
}
