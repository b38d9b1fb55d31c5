//! What only SQL can do to items behind the store's back, and what becomes of old changes.
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

use std::sync::Arc;

use jiff::ToSpan;
use tidings_kernel::{Clock, Item, ItemEngine, ItemStore, Key, Put, Query, StoreError, tables};
use tidings_sql::{Database, DatabaseError, SqlItems};
use tidings_testkit::FakeClock;

async fn store() -> (Database, SqlItems, Arc<dyn ItemStore>, Arc<FakeClock>) {
    let clock = FakeClock::at("2026-01-01T00:00:00Z".parse().unwrap());
    let database = Database::memory().await.unwrap();
    let items = SqlItems::new(database.clone(), Arc::clone(&clock) as Arc<dyn Clock>);
    let store = items.open(&"w".parse().unwrap()).await.unwrap();
    (database, items, store, clock)
}

fn item(key: &str) -> Item {
    Item::new().with("PK", key).with("SK", "s")
}

#[tokio::test]
async fn a_row_that_is_no_item_fails_only_those_who_name_it() {
    let (database, _items, store, _clock) = store().await;
    let sql =
        "INSERT INTO items_main (workspace, pk, sk, item) VALUES ('w', 'bad', 's', 'no JSON')";
    database.write(move |tx| tx.execute(sql, &[]).map(drop)).await.unwrap();
    let writes = (0..200).map(|number| {
        let store = Arc::clone(&store);
        let key = if number % 10 == 0 { "bad".to_owned() } else { format!("good{number}") };
        tokio::spawn(async move { (number, store.put(Put::new(&tables::MAIN, item(&key))).await) })
    });
    for write in writes.collect::<Vec<_>>() {
        let (number, answer) = write.await.unwrap();
        match answer {
            Ok(None) => assert_ne!(number % 10, 0),
            Err(StoreError::Corrupt(_)) => assert_eq!(number % 10, 0),
            other => panic!("{other:?}"),
        }
    }
    let bad = store.get(&tables::MAIN, &Key::new("bad", "s")).await;
    assert!(matches!(bad, Err(StoreError::Corrupt(_))), "{bad:?}");
}

async fn kept(database: &Database) -> i64 {
    let sql = "SELECT count(*) FROM item_changes";
    let count: Result<i64, DatabaseError> =
        database.read(move |tx| tx.query(sql, &[])?[0].int(0)).await;
    count.unwrap()
}

#[tokio::test]
async fn changes_are_kept_until_they_are_a_day_old_and_all_consumers_have_passed() {
    let (database, items, store, clock) = store().await;
    for number in 0..25 {
        store.put(Put::new(&tables::INBOX, item(&format!("{number}")))).await.unwrap();
    }
    let first = store.changes(&tables::INBOX, "quick", 10).await.unwrap();
    store.acknowledge(&tables::INBOX, "quick", &first.position.unwrap()).await.unwrap();
    // It has read, and died before it could acknowledge.
    store.changes(&tables::INBOX, "slow", 10).await.unwrap();

    clock.advance(25.hours());
    items.sweep(4).await.unwrap();
    assert_eq!(kept(&database).await, 25, "the slow one has acknowledged nothing");

    let slow = store.changes(&tables::INBOX, "slow", 7).await.unwrap();
    store.acknowledge(&tables::INBOX, "slow", &slow.position.unwrap()).await.unwrap();
    items.sweep(4).await.unwrap();
    assert_eq!(kept(&database).await, 18, "seven were passed by both");
}

#[tokio::test]
async fn changes_that_nobody_reads_go_after_a_day() {
    let (database, items, store, clock) = store().await;
    for number in 0..25 {
        store.put(Put::new(&tables::INBOX, item(&format!("{number}")))).await.unwrap();
    }
    clock.advance(23.hours());
    items.sweep(4).await.unwrap();
    assert_eq!(kept(&database).await, 25);
    clock.advance(2.hours());
    items.sweep(4).await.unwrap();
    assert_eq!(kept(&database).await, 0);
}

#[tokio::test]
async fn who_asks_for_it_sees_what_is_past_its_ttl_until_it_is_swept() {
    let (_database, items, store, clock) = store().await;
    let expires = clock.now().as_second() + 60;
    store.put(Put::new(&tables::INBOX, item("a").with("expiredat", expires))).await.unwrap();
    clock.advance(2.minutes());
    let query = || Query::new(&tables::INBOX, "a");
    assert_eq!(store.query(query()).await.unwrap().items.len(), 0);
    assert_eq!(store.query(query().and_expired()).await.unwrap().items.len(), 1);
    items.sweep(10).await.unwrap();
    assert_eq!(store.query(query().and_expired()).await.unwrap().items.len(), 0);
}

#[tokio::test]
async fn a_workspace_is_behind_until_its_changes_are_acknowledged() {
    let (_database, items, store, _clock) = store().await;
    items.open(&"quiet".parse().unwrap()).await.unwrap();
    let behind = async || items.behind(&tables::INBOX, "one").await.unwrap();
    assert_eq!(behind().await, Some(vec![]));
    store.put(Put::new(&tables::INBOX, item("a"))).await.unwrap();
    assert_eq!(behind().await, Some(vec!["w".parse().unwrap()]));
    let batch = store.changes(&tables::INBOX, "one", 10).await.unwrap();
    assert_eq!(behind().await, Some(vec!["w".parse().unwrap()]));
    store.acknowledge(&tables::INBOX, "one", &batch.position.unwrap()).await.unwrap();
    assert_eq!(behind().await, Some(vec![]));
    let other = items.behind(&tables::INBOX, "other").await.unwrap();
    assert_eq!(other, Some(vec!["w".parse().unwrap()]));
}
