//! Queries of one partition: ranges, order, limits.

use tidings_kernel::{
    Invalid, Item, MAX_PAGE_BYTES, Query, SortRange,
    tables::{FEATURE, MAIN},
};

use super::{Case, cases};
use crate::items::ground::{Ground, assert_refused, row, sorts};

pub(super) const CASES: &[Case] = &cases![
    a_partition_in_the_order_of_its_sort_keys,
    a_partition_backward,
    other_partitions_are_not_seen,
    a_partition_with_nothing_in_it,
    equal,
    begins_with,
    between_includes_both_ends,
    less,
    less_or_equal,
    greater,
    greater_or_equal,
    ranges_work_backward_too,
    sort_keys_compare_as_bytes,
    a_prefix_of_the_last_characters,
    a_prefix_before_the_surrogates,
    a_prefix_is_no_pattern,
    a_limit_ends_the_page,
    a_limit_out_of_range_is_refused,
    a_page_ends_at_a_megabyte,
    a_table_without_a_sort_key,
    a_range_without_a_sort_key_is_refused,
    a_range_that_ends_before_it_begins_is_refused,
    bad_keys_are_refused,
    an_index_that_is_not_there_is_refused,
];

async fn letters(ground: &Ground) {
    for sort in ["d", "b", "a", "c", "bb", "e"] {
        ground.put(&MAIN, row("p", sort)).await;
    }
}

async fn finds(ground: &Ground, range: SortRange, expected: &[&str]) {
    let found = ground.query(Query::new(&MAIN, "p").range(range)).await;
    assert_eq!(sorts(&found), expected);
}

async fn a_partition_in_the_order_of_its_sort_keys(ground: Ground) {
    letters(&ground).await;
    finds(&ground, SortRange::All, &["a", "b", "bb", "c", "d", "e"]).await;
}

async fn a_partition_backward(ground: Ground) {
    letters(&ground).await;
    let found = ground.query(Query::new(&MAIN, "p").backward()).await;
    assert_eq!(sorts(&found), ["e", "d", "c", "bb", "b", "a"]);
}

async fn other_partitions_are_not_seen(ground: Ground) {
    for partition in ["p", "pp", "P", "p ", "o", "q"] {
        ground.put(&MAIN, row(partition, "s").with("of", partition)).await;
    }
    assert_eq!(ground.query(Query::new(&MAIN, "p")).await, [row("p", "s").with("of", "p")]);
}

async fn a_partition_with_nothing_in_it(ground: Ground) {
    assert_eq!(ground.query(Query::new(&MAIN, "p")).await, []);
    assert_eq!(ground.query(Query::new(&MAIN, "p").begins_with("x").backward()).await, []);
}

async fn equal(ground: Ground) {
    letters(&ground).await;
    finds(&ground, SortRange::Eq("b".into()), &["b"]).await;
    finds(&ground, SortRange::Eq("ab".into()), &[]).await;
}

async fn begins_with(ground: Ground) {
    letters(&ground).await;
    finds(&ground, SortRange::BeginsWith("b".into()), &["b", "bb"]).await;
    finds(&ground, SortRange::BeginsWith("bbb".into()), &[]).await;
}

async fn between_includes_both_ends(ground: Ground) {
    letters(&ground).await;
    finds(&ground, SortRange::Between("b".into(), "d".into()), &["b", "bb", "c", "d"]).await;
    finds(&ground, SortRange::Between("c".into(), "c".into()), &["c"]).await;
    finds(&ground, SortRange::Between("ba".into(), "bz".into()), &["bb"]).await;
    finds(&ground, SortRange::Between("f".into(), "z".into()), &[]).await;
}

async fn less(ground: Ground) {
    letters(&ground).await;
    finds(&ground, SortRange::Lt("bb".into()), &["a", "b"]).await;
    finds(&ground, SortRange::Lt("a".into()), &[]).await;
}

async fn less_or_equal(ground: Ground) {
    letters(&ground).await;
    finds(&ground, SortRange::Le("bb".into()), &["a", "b", "bb"]).await;
}

async fn greater(ground: Ground) {
    letters(&ground).await;
    finds(&ground, SortRange::Gt("c".into()), &["d", "e"]).await;
    finds(&ground, SortRange::Gt("e".into()), &[]).await;
}

async fn greater_or_equal(ground: Ground) {
    letters(&ground).await;
    finds(&ground, SortRange::Ge("c".into()), &["c", "d", "e"]).await;
}

async fn ranges_work_backward_too(ground: Ground) {
    letters(&ground).await;
    for (range, expected) in [
        (SortRange::Between("b".into(), "c".into()), &["c", "bb", "b"][..]),
        (SortRange::BeginsWith("b".into()), &["bb", "b"]),
        (SortRange::Lt("bb".into()), &["b", "a"]),
        (SortRange::Ge("d".into()), &["e", "d"]),
        (SortRange::Eq("d".into()), &["d"]),
    ] {
        let found = ground.query(Query::new(&MAIN, "p").range(range).backward()).await;
        assert_eq!(sorts(&found), expected);
    }
}

/// Not by a locale, not by case, not as UTF-16.
async fn sort_keys_compare_as_bytes(ground: Ground) {
    let sorted = [
        "\u{1}",
        " ",
        "#",
        "10",
        "9",
        "A",
        "B",
        "_",
        "a",
        "aa",
        "a\u{301}",
        "z",
        "~",
        "é",
        "ö",
        "\u{D7FF}",
        "\u{E000}",
        "\u{FFFF}",
        "\u{10000}",
        "😀",
        "\u{10FFFF}",
    ];
    for sort in sorted.iter().rev() {
        ground.put(&MAIN, row("p", sort)).await;
    }
    finds(&ground, SortRange::All, &sorted).await;
    finds(&ground, SortRange::Gt("\u{E000}".into()), &sorted[17..]).await;
    finds(&ground, SortRange::Le("A".into()), &sorted[..6]).await;
}

/// There is no next character after these, so an upper bound cannot be made by counting one up.
async fn a_prefix_of_the_last_characters(ground: Ground) {
    let last = char::MAX.to_string();
    let twice = last.repeat(2);
    let before = "\u{10FFFE}".to_owned() + &last;
    for sort in ["a", &before, &last, &twice] {
        ground.put(&MAIN, row("p", sort)).await;
    }
    finds(&ground, SortRange::BeginsWith(last.clone()), &[&last, &twice]).await;
    finds(&ground, SortRange::BeginsWith(twice.clone()), &[&twice]).await;
    finds(&ground, SortRange::BeginsWith(before.clone()), &[&before]).await;
}

/// After U+D7FF come the surrogates, which are no characters.
async fn a_prefix_before_the_surrogates(ground: Ground) {
    for sort in ["\u{D7FE}", "\u{D7FF}", "\u{D7FF}x", "\u{E000}"] {
        ground.put(&MAIN, row("p", sort)).await;
    }
    finds(&ground, SortRange::BeginsWith("\u{D7FF}".into()), &["\u{D7FF}", "\u{D7FF}x"]).await;
}

async fn a_prefix_is_no_pattern(ground: Ground) {
    for sort in ["a%b", "a_b", "axb", "a%", "A%b", "a\\b", "a*b"] {
        ground.put(&MAIN, row("p", sort)).await;
    }
    finds(&ground, SortRange::BeginsWith("a%".into()), &["a%", "a%b"]).await;
    finds(&ground, SortRange::BeginsWith("a_".into()), &["a_b"]).await;
    finds(&ground, SortRange::BeginsWith("a*".into()), &["a*b"]).await;
    finds(&ground, SortRange::BeginsWith("a\\".into()), &["a\\b"]).await;
}

async fn a_limit_ends_the_page(ground: Ground) {
    letters(&ground).await;
    let page = ground.store.query(Query::new(&MAIN, "p").limit(2)).await.unwrap();
    assert_eq!(sorts(&page.items), ["a", "b"]);
    assert!(page.cursor.is_some());
}

async fn a_limit_out_of_range_is_refused(ground: Ground) {
    for limit in [0, 10_001] {
        let page = ground.store.query(Query::new(&MAIN, "p").limit(limit)).await;
        assert_refused!(page, Invalid::BadLimit);
    }
    ground.store.query(Query::new(&MAIN, "p").limit(10_000)).await.unwrap();
}

async fn a_page_ends_at_a_megabyte(ground: Ground) {
    let text = "x".repeat(300 * 1024);
    for number in 0..8 {
        ground.put(&MAIN, row("p", &number.to_string()).with("text", text.as_str())).await;
    }
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let query = Query::new(&MAIN, "p").after(cursor);
        let page = ground.store.query(query).await.unwrap();
        let bytes: usize = page.items.iter().map(Item::size).sum();
        assert!(bytes <= MAX_PAGE_BYTES + text.len() + 100, "a page of {bytes} bytes");
        assert!(page.items.len() < 8, "all in one page");
        seen.extend(page.items.iter().map(|item| item.text("SK").unwrap().to_owned()));
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

async fn a_table_without_a_sort_key(ground: Ground) {
    let lead = |id: &str| Item::new().with("lead_organization_id", id);
    ground.put_all(&FEATURE, &[lead("1"), lead("2")]).await;
    assert_eq!(ground.query(Query::new(&FEATURE, "1")).await, [lead("1")]);
    assert_eq!(ground.query(Query::new(&FEATURE, "2").limit(1).backward()).await, [lead("2")]);
    assert_eq!(ground.query(Query::new(&FEATURE, "3")).await, []);
}

async fn a_range_without_a_sort_key_is_refused(ground: Ground) {
    let query = Query::new(&FEATURE, "1").begins_with("x");
    assert_refused!(ground.store.query(query).await, Invalid::KeyShape { .. });
}

async fn a_range_that_ends_before_it_begins_is_refused(ground: Ground) {
    let query = Query::new(&MAIN, "p").between("b", "a");
    assert_refused!(ground.store.query(query).await, Invalid::EmptyRange);
}

async fn bad_keys_are_refused(ground: Ground) {
    let (empty, nul) = (String::new(), "a\0b".to_owned());
    let long = "x".repeat(2049);
    assert_refused!(ground.store.query(Query::new(&MAIN, "")).await, Invalid::KeyEmpty { .. });
    let with_nul = ground.store.query(Query::new(&MAIN, nul.as_str())).await;
    assert_refused!(with_nul, Invalid::KeyNul { .. });
    let too_long = ground.store.query(Query::new(&MAIN, long.as_str())).await;
    assert_refused!(too_long, Invalid::KeyTooLong { .. });
    for range in [SortRange::Eq, SortRange::BeginsWith, SortRange::Lt, SortRange::Ge] {
        let ask =
            |bound: &str| ground.store.query(Query::new(&MAIN, "p").range(range(bound.into())));
        assert_refused!(ask(&empty).await, Invalid::KeyEmpty { .. });
        assert_refused!(ask(&nul).await, Invalid::KeyNul { .. });
        assert_refused!(ask(&long[..1025]).await, Invalid::KeyTooLong { .. });
    }
    let between = Query::new(&MAIN, "p").between("", "a");
    assert_refused!(ground.store.query(between).await, Invalid::KeyEmpty { .. });
}

async fn an_index_that_is_not_there_is_refused(ground: Ground) {
    let query = Query::new(&MAIN, "p").index("GSI1");
    assert_refused!(ground.store.query(query).await, Invalid::NoIndex { .. });
}
