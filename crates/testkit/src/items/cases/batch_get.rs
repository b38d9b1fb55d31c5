//! Reading many items by their keys.

use tidings_kernel::{Invalid, Item, Key, MAX_BATCH_GET, tables::FEATURE, tables::MAIN};

use super::{Case, cases};
use crate::items::ground::{Ground, assert_refused, row};

pub(super) const CASES: &[Case] = &cases![
    answers_come_in_the_order_of_the_keys,
    what_is_missing_is_none_in_its_place,
    a_key_asked_for_twice_is_answered_twice,
    no_keys_get_no_answers,
    more_keys_than_one_request_of_dynamodb_holds,
    large_items_all_arrive,
    too_many_keys_are_refused,
    one_bad_key_refuses_the_batch,
    a_table_without_a_sort_key,
];

async fn answers_come_in_the_order_of_the_keys(ground: Ground) {
    ground.put_all(&MAIN, &[row("a", "1"), row("a", "2"), row("b", "1")]).await;
    let keys = [Key::new("b", "1"), Key::new("a", "2"), Key::new("a", "1")];
    let found = ground.store.batch_get(&MAIN, &keys).await.unwrap();
    assert_eq!(found, [Some(row("b", "1")), Some(row("a", "2")), Some(row("a", "1"))]);
}

async fn what_is_missing_is_none_in_its_place(ground: Ground) {
    ground.put(&MAIN, row("a", "2")).await;
    let keys = [Key::new("a", "1"), Key::new("a", "2"), Key::new("a", "3")];
    let found = ground.store.batch_get(&MAIN, &keys).await.unwrap();
    assert_eq!(found, [None, Some(row("a", "2")), None]);
}

async fn a_key_asked_for_twice_is_answered_twice(ground: Ground) {
    ground.put(&MAIN, row("a", "1")).await;
    let keys = [Key::new("a", "1"), Key::new("a", "0"), Key::new("a", "1"), Key::new("a", "0")];
    let found = ground.store.batch_get(&MAIN, &keys).await.unwrap();
    assert_eq!(found, [Some(row("a", "1")), None, Some(row("a", "1")), None]);
}

async fn no_keys_get_no_answers(ground: Ground) {
    assert_eq!(ground.store.batch_get(&MAIN, &[]).await.unwrap(), []);
}

async fn more_keys_than_one_request_of_dynamodb_holds(ground: Ground) {
    let sort = |number: usize| format!("{number:03}");
    for number in (0..250).step_by(2) {
        ground.put(&MAIN, row("a", &sort(number))).await;
    }
    let keys: Vec<Key> = (0..250).rev().map(|number| Key::new("a", sort(number))).collect();
    let found = ground.store.batch_get(&MAIN, &keys).await.unwrap();
    assert_eq!(found.len(), 250);
    for (key, item) in keys.iter().zip(found) {
        let number: usize = key.sort.as_ref().unwrap().parse().unwrap();
        assert_eq!(item, number.is_multiple_of(2).then(|| row("a", &sort(number))));
    }
}

/// DynamoDB answers a batch with at most 16 MB and leaves the rest unprocessed; the caller sees none of that.
async fn large_items_all_arrive(ground: Ground) {
    let text = "x".repeat(390 * 1024);
    let keys: Vec<Key> = (0..50).map(|number| Key::new("a", number.to_string())).collect();
    for key in &keys {
        ground.put(&MAIN, MAIN.bare_item(key).with("text", text.as_str())).await;
    }
    let found = ground.store.batch_get(&MAIN, &keys).await.unwrap();
    for (key, item) in keys.iter().zip(found) {
        let item = item.unwrap();
        assert_eq!(item.text("SK"), key.sort.as_deref());
        assert_eq!(item.text("text").map(str::len), Some(text.len()));
    }
}

async fn too_many_keys_are_refused(ground: Ground) {
    let keys = vec![Key::new("a", "b"); MAX_BATCH_GET + 1];
    assert_refused!(ground.store.batch_get(&MAIN, &keys).await, Invalid::BatchTooLarge);
}

async fn one_bad_key_refuses_the_batch(ground: Ground) {
    let keys = [Key::new("a", "b"), Key::new("", "b")];
    assert_refused!(ground.store.batch_get(&MAIN, &keys).await, Invalid::KeyEmpty { .. });
}

async fn a_table_without_a_sort_key(ground: Ground) {
    let lead = |id: &str| Item::new().with("lead_organization_id", id);
    ground.put_all(&FEATURE, &[lead("1"), lead("2")]).await;
    let keys = [Key::single("2"), Key::single("3"), Key::single("1")];
    let found = ground.store.batch_get(&FEATURE, &keys).await.unwrap();
    assert_eq!(found, [Some(lead("2")), None, Some(lead("1"))]);
}
