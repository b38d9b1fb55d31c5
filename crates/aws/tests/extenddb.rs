//! The engine on ExtendDB, which checks every signature and deletes by TTL in its own time, as DynamoDB does.
//!
//! Small on purpose: behaviour is tested in `items.rs` and `dynamodb.rs`, on a server whose clock the test sets.
#![expect(
    clippy::unwrap_used,
    reason = "everything here runs inside a test, where a panic is how a failure is told"
)]

use std::sync::Arc;
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use tidings_aws::{DynamoDb, Settings};
use tidings_kernel::{
    ChangeKind, Clock, Delete, Expect, Item, ItemEngine, ItemStore, Key, Put, StoreError,
    SystemClock, Txn, Update, Workspace, tables,
};

/// The key that ExtendDB's developer mode knows.
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

fn engine(secret: &str) -> DynamoDb {
    #[expect(
        clippy::disallowed_methods,
        reason = "./test says here where it has started the server"
    )]
    let endpoint =
        std::env::var("TIDINGS_TEST_EXTENDDB").expect("run ./test, which builds the test servers");
    let credentials = Credentials::new("AKIAIOSFODNN7EXAMPLE", secret, None, None, "test");
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .build();
    let settings = Settings { endpoint: Some(endpoint), ..Settings::default() };
    DynamoDb::new(&config, settings, Arc::new(SystemClock))
}

/// The server outlives a test run, so each test has a workspace that no earlier run can have left behind.
async fn open() -> Arc<dyn ItemStore> {
    let workspace: Workspace = format!("run-{:016x}", fastrand::u64(..)).parse().unwrap();
    engine(SECRET).open(&workspace).await.unwrap()
}

fn item(sort: &str) -> Item {
    Item::new().with("PK", "USER#1").with("SK", sort)
}

fn key(sort: &str) -> Key {
    Key::new("USER#1", sort)
}

#[tokio::test]
async fn requests_are_signed() {
    engine(SECRET).ping().await.unwrap();
    let refused = engine("not the secret").ping().await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
}

#[tokio::test]
async fn writes_and_transactions_work() {
    let store = open().await;
    let put = Put::new(&tables::MAIN, item("a").with("n", 1));
    store.put(put.clone().expect(Expect::Absent)).await.unwrap();
    let failed = store.put(put.expect(Expect::Absent)).await;
    match failed {
        Err(StoreError::ConditionFailed { current }) => {
            assert_eq!(current.map(|item| *item), Some(item("a").with("n", 1)));
        }
        other => panic!("{other:?}"),
    }
    let count = || Update::new(&tables::MAIN, key("a")).add("n", 1);
    let txn = || Txn::new().update(count()).put(&tables::MAIN, item("b"), Expect::Absent);
    store.transact(txn()).await.unwrap();
    assert!(store.transact(txn()).await.unwrap_err().is_condition_failed());
    let found = store.batch_get(&tables::MAIN, &[key("a"), key("b")]).await.unwrap();
    assert_eq!(found, [Some(item("a").with("n", 2)), Some(item("b"))]);
}

/// The one test that waits in real time: when the server deletes what is past its TTL is up to the server, and
/// no other one at hand says in its stream that it was the TTL, in DynamoDB's own words.
#[tokio::test]
async fn a_deletion_by_ttl_comes_as_expired() {
    let store = open().await;
    let past = SystemClock.now().as_second() + 1;
    let kept = item("kept");
    let expiring = item("expiring").with("expiredat", past);
    for item in [&kept, &expiring] {
        store.put(Put::new(&tables::INBOX, item.clone())).await.unwrap();
    }
    store.delete(Delete::new(&tables::INBOX, key("kept"))).await.unwrap();
    let mut told = Vec::new();
    for _ in 0..240 {
        let batch = store.changes(&tables::INBOX, "test", 100).await.unwrap();
        told.extend(batch.changes.into_iter().map(|change| (change.key, change.kind, change.old)));
        if let Some(position) = batch.position {
            store.acknowledge(&tables::INBOX, "test", &position).await.unwrap();
        }
        if told.len() >= 4 {
            break;
        }
        #[expect(clippy::disallowed_methods, reason = "the server's TTL runs in real time")]
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(
        told,
        [
            (key("kept"), ChangeKind::Inserted, None),
            (key("expiring"), ChangeKind::Inserted, None),
            (key("kept"), ChangeKind::Deleted, Some(kept)),
            (key("expiring"), ChangeKind::Expired, Some(expiring)),
        ]
    );
}
