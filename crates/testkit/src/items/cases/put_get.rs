//! Put, get and delete of single items.

use tidings_kernel::{
    Delete, Invalid, Item, Key, Put,
    tables::{FEATURE, INBOX, MAIN},
};

use super::{Case, cases};
use crate::items::ground::{Ground, assert_refused, item, row};

pub(super) const CASES: &[Case] = &cases![
    what_is_put_is_read_back,
    there_is_nothing_under_a_new_key,
    a_put_answers_with_what_was_there,
    a_put_replaces_the_whole_item,
    keys_are_told_apart_by_every_byte,
    a_key_is_not_its_two_parts_in_a_row,
    a_table_may_have_no_sort_key,
    one_key_in_two_tables_is_two_items,
    a_delete_answers_with_what_was_there,
    a_delete_of_nothing_is_no_error,
    a_deleted_item_can_be_put_again,
    a_delete_leaves_its_neighbours_alone,
    a_put_without_its_key_is_refused,
    a_key_that_is_no_string_is_refused,
    a_key_of_the_wrong_shape_is_refused,
];

async fn what_is_put_is_read_back(ground: Ground) {
    let item = item!({"PK": "a", "SK": "b", "x": 1});
    assert_eq!(ground.put(&MAIN, item.clone()).await, None);
    assert_eq!(ground.get(&MAIN, &Key::new("a", "b")).await, Some(item));
}

async fn there_is_nothing_under_a_new_key(ground: Ground) {
    ground.put(&MAIN, row("a", "b")).await;
    for key in [Key::new("a", "c"), Key::new("b", "b"), Key::new("a", "bb"), Key::new("aa", "b")] {
        assert_eq!(ground.get(&MAIN, &key).await, None, "{key}");
    }
}

async fn a_put_answers_with_what_was_there(ground: Ground) {
    let (first, second) = (row("a", "b").with("x", 1), row("a", "b").with("x", 2));
    assert_eq!(ground.put(&MAIN, first.clone()).await, None);
    assert_eq!(ground.put(&MAIN, second.clone()).await, Some(first));
    assert_eq!(ground.put(&MAIN, second.clone()).await, Some(second));
}

async fn a_put_replaces_the_whole_item(ground: Ground) {
    ground.put(&MAIN, item!({"PK": "a", "SK": "b", "x": 1, "y": {"z": 1}})).await;
    ground.put(&MAIN, item!({"PK": "a", "SK": "b", "w": 2})).await;
    let expected = item!({"PK": "a", "SK": "b", "w": 2});
    assert_eq!(ground.get(&MAIN, &Key::new("a", "b")).await, Some(expected));
}

async fn keys_are_told_apart_by_every_byte(ground: Ground) {
    let names =
        ["a", "A", "a ", " a", "a%", "a_", "ä", "a\u{308}", "ａ", "ß", "ss", "1", "01", "1.0", "'"];
    for name in names {
        ground.put(&MAIN, row(name, "s").with("is", name)).await;
        ground.put(&MAIN, row("p", name).with("is", name)).await;
    }
    for name in names {
        for key in [Key::new(name, "s"), Key::new("p", name)] {
            let found = ground.get(&MAIN, &key).await.unwrap();
            assert_eq!(found.text("is"), Some(name), "{key}");
        }
    }
}

async fn a_key_is_not_its_two_parts_in_a_row(ground: Ground) {
    let keys = [("a#", "b"), ("a", "#b"), ("a#b", "c"), ("a", "b#c"), ("ab", "c"), ("a", "bc")];
    for (partition, sort) in keys {
        assert_eq!(ground.put(&MAIN, row(partition, sort)).await, None, "{partition} {sort}");
    }
}

async fn a_table_may_have_no_sort_key(ground: Ground) {
    let item = item!({"lead_organization_id": "1", "x": 1});
    assert_eq!(ground.put(&FEATURE, item.clone()).await, None);
    assert_eq!(ground.get(&FEATURE, &Key::single("1")).await, Some(item.clone()));
    let deleted = ground.store.delete(Delete::new(&FEATURE, Key::single("1"))).await.unwrap();
    assert_eq!(deleted, Some(item));
    assert_eq!(ground.get(&FEATURE, &Key::single("1")).await, None);
}

async fn one_key_in_two_tables_is_two_items(ground: Ground) {
    ground.put(&MAIN, row("a", "b").with("in", "main")).await;
    ground.put(&INBOX, row("a", "b").with("in", "inbox")).await;
    let key = Key::new("a", "b");
    assert_eq!(ground.get(&MAIN, &key).await.unwrap().text("in"), Some("main"));
    assert_eq!(ground.get(&INBOX, &key).await.unwrap().text("in"), Some("inbox"));
}

async fn a_delete_answers_with_what_was_there(ground: Ground) {
    let item = row("a", "b").with("x", 1);
    ground.put(&MAIN, item.clone()).await;
    let delete = Delete::new(&MAIN, Key::new("a", "b"));
    assert_eq!(ground.store.delete(delete.clone()).await.unwrap(), Some(item));
    assert_eq!(ground.store.delete(delete).await.unwrap(), None);
    assert_eq!(ground.get(&MAIN, &Key::new("a", "b")).await, None);
}

async fn a_delete_of_nothing_is_no_error(ground: Ground) {
    let delete = Delete::new(&MAIN, Key::new("a", "b"));
    assert_eq!(ground.store.delete(delete).await.unwrap(), None);
}

async fn a_deleted_item_can_be_put_again(ground: Ground) {
    ground.put(&MAIN, row("a", "b").with("x", 1)).await;
    ground.store.delete(Delete::new(&MAIN, Key::new("a", "b"))).await.unwrap();
    assert_eq!(ground.put(&MAIN, row("a", "b").with("x", 2)).await, None);
    assert_eq!(ground.contents(&MAIN).await, [row("a", "b").with("x", 2)]);
}

async fn a_delete_leaves_its_neighbours_alone(ground: Ground) {
    ground.put_all(&MAIN, &[row("a", "1"), row("a", "2"), row("a", "3"), row("b", "2")]).await;
    ground.store.delete(Delete::new(&MAIN, Key::new("a", "2"))).await.unwrap();
    assert_eq!(ground.contents(&MAIN).await, [row("a", "1"), row("a", "3"), row("b", "2")]);
}

async fn a_put_without_its_key_is_refused(ground: Ground) {
    for item in [Item::new(), Item::new().with("PK", "a"), Item::new().with("SK", "b")] {
        let put = ground.store.put(Put::new(&MAIN, item)).await;
        assert_refused!(put, Invalid::KeyMissing { .. });
    }
}

async fn a_key_that_is_no_string_is_refused(ground: Ground) {
    for item in [row("a", "b").with("PK", 1), row("a", "b").with("SK", vec![1u8])] {
        let put = ground.store.put(Put::new(&MAIN, item)).await;
        assert_refused!(put, Invalid::KeyType { .. });
    }
}

async fn a_key_of_the_wrong_shape_is_refused(ground: Ground) {
    let half = ground.store.get(&MAIN, &Key::single("a")).await;
    assert_refused!(half, Invalid::KeyShape { .. });
    let more = ground.store.delete(Delete::new(&FEATURE, Key::new("a", "b"))).await;
    assert_refused!(more, Invalid::KeyShape { .. });
}
