//! Conditional writes: what a write expects, and what a failed expectation tells.

use tidings_kernel::{
    Condition, Delete, Expect, Item, Key, Put, Returns, Update, Value, tables::FEATURE,
    tables::MAIN,
};

use super::{Case, cases};
use crate::items::ground::{Ground, failed, row};

pub(super) const CASES: &[Case] = &cases![
    a_put_that_expects_nothing_there_wins_once,
    a_put_that_expects_something_there,
    a_put_that_expects_a_value,
    a_failed_put_tells_what_is_there,
    a_failed_put_changes_nothing,
    an_update_that_expects_nothing_there,
    an_update_that_expects_something_there_makes_no_item,
    an_update_that_expects_a_value,
    a_delete_that_expects_something_there,
    a_delete_that_expects_a_value,
    a_delete_that_expects_nothing_there,
    an_absent_item_is_met_as_an_empty_one,
    the_key_is_part_of_what_can_be_expected,
    expectations_on_a_table_without_a_sort_key,
];

fn key() -> Key {
    Key::new("a", "b")
}

fn x(value: i64) -> Item {
    row("a", "b").with("x", value)
}

fn x_is(value: i64) -> Expect {
    Expect::That(Condition::eq("x", value))
}

async fn a_put_that_expects_nothing_there_wins_once(ground: Ground) {
    let put = |value| Put::new(&MAIN, x(value)).expect(Expect::Absent);
    assert_eq!(ground.store.put(put(1)).await.unwrap(), None);
    assert_eq!(failed(ground.store.put(put(2)).await), Some(x(1)));
}

async fn a_put_that_expects_something_there(ground: Ground) {
    let put = |value| Put::new(&MAIN, x(value)).expect(Expect::Present);
    assert_eq!(failed(ground.store.put(put(1)).await), None);
    assert_eq!(ground.get(&MAIN, &key()).await, None);
    ground.put(&MAIN, x(2)).await;
    assert_eq!(ground.store.put(put(3)).await.unwrap(), Some(x(2)));
}

async fn a_put_that_expects_a_value(ground: Ground) {
    ground.put(&MAIN, x(1)).await;
    let put = |value, expected| Put::new(&MAIN, x(value)).expect(x_is(expected));
    assert_eq!(ground.store.put(put(2, 1)).await.unwrap(), Some(x(1)));
    assert_eq!(failed(ground.store.put(put(3, 1)).await), Some(x(2)));
}

async fn a_failed_put_tells_what_is_there(ground: Ground) {
    let list = Value::L(vec![1.into(), "two".into()]);
    let there = x(1).with("list", list).with("flag", true);
    ground.put(&MAIN, there.clone()).await;
    let put = Put::new(&MAIN, row("a", "b")).expect(Expect::Absent);
    assert_eq!(failed(ground.store.put(put).await), Some(there));
}

async fn a_failed_put_changes_nothing(ground: Ground) {
    ground.put(&MAIN, x(1)).await;
    failed(ground.store.put(Put::new(&MAIN, x(2)).expect(x_is(7))).await);
    assert_eq!(ground.contents(&MAIN).await, [x(1)]);
}

async fn an_update_that_expects_nothing_there(ground: Ground) {
    let update = || Update::new(&MAIN, key()).add("x", 1).expect(Expect::Absent);
    ground.update(update()).await;
    assert_eq!(failed(ground.store.update(update()).await), Some(x(1)));
    assert_eq!(ground.get(&MAIN, &key()).await, Some(x(1)));
}

async fn an_update_that_expects_something_there_makes_no_item(ground: Ground) {
    let update = || Update::new(&MAIN, key()).set("x", 2).expect(Expect::Present);
    assert_eq!(failed(ground.store.update(update()).await), None);
    assert_eq!(ground.get(&MAIN, &key()).await, None);
    ground.put(&MAIN, x(1)).await;
    ground.update(update()).await;
    assert_eq!(ground.get(&MAIN, &key()).await, Some(x(2)));
}

async fn an_update_that_expects_a_value(ground: Ground) {
    ground.put(&MAIN, x(1)).await;
    let update = || Update::new(&MAIN, key()).set("x", 2).expect(x_is(1)).returning(Returns::New);
    assert_eq!(ground.update(update()).await, Some(x(2)));
    assert_eq!(failed(ground.store.update(update()).await), Some(x(2)));
}

async fn a_delete_that_expects_something_there(ground: Ground) {
    let delete = || Delete::new(&MAIN, key()).expect(Expect::Present);
    assert_eq!(failed(ground.store.delete(delete()).await), None);
    ground.put(&MAIN, x(1)).await;
    assert_eq!(ground.store.delete(delete()).await.unwrap(), Some(x(1)));
}

async fn a_delete_that_expects_a_value(ground: Ground) {
    ground.put(&MAIN, x(1)).await;
    let delete = |expected| Delete::new(&MAIN, key()).expect(x_is(expected));
    assert_eq!(failed(ground.store.delete(delete(2)).await), Some(x(1)));
    assert_eq!(ground.get(&MAIN, &key()).await, Some(x(1)));
    assert_eq!(ground.store.delete(delete(1)).await.unwrap(), Some(x(1)));
}

async fn a_delete_that_expects_nothing_there(ground: Ground) {
    let delete = || Delete::new(&MAIN, key()).expect(Expect::Absent);
    assert_eq!(ground.store.delete(delete()).await.unwrap(), None);
    ground.put(&MAIN, x(1)).await;
    assert_eq!(failed(ground.store.delete(delete()).await), Some(x(1)));
}

async fn an_absent_item_is_met_as_an_empty_one(ground: Ground) {
    let none = Condition::not_exists("x");
    let put = |condition| Put::new(&MAIN, x(1)).expect(Expect::That(condition));
    for wrong in
        [Condition::exists("x"), Condition::eq("x", 1), none.clone().and(Condition::eq("y", 1))]
    {
        assert_eq!(failed(ground.store.put(put(wrong)).await), None);
    }
    let right = none
        .and(Condition::Ne("x".into(), 1.into()))
        .and(Condition::Not(Box::new(Condition::Lt("x".into(), 1.into()))));
    assert_eq!(ground.store.put(put(right)).await.unwrap(), None);
}

async fn the_key_is_part_of_what_can_be_expected(ground: Ground) {
    ground.put(&MAIN, x(1)).await;
    let put = |condition| Put::new(&MAIN, x(1)).expect(Expect::That(condition));
    let begins = |text: &str| Condition::BeginsWith("SK".into(), text.into());
    ground.store.put(put(Condition::eq("PK", "a").and(begins("b")))).await.unwrap();
    assert_eq!(failed(ground.store.put(put(begins("c"))).await), Some(x(1)));
}

async fn expectations_on_a_table_without_a_sort_key(ground: Ground) {
    let lead = Item::new().with("lead_organization_id", "1");
    let put = |expect| Put::new(&FEATURE, lead.clone()).expect(expect);
    assert_eq!(failed(ground.store.put(put(Expect::Present)).await), None);
    assert_eq!(ground.store.put(put(Expect::Absent)).await.unwrap(), None);
    assert_eq!(failed(ground.store.put(put(Expect::Absent)).await), Some(lead.clone()));
    assert_eq!(ground.store.put(put(Expect::Present)).await.unwrap(), Some(lead.clone()));
}
