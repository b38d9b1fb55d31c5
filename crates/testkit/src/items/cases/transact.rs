//! Transactions: all of the writes or none, and for each write what stood in its way.

use tidings_kernel::{
    Cancellation, Condition, Expect, Invalid, Item, Key, Path, Txn, Update,
    tables::{EVENTS, FEATURE, INBOX, MAIN},
};

use super::{Case, cases};
use crate::items::ground::{Ground, assert_refused, cancelled, item, row};

pub(super) const CASES: &[Case] = &cases![
    every_kind_of_write_together,
    writes_to_several_tables,
    a_hundred_writes,
    more_than_a_hundred_writes_are_refused,
    no_writes_are_refused,
    an_item_twice_is_refused,
    an_update_of_nothing_is_refused,
    one_key_in_two_tables_is_two_items,
    four_megabytes_and_no_more,
    reasons_stand_at_the_places_of_their_writes,
    a_reason_tells_what_is_there,
    a_cancelled_transaction_writes_nothing,
    an_update_that_does_not_fit_cancels,
    failed_and_unfitting_writes_are_both_told,
    a_bad_write_is_refused_before_anything,
    checks_alone,
    a_check_that_expects_anything_holds,
    a_delete_of_nothing_is_no_error,
    conditions_see_the_state_before_the_transaction,
];

fn key(sort: &str) -> Key {
    Key::new("a", sort)
}

fn add(sort: &str) -> Update {
    Update::new(&MAIN, key(sort)).add("x", 1)
}

async fn every_kind_of_write_together(ground: Ground) {
    ground.put_all(&MAIN, &[row("a", "old"), row("a", "there").with("x", 1)]).await;
    let txn = Txn::new()
        .put(&MAIN, row("a", "new"), Expect::Absent)
        .update(add("there"))
        .delete(&MAIN, key("old"), Expect::Present)
        .check(&MAIN, key("none"), Expect::Absent);
    ground.store.transact(txn).await.unwrap();
    assert_eq!(ground.contents(&MAIN).await, [row("a", "new"), row("a", "there").with("x", 2)]);
}

async fn writes_to_several_tables(ground: Ground) {
    let lead = Item::new().with("lead_organization_id", "1");
    let txn = Txn::new()
        .put(&MAIN, row("a", "b"), Expect::Absent)
        .put(&EVENTS, row("a", "b"), Expect::Absent)
        .update(Update::new(&INBOX, key("b")).add("x", 1))
        .put(&FEATURE, lead.clone(), Expect::Absent);
    ground.store.transact(txn).await.unwrap();
    assert_eq!(ground.contents(&MAIN).await, [row("a", "b")]);
    assert_eq!(ground.contents(&EVENTS).await, [row("a", "b")]);
    assert_eq!(ground.contents(&INBOX).await, [row("a", "b").with("x", 1)]);
    assert_eq!(ground.contents(&FEATURE).await, [lead]);
}

fn puts(count: usize) -> Txn {
    (0..count).fold(Txn::new(), |txn, number| {
        txn.put(&MAIN, row("a", &format!("{number:03}")), Expect::Absent)
    })
}

async fn a_hundred_writes(ground: Ground) {
    ground.store.transact(puts(100)).await.unwrap();
    assert_eq!(ground.contents(&MAIN).await.len(), 100);
}

async fn more_than_a_hundred_writes_are_refused(ground: Ground) {
    assert_refused!(ground.store.transact(puts(101)).await, Invalid::TxnCount);
    assert_eq!(ground.contents(&MAIN).await, []);
}

async fn no_writes_are_refused(ground: Ground) {
    assert_refused!(ground.store.transact(Txn::new()).await, Invalid::TxnCount);
}

async fn an_update_of_nothing_is_refused(ground: Ground) {
    let txn = Txn::new().update(Update::new(&MAIN, Key::new("a", "b")));
    assert_refused!(ground.store.transact(txn).await, Invalid::TxnEmptyUpdate);
}

async fn an_item_twice_is_refused(ground: Ground) {
    let put = || Txn::new().put(&MAIN, row("a", "b"), Expect::Anything);
    for txn in [
        put().put(&MAIN, row("a", "b"), Expect::Anything),
        put().update(add("b")),
        put().delete(&MAIN, key("b"), Expect::Anything),
        put().check(&MAIN, key("b"), Expect::Absent),
    ] {
        assert_refused!(ground.store.transact(txn).await, Invalid::TxnSameItem);
    }
    assert_eq!(ground.contents(&MAIN).await, []);
}

async fn one_key_in_two_tables_is_two_items(ground: Ground) {
    let txn = Txn::new().put(&MAIN, row("a", "b"), Expect::Absent).put(
        &INBOX,
        row("a", "b"),
        Expect::Absent,
    );
    ground.store.transact(txn).await.unwrap();
}

async fn four_megabytes_and_no_more(ground: Ground) {
    let text = "x".repeat(390 * 1024);
    let puts = |count: usize| {
        (0..count).fold(Txn::new(), |txn, number| {
            let item = row("a", &number.to_string()).with("text", text.as_str());
            txn.put(&MAIN, item, Expect::Anything)
        })
    };
    assert_refused!(ground.store.transact(puts(11)).await, Invalid::TxnTooLarge);
    ground.store.transact(puts(10)).await.unwrap();
    assert_eq!(ground.contents(&MAIN).await.len(), 10);
}

async fn reasons_stand_at_the_places_of_their_writes(ground: Ground) {
    ground.put(&MAIN, row("a", "there")).await;
    let txn = Txn::new()
        .put(&MAIN, row("a", "there"), Expect::Absent)
        .put(&MAIN, row("a", "new"), Expect::Absent)
        .check(&MAIN, key("none"), Expect::Present)
        .update(add("other"))
        .delete(&MAIN, key("none either"), Expect::Present);
    let there = Cancellation::ConditionFailed { current: Some(row("a", "there")) };
    let none = Cancellation::ConditionFailed { current: None };
    let expected = [there, Cancellation::None, none.clone(), Cancellation::None, none];
    assert_eq!(cancelled(ground.store.transact(txn).await), expected);
}

async fn a_reason_tells_what_is_there(ground: Ground) {
    let there = item!({"PK": "a", "SK": "b", "x": {"y": [1, null]}, "z": 1.5});
    ground.put(&MAIN, there.clone()).await;
    let wrong = || Expect::That(Condition::eq("z", 2));
    for txn in [
        Txn::new().put(&MAIN, row("a", "b"), wrong()),
        Txn::new().update(add("b").expect(wrong())),
        Txn::new().delete(&MAIN, key("b"), wrong()),
        Txn::new().check(&MAIN, key("b"), wrong()),
    ] {
        let reasons = cancelled(ground.store.transact(txn).await);
        assert_eq!(reasons, [Cancellation::ConditionFailed { current: Some(there.clone()) }]);
    }
}

async fn a_cancelled_transaction_writes_nothing(ground: Ground) {
    let before = [row("a", "1").with("x", 1), row("a", "2"), row("a", "there")];
    ground.put_all(&MAIN, &before).await;
    let txn = Txn::new()
        .update(add("1"))
        .delete(&MAIN, key("2"), Expect::Present)
        .put(&MAIN, row("a", "3"), Expect::Absent)
        .put(&INBOX, row("a", "3"), Expect::Absent)
        .put(&MAIN, row("a", "there"), Expect::Absent);
    cancelled(ground.store.transact(txn).await);
    assert_eq!(ground.contents(&MAIN).await, before);
    assert_eq!(ground.contents(&INBOX).await, []);
}

async fn an_update_that_does_not_fit_cancels(ground: Ground) {
    ground.put(&MAIN, row("a", "b").with("x", "text")).await;
    let txn = Txn::new().put(&MAIN, row("a", "new"), Expect::Absent).update(add("b"));
    let reasons = cancelled(ground.store.transact(txn).await);
    assert!(matches!(reasons[..], [Cancellation::None, Cancellation::Invalid(_)]), "{reasons:?}");
    assert_eq!(ground.get(&MAIN, &key("new")).await, None);
}

async fn failed_and_unfitting_writes_are_both_told(ground: Ground) {
    ground.put(&MAIN, row("a", "b").with("x", "text")).await;
    let nowhere = Update::new(&MAIN, key("c")).set(Path::of("m").key("k"), 1);
    let txn = Txn::new().update(nowhere).check(&MAIN, key("b"), Expect::Absent).put(
        &MAIN,
        row("a", "new"),
        Expect::Absent,
    );
    let reasons = cancelled(ground.store.transact(txn).await);
    let [Cancellation::Invalid(_), Cancellation::ConditionFailed { .. }, Cancellation::None] =
        reasons[..]
    else {
        panic!("{reasons:?}");
    };
}

async fn a_bad_write_is_refused_before_anything(ground: Ground) {
    ground.put(&MAIN, row("a", "b")).await;
    let txn = Txn::new().put(&MAIN, row("a", "b"), Expect::Absent).put(
        &MAIN,
        row("a", ""),
        Expect::Anything,
    );
    assert_refused!(ground.store.transact(txn).await, Invalid::KeyEmpty { .. });
}

async fn checks_alone(ground: Ground) {
    ground.put(&MAIN, row("a", "b").with("x", 1)).await;
    let check = |sort: &str, expect| Txn::new().check(&MAIN, key(sort), expect);
    ground.store.transact(check("b", Expect::Present)).await.unwrap();
    ground.store.transact(check("c", Expect::Absent)).await.unwrap();
    let one = Expect::That(Condition::eq("x", 1));
    ground.store.transact(check("b", one.clone())).await.unwrap();
    cancelled(ground.store.transact(check("c", one)).await);
    assert_eq!(ground.contents(&MAIN).await, [row("a", "b").with("x", 1)]);
}

async fn a_check_that_expects_anything_holds(ground: Ground) {
    ground.put(&MAIN, row("a", "there")).await;
    let txn = Txn::new()
        .check(&MAIN, key("there"), Expect::Anything)
        .check(&MAIN, key("none"), Expect::Anything)
        .put(&MAIN, row("a", "new"), Expect::Absent);
    ground.store.transact(txn).await.unwrap();
    assert_eq!(ground.contents(&MAIN).await, [row("a", "new"), row("a", "there")]);
}

async fn a_delete_of_nothing_is_no_error(ground: Ground) {
    let txn = Txn::new().delete(&MAIN, key("b"), Expect::Anything).update(add("c"));
    ground.store.transact(txn).await.unwrap();
    assert_eq!(ground.contents(&MAIN).await, [row("a", "c").with("x", 1)]);
}

async fn conditions_see_the_state_before_the_transaction(ground: Ground) {
    ground.put(&MAIN, row("a", "lock").with("holder", "me")).await;
    let mine = Expect::That(Condition::eq("holder", "me"));
    let txn = || {
        Txn::new()
            .update(Update::new(&MAIN, key("lock")).set("holder", "you").expect(mine.clone()))
            .update(add("count"))
    };
    ground.store.transact(txn()).await.unwrap();
    cancelled(ground.store.transact(txn()).await);
    assert_eq!(ground.get(&MAIN, &key("count")).await, Some(row("a", "count").with("x", 1)));
}
