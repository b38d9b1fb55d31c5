//! The engine on a DynamoDB server: its tables, its limits, its stream, and a line that fails.
//!
//! What every engine must do is in the conformance suite (`items.rs`); here is what only this one has.
#![expect(
    clippy::unwrap_used,
    reason = "everything here runs inside a test, where a panic is how a failure is told"
)]

mod credentials;
mod proxy;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use jiff::{Timestamp, ToSpan};
use metrics::{Counter, Gauge, Histogram, Key as Name, KeyName, Metadata, SharedString, Unit};
use proxy::{Fate, Proxy};
use server::{Server, connect};
use tidings_aws::{DynamoDb, TRIMMED_METRIC};
use tidings_kernel::{
    ChangeKind, Condition, Delete, Expect, Invalid, Item, ItemEngine, ItemStore, Key,
    MAX_BATCH_GET, Put, Query, Returns, Scan, StoreError, Timer, Txn, Update, Workspace,
    queues::PROBE, tables,
};
use tidings_testkit::FakeClock;

const NOW: i64 = 1_800_000_000;

fn clock() -> Arc<FakeClock> {
    FakeClock::at(Timestamp::from_second(NOW).unwrap())
}

fn engine(server: &Server) -> DynamoDb {
    connect(server.endpoint(), clock())
}

fn acme() -> Workspace {
    "acme".parse().unwrap()
}

async fn open(engine: &DynamoDb) -> Arc<dyn ItemStore> {
    engine.open(&acme()).await.unwrap()
}

fn key(sort: &str) -> Key {
    Key::new("P#1", sort)
}

fn item(sort: &str) -> Item {
    Item::new().with("PK", "P#1").with("SK", sort)
}

fn main_item(sort: &str) -> Put {
    Put::new(&tables::MAIN, item(sort))
}

#[tokio::test]
async fn tables_are_made_once_whoever_opens_first() {
    let server = Server::start();
    let nodes = [engine(&server), engine(&server), engine(&server)];
    let workspace = acme();
    let (a, b, c) = tokio::join!(
        nodes[0].open(&workspace),
        nodes[1].open(&workspace),
        nodes[2].open(&workspace)
    );
    let stores = [a.unwrap(), b.unwrap(), c.unwrap()];
    stores[0].put(main_item("a")).await.unwrap();
    assert_eq!(stores[2].get(&tables::MAIN, &key("a")).await.unwrap(), Some(item("a")));

    let late = open(&engine(&server)).await;
    assert_eq!(late.get(&tables::MAIN, &key("a")).await.unwrap(), Some(item("a")));
}

#[tokio::test]
async fn a_second_open_asks_nothing() {
    let server = Server::start();
    let line = Proxy::start(server.endpoint(), |_, _| Fate::Pass);
    let engine = connect(line.endpoint(), clock());
    open(&engine).await;
    let asked = line.seen("DescribeTable");
    open(&engine).await;
    assert_eq!(line.seen("DescribeTable"), asked);
    assert_eq!(line.seen("CreateTable"), tables::ALL.len());
    engine.ping().await.unwrap();
    assert_eq!(engine.sweep(100).await.unwrap(), 0);
}

#[tokio::test]
async fn workspaces_with_names_alike_share_nothing() {
    let server = Server::start();
    let engine = engine(&server);
    let names = ["acme", "acme-main", "main"];
    for name in names {
        let store = engine.open(&name.parse().unwrap()).await.unwrap();
        assert_eq!(store.put(main_item("a")).await.unwrap(), None, "{name}");
    }
    let store = open(&engine).await;
    let found = store.scan(Scan::new(&tables::MAIN)).await.unwrap();
    assert_eq!(found.items.len(), 1);
}

#[tokio::test]
async fn batches_of_any_size_come_back_in_order() {
    let server = Server::start();
    let store = open(&engine(&server)).await;
    for number in (0..250).step_by(2) {
        store.put(main_item(&format!("{number:03}"))).await.unwrap();
    }
    let mut keys: Vec<Key> = (0..250).rev().map(|number| key(&format!("{number:03}"))).collect();
    keys.push(key("248"));
    let found = store.batch_get(&tables::MAIN, &keys).await.unwrap();
    for (key, found) in keys.iter().zip(&found) {
        let sort = key.sort.as_deref().unwrap();
        let even = sort.parse::<u32>().unwrap().is_multiple_of(2);
        assert_eq!(*found, even.then(|| item(sort)), "{key}");
    }
    assert_eq!(store.batch_get(&tables::MAIN, &[]).await.unwrap(), []);
    let too_many = vec![key("1"); MAX_BATCH_GET + 1];
    let refused = store.batch_get(&tables::MAIN, &too_many).await;
    assert!(matches!(refused, Err(StoreError::Invalid(Invalid::BatchTooLarge))));
}

#[tokio::test]
async fn what_a_batch_leaves_unprocessed_is_asked_for_again() {
    const LATER: &str = r#"{"Responses":{},"UnprocessedKeys":{"tidings.acme.main":
        {"ConsistentRead":true,"Keys":[{"PK":{"S":"P#1"},"SK":{"S":"a"}}]}}}"#;
    let server = Server::start();
    let line = Proxy::start(server.endpoint(), |operation, nth| match (operation, nth) {
        ("BatchGetItem", 0 | 1) => Fate::Answer(200, LATER),
        _ => Fate::Pass,
    });
    let store = open(&connect(line.endpoint(), clock())).await;
    store.put(main_item("a")).await.unwrap();
    let found = store.batch_get(&tables::MAIN, &[key("a")]).await.unwrap();
    assert_eq!(found, [Some(item("a"))]);
    assert_eq!(line.seen("BatchGetItem"), 3);
}

#[tokio::test]
async fn a_filter_of_any_length_works() {
    let server = Server::start();
    let store = open(&engine(&server)).await;
    for number in 0..20 {
        let put = Put::new(&tables::MAIN, item(&format!("{number:02}")).with("n", number));
        store.put(put).await.unwrap();
    }
    // The longest ones are too long for an expression, and are decided here.
    for count in [1, 5, 50, 500] {
        let one = |n: i64| Condition::In("n".into(), vec![n.into(), (n + 1000).into()]);
        let filter = Condition::AnyOf((10..10 + count).map(one).collect());
        let query = || Query::new(&tables::MAIN, "P#1").filter(filter.clone()).limit(100);
        let expected = count.min(10);
        assert_eq!(store.query(query()).await.unwrap().items.len() as i64, expected);
        assert_eq!(store.count(query()).await.unwrap() as i64, expected);
        let scan = Scan::new(&tables::MAIN).filter(filter.clone());
        assert_eq!(store.scan(scan).await.unwrap().items.len() as i64, expected);
    }
}

#[tokio::test]
async fn conditions_that_are_decided_already_work_on_present_and_absent_items() {
    let server = Server::start();
    let store = open(&engine(&server)).await;
    let (always, never) = (Condition::All(vec![]), Condition::AnyOf(vec![]));
    store.put(main_item("here")).await.unwrap();
    for sort in ["here", "gone"] {
        let set = |that: &Condition| {
            let update = Update::new(&tables::MAIN, key(sort)).set("n", 1);
            update.expect(Expect::That(that.clone()))
        };
        let current = store.get(&tables::MAIN, &key(sort)).await.unwrap();
        match store.update(set(&never)).await {
            Err(StoreError::ConditionFailed { current: found }) => {
                assert_eq!(found.map(|item| *item), current);
            }
            other => panic!("{sort}: {other:?}"),
        }
        let check = |that: &Condition| {
            Txn::new().check(&tables::MAIN, key(sort), Expect::That(that.clone()))
        };
        store.transact(check(&always)).await.unwrap();
        assert!(store.transact(check(&never)).await.unwrap_err().is_condition_failed());
        store.update(set(&always)).await.unwrap();
    }
    // An update that does nothing still makes its item. Only a transaction has no way to say so.
    let idle = || Update::new(&tables::MAIN, key("bare"));
    store.update(idle()).await.unwrap();
    assert_eq!(store.get(&tables::MAIN, &key("bare")).await.unwrap(), Some(item("bare")));
    let refused = store.transact(Txn::new().update(idle())).await;
    assert!(matches!(refused, Err(StoreError::Invalid(Invalid::TxnEmptyUpdate))));
}

#[tokio::test]
async fn a_cursor_from_elsewhere_is_refused() {
    let server = Server::start();
    let store = open(&engine(&server)).await;
    for sort in ["a", "b", "c"] {
        store.put(main_item(sort)).await.unwrap();
    }
    let page = store.query(Query::new(&tables::MAIN, "P#1").limit(1)).await.unwrap();
    for query in [
        Query::new(&tables::MAIN, "P#2"),
        Query::new(&tables::MAIN, "P#1").begins_with("b"),
        Query::new(&tables::INBOX, "P#1"),
    ] {
        let refused = store.query(query.after(page.cursor.clone())).await;
        assert!(matches!(refused, Err(StoreError::Invalid(Invalid::BadCursor))));
    }
}

#[tokio::test]
async fn expired_items_are_never_read_and_come_as_expired_once_swept() {
    let server = Server::start();
    let clock = clock();
    let store = open(&connect(server.endpoint(), clock.clone())).await;
    let put =
        |sort: &str, ttl: i64| Put::new(&tables::INBOX, item(sort).with("expiredat", NOW + ttl));
    for (sort, ttl) in [("a", 10), ("b", 1000), ("c", 10)] {
        store.put(put(sort, ttl)).await.unwrap();
    }
    let query = || Query::new(&tables::INBOX, "P#1");
    assert_eq!(store.count(query()).await.unwrap(), 3);

    clock.advance(10.seconds());
    assert_eq!(store.get(&tables::INBOX, &key("a")).await.unwrap(), None);
    let batch = store.batch_get(&tables::INBOX, &[key("a"), key("b")]).await.unwrap();
    assert_eq!(batch.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    let page = store.query(query().limit(1)).await.unwrap();
    assert_eq!((page.items.len(), page.cursor), (1, None));
    assert_eq!(store.count(query()).await.unwrap(), 1);
    assert_eq!(store.scan(Scan::new(&tables::INBOX)).await.unwrap().items.len(), 1);

    server.set_now(NOW + 11);
    assert_eq!(server.sweep(), 2);
    let batch = store.changes(&tables::INBOX, "live", 100).await.unwrap();
    let kinds: Vec<_> = batch.changes.iter().map(|change| change.kind).collect();
    assert_eq!(kinds[..3], [ChangeKind::Inserted; 3]);
    assert_eq!(kinds[3..], [ChangeKind::Expired; 2]);
}

#[tokio::test]
async fn a_consumer_reads_on_from_where_it_acknowledged() {
    let server = Server::start();
    let node = engine(&server);
    let store = open(&node).await;
    let put = |n: i64| Put::new(&tables::INBOX, item("a").with("n", n));
    for n in 0..5 {
        store.put(put(n)).await.unwrap();
    }
    // Nothing changed: no engine tells of it.
    store.put(put(4)).await.unwrap();
    let read = async |store: &Arc<dyn ItemStore>, consumer: &str, limit| {
        let batch = store.changes(&tables::INBOX, consumer, limit).await.unwrap();
        let told: Vec<_> = batch
            .changes
            .iter()
            .map(|change| change.new.as_ref().and_then(|new| new.integer("n")))
            .collect();
        (told, batch.position)
    };
    let (told, early) = read(&store, "one", 2).await;
    assert_eq!(told, [Some(0), Some(1)]);
    assert_eq!(read(&store, "one", 2).await.0, told, "not acknowledged: they come again");
    store.acknowledge(&tables::INBOX, "one", early.as_deref().unwrap()).await.unwrap();

    let (told, late) = read(&store, "one", 100).await;
    assert_eq!(told, [Some(2), Some(3), Some(4)]);
    store.acknowledge(&tables::INBOX, "one", late.as_deref().unwrap()).await.unwrap();
    // Late and repeated acknowledgements move nothing back.
    store.acknowledge(&tables::INBOX, "one", early.as_deref().unwrap()).await.unwrap();
    assert_eq!(read(&store, "one", 100).await, (vec![], None));

    // Another node, with nothing in memory, and another consumer.
    let other = open(&engine(&server)).await;
    assert_eq!(read(&other, "one", 100).await, (vec![], None));
    assert_eq!(read(&other, "two", 100).await.0.len(), 5);
    store.delete(Delete::new(&tables::INBOX, key("a"))).await.unwrap();
    let batch = other.changes(&tables::INBOX, "one", 100).await.unwrap();
    assert_eq!(batch.changes.len(), 1);
    assert_eq!(batch.changes[0].kind, ChangeKind::Deleted);
    assert_eq!(batch.changes[0].key, key("a"));

    let refused = store.changes(&tables::MAIN, "one", 1).await;
    assert!(matches!(refused, Err(StoreError::Invalid(Invalid::NoStream { .. }))));
}

/// Counts how often streams were trimmed.
struct Counted(Arc<AtomicU64>);

impl metrics::Recorder for Counted {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, name: &Name, _: &Metadata<'_>) -> Counter {
        let is_ours = name.name() == TRIMMED_METRIC;
        if is_ours { Counter::from_arc(Arc::clone(&self.0)) } else { Counter::noop() }
    }

    fn register_gauge(&self, _: &Name, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Name, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test]
async fn a_stream_that_was_trimmed_is_counted() {
    const TRIMMED: &str =
        r#"{"__type":"com.amazonaws.dynamodb.v20120810#TrimmedDataAccessException"}"#;
    const GONE: &str = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException"}"#;
    const NO_SHARDS: &str = r#"{"StreamDescription":{"StreamStatus":"ENABLED","Shards":[]}}"#;
    let server = Server::start();
    let store = open(&engine(&server)).await;
    store.put(Put::new(&tables::INBOX, item("a"))).await.unwrap();
    let batch = store.changes(&tables::INBOX, "one", 10).await.unwrap();
    store.acknowledge(&tables::INBOX, "one", &batch.position.unwrap()).await.unwrap();

    let trimmed = Arc::new(AtomicU64::new(0));
    let recorder = Counted(Arc::clone(&trimmed));
    // Tests have a thread of their own, and what counts is on it.
    let _recording = metrics::set_default_local_recorder(&recorder);
    for (failing, answer, told) in [
        // From the beginning of what is left.
        ("GetShardIterator", TRIMMED, 1),
        ("GetRecords", TRIMMED, 1),
        ("GetShardIterator", GONE, 0),
        ("GetRecords", GONE, 0),
        ("DescribeStream", NO_SHARDS, 0),
        ("", "", 0),
    ] {
        let status = if failing == "DescribeStream" { 200 } else { 400 };
        // Each is another node, which remembers nothing.
        let line = Proxy::start(server.endpoint(), move |operation, nth| {
            let is_it = operation == failing && (nth == 0 || operation == "DescribeStream");
            if is_it { Fate::Answer(status, answer) } else { Fate::Pass }
        });
        let store = open(&connect(line.endpoint(), clock())).await;
        for again in [false, true] {
            let batch = store.changes(&tables::INBOX, "one", 10).await.unwrap();
            if !again {
                assert_eq!(batch.changes.len(), told, "{failing} {answer}");
            }
        }
        let counted = trimmed.swap(0, SeqCst);
        assert_eq!(counted, u64::from(!failing.is_empty()), "{failing} {answer}");
    }
}

#[tokio::test]
async fn a_counter_is_exact_when_an_answer_is_lost() {
    let server = Server::start();
    let line = Proxy::start(server.endpoint(), |operation, nth| match (operation, nth) {
        ("UpdateItem" | "PutItem" | "DeleteItem", 0) => Fate::LoseAnswer,
        _ => Fate::Pass,
    });
    let store = open(&connect(line.endpoint(), clock())).await;
    let add = || Update::new(&tables::MAIN, key("count")).add("n", 1).returning(Returns::New);
    let lost = store.update(add()).await;
    assert!(matches!(lost, Err(StoreError::Uncertain(_))), "{lost:?}");
    let counted = store.update(add()).await.unwrap();
    assert_eq!(counted.unwrap().integer("n"), Some(2));

    let lost = store.put(main_item("once").expect(Expect::Absent)).await;
    assert!(matches!(lost, Err(StoreError::Uncertain(_))), "{lost:?}");
    assert_eq!(line.seen("PutItem"), 1);
}

#[tokio::test]
async fn a_transaction_lands_once_when_its_answer_is_lost() {
    let server = Server::start();
    let line = Proxy::start(server.endpoint(), |operation, nth| match (operation, nth) {
        ("TransactWriteItems", 0 | 1) => Fate::LoseAnswer,
        _ => Fate::Pass,
    });
    let store = open(&connect(line.endpoint(), clock())).await;
    let txn = Txn::new()
        .put(&tables::MAIN, item("once"), Expect::Absent)
        .update(Update::new(&tables::MAIN, key("count")).add("n", 1));
    store.transact(txn).await.unwrap();
    assert_eq!(line.seen("TransactWriteItems"), 3);
    let counted = store.get(&tables::MAIN, &key("count")).await.unwrap().unwrap();
    assert_eq!(counted.integer("n"), Some(1));
}

#[tokio::test]
async fn what_certainly_did_nothing_is_tried_again() {
    const BUSY: &str =
        r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionConflictException"}"#;
    const THROTTLED: &str = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException"}"#;
    const CANCELLED: &str = r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "CancellationReasons":[{"Code":"TransactionConflict"}]}"#;
    let server = Server::start();
    let line = Proxy::start(server.endpoint(), |operation, nth| match (operation, nth) {
        ("UpdateItem", 0) => Fate::Answer(400, BUSY),
        ("UpdateItem", 1) => Fate::Answer(400, THROTTLED),
        ("TransactWriteItems", 0 | 1) => Fate::Answer(400, CANCELLED),
        ("DeleteItem", _) => Fate::Answer(400, BUSY),
        _ => Fate::Pass,
    });
    let store = open(&connect(line.endpoint(), clock())).await;
    let add = || Update::new(&tables::MAIN, key("count")).add("n", 1);
    store.update(add()).await.unwrap();
    store.transact(Txn::new().update(add())).await.unwrap();
    let counted = store.get(&tables::MAIN, &key("count")).await.unwrap().unwrap();
    assert_eq!(counted.integer("n"), Some(2));
    let kept_busy = store.delete(Delete::new(&tables::MAIN, key("count"))).await;
    assert!(matches!(kept_busy, Err(StoreError::Conflict)), "{kept_busy:?}");
}

#[tokio::test]
async fn a_server_that_is_away_is_unavailable_and_nothing_is_uncertain() {
    let server = Server::start();
    let node = engine(&server);
    let store = open(&node).await;
    drop(server);
    assert!(matches!(node.ping().await, Err(StoreError::Unavailable(_))));
    let put = store.put(main_item("a")).await;
    assert!(matches!(put, Err(StoreError::Unavailable(_))), "{put:?}");
}

#[tokio::test]
async fn a_transaction_that_was_not_begun_is_not_uncertain() {
    let server = Server::start();
    // The note of the timer's hour.
    let line = Proxy::start(server.endpoint(), |operation, _| match operation {
        "PutItem" => Fate::LoseAnswer,
        _ => Fate::Pass,
    });
    let store = open(&connect(line.endpoint(), clock())).await;
    let due = Timestamp::from_second(NOW).unwrap() + 1.hour();
    let timer = Timer { key: "t".to_owned(), due, queue: &PROBE, body: "x".to_owned() };
    let armed = store.transact(Txn::new().arm(timer)).await;
    assert!(matches!(armed, Err(StoreError::Unavailable(_))), "{armed:?}");
    assert_eq!(line.seen("TransactWriteItems"), 0);
}
