//! Updates of whole attributes: every kind of action, and what is refused.

use tidings_kernel::{
    Action, Delete, Invalid, Item, Key, Number, Path, Returns, StoreError, Update, Value,
    tables::FEATURE, tables::MAIN,
};

use super::{Case, cases};
use crate::items::Quirk;
use crate::items::ground::{Ground, assert_refused, item, row};

pub(super) const CASES: &[Case] = &cases![
    set_makes_an_item,
    set_leaves_other_attributes_alone,
    set_may_change_the_type,
    set_if_absent_sets_once,
    set_if_absent_leaves_null_alone,
    remove_takes_an_attribute,
    remove_alone_makes_no_item,
    an_update_that_does_nothing_still_makes_an_item,
    add_counts_from_nothing,
    add_is_exact,
    add_to_what_is_no_number_is_refused,
    add_beyond_the_range_is_refused,
    append_makes_and_extends_a_list,
    append_to_what_is_no_list_is_refused,
    add_to_set_makes_and_extends_a_set,
    add_to_set_of_another_type_is_refused,
    delete_from_set_takes_members,
    the_last_member_takes_the_set_with_it,
    delete_from_set_of_another_type_is_refused,
    what_is_no_set_is_refused,
    every_kind_of_action_at_once,
    an_update_answers_with_what_it_is_asked_for,
    an_update_of_a_new_item_has_no_old_one,
    a_refused_update_changes_nothing,
    the_key_cannot_be_updated,
    one_place_cannot_be_updated_twice,
    names_may_be_any,
    a_table_without_a_sort_key,
];

fn key() -> Key {
    Key::new("a", "b")
}

fn update() -> Update {
    Update::new(&MAIN, key())
}

/// The item after an update of another.
async fn after(ground: &Ground, before: Item, update: Update) -> Result<Item, StoreError> {
    ground.store.delete(Delete::new(&MAIN, key())).await.unwrap();
    if !before.is_empty() {
        let whole = before.into_iter().chain(row("a", "b"));
        let whole: std::collections::BTreeMap<_, _> = whole.collect();
        ground.put(&MAIN, whole.into()).await;
    }
    ground.store.update(update).await?;
    let mut item = ground.get(&MAIN, &key()).await.unwrap();
    assert_eq!((item.remove("PK"), item.remove("SK")), (Some("a".into()), Some("b".into())));
    Ok(item)
}

async fn becomes(ground: &Ground, before: Item, update: Update, expected: Item) {
    assert_eq!(after(ground, before, update).await.unwrap(), expected);
}

fn n(text: &str) -> Number {
    text.parse().unwrap()
}

async fn set_makes_an_item(ground: Ground) {
    becomes(&ground, Item::new(), update().set("x", 1), item!({"x": 1})).await;
}

async fn set_leaves_other_attributes_alone(ground: Ground) {
    let before = item!({"x": 1, "y": {"z": [1]}});
    becomes(&ground, before, update().set("x", 2), item!({"x": 2, "y": {"z": [1]}})).await;
}

async fn set_may_change_the_type(ground: Ground) {
    let expected = item!({"x": {"y": []}});
    let map = expected.get("x").unwrap().clone();
    becomes(&ground, item!({"x": 1}), update().set("x", map), expected).await;
}

async fn set_if_absent_sets_once(ground: Ground) {
    let both = || update().set_if_absent("x", 1).set_if_absent("y", 2);
    becomes(&ground, Item::new(), both(), item!({"x": 1, "y": 2})).await;
    becomes(&ground, item!({"x": "there"}), both(), item!({"x": "there", "y": 2})).await;
}

async fn set_if_absent_leaves_null_alone(ground: Ground) {
    becomes(&ground, item!({"x": null}), update().set_if_absent("x", 1), item!({"x": null})).await;
}

async fn remove_takes_an_attribute(ground: Ground) {
    let update = update().remove("x").remove("absent");
    becomes(&ground, item!({"x": 1, "y": 2}), update, item!({"y": 2})).await;
}

/// An exception that DynamoDB makes: every other update makes the item that it does not find, an empty one too.
async fn remove_alone_makes_no_item(ground: Ground) {
    assert_eq!(ground.update(update().remove("x").remove("y")).await, None);
    let made = ground.get(&MAIN, &key()).await.is_some();
    assert_eq!(made, ground.has(Quirk::RemoveMakesAnItem));
    becomes(&ground, Item::new(), update().remove("x").set("y", 1), item!({"y": 1})).await;
}

async fn an_update_that_does_nothing_still_makes_an_item(ground: Ground) {
    becomes(&ground, Item::new(), update(), Item::new()).await;
    becomes(&ground, item!({"x": 1}), update(), item!({"x": 1})).await;
}

async fn add_counts_from_nothing(ground: Ground) {
    becomes(&ground, Item::new(), update().add("x", 5), item!({"x": 5})).await;
    becomes(&ground, item!({"x": 5}), update().add("x", -7).add("y", 0), item!({"x": -2, "y": 0}))
        .await;
}

async fn add_is_exact(ground: Ground) {
    for (a, b, sum) in [
        ("0.1", "0.2", "0.3"),
        ("9007199254740993", "1", "9007199254740994"),
        ("9223372036854775807", "1", "9223372036854775808"),
        ("12345678901234567890123456789012345678", "1", "12345678901234567890123456789012345679"),
        ("1e30", "1e-7", "1000000000000000000000000000000.0000001"),
    ] {
        let before = Item::new().with("x", n(a));
        becomes(&ground, before, update().add("x", n(b)), Item::new().with("x", n(sum))).await;
    }
}

async fn add_to_what_is_no_number_is_refused(ground: Ground) {
    for before in [item!({"x": "1"}), item!({"x": null}), item!({"x": [1]})] {
        assert_refused!(after(&ground, before, update().add("x", 1)).await, _);
    }
}

async fn add_beyond_the_range_is_refused(ground: Ground) {
    let before = Item::new().with("x", n("9e125"));
    assert_refused!(after(&ground, before, update().add("x", n("9e125"))).await, _);
}

async fn append_makes_and_extends_a_list(ground: Ground) {
    let update = || update().append("x", vec![2.into(), "three".into()]);
    becomes(&ground, Item::new(), update(), item!({"x": [2, "three"]})).await;
    becomes(&ground, item!({"x": [1]}), update(), item!({"x": [1, 2, "three"]})).await;
    becomes(&ground, item!({"x": []}), update(), item!({"x": [2, "three"]})).await;
}

async fn append_to_what_is_no_list_is_refused(ground: Ground) {
    let before = Item::new().with("x", Value::texts(["a"]));
    assert_refused!(after(&ground, before, update().append("x", vec![1.into()])).await, _);
}

async fn add_to_set_makes_and_extends_a_set(ground: Ground) {
    let sets = [
        (Value::texts(["a", "b"]), Value::texts(["b", "c"]), Value::texts(["a", "b", "c"])),
        (Value::numbers([1, 2]), Value::numbers([2, 3]), Value::numbers([1, 2, 3])),
        (
            Value::Bs([vec![0]].into()),
            Value::Bs([vec![1]].into()),
            Value::Bs([vec![0], vec![1]].into()),
        ),
    ];
    for (first, second, both) in sets {
        let make = update().add_to_set("x", first.clone());
        becomes(&ground, Item::new(), make, Item::new().with("x", first.clone())).await;
        let extend = update().add_to_set("x", second);
        becomes(&ground, Item::new().with("x", first), extend, Item::new().with("x", both)).await;
    }
}

async fn add_to_set_of_another_type_is_refused(ground: Ground) {
    let add = || update().add_to_set("x", Value::texts(["a"]));
    for before in [item!({"x": ["a"]}), Item::new().with("x", Value::numbers([1])), item!({"x": 1})]
    {
        assert_refused!(after(&ground, before, add()).await, _);
    }
}

async fn delete_from_set_takes_members(ground: Ground) {
    let take = || update().delete_from_set("x", Value::texts(["b", "z"]));
    let (before, rest) = (Value::texts(["a", "b", "c"]), Value::texts(["a", "c"]));
    becomes(&ground, Item::new().with("x", before), take(), Item::new().with("x", rest)).await;
    becomes(&ground, item!({"y": 1}), take(), item!({"y": 1})).await;
}

async fn the_last_member_takes_the_set_with_it(ground: Ground) {
    let before = item!({"y": 1}).with("x", Value::numbers([1, 2]));
    let take = update().delete_from_set("x", Value::numbers([1, 2, 3]));
    becomes(&ground, before, take, item!({"y": 1})).await;
}

async fn delete_from_set_of_another_type_is_refused(ground: Ground) {
    let take = || update().delete_from_set("x", Value::texts(["a"]));
    for before in [item!({"x": ["a"]}), Item::new().with("x", Value::numbers([1]))] {
        assert_refused!(after(&ground, before, take()).await, _);
    }
}

async fn what_is_no_set_is_refused(ground: Ground) {
    let add = update().add_to_set("x", Value::from("a"));
    assert_refused!(ground.store.update(add).await, Invalid::NotASet { .. });
    let empty = update().delete_from_set("x", Value::Ss([].into()));
    assert_refused!(ground.store.update(empty).await, Invalid::EmptySet);
}

async fn every_kind_of_action_at_once(ground: Ground) {
    let before = item!({"set": 1, "there": 1, "list": [1], "gone": 1, "count": 1})
        .with("more", Value::texts(["a"]))
        .with("less", Value::texts(["a", "b"]));
    let update = update()
        .delete_from_set("less", Value::texts(["a"]))
        .set("set", 2)
        .add("count", 1)
        .set_if_absent("there", 2)
        .remove("gone")
        .set_if_absent("absent", 2)
        .add_to_set("more", Value::texts(["b"]))
        .append("list", vec![2.into()]);
    let expected = item!({"set": 2, "there": 1, "absent": 2, "list": [1, 2], "count": 2})
        .with("more", Value::texts(["a", "b"]))
        .with("less", Value::texts(["b"]));
    becomes(&ground, before, update, expected).await;
}

async fn an_update_answers_with_what_it_is_asked_for(ground: Ground) {
    let x = |value: i64| row("a", "b").with("x", value).with("y", "whole");
    ground.put(&MAIN, x(1)).await;
    let add = || update().add("x", 1);
    assert_eq!(ground.update(add().returning(Returns::Old)).await, Some(x(1)));
    assert_eq!(ground.update(add().returning(Returns::New)).await, Some(x(3)));
    assert_eq!(ground.update(add().returning(Returns::Nothing)).await, None);
    assert_eq!(ground.get(&MAIN, &key()).await, Some(x(4)));
}

async fn an_update_of_a_new_item_has_no_old_one(ground: Ground) {
    let old = ground.update(update().set("x", 1).returning(Returns::Old)).await;
    let expected = ground.has(Quirk::NewItemHasAnOldKey).then(|| row("a", "b"));
    assert_eq!(old, expected);
}

async fn a_refused_update_changes_nothing(ground: Ground) {
    ground.put(&MAIN, row("a", "b").with("x", 1).with("s", "text")).await;
    assert_refused!(ground.store.update(update().set("x", 2).add("s", 1)).await, _);
    let new = Update::new(&MAIN, Key::new("a", "new")).set("x", 1).set(Path::of("m").key("k"), 1);
    assert_refused!(ground.store.update(new).await, _);
    assert_eq!(ground.contents(&MAIN).await, [row("a", "b").with("x", 1).with("s", "text")]);
}

async fn the_key_cannot_be_updated(ground: Ground) {
    for action in [
        Action::Set("PK".into(), "a".into()),
        Action::SetIfAbsent("SK".into(), "x".into()),
        Action::Remove("SK".into()),
        Action::Remove(Path::of("PK").key("x")),
        Action::Add("SK".into(), Number::ZERO),
    ] {
        let refused = ground.store.update(update().action(action)).await;
        assert_refused!(refused, Invalid::UpdatesKey { .. });
    }
}

async fn one_place_cannot_be_updated_twice(ground: Ground) {
    let m = || Path::of("m");
    for update in [
        update().set("m", 1).remove("m"),
        update().set("m", 1).set("m", 1),
        update().add("m", 1).set_if_absent("m", 0),
        update().set(m().key("k"), 1).remove("m"),
        update().remove("m").set(m().index(0), 1),
        update().set(m().key("k").index(1), 1).append(m().key("k"), vec![]),
    ] {
        assert_refused!(ground.store.update(update).await, Invalid::Overlap { .. });
    }
}

async fn names_may_be_any(ground: Ground) {
    let names =
        ["a.b", "a[0]", "#", ":v", "set", "$b", "two words", "ü😀", "'\"\\", "occurred_at#id"];
    let mut update = update();
    let mut expected = Item::new();
    for (position, name) in names.into_iter().enumerate() {
        let path = Path::of(name);
        update = if position % 2 == 0 { update.set(path, 1) } else { update.add(name, 1) };
        expected.set(name, 1);
    }
    becomes(&ground, Item::new(), update, expected).await;
}

async fn a_table_without_a_sort_key(ground: Ground) {
    let update = || Update::new(&FEATURE, Key::single("1")).add("x", 1).returning(Returns::New);
    let lead = |x: i64| Item::new().with("lead_organization_id", "1").with("x", x);
    assert_eq!(ground.update(update()).await, Some(lead(1)));
    assert_eq!(ground.update(update()).await, Some(lead(2)));
}
