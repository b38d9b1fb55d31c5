//! Secondary indexes: which items are in them, where, and since when.

use tidings_kernel::{
    Delete, Expect, Invalid, Item, Key, Put, Query, SortRange, Txn, Update, Value,
    tables::{EMAIL_TRACKING, EVENT, EVENTS},
};

use super::{Case, cases};
use crate::items::ground::{Ground, assert_refused, row, sorts};

pub(super) const CASES: &[Case] = &cases![
    an_item_is_found_whole,
    an_item_without_the_attributes_is_not_in_it,
    the_order_is_the_index_sort_key,
    the_order_backward,
    ranges_of_the_index_sort_key,
    an_entry_moves_with_its_attributes,
    an_entry_goes_when_an_attribute_goes,
    an_entry_goes_when_a_put_drops_the_attribute,
    an_entry_goes_with_its_item,
    an_entry_comes_when_the_attributes_come,
    a_transaction_keeps_the_index,
    a_failed_write_leaves_the_index_alone,
    items_in_the_same_place_are_all_found,
    pages_in_the_same_place_visit_each_once,
    pages_in_the_same_place_backward,
    a_cursor_outlives_its_entry,
    one_item_in_two_indexes,
    an_index_may_share_the_partition_key_of_its_table,
    an_index_key_of_the_wrong_type_is_refused,
    an_empty_index_key_is_refused,
    a_long_index_key_is_refused,
    an_update_cannot_break_an_index_key,
];

/// A reminder in a place of GSI1.
fn mail(partition: &str, sort: &str, status: &str, at: &str) -> Item {
    row(partition, sort).with("GSI1PK", status).with("GSI1SK", at)
}

fn by_status(status: &str) -> Query {
    Query::new(&EMAIL_TRACKING, status).index("GSI1")
}

async fn put(ground: &Ground, item: Item) {
    ground.put(&EMAIL_TRACKING, item).await;
}

async fn finds(ground: &Ground, query: Query, expected: &[&str]) {
    assert_eq!(sorts(&ground.query(query).await), expected);
}

async fn an_item_is_found_whole(ground: Ground) {
    let item = mail("c1", "s", "draft", "1")
        .with("subject", "Hello")
        .with("list", Value::L(vec![1.into()]));
    put(&ground, item.clone()).await;
    assert_eq!(ground.query(by_status("draft")).await, [item]);
    assert_eq!(ground.query(by_status("sent")).await, []);
}

async fn an_item_without_the_attributes_is_not_in_it(ground: Ground) {
    put(&ground, row("c1", "neither")).await;
    put(&ground, row("c1", "half").with("GSI1PK", "draft")).await;
    put(&ground, row("c1", "other half").with("GSI1SK", "1")).await;
    put(&ground, mail("c1", "both", "draft", "1")).await;
    finds(&ground, by_status("draft"), &["both"]).await;
}

async fn three(ground: &Ground) {
    put(ground, mail("c1", "s1", "draft", "3")).await;
    put(ground, mail("c2", "s2", "draft", "1")).await;
    put(ground, mail("c0", "s3", "draft", "2")).await;
    put(ground, mail("c0", "s4", "sent", "2")).await;
}

async fn the_order_is_the_index_sort_key(ground: Ground) {
    three(&ground).await;
    finds(&ground, by_status("draft"), &["s2", "s3", "s1"]).await;
}

async fn the_order_backward(ground: Ground) {
    three(&ground).await;
    finds(&ground, by_status("draft").backward(), &["s1", "s3", "s2"]).await;
    let pages = ground.pages(by_status("draft").backward().limit(1)).await.concat();
    assert_eq!(sorts(&pages), ["s1", "s3", "s2"]);
}

async fn ranges_of_the_index_sort_key(ground: Ground) {
    three(&ground).await;
    let range = |range| by_status("draft").range(range);
    finds(&ground, range(SortRange::Eq("2".into())), &["s3"]).await;
    finds(&ground, range(SortRange::Between("1".into(), "2".into())), &["s2", "s3"]).await;
    finds(&ground, range(SortRange::BeginsWith("3".into())), &["s1"]).await;
    finds(&ground, range(SortRange::Gt("1".into())), &["s3", "s1"]).await;
    finds(&ground, range(SortRange::Ge("3".into())), &["s1"]).await;
    finds(&ground, range(SortRange::Lt("2".into())), &["s2"]).await;
    finds(&ground, range(SortRange::Le("2".into())).backward(), &["s3", "s2"]).await;
}

async fn an_entry_moves_with_its_attributes(ground: Ground) {
    three(&ground).await;
    let key = Key::new("c1", "s1");
    ground.update(Update::new(&EMAIL_TRACKING, key.clone()).set("GSI1SK", "0")).await;
    finds(&ground, by_status("draft"), &["s1", "s2", "s3"]).await;
    ground.update(Update::new(&EMAIL_TRACKING, key).set("GSI1PK", "sent")).await;
    finds(&ground, by_status("draft"), &["s2", "s3"]).await;
    finds(&ground, by_status("sent"), &["s1", "s4"]).await;
    put(&ground, mail("c1", "s1", "failed", "9")).await;
    finds(&ground, by_status("sent"), &["s4"]).await;
    finds(&ground, by_status("failed"), &["s1"]).await;
}

async fn an_entry_goes_when_an_attribute_goes(ground: Ground) {
    three(&ground).await;
    let remove = |partition: &str, sort: &str, name: &str| {
        Update::new(&EMAIL_TRACKING, Key::new(partition, sort)).remove(name)
    };
    ground.update(remove("c1", "s1", "GSI1SK")).await;
    ground.update(remove("c2", "s2", "GSI1PK")).await;
    finds(&ground, by_status("draft"), &["s3"]).await;
    assert!(ground.get(&EMAIL_TRACKING, &Key::new("c1", "s1")).await.is_some());
}

async fn an_entry_goes_when_a_put_drops_the_attribute(ground: Ground) {
    three(&ground).await;
    put(&ground, row("c2", "s2")).await;
    finds(&ground, by_status("draft"), &["s3", "s1"]).await;
}

async fn an_entry_goes_with_its_item(ground: Ground) {
    three(&ground).await;
    let delete = Delete::new(&EMAIL_TRACKING, Key::new("c0", "s3"));
    ground.store.delete(delete).await.unwrap();
    finds(&ground, by_status("draft"), &["s2", "s1"]).await;
}

async fn an_entry_comes_when_the_attributes_come(ground: Ground) {
    put(&ground, row("c1", "s")).await;
    let update = Update::new(&EMAIL_TRACKING, Key::new("c1", "s"));
    ground.update(update.set("GSI1PK", "draft").set_if_absent("GSI1SK", "1")).await;
    finds(&ground, by_status("draft"), &["s"]).await;
}

async fn a_transaction_keeps_the_index(ground: Ground) {
    three(&ground).await;
    let table = &EMAIL_TRACKING;
    let txn = Txn::new()
        .update(Update::new(table, Key::new("c1", "s1")).set("GSI1PK", "sent"))
        .delete(table, Key::new("c2", "s2"), Expect::Present)
        .put(table, mail("c9", "s9", "draft", "9"), Expect::Absent);
    ground.store.transact(txn).await.unwrap();
    finds(&ground, by_status("draft"), &["s3", "s9"]).await;
    finds(&ground, by_status("sent"), &["s4", "s1"]).await;
}

async fn a_failed_write_leaves_the_index_alone(ground: Ground) {
    three(&ground).await;
    let moved = mail("c1", "s1", "sent", "0");
    ground
        .store
        .put(Put::new(&EMAIL_TRACKING, moved.clone()).expect(Expect::Absent))
        .await
        .unwrap_err();
    let txn = Txn::new().put(&EMAIL_TRACKING, moved, Expect::Present).check(
        &EMAIL_TRACKING,
        Key::new("no", "no"),
        Expect::Present,
    );
    ground.store.transact(txn).await.unwrap_err();
    finds(&ground, by_status("draft"), &["s2", "s3", "s1"]).await;
    finds(&ground, by_status("sent"), &["s4"]).await;
}

/// Items whose index keys are all the same, as in one second of sending.
async fn crowd(ground: &Ground) {
    for number in 0..20 {
        let item = mail(&format!("c{}", number % 4), &format!("s{number:02}"), "sent", "same");
        put(ground, item).await;
    }
    put(ground, mail("c0", "before", "sent", "a")).await;
    put(ground, mail("c0", "after", "sent", "z")).await;
}

fn numbered() -> Vec<String> {
    (0..20).map(|number| format!("s{number:02}")).collect()
}

async fn items_in_the_same_place_are_all_found(ground: Ground) {
    crowd(&ground).await;
    let query = by_status("sent").range(SortRange::Eq("same".into()));
    let found = ground.query(query).await;
    let mut found = sorts(&found);
    found.sort_unstable();
    assert_eq!(found, numbered());
}

async fn each_once(ground: &Ground, backward: bool) {
    crowd(ground).await;
    for limit in [1, 3, 7] {
        let query = by_status("sent").limit(limit);
        let query = if backward { query.backward() } else { query };
        let found = ground.pages(query).await.concat();
        let mut found = sorts(&found);
        assert_eq!(found.len(), 22);
        if backward {
            found.reverse();
        }
        assert_eq!((found[0], found[21]), ("before", "after"));
        found.sort_unstable();
        assert_eq!(found[2..], numbered());
    }
}

async fn pages_in_the_same_place_visit_each_once(ground: Ground) {
    each_once(&ground, false).await;
}

async fn pages_in_the_same_place_backward(ground: Ground) {
    each_once(&ground, true).await;
}

async fn a_cursor_outlives_its_entry(ground: Ground) {
    three(&ground).await;
    let page = ground.store.query(by_status("draft").limit(1)).await.unwrap();
    assert_eq!(sorts(&page.items), ["s2"]);
    ground.update(Update::new(&EMAIL_TRACKING, Key::new("c2", "s2")).set("GSI1PK", "sent")).await;
    finds(&ground, by_status("draft").after(page.cursor), &["s3", "s1"]).await;
}

async fn one_item_in_two_indexes(ground: Ground) {
    let both =
        row("SUB#a", "EVT#1").with("templateKey", "welcome").with("sequenceId", "onboarding");
    let one = row("SUB#a", "EVT#2").with("templateKey", "welcome");
    ground.put_all(&EVENTS, &[both.clone(), one.clone()]).await;
    let template = Query::new(&EVENTS, "welcome").index("TemplateIndex");
    assert_eq!(ground.query(template).await, [both.clone(), one]);
    let sequence = Query::new(&EVENTS, "onboarding").index("SequenceIndex");
    assert_eq!(ground.query(sequence).await, [both]);
}

async fn an_index_may_share_the_partition_key_of_its_table(ground: Ground) {
    let event = |id: &str, kind: &str| {
        Item::new()
            .with("lead_organization_id", "1")
            .with("occurred_at#id", id)
            .with("event_type#occurred_at", kind)
    };
    let events = [event("1#a", "purchase#1"), event("2#b", "open#2"), event("3#c", "purchase#3")];
    ground.put_all(&EVENT, &events).await;
    let query = Query::new(&EVENT, "1").index("event-type-index");
    let [a, b, c] = events;
    assert_eq!(ground.query(query.clone()).await, [b, a.clone(), c.clone()]);
    assert_eq!(ground.query(query.begins_with("purchase#")).await, [a, c]);
}

async fn an_index_key_of_the_wrong_type_is_refused(ground: Ground) {
    for item in [row("c", "s").with("GSI1PK", 1), row("c", "s").with("GSI1SK", true)] {
        let put = ground.store.put(Put::new(&EMAIL_TRACKING, item)).await;
        assert_refused!(put, Invalid::KeyType { .. });
    }
}

async fn an_empty_index_key_is_refused(ground: Ground) {
    let item = row("c", "s").with("GSI1PK", "");
    let put = ground.store.put(Put::new(&EMAIL_TRACKING, item)).await;
    assert_refused!(put, Invalid::KeyEmpty { .. });
}

async fn a_long_index_key_is_refused(ground: Ground) {
    let long = "x".repeat(2049);
    put(&ground, mail("c", "s", &long[..2048], &long[..1024])).await;
    finds(&ground, by_status(&long[..2048]), &["s"]).await;
    for item in [mail("c", "s", &long, "1"), mail("c", "s", "1", &long[..1025])] {
        let put = ground.store.put(Put::new(&EMAIL_TRACKING, item)).await;
        assert_refused!(put, Invalid::KeyTooLong { .. });
    }
}

async fn an_update_cannot_break_an_index_key(ground: Ground) {
    three(&ground).await;
    let key = || Key::new("c1", "s1");
    let update = || Update::new(&EMAIL_TRACKING, key());
    let number = ground.store.update(update().set("GSI1PK", 1)).await;
    assert_refused!(number, Invalid::KeyType { .. });
    let empty = ground.store.update(update().set("GSI1SK", "")).await;
    assert_refused!(empty, Invalid::KeyEmpty { .. });
    let in_transaction = ground.store.transact(Txn::new().update(update().set("GSI1SK", ""))).await;
    assert_refused!(in_transaction, Invalid::KeyEmpty { .. });
    let new = Update::new(&EMAIL_TRACKING, Key::new("new", "new")).add("GSI1SK", 1);
    assert_refused!(ground.store.update(new).await, _);
    finds(&ground, by_status("draft"), &["s2", "s3", "s1"]).await;
}
