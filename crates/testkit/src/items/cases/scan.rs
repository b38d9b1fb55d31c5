//! Scans: a whole table, in one go or in parallel segments.

use std::collections::BTreeSet;

use tidings_kernel::{
    Condition, Cursor, Invalid, Item, Scan,
    tables::{FEATURE, INBOX, MAIN},
};

use super::{Case, cases};
use crate::items::ground::{Ground, assert_refused, row, scan};

pub(super) const CASES: &[Case] = &cases![
    a_whole_table,
    an_empty_table,
    a_table_without_a_sort_key,
    other_tables_are_not_seen,
    pages_visit_each_item_once,
    segments_are_disjoint_and_complete,
    segments_in_pages,
    a_filter_keeps_reading,
    a_filter_may_speak_of_the_key,
    a_scan_that_ends_at_a_megabyte_goes_on,
    a_segment_that_does_not_exist_is_refused,
    a_bad_limit_is_refused,
    a_cursor_of_another_table_is_refused,
];

/// 20 partitions of 3 items.
async fn fill(ground: &Ground) -> Vec<Item> {
    let mut items = Vec::new();
    for partition in 0..20 {
        for sort in 0..3 {
            items.push(row(&format!("p{partition:02}"), &sort.to_string()).with("sort", sort));
        }
    }
    ground.put_all(&MAIN, &items).await;
    items
}

async fn a_whole_table(ground: Ground) {
    let items = fill(&ground).await;
    let page = ground.store.scan(Scan::new(&MAIN)).await.unwrap();
    assert_eq!(page.items.len(), items.len());
    assert_eq!(page.cursor, None);
    assert_eq!(ground.contents(&MAIN).await, items);
}

async fn an_empty_table(ground: Ground) {
    let page = ground.store.scan(Scan::new(&MAIN)).await.unwrap();
    assert_eq!((page.items, page.cursor), (vec![], None));
}

async fn a_table_without_a_sort_key(ground: Ground) {
    let lead = |id: usize| Item::new().with("lead_organization_id", format!("{id:02}"));
    let leads: Vec<Item> = (0..30).map(lead).collect();
    ground.put_all(&FEATURE, &leads).await;
    assert_eq!(scan(&*ground.store, Scan::new(&FEATURE).limit(7)).await, leads);
}

async fn other_tables_are_not_seen(ground: Ground) {
    ground.put(&MAIN, row("a", "b")).await;
    ground.put(&INBOX, row("c", "d")).await;
    assert_eq!(ground.contents(&MAIN).await, [row("a", "b")]);
}

async fn pages_visit_each_item_once(ground: Ground) {
    let items = fill(&ground).await;
    for limit in [1, 7, 59, 60, 61] {
        assert_eq!(scan(&*ground.store, Scan::new(&MAIN).limit(limit)).await, items, "{limit}");
    }
}

async fn each_once(ground: &Ground, limit: usize) {
    let items = fill(ground).await;
    for of in [1, 2, 5, 64] {
        let mut found = Vec::new();
        for segment in 0..of {
            let part = Scan::new(&MAIN).segment(segment, of).limit(limit);
            found.extend(scan(&*ground.store, part).await);
        }
        assert_eq!(found.len(), items.len(), "{of} segments");
        found.sort_by_cached_key(|item| MAIN.key_of(item).unwrap());
        assert_eq!(found, items, "{of} segments");
    }
}

async fn segments_are_disjoint_and_complete(ground: Ground) {
    each_once(&ground, 100).await;
}

async fn segments_in_pages(ground: Ground) {
    each_once(&ground, 4).await;
}

async fn a_filter_keeps_reading(ground: Ground) {
    fill(&ground).await;
    let filter = Condition::eq("sort", 1);
    let page = ground.store.scan(Scan::new(&MAIN).filter(filter.clone()).limit(15)).await.unwrap();
    assert_eq!(page.items.len(), 15);
    assert!(page.cursor.is_some());
    let all = scan(&*ground.store, Scan::new(&MAIN).filter(filter).limit(6)).await;
    assert_eq!(all.len(), 20);
    let none = Scan::new(&MAIN).filter(Condition::exists("no")).limit(1);
    assert_eq!(scan(&*ground.store, none).await, []);
}

async fn a_filter_may_speak_of_the_key(ground: Ground) {
    fill(&ground).await;
    let begins = Condition::BeginsWith("PK".into(), "p1".into());
    let found =
        scan(&*ground.store, Scan::new(&MAIN).filter(begins.and(Condition::eq("SK", "2")))).await;
    let partitions: BTreeSet<&str> = found.iter().map(|item| item.text("PK").unwrap()).collect();
    assert_eq!((found.len(), partitions.len()), (10, 10));
}

async fn a_scan_that_ends_at_a_megabyte_goes_on(ground: Ground) {
    let text = "x".repeat(300 * 1024);
    for number in 0..6 {
        ground.put(&MAIN, row(&number.to_string(), "s").with("text", text.as_str())).await;
    }
    let page = ground.store.scan(Scan::new(&MAIN)).await.unwrap();
    assert!((1..6).contains(&page.items.len()));
    assert!(page.cursor.is_some());
    assert_eq!(ground.contents(&MAIN).await.len(), 6);
}

async fn a_segment_that_does_not_exist_is_refused(ground: Ground) {
    for (segment, of) in [(0, 0), (1, 1), (7, 5), (0, 1025)] {
        let page = ground.store.scan(Scan::new(&MAIN).segment(segment, of)).await;
        assert_refused!(page, Invalid::BadSegment { .. });
    }
}

async fn a_bad_limit_is_refused(ground: Ground) {
    for limit in [0, 10_001] {
        let page = ground.store.scan(Scan::new(&MAIN).limit(limit)).await;
        assert_refused!(page, Invalid::BadLimit);
    }
}

async fn a_cursor_of_another_table_is_refused(ground: Ground) {
    fill(&ground).await;
    let cursor = ground.store.scan(Scan::new(&MAIN).limit(1)).await.unwrap().cursor;
    let other = ground.store.scan(Scan::new(&INBOX).after(cursor)).await;
    assert_refused!(other, Invalid::BadCursor);
    let garbage = Some(Cursor::from("garbage".to_owned()));
    assert_refused!(ground.store.scan(Scan::new(&MAIN).after(garbage)).await, Invalid::BadCursor);
}
