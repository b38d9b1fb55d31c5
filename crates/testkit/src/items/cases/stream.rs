//! The change stream: what it tells, to whom, and until when.

use std::collections::BTreeSet;

use tidings_kernel::{
    Change, ChangeKind, Delete, Expect, Invalid, Item, Key, Put, Txn, Update,
    tables::{INBOX, MAIN},
};

use super::{Case, cases};
use crate::items::Quirk;
use crate::items::ground::{Ground, assert_refused, row};

pub(super) const CASES: &[Case] = &cases![
    a_new_item,
    a_changed_item,
    a_deleted_item,
    an_expired_item,
    changes_of_one_item_come_in_their_order,
    a_transaction_tells_each_of_its_writes,
    a_failed_condition_tells_nothing,
    a_cancelled_transaction_tells_nothing,
    a_write_that_changes_nothing_tells_nothing,
    a_delete_of_nothing_tells_nothing,
    a_new_consumer_begins_at_the_oldest_change,
    each_consumer_goes_at_its_own_pace,
    changes_come_again_until_they_are_acknowledged,
    acknowledging_twice_is_no_error,
    a_checkpoint_never_goes_back,
    a_batch_keeps_to_its_limit,
    small_batches_tell_everything_once,
    nothing_new_has_no_position,
    images_hold_every_type,
    a_table_without_a_stream_is_refused,
    a_bad_name_of_a_consumer_is_refused,
    a_bad_position_is_refused,
];

fn x(value: i64) -> Item {
    row("a", "b").with("x", value)
}

fn change(kind: ChangeKind, old: Option<Item>, new: Option<Item>) -> Change {
    Change { key: Key::new("a", "b"), kind, old, new }
}

async fn drain(ground: &Ground) -> Vec<Change> {
    ground.drain(&INBOX, "reader").await
}

async fn a_new_item(ground: Ground) {
    ground.put(&INBOX, x(1)).await;
    assert_eq!(drain(&ground).await, [change(ChangeKind::Inserted, None, Some(x(1)))]);
    ground.update(Update::new(&INBOX, Key::new("made", "by update")).add("n", 1)).await;
    let made = drain(&ground).await;
    assert_eq!((made.len(), made[0].kind), (1, ChangeKind::Inserted));
    assert_eq!(made[0].new, Some(row("made", "by update").with("n", 1)));
}

async fn a_changed_item(ground: Ground) {
    ground.put(&INBOX, x(1)).await;
    ground.put(&INBOX, x(2)).await;
    ground.update(Update::new(&INBOX, Key::new("a", "b")).add("x", 1)).await;
    let modified = |old, new| change(ChangeKind::Modified, Some(x(old)), Some(x(new)));
    assert_eq!(drain(&ground).await[1..], [modified(1, 2), modified(2, 3)]);
}

async fn a_deleted_item(ground: Ground) {
    ground.put(&INBOX, x(1)).await;
    ground.store.delete(Delete::new(&INBOX, Key::new("a", "b"))).await.unwrap();
    assert_eq!(drain(&ground).await[1..], [change(ChangeKind::Deleted, Some(x(1)), None)]);
}

async fn an_expired_item(ground: Ground) {
    let item = x(1).with("expiredat", ground.in_seconds(5));
    ground.put(&INBOX, item.clone()).await;
    ground.pass_seconds(5);
    assert_eq!(drain(&ground).await.len(), 1, "it is not told before it is swept");
    ground.subject.sweep().await;
    let told = drain(&ground).await;
    let as_deleted = change(ChangeKind::Deleted, Some(item.clone()), None);
    if ground.has(Quirk::ExpiryLooksLikeDelete) && told == [as_deleted] {
        return;
    }
    assert_eq!(told, [change(ChangeKind::Expired, Some(item), None)]);
}

async fn changes_of_one_item_come_in_their_order(ground: Ground) {
    for value in 0..30 {
        for partition in ["a", "b", "c"] {
            ground.put(&INBOX, row(partition, "s").with("x", value)).await;
        }
    }
    let told = drain(&ground).await;
    for partition in ["a", "b", "c"] {
        let of_one = told.iter().filter(|change| change.key.partition == partition);
        let values: Vec<i64> =
            of_one.map(|change| change.new.as_ref().unwrap().integer("x").unwrap()).collect();
        assert_eq!(values, (0..30).collect::<Vec<_>>());
    }
}

async fn a_transaction_tells_each_of_its_writes(ground: Ground) {
    ground.put_all(&INBOX, &[row("a", "gone"), row("a", "there")]).await;
    drain(&ground).await;
    let txn = Txn::new()
        .put(&INBOX, row("a", "new"), Expect::Absent)
        .delete(&INBOX, Key::new("a", "gone"), Expect::Present)
        .update(Update::new(&INBOX, Key::new("a", "there")).add("x", 1))
        .check(&INBOX, Key::new("a", "none"), Expect::Absent)
        .put(&MAIN, row("in another", "table"), Expect::Absent);
    ground.store.transact(txn).await.unwrap();
    let mut told: Vec<_> =
        drain(&ground).await.into_iter().map(|c| (c.key.sort.unwrap(), c.kind)).collect();
    told.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ("gone".to_owned(), ChangeKind::Deleted),
        ("new".to_owned(), ChangeKind::Inserted),
        ("there".to_owned(), ChangeKind::Modified),
    ];
    assert_eq!(told, expected);
}

async fn a_failed_condition_tells_nothing(ground: Ground) {
    ground.put(&INBOX, x(1)).await;
    drain(&ground).await;
    ground.store.put(Put::new(&INBOX, x(2)).expect(Expect::Absent)).await.unwrap_err();
    let delete = Delete::new(&INBOX, Key::new("no", "no")).expect(Expect::Present);
    ground.store.delete(delete).await.unwrap_err();
    assert_eq!(drain(&ground).await, []);
}

async fn a_cancelled_transaction_tells_nothing(ground: Ground) {
    ground.put(&INBOX, x(1)).await;
    drain(&ground).await;
    let txn =
        Txn::new().put(&INBOX, row("a", "new"), Expect::Absent).put(&INBOX, x(2), Expect::Absent);
    ground.store.transact(txn).await.unwrap_err();
    assert_eq!(drain(&ground).await, []);
}

async fn a_write_that_changes_nothing_tells_nothing(ground: Ground) {
    ground.put(&INBOX, x(1)).await;
    drain(&ground).await;
    ground.put(&INBOX, x(1)).await;
    ground.update(Update::new(&INBOX, Key::new("a", "b")).set("x", 1).remove("y")).await;
    let told = drain(&ground).await;
    if ground.has(Quirk::NoOpMakesARecord) {
        assert!(told.iter().all(|change| change.old == change.new), "{told:?}");
    } else {
        assert_eq!(told, []);
    }
}

async fn a_delete_of_nothing_tells_nothing(ground: Ground) {
    ground.store.delete(Delete::new(&INBOX, Key::new("a", "b"))).await.unwrap();
    assert_eq!(drain(&ground).await, []);
}

async fn a_new_consumer_begins_at_the_oldest_change(ground: Ground) {
    ground.put(&INBOX, x(1)).await;
    drain(&ground).await;
    ground.put(&INBOX, x(2)).await;
    assert_eq!(ground.drain(&INBOX, "late").await.len(), 2);
}

async fn each_consumer_goes_at_its_own_pace(ground: Ground) {
    ground.put(&INBOX, x(1)).await;
    assert_eq!(ground.drain(&INBOX, "fast").await.len(), 1);
    ground.put(&INBOX, x(2)).await;
    assert_eq!(ground.drain(&INBOX, "fast").await.len(), 1);
    assert_eq!(ground.drain(&INBOX, "slow").await.len(), 2);
    assert_eq!(ground.drain(&INBOX, "fast").await, []);
}

async fn changes_come_again_until_they_are_acknowledged(ground: Ground) {
    ground.put(&INBOX, x(1)).await;
    let first = ground.store.changes(&INBOX, "reader", 10).await.unwrap();
    ground.put(&INBOX, x(2)).await;
    let again = ground.store.changes(&INBOX, "reader", 10).await.unwrap();
    assert_eq!(first.changes[..], again.changes[..1]);
    ground.store.acknowledge(&INBOX, "reader", &first.position.unwrap()).await.unwrap();
    let rest = drain(&ground).await;
    assert_eq!(rest, [change(ChangeKind::Modified, Some(x(1)), Some(x(2)))]);
}

async fn acknowledging_twice_is_no_error(ground: Ground) {
    ground.put(&INBOX, x(1)).await;
    let position = ground.store.changes(&INBOX, "reader", 10).await.unwrap().position.unwrap();
    for _ in 0..2 {
        ground.store.acknowledge(&INBOX, "reader", &position).await.unwrap();
    }
    ground.put(&INBOX, x(2)).await;
    assert_eq!(drain(&ground).await.len(), 1);
}

async fn a_checkpoint_never_goes_back(ground: Ground) {
    ground.put(&INBOX, x(1)).await;
    let early = ground.store.changes(&INBOX, "reader", 10).await.unwrap().position.unwrap();
    ground.put(&INBOX, x(2)).await;
    assert_eq!(drain(&ground).await.len(), 2);
    // A worker that was slow to finish says so late.
    ground.store.acknowledge(&INBOX, "reader", &early).await.unwrap();
    assert_eq!(drain(&ground).await, []);
}

async fn a_batch_keeps_to_its_limit(ground: Ground) {
    for value in 0..10 {
        ground.put(&INBOX, x(value)).await;
    }
    let batch = ground.store.changes(&INBOX, "reader", 3).await.unwrap();
    assert!((1..=3).contains(&batch.changes.len()));
}

async fn small_batches_tell_everything_once(ground: Ground) {
    for number in 0..25 {
        ground.put(&INBOX, row(&format!("p{number}"), "s")).await;
    }
    let mut told = Vec::new();
    loop {
        let batch = ground.store.changes(&INBOX, "reader", 4).await.unwrap();
        let Some(position) = batch.position else { break };
        told.extend(batch.changes.into_iter().map(|change| change.key));
        ground.store.acknowledge(&INBOX, "reader", &position).await.unwrap();
    }
    assert_eq!(told.len(), 25);
    assert_eq!(told.into_iter().collect::<BTreeSet<_>>().len(), 25);
}

async fn nothing_new_has_no_position(ground: Ground) {
    let batch = ground.store.changes(&INBOX, "reader", 10).await.unwrap();
    assert_eq!((batch.changes, batch.position), (vec![], None));
    ground.put(&INBOX, x(1)).await;
    drain(&ground).await;
    let batch = ground.store.changes(&INBOX, "reader", 10).await.unwrap();
    assert_eq!((batch.changes, batch.position), (vec![], None));
}

async fn images_hold_every_type(ground: Ground) {
    use tidings_kernel::Value;
    let item = x(1)
        .with("s", "text \0 😀")
        .with(
            "n",
            "12345678901234567890123456789012345678".parse::<tidings_kernel::Number>().unwrap(),
        )
        .with("b", vec![0u8, 255])
        .with("t", true)
        .with("z", Value::Null)
        .with("l", vec![Value::M([("$b".to_owned(), "x".into())].into()), Value::L(vec![])])
        .with("ss", Value::texts(["a", "b"]))
        .with("ns", Value::numbers([1, 2]))
        .with("bs", Value::Bs([vec![1]].into()));
    ground.put(&INBOX, item.clone()).await;
    assert_eq!(drain(&ground).await, [change(ChangeKind::Inserted, None, Some(item))]);
}

async fn a_table_without_a_stream_is_refused(ground: Ground) {
    let changes = ground.store.changes(&MAIN, "reader", 10).await;
    assert_refused!(changes, Invalid::NoStream { .. });
    let acknowledged = ground.store.acknowledge(&MAIN, "reader", "1").await;
    assert_refused!(acknowledged, Invalid::NoStream { .. });
}

async fn a_bad_name_of_a_consumer_is_refused(ground: Ground) {
    for name in ["", "two words", "a/b", "ä", &"x".repeat(65)] {
        assert_refused!(ground.store.changes(&INBOX, name, 10).await, Invalid::BadConsumer);
        assert_refused!(ground.store.acknowledge(&INBOX, name, "1").await, Invalid::BadConsumer);
    }
    let longest = "x".repeat(64);
    ground.store.changes(&INBOX, &longest, 10).await.unwrap();
}

async fn a_bad_position_is_refused(ground: Ground) {
    ground.put(&INBOX, x(1)).await;
    for position in ["", "garbage", "-1", "{}", "ä\0"] {
        assert_refused!(ground.store.acknowledge(&INBOX, "reader", position).await, _);
    }
    assert_eq!(drain(&ground).await.len(), 1);
}
