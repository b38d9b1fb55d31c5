//! Filters: DynamoDB limits before it filters, and callers must never see that, unless they bound what is looked at.

use tidings_kernel::{
    Condition, Invalid, Item, Query,
    tables::{EVENTS, MAIN},
};

use super::{Case, cases};
use crate::items::ground::{Ground, assert_refused, row, sorts};

pub(super) const CASES: &[Case] = &cases![
    only_what_matches_is_returned,
    a_page_is_full_however_rare_the_matches,
    nothing_that_matches_is_an_empty_last_page,
    filtered_pages_visit_each_match_once,
    filtered_pages_backward,
    a_filter_reads_past_a_megabyte,
    a_filter_on_an_attribute_that_few_items_have,
    a_filter_and_a_range,
    a_filter_on_an_index,
    a_filter_on_the_key_is_refused,
    no_more_is_looked_at_than_was_allowed,
    what_is_looked_at_is_bounded_on_an_index_too,
];

/// So many items, of which every tenth says so.
async fn numbers(ground: &Ground, count: usize) {
    for number in 0..count {
        let item = row("p", &format!("{number:03}")).with("tenth", number % 10 == 0);
        ground.put(&MAIN, item).await;
    }
}

fn tenths() -> Query {
    Query::new(&MAIN, "p").filter(Condition::eq("tenth", true))
}

async fn only_what_matches_is_returned(ground: Ground) {
    numbers(&ground, 25).await;
    assert_eq!(sorts(&ground.query(tenths()).await), ["000", "010", "020"]);
}

async fn a_page_is_full_however_rare_the_matches(ground: Ground) {
    numbers(&ground, 60).await;
    let page = ground.store.query(tenths().limit(4)).await.unwrap();
    assert_eq!(sorts(&page.items), ["000", "010", "020", "030"]);
    let rest = ground.store.query(tenths().limit(4).after(page.cursor)).await.unwrap();
    assert_eq!(sorts(&rest.items), ["040", "050"]);
    assert_eq!(rest.cursor, None);
}

async fn nothing_that_matches_is_an_empty_last_page(ground: Ground) {
    numbers(&ground, 30).await;
    for limit in [1, 10, 100] {
        let query = Query::new(&MAIN, "p").filter(Condition::exists("no")).limit(limit);
        assert_eq!(ground.query(query).await, []);
    }
}

async fn filtered_pages_visit_each_match_once(ground: Ground) {
    numbers(&ground, 45).await;
    for limit in 1..=6 {
        let found = ground.pages(tenths().limit(limit)).await.concat();
        assert_eq!(sorts(&found), ["000", "010", "020", "030", "040"]);
    }
}

async fn filtered_pages_backward(ground: Ground) {
    numbers(&ground, 45).await;
    for limit in 1..=6 {
        let found = ground.pages(tenths().limit(limit).backward()).await.concat();
        assert_eq!(sorts(&found), ["040", "030", "020", "010", "000"]);
    }
}

/// One request of DynamoDB reads a megabyte and then filters; the only match lies behind three of them.
async fn a_filter_reads_past_a_megabyte(ground: Ground) {
    let text = "x".repeat(350 * 1024);
    for number in 0..9 {
        ground.put(&MAIN, row("p", &number.to_string()).with("text", text.as_str())).await;
    }
    ground.put(&MAIN, row("p", "9").with("wanted", true)).await;
    let query = Query::new(&MAIN, "p").filter(Condition::exists("wanted"));
    assert_eq!(sorts(&ground.query(query.clone()).await), ["9"]);
    assert_eq!(ground.store.count(query).await.unwrap(), 1);
}

async fn a_filter_on_an_attribute_that_few_items_have(ground: Ground) {
    numbers(&ground, 12).await;
    ground.put(&MAIN, row("p", "005").with("rare", "x")).await;
    let has = Query::new(&MAIN, "p").filter(Condition::exists("rare"));
    assert_eq!(sorts(&ground.query(has).await), ["005"]);
    let has_not = Query::new(&MAIN, "p").filter(Condition::not_exists("rare"));
    assert_eq!(ground.query(has_not).await.len(), 11);
}

async fn a_filter_and_a_range(ground: Ground) {
    numbers(&ground, 45).await;
    let found = ground.query(tenths().between("005", "030").backward()).await;
    assert_eq!(sorts(&found), ["030", "020", "010"]);
}

async fn a_filter_on_an_index(ground: Ground) {
    for number in 0..20 {
        let event = if number % 5 == 0 { "click" } else { "open" };
        let item = row(&format!("SUB#{}", number % 3), &format!("EVT#{number:02}"))
            .with("templateKey", "welcome")
            .with("eventType", event);
        ground.put(&EVENTS, item).await;
    }
    let query = || {
        Query::new(&EVENTS, "welcome")
            .index("TemplateIndex")
            .filter(Condition::eq("eventType", "click"))
    };
    let found: Vec<Item> = ground.pages(query().limit(3)).await.concat();
    assert_eq!(sorts(&found), ["EVT#00", "EVT#05", "EVT#10", "EVT#15"]);
    // Inside an index the key of the table is an attribute like others.
    let of_one = query().filter(Condition::eq("PK", "SUB#0"));
    assert_eq!(ground.query(of_one).await.len(), 7);
}

async fn a_filter_on_the_key_is_refused(ground: Ground) {
    for filter in [
        Condition::eq("PK", "p"),
        Condition::exists("x").and(Condition::Not(Box::new(Condition::eq("SK", "a")))),
    ] {
        let page = ground.store.query(Query::new(&MAIN, "p").filter(filter)).await;
        assert_refused!(page, Invalid::FilterOnKey { .. });
    }
    let on_index = Query::new(&EVENTS, "welcome")
        .index("TemplateIndex")
        .filter(Condition::exists("templateKey"));
    assert_refused!(ground.store.query(on_index).await, Invalid::FilterOnKey { .. });
}

/// However little passes the filter: a page ends, and the next goes on behind what was looked at.
async fn no_more_is_looked_at_than_was_allowed(ground: Ground) {
    numbers(&ground, 45).await;
    let rare = Query::new(&MAIN, "p").filter(Condition::eq("tenth", true)).between("031", "044");
    let first = ground.store.query(rare.clone().examine(9)).await.unwrap();
    assert_eq!(sorts(&first.items), [""; 0], "the match is the tenth");
    assert!(first.cursor.is_some(), "there is more to look at");
    let second = ground.store.query(rare.clone().examine(9).after(first.cursor)).await.unwrap();
    assert_eq!(sorts(&second.items), ["040"]);
    assert_eq!(second.cursor, None);
    for (examine, limit) in [(1, 1), (3, 1), (7, 2), (10, 100), (45, 2), (300, 100)] {
        for query in [tenths(), tenths().backward()] {
            let mut found = Vec::new();
            let mut query = query.examine(examine).limit(limit);
            for _ in 0..=45 {
                let page = ground.store.query(query.clone()).await.unwrap();
                assert!(page.items.len() <= examine.div_ceil(10).min(limit));
                found.extend(sorts(&page.items).into_iter().map(ToOwned::to_owned));
                query.cursor = page.cursor;
                if query.cursor.is_none() {
                    break;
                }
            }
            found.sort();
            assert_eq!(found, ["000", "010", "020", "030", "040"], "{examine} {limit}");
        }
    }
    let none = ground.store.query(tenths().examine(0)).await;
    assert_refused!(none, Invalid::BadLimit);
}

async fn what_is_looked_at_is_bounded_on_an_index_too(ground: Ground) {
    for number in 0..20 {
        let event = if number == 2 { "bounce" } else { "open" };
        let item = row(&format!("SUB#{}", number % 3), &format!("EVT#{number:02}"))
            .with("templateKey", "welcome")
            .with("eventType", event);
        ground.put(&EVENTS, item).await;
    }
    let query = Query::new(&EVENTS, "welcome")
        .index("TemplateIndex")
        .filter(Condition::eq("eventType", "bounce"))
        .backward()
        .examine(5);
    let pages = ground.pages(query).await;
    assert_eq!(sorts(&pages.concat()), ["EVT#02"]);
    assert!(pages.len() >= 4, "twenty are looked at in {} pages", pages.len());
}
