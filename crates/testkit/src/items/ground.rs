//! What a case stands on: the store of a fresh workspace, and short words for what cases do all the time.

use std::sync::Arc;

use jiff::{Timestamp, ToSpan};
use tidings_kernel::{
    Cancellation, Change, Clock, Cursor, Item, ItemStore, Key, Put, Query, Scan, StoreError, Table,
    Update, Workspace,
};

use super::{Quirk, Subject};

/// When every case begins. It lies before the TTLs in the seeds' examples, so that their items are alive.
const START: &str = "2025-07-01T00:00:00Z";

pub(super) struct Ground {
    pub(super) store: Arc<dyn ItemStore>,
    pub(super) subject: Arc<dyn Subject>,
}

impl Ground {
    pub(super) async fn new(subject: Arc<dyn Subject>) -> Self {
        subject.clock().set(START.parse().unwrap());
        let workspace = "acme".parse().unwrap();
        let store = subject.engine().open(&workspace).await.unwrap();
        Self { store, subject }
    }

    pub(super) async fn open(&self, workspace: &str) -> Arc<dyn ItemStore> {
        let workspace: Workspace = workspace.parse().unwrap();
        self.subject.engine().open(&workspace).await.unwrap()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.subject.clock().now()
    }

    /// The second that lies so many seconds after now.
    pub(super) fn in_seconds(&self, seconds: i64) -> i64 {
        self.now().as_second() + seconds
    }

    pub(super) fn pass_seconds(&self, seconds: i64) {
        self.subject.clock().advance(seconds.seconds());
    }

    pub(super) fn has(&self, quirk: Quirk) -> bool {
        self.subject.quirks().contains(&quirk)
    }

    pub(super) async fn put(&self, table: &'static Table, item: Item) -> Option<Item> {
        self.store.put(Put::new(table, item)).await.unwrap()
    }

    pub(super) async fn put_all(&self, table: &'static Table, items: &[Item]) {
        for item in items {
            self.put(table, item.clone()).await;
        }
    }

    pub(super) async fn get(&self, table: &'static Table, key: &Key) -> Option<Item> {
        self.store.get(table, key).await.unwrap()
    }

    pub(super) async fn update(&self, update: Update) -> Option<Item> {
        self.store.update(update).await.unwrap()
    }

    /// One page, which must be the last.
    pub(super) async fn query(&self, query: Query) -> Vec<Item> {
        let page = self.store.query(query).await.unwrap();
        assert_eq!(page.cursor, None, "a page that was not full has a cursor");
        page.items
    }

    /// All pages. Each but the last must be full.
    pub(super) async fn pages(&self, query: Query) -> Vec<Vec<Item>> {
        pages(&*self.store, query).await
    }

    /// The whole table.
    pub(super) async fn contents(&self, table: &'static Table) -> Vec<Item> {
        scan(&*self.store, Scan::new(table)).await
    }

    /// All changes that this consumer has not acknowledged, which it now has.
    pub(super) async fn drain(&self, table: &'static Table, consumer: &str) -> Vec<Change> {
        drain(&*self.store, table, consumer).await
    }
}

pub(super) async fn pages(store: &dyn ItemStore, query: Query) -> Vec<Vec<Item>> {
    let mut pages = Vec::new();
    let mut cursor: Option<Cursor> = None;
    loop {
        let page = store.query(query.clone().after(cursor)).await.unwrap();
        if page.cursor.is_some() && query.examine.is_none() {
            assert_eq!(page.items.len(), query.limit, "only the last page may be short");
        }
        pages.push(page.items);
        cursor = page.cursor;
        if cursor.is_none() {
            return pages;
        }
    }
}

/// All items of a scan, in the order of their keys.
pub(super) async fn scan(store: &dyn ItemStore, scan: Scan) -> Vec<Item> {
    let table = scan.table;
    let mut items = Vec::new();
    let mut cursor = None;
    loop {
        let page = store.scan(scan.clone().after(cursor)).await.unwrap();
        items.extend(page.items);
        cursor = page.cursor;
        if cursor.is_none() {
            items.sort_by_cached_key(|item| table.key_of(item).unwrap());
            return items;
        }
    }
}

pub(super) async fn drain(
    store: &dyn ItemStore,
    table: &'static Table,
    consumer: &str,
) -> Vec<Change> {
    let mut changes = Vec::new();
    loop {
        let batch = store.changes(table, consumer, 100).await.unwrap();
        let Some(position) = batch.position else { return changes };
        store.acknowledge(table, consumer, &position).await.unwrap();
        changes.extend(batch.changes);
    }
}

/// An item written as JSON, as the seeds do.
macro_rules! item {
    ($json:tt) => {
        serde_json::from_value::<tidings_kernel::Item>(serde_json::json!($json)).unwrap()
    };
}
pub(super) use item;

/// The request was refused as it stands, for this reason. What only the stored item can show is refused by
/// DynamoDB in its own words, so there the reason is `_`.
macro_rules! assert_refused {
    ($result:expr, $reason:pat) => {
        match $result {
            Err(tidings_kernel::StoreError::Invalid($reason)) => {}
            other => panic!("expected {}, found {other:?}", stringify!($reason)),
        }
    };
}
pub(super) use assert_refused;

/// What the failed condition found.
#[track_caller]
pub(super) fn failed<T: std::fmt::Debug>(result: Result<T, StoreError>) -> Option<Item> {
    match result {
        Err(StoreError::ConditionFailed { current }) => current.map(|item| *item),
        other => panic!("expected a failed condition, found {other:?}"),
    }
}

#[track_caller]
pub(super) fn cancelled(result: Result<(), StoreError>) -> Vec<Cancellation> {
    match result {
        Err(StoreError::Cancelled(reasons)) => reasons,
        other => panic!("expected a cancelled transaction, found {other:?}"),
    }
}

/// An item of a table with the keys `PK` and `SK`.
pub(super) fn row(partition: &str, sort: &str) -> Item {
    Item::new().with("PK", partition).with("SK", sort)
}

/// The `SK` of each item.
pub(super) fn sorts(items: &[Item]) -> Vec<&str> {
    items.iter().map(|item| item.text("SK").unwrap()).collect()
}
