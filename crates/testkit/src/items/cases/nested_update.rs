//! Updates of places inside maps and lists.

use tidings_kernel::{Item, Key, Path, Update, Value, tables::MAIN};

use super::{Case, cases};
use crate::items::Quirk;
use crate::items::ground::{Ground, assert_refused};

pub(super) const CASES: &[Case] = &cases![
    a_place_in_a_map_is_set,
    a_place_in_a_list_is_set,
    a_position_past_the_end_means_the_end,
    several_positions_past_the_end_keep_their_order,
    what_lies_beside_is_left_alone,
    set_if_absent_inside_a_map,
    append_inside_a_map,
    remove_inside_a_map,
    removed_elements_are_named_by_their_old_positions,
    setting_and_removing_in_one_list,
    removing_what_is_not_there_is_no_error,
    a_place_in_nothing_is_refused,
    a_place_in_the_wrong_kind_of_thing_is_refused,
    removing_from_an_item_that_is_not_there,
    names_with_dots_are_names,
];

fn key() -> Key {
    Key::new("a", "b")
}

fn m() -> Path {
    Path::of("m")
}

fn update() -> Update {
    Update::new(&MAIN, key())
}

async fn put(ground: &Ground, m: Value) {
    ground.put(&MAIN, MAIN.bare_item(&key()).with("m", m)).await;
}

fn json(json: serde_json::Value) -> Value {
    serde_json::from_value(json).unwrap()
}

/// `m` before and after an update.
async fn becomes(
    ground: &Ground,
    before: serde_json::Value,
    update: Update,
    expected: serde_json::Value,
) {
    put(ground, json(before)).await;
    ground.update(update).await;
    let item = ground.get(&MAIN, &key()).await.unwrap();
    assert_eq!(item.get("m"), Some(&json(expected)));
}

async fn refused(ground: &Ground, before: serde_json::Value, update: Update) {
    put(ground, json(before.clone())).await;
    assert_refused!(ground.store.update(update).await, _);
    let item = ground.get(&MAIN, &key()).await.unwrap();
    assert_eq!(item.get("m"), Some(&json(before)));
}

macro_rules! json {
    ($($json:tt)+) => { serde_json::json!($($json)+) };
}

async fn a_place_in_a_map_is_set(ground: Ground) {
    becomes(&ground, json!({"k": 1}), update().set(m().key("k"), 2), json!({"k": 2})).await;
    becomes(&ground, json!({}), update().set(m().key("k"), 2), json!({"k": 2})).await;
    let deep = update().set(m().key("x").index(0).key("y"), 2);
    becomes(&ground, json!({"x": [{"y": 1}]}), deep, json!({"x": [{"y": 2}]})).await;
}

async fn a_place_in_a_list_is_set(ground: Ground) {
    becomes(&ground, json!([1, 2, 3]), update().set(m().index(1), 9), json!([1, 9, 3])).await;
}

async fn a_position_past_the_end_means_the_end(ground: Ground) {
    becomes(&ground, json!([1]), update().set(m().index(7), 2), json!([1, 2])).await;
    becomes(&ground, json!([]), update().set(m().index(0), 1), json!([1])).await;
}

async fn several_positions_past_the_end_keep_their_order(ground: Ground) {
    let update = update().set(m().index(9), "nine").set(m().index(5), "five").set(m().index(0), 0);
    becomes(&ground, json!([1]), update, json!([0, "five", "nine"])).await;
}

async fn what_lies_beside_is_left_alone(ground: Ground) {
    let before = json!({"x": 3, "y": 4, "c": {"y": 3}});
    let update =
        update().set(m().key("b"), 10).set(m().key("c").key("d"), "dog").remove(m().key("x"));
    becomes(&ground, before, update, json!({"y": 4, "b": 10, "c": {"y": 3, "d": "dog"}})).await;
}

async fn set_if_absent_inside_a_map(ground: Ground) {
    let update = update().set_if_absent(m().key("a"), 1).set_if_absent(m().key("b"), 1);
    becomes(&ground, json!({"a": 0}), update, json!({"a": 0, "b": 1})).await;
}

async fn append_inside_a_map(ground: Ground) {
    let update = update().append(m().key("a"), vec![2.into()]).append(m().key("b"), vec![3.into()]);
    becomes(&ground, json!({"a": [1]}), update, json!({"a": [1, 2], "b": [3]})).await;
}

async fn remove_inside_a_map(ground: Ground) {
    let update = update().remove(m().key("a").key("x")).remove(m().key("b"));
    becomes(&ground, json!({"a": {"x": 1, "y": 2}, "b": []}), update, json!({"a": {"y": 2}})).await;
}

async fn removed_elements_are_named_by_their_old_positions(ground: Ground) {
    let update = update().remove(m().index(0)).remove(m().index(3)).remove(m().index(1));
    becomes(&ground, json!([0, 1, 2, 3, 4]), update, json!([2, 4])).await;
}

async fn setting_and_removing_in_one_list(ground: Ground) {
    let update = update().remove(m().index(0)).set(m().index(1), "one").set(m().index(9), "end");
    becomes(&ground, json!([0, 1, 2]), update, json!(["one", 2, "end"])).await;
}

async fn removing_what_is_not_there_is_no_error(ground: Ground) {
    becomes(&ground, json!({"k": 1}), update().remove(m().key("x")), json!({"k": 1})).await;
    becomes(&ground, json!([1]), update().remove(m().index(1)), json!([1])).await;
}

async fn a_place_in_nothing_is_refused(ground: Ground) {
    let absent = || Path::of("absent").key("k");
    refused(&ground, json!({}), update().set(absent(), 1)).await;
    refused(&ground, json!({}), update().set(m().key("x").key("y"), 1)).await;
    refused(&ground, json!({}), update().set_if_absent(absent(), 1)).await;
    refused(&ground, json!({}), update().append(absent(), vec![1.into()])).await;
    refused(&ground, json!({}), update().remove(absent())).await;
    refused(&ground, json!([]), update().set(m().index(0).key("x"), 1)).await;
}

async fn a_place_in_the_wrong_kind_of_thing_is_refused(ground: Ground) {
    refused(&ground, json!("text"), update().set(m().key("k"), 1)).await;
    refused(&ground, json!([1]), update().set(m().key("k"), 1)).await;
    refused(&ground, json!({"k": 1}), update().set(m().index(0), 1)).await;
    refused(&ground, json!({"k": 1}), update().append(m().key("k"), vec![1.into()])).await;
}

/// An oddity of DynamoDB: a place in nothing cannot be removed from an item, but it can be from no item.
async fn removing_from_an_item_that_is_not_there(ground: Ground) {
    let removed =
        ground.store.update(update().remove(m().key("x")).remove(Path::of("l").index(0))).await;
    if ground.has(Quirk::RemoveMakesAnItem) {
        assert_refused!(removed, _);
    } else {
        assert_eq!(removed.unwrap(), None);
    }
    assert_eq!(ground.get(&MAIN, &key()).await, None);
}

async fn names_with_dots_are_names(ground: Ground) {
    let update = update().set(m().key("a.b"), 2).set(Path::of("m.a"), 3).remove(m().key("c[0]"));
    becomes(&ground, json!({"a": {"b": 1}, "c[0]": 1}), update, json!({"a": {"b": 1}, "a.b": 2}))
        .await;
    let item: Item = ground.get(&MAIN, &key()).await.unwrap();
    assert_eq!(item.integer("m.a"), Some(3));
}
