//! Limits: DynamoDB's, to the byte.

use tidings_kernel::{
    Cancellation, Delete, Expect, Invalid, Item, Key, MAX_ITEM_BYTES, Put, Txn, Update, Value,
    tables::MAIN,
};

use super::{Case, cases};
use crate::items::ground::{Ground, assert_refused, cancelled, row};

pub(super) const CASES: &[Case] = &cases![
    an_item_of_400_kilobytes,
    an_item_of_a_byte_more_is_refused,
    names_count_too,
    text_counts_in_bytes,
    nested_values_count_with_their_overhead,
    an_update_up_to_the_limit,
    an_update_beyond_the_limit_is_refused,
    an_update_beyond_the_limit_cancels_its_transaction,
    the_longest_keys,
    longer_keys_are_refused,
    keys_count_in_bytes,
    empty_keys_are_refused,
    keys_with_a_nul_are_refused,
    bad_keys_are_refused_by_every_operation,
    attribute_names_may_be_long,
    empty_names_are_refused,
];

/// An item of exactly so many bytes.
fn sized(bytes: usize) -> Item {
    let bare = row("a", "b").with("text", "");
    let text = "x".repeat(bytes - bare.size());
    let item = bare.with("text", text);
    assert_eq!(item.size(), bytes);
    item
}

async fn an_item_of_400_kilobytes(ground: Ground) {
    let item = sized(MAX_ITEM_BYTES);
    ground.put(&MAIN, item.clone()).await;
    assert!(ground.get(&MAIN, &Key::new("a", "b")).await == Some(item));
}

async fn an_item_of_a_byte_more_is_refused(ground: Ground) {
    let put = Put::new(&MAIN, sized(MAX_ITEM_BYTES + 1));
    assert_refused!(ground.store.put(put).await, Invalid::ItemTooLarge);
    assert_eq!(ground.get(&MAIN, &Key::new("a", "b")).await, None);
}

async fn names_count_too(ground: Ground) {
    let item = sized(MAX_ITEM_BYTES - 10);
    ground.put(&MAIN, item.clone().with("123456789", true)).await;
    let put = Put::new(&MAIN, item.with("1234567890", true));
    assert_refused!(ground.store.put(put).await, Invalid::ItemTooLarge);
}

async fn text_counts_in_bytes(ground: Ground) {
    let item = row("a", "b").with("t", "ö".repeat(204_797));
    assert_eq!(item.size(), MAX_ITEM_BYTES + 1);
    assert_refused!(ground.store.put(Put::new(&MAIN, item)).await, Invalid::ItemTooLarge);
    ground.put(&MAIN, row("a", "b").with("t", "ö".repeat(204_796))).await;
}

/// A list or a map is 3 bytes, and each of its elements one more.
async fn nested_values_count_with_their_overhead(ground: Ground) {
    let room = MAX_ITEM_BYTES - sized(100).size() - "list".len() - 3;
    let with_list = |count: usize| {
        let list = vec![Value::Bool(true); count];
        sized(100).with("list", list)
    };
    ground.put(&MAIN, with_list(room / 2)).await;
    let put = Put::new(&MAIN, with_list(room / 2 + 1));
    assert_refused!(ground.store.put(put).await, Invalid::ItemTooLarge);
}

fn fill(bytes: usize) -> Update {
    Update::new(&MAIN, Key::new("a", "b")).set("u", "x".repeat(bytes - 1))
}

async fn an_update_up_to_the_limit(ground: Ground) {
    ground.put(&MAIN, sized(1000)).await;
    ground.update(fill(MAX_ITEM_BYTES - 1000)).await;
    let item = ground.get(&MAIN, &Key::new("a", "b")).await.unwrap();
    assert_eq!(item.size(), MAX_ITEM_BYTES);
}

async fn an_update_beyond_the_limit_is_refused(ground: Ground) {
    ground.put(&MAIN, sized(1000)).await;
    assert_refused!(ground.store.update(fill(MAX_ITEM_BYTES - 999)).await, _);
    let item = ground.get(&MAIN, &Key::new("a", "b")).await.unwrap();
    assert_eq!(item.size(), 1000);
}

async fn an_update_beyond_the_limit_cancels_its_transaction(ground: Ground) {
    ground.put(&MAIN, sized(1000)).await;
    let txn =
        Txn::new().update(fill(MAX_ITEM_BYTES - 999)).put(&MAIN, row("c", "d"), Expect::Absent);
    let reasons = cancelled(ground.store.transact(txn).await);
    assert!(matches!(reasons[..], [Cancellation::Invalid(_), Cancellation::None]), "{reasons:?}");
    assert_eq!(ground.get(&MAIN, &Key::new("c", "d")).await, None);
}

async fn the_longest_keys(ground: Ground) {
    let item = row(&"p".repeat(2048), &"s".repeat(1024));
    ground.put(&MAIN, item.clone()).await;
    assert_eq!(ground.contents(&MAIN).await, [item]);
}

async fn longer_keys_are_refused(ground: Ground) {
    for item in [row(&"p".repeat(2049), "s"), row("p", &"s".repeat(1025))] {
        let put = ground.store.put(Put::new(&MAIN, item)).await;
        assert_refused!(put, Invalid::KeyTooLong { .. });
    }
}

async fn keys_count_in_bytes(ground: Ground) {
    ground.put(&MAIN, row(&"ö".repeat(1024), &"😀".repeat(256))).await;
    for item in [row(&"ö".repeat(1025), "s"), row("p", &"😀".repeat(257))] {
        let put = ground.store.put(Put::new(&MAIN, item)).await;
        assert_refused!(put, Invalid::KeyTooLong { .. });
    }
}

async fn empty_keys_are_refused(ground: Ground) {
    for item in [row("", "s"), row("p", "")] {
        let put = ground.store.put(Put::new(&MAIN, item)).await;
        assert_refused!(put, Invalid::KeyEmpty { .. });
    }
}

/// Ours, not DynamoDB's: PostgreSQL has no such text, and every engine takes the same keys.
async fn keys_with_a_nul_are_refused(ground: Ground) {
    for item in [row("a\0", "s"), row("p", "\0")] {
        let put = ground.store.put(Put::new(&MAIN, item)).await;
        assert_refused!(put, Invalid::KeyNul { .. });
    }
}

async fn bad_keys_are_refused_by_every_operation(ground: Ground) {
    for key in [Key::new("", "s"), Key::new("p", "\0"), Key::new("p", "s".repeat(1025))] {
        let store = &ground.store;
        assert_refused!(store.get(&MAIN, &key).await, _);
        assert_refused!(store.batch_get(&MAIN, std::slice::from_ref(&key)).await, _);
        assert_refused!(store.update(Update::new(&MAIN, key.clone()).set("x", 1)).await, _);
        assert_refused!(store.delete(Delete::new(&MAIN, key.clone())).await, _);
        let check = Txn::new().check(&MAIN, key.clone(), Expect::Absent);
        assert_refused!(store.transact(check).await, _);
        let delete = Txn::new().delete(&MAIN, key, Expect::Anything);
        assert_refused!(store.transact(delete).await, _);
    }
}

async fn attribute_names_may_be_long(ground: Ground) {
    let item = row("a", "b").with(&"n".repeat(60_000), 1);
    ground.put(&MAIN, item.clone()).await;
    assert!(ground.get(&MAIN, &Key::new("a", "b")).await == Some(item));
}

async fn empty_names_are_refused(ground: Ground) {
    let put = ground.store.put(Put::new(&MAIN, row("a", "b").with("", 1))).await;
    assert_refused!(put, Invalid::BadName);
    let update = Update::new(&MAIN, Key::new("a", "b")).set("", 1);
    assert_refused!(ground.store.update(update).await, Invalid::BadName);
}
