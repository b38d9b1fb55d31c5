//! Cursors: going on where a page ended, whatever happened meanwhile.

use tidings_kernel::{
    Cursor, Delete, Invalid, Key, Query,
    tables::{EVENTS, INBOX, MAIN},
};

use super::{Case, cases};
use crate::items::ground::{Ground, assert_refused, row, sorts};

pub(super) const CASES: &[Case] = &cases![
    pages_visit_each_item_once,
    pages_visit_each_item_once_backward,
    pages_of_a_range,
    a_page_that_ends_with_the_data_has_no_cursor,
    a_cursor_is_text_and_comes_back,
    the_limit_may_change_from_page_to_page,
    a_cursor_outlives_its_item,
    a_cursor_outlives_its_item_backward,
    items_that_come_after_the_cursor_are_seen,
    items_that_come_before_the_cursor_are_not,
    odd_keys_are_paged_too,
    a_cursor_of_another_table_is_refused,
    a_cursor_of_an_index_is_refused_by_the_table,
    a_cursor_of_another_partition_is_refused,
    a_cursor_outside_the_range_is_refused,
    garbage_is_refused,
];

async fn letters(ground: &Ground) {
    for sort in ["a", "b", "c", "d", "e"] {
        ground.put(&MAIN, row("p", sort)).await;
    }
}

async fn first_page(ground: &Ground, query: Query) -> Cursor {
    ground.store.query(query).await.unwrap().cursor.unwrap()
}

async fn pages_visit_each_item_once(ground: Ground) {
    letters(&ground).await;
    for (limit, sizes) in [(1, &[1; 5][..]), (2, &[2, 2, 1]), (3, &[3, 2]), (4, &[4, 1]), (5, &[5])]
    {
        let pages = ground.pages(Query::new(&MAIN, "p").limit(limit)).await;
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), sizes);
        assert_eq!(sorts(&pages.concat()), ["a", "b", "c", "d", "e"]);
    }
}

async fn pages_visit_each_item_once_backward(ground: Ground) {
    letters(&ground).await;
    for limit in 1..=6 {
        let pages = ground.pages(Query::new(&MAIN, "p").limit(limit).backward()).await;
        assert_eq!(sorts(&pages.concat()), ["e", "d", "c", "b", "a"]);
    }
}

async fn pages_of_a_range(ground: Ground) {
    letters(&ground).await;
    let query = || Query::new(&MAIN, "p").between("b", "d").limit(2);
    assert_eq!(sorts(&ground.pages(query()).await.concat()), ["b", "c", "d"]);
    assert_eq!(sorts(&ground.pages(query().backward()).await.concat()), ["d", "c", "b"]);
}

async fn a_page_that_ends_with_the_data_has_no_cursor(ground: Ground) {
    letters(&ground).await;
    for query in [
        Query::new(&MAIN, "p").limit(5),
        Query::new(&MAIN, "p").limit(5).backward(),
        Query::new(&MAIN, "p").between("b", "c").limit(2),
        Query::new(&MAIN, "p").between("b", "c").limit(2).backward(),
        Query::new(&MAIN, "p").begins_with("a").limit(1),
    ] {
        let page = ground.store.query(query).await.unwrap();
        assert_eq!(page.cursor, None);
    }
}

async fn a_cursor_is_text_and_comes_back(ground: Ground) {
    letters(&ground).await;
    let cursor = first_page(&ground, Query::new(&MAIN, "p").limit(2)).await;
    let text = cursor.as_str().to_owned();
    assert!(text.is_ascii() && !text.is_empty());
    let query = Query::new(&MAIN, "p").after(Some(Cursor::from(text)));
    assert_eq!(sorts(&ground.query(query).await), ["c", "d", "e"]);
}

async fn the_limit_may_change_from_page_to_page(ground: Ground) {
    letters(&ground).await;
    let cursor = first_page(&ground, Query::new(&MAIN, "p").limit(1)).await;
    let query = Query::new(&MAIN, "p").limit(3).after(Some(cursor));
    let page = ground.store.query(query).await.unwrap();
    assert_eq!(sorts(&page.items), ["b", "c", "d"]);
}

async fn a_cursor_outlives_its_item(ground: Ground) {
    letters(&ground).await;
    let cursor = first_page(&ground, Query::new(&MAIN, "p").limit(2)).await;
    ground.store.delete(Delete::new(&MAIN, Key::new("p", "b"))).await.unwrap();
    let query = Query::new(&MAIN, "p").after(Some(cursor));
    assert_eq!(sorts(&ground.query(query).await), ["c", "d", "e"]);
}

async fn a_cursor_outlives_its_item_backward(ground: Ground) {
    letters(&ground).await;
    let cursor = first_page(&ground, Query::new(&MAIN, "p").limit(2).backward()).await;
    ground.store.delete(Delete::new(&MAIN, Key::new("p", "d"))).await.unwrap();
    let query = Query::new(&MAIN, "p").backward().after(Some(cursor));
    assert_eq!(sorts(&ground.query(query).await), ["c", "b", "a"]);
}

async fn items_that_come_after_the_cursor_are_seen(ground: Ground) {
    letters(&ground).await;
    let cursor = first_page(&ground, Query::new(&MAIN, "p").limit(4)).await;
    ground.put_all(&MAIN, &[row("p", "dd"), row("p", "f")]).await;
    let query = Query::new(&MAIN, "p").after(Some(cursor));
    assert_eq!(sorts(&ground.query(query).await), ["dd", "e", "f"]);
}

async fn items_that_come_before_the_cursor_are_not(ground: Ground) {
    letters(&ground).await;
    let cursor = first_page(&ground, Query::new(&MAIN, "p").limit(2)).await;
    ground.put_all(&MAIN, &[row("p", "A"), row("p", "aa")]).await;
    let query = Query::new(&MAIN, "p").after(Some(cursor));
    assert_eq!(sorts(&ground.query(query).await), ["c", "d", "e"]);
}

async fn odd_keys_are_paged_too(ground: Ground) {
    let partition = "p\"\\ \u{1} 😀#";
    let odd = ["\u{1}", "\"", "#|,", "\\", "{}", "é", "\u{FFFF}", "😀"];
    for sort in odd {
        ground.put(&MAIN, row(partition, sort)).await;
    }
    let pages = ground.pages(Query::new(&MAIN, partition).limit(1)).await;
    assert_eq!(sorts(&pages.concat()), odd);
}

async fn a_cursor_of_another_table_is_refused(ground: Ground) {
    letters(&ground).await;
    let cursor = first_page(&ground, Query::new(&MAIN, "p").limit(1)).await;
    let query = Query::new(&INBOX, "p").after(Some(cursor));
    assert_refused!(ground.store.query(query).await, Invalid::BadCursor);
}

async fn a_cursor_of_an_index_is_refused_by_the_table(ground: Ground) {
    for sort in ["a", "b"] {
        let event = row("t", sort).with("templateKey", "t").with("sequenceId", "t");
        ground.put(&EVENTS, event).await;
    }
    let on = |index| Query::new(&EVENTS, "t").index(index).limit(1);
    let table = first_page(&ground, Query::new(&EVENTS, "t").limit(1)).await;
    let template = first_page(&ground, on("TemplateIndex")).await;
    for (query, cursor) in [
        (Query::new(&EVENTS, "t"), template.clone()),
        (on("TemplateIndex"), table),
        (on("SequenceIndex"), template),
    ] {
        let page = ground.store.query(query.after(Some(cursor))).await;
        assert_refused!(page, Invalid::BadCursor);
    }
}

async fn a_cursor_of_another_partition_is_refused(ground: Ground) {
    letters(&ground).await;
    ground.put(&MAIN, row("q", "z")).await;
    let cursor = first_page(&ground, Query::new(&MAIN, "p").limit(1)).await;
    let query = Query::new(&MAIN, "q").after(Some(cursor));
    assert_refused!(ground.store.query(query).await, Invalid::BadCursor);
}

async fn a_cursor_outside_the_range_is_refused(ground: Ground) {
    letters(&ground).await;
    let cursor = first_page(&ground, Query::new(&MAIN, "p").limit(1)).await;
    let query = Query::new(&MAIN, "p").begins_with("c").after(Some(cursor));
    assert_refused!(ground.store.query(query).await, Invalid::BadCursor);
}

async fn garbage_is_refused(ground: Ground) {
    letters(&ground).await;
    for garbage in ["", "x", "!!!", "AAAA", "bnVsbA", "e30", "W10", "ä", "a b", "\0"] {
        let query = Query::new(&MAIN, "p").after(Some(Cursor::from(garbage.to_owned())));
        assert_refused!(ground.store.query(query).await, Invalid::BadCursor);
    }
}
