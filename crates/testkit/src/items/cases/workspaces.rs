//! Workspaces: nothing crosses from one to another.

use tidings_kernel::{
    Delete, Expect, Item, ItemStore, Key, Put, Query, Scan, Txn, Update,
    tables::{EMAIL_TRACKING, INBOX, MAIN},
};

use super::{Case, cases};
use crate::items::ground::{Ground, drain, row, scan};

pub(super) const CASES: &[Case] = &cases![
    one_key_in_two_workspaces_is_two_items,
    reads_stay_inside,
    indexes_stay_inside,
    writes_stay_inside,
    transactions_stay_inside,
    streams_stay_inside,
    consumers_stay_inside,
    a_cursor_reads_only_its_own_workspace,
    names_that_look_alike,
    a_workspace_opened_twice_is_one,
    a_sweep_serves_all,
    an_engine_answers,
];

async fn put(store: &dyn ItemStore, item: Item) -> Option<Item> {
    store.put(Put::new(&MAIN, item)).await.unwrap()
}

async fn all(store: &dyn ItemStore) -> Vec<Item> {
    scan(store, Scan::new(&MAIN)).await
}

async fn one_key_in_two_workspaces_is_two_items(ground: Ground) {
    let other = ground.open("other").await;
    assert_eq!(ground.put(&MAIN, row("a", "b").with("of", "acme")).await, None);
    assert_eq!(put(&*other, row("a", "b").with("of", "other")).await, None);
    let found = ground.get(&MAIN, &Key::new("a", "b")).await.unwrap();
    assert_eq!(found.text("of"), Some("acme"));
}

async fn reads_stay_inside(ground: Ground) {
    let other = ground.open("other").await;
    ground.put(&MAIN, row("a", "b")).await;
    let key = Key::new("a", "b");
    assert_eq!(other.get(&MAIN, &key).await.unwrap(), None);
    assert_eq!(other.batch_get(&MAIN, &[key]).await.unwrap(), [None]);
    assert_eq!(other.query(Query::new(&MAIN, "a")).await.unwrap().items, []);
    assert_eq!(other.count(Query::new(&MAIN, "a")).await.unwrap(), 0);
    assert_eq!(all(&*other).await, []);
    for segment in 0..3 {
        assert_eq!(scan(&*other, Scan::new(&MAIN).segment(segment, 3)).await, []);
    }
}

async fn indexes_stay_inside(ground: Ground) {
    let other = ground.open("other").await;
    let item = row("a", "b").with("GSI1PK", "sent").with("GSI1SK", "1");
    ground.put(&EMAIL_TRACKING, item).await;
    let query = Query::new(&EMAIL_TRACKING, "sent").index("GSI1");
    assert_eq!(other.query(query.clone()).await.unwrap().items, []);
    assert_eq!(other.count(query).await.unwrap(), 0);
}

async fn writes_stay_inside(ground: Ground) {
    let other = ground.open("other").await;
    ground.put(&MAIN, row("a", "b").with("x", 1)).await;
    let key = || Key::new("a", "b");
    assert_eq!(other.delete(Delete::new(&MAIN, key())).await.unwrap(), None);
    other.update(Update::new(&MAIN, key()).add("x", 10)).await.unwrap();
    other.put(Put::new(&MAIN, row("a", "c")).expect(Expect::Absent)).await.unwrap();
    assert_eq!(ground.contents(&MAIN).await, [row("a", "b").with("x", 1)]);
}

async fn transactions_stay_inside(ground: Ground) {
    let other = ground.open("other").await;
    ground.put(&MAIN, row("a", "b")).await;
    let txn = Txn::new().check(&MAIN, Key::new("a", "b"), Expect::Absent).put(
        &MAIN,
        row("a", "c"),
        Expect::Absent,
    );
    other.transact(txn).await.unwrap();
    assert_eq!(ground.contents(&MAIN).await, [row("a", "b")]);
    assert_eq!(all(&*other).await, [row("a", "c")]);
}

async fn streams_stay_inside(ground: Ground) {
    let other = ground.open("other").await;
    ground.put(&INBOX, row("a", "b")).await;
    assert_eq!(drain(&*other, &INBOX, "reader").await, []);
    assert_eq!(ground.drain(&INBOX, "reader").await.len(), 1);
}

async fn consumers_stay_inside(ground: Ground) {
    let other = ground.open("other").await;
    ground.put(&INBOX, row("a", "b")).await;
    other.put(Put::new(&INBOX, row("c", "d"))).await.unwrap();
    assert_eq!(ground.drain(&INBOX, "reader").await.len(), 1);
    let told = drain(&*other, &INBOX, "reader").await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].key, Key::new("c", "d"));
}

async fn a_cursor_reads_only_its_own_workspace(ground: Ground) {
    let other = ground.open("other").await;
    for sort in ["1", "2", "3"] {
        ground.put(&MAIN, row("a", sort).with("of", "acme")).await;
        put(&*other, row("a", sort).with("of", "other")).await;
    }
    let page = ground.store.query(Query::new(&MAIN, "a").limit(1)).await.unwrap();
    let rest = other.query(Query::new(&MAIN, "a").after(page.cursor)).await.unwrap();
    assert!(rest.items.iter().all(|item| item.text("of") == Some("other")));
}

async fn names_that_look_alike(ground: Ground) {
    let names = ["a", "a-", "a-a", "aa", "0", "00", "main", "a-main", &"z".repeat(40)];
    for name in names {
        let store = ground.open(name).await;
        assert_eq!(put(&*store, row("a", "b").with("of", name)).await, None, "{name}");
    }
    for name in names {
        let store = ground.open(name).await;
        assert_eq!(all(&*store).await, [row("a", "b").with("of", name)], "{name}");
    }
}

async fn a_workspace_opened_twice_is_one(ground: Ground) {
    ground.put(&MAIN, row("a", "b")).await;
    let again = ground.open("acme").await;
    assert_eq!(all(&*again).await, [row("a", "b")]);
}

async fn a_sweep_serves_all(ground: Ground) {
    let other = ground.open("other").await;
    let item = || row("a", "b").with("ttl", ground.in_seconds(1));
    ground.put(&MAIN, item()).await;
    put(&*other, item()).await;
    ground.pass_seconds(1);
    ground.subject.sweep().await;
    let fresh = || Put::new(&MAIN, row("a", "b")).expect(Expect::Absent);
    ground.store.put(fresh()).await.unwrap();
    other.put(fresh()).await.unwrap();
}

async fn an_engine_answers(ground: Ground) {
    ground.subject.engine().ping().await.unwrap();
}
