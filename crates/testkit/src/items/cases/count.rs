//! Counting what a query finds.

use tidings_kernel::{Condition, Invalid, Query, tables::EMAIL_TRACKING, tables::MAIN};

use super::{Case, cases};
use crate::items::ground::{Ground, assert_refused, row};

pub(super) const CASES: &[Case] = &cases![
    a_partition,
    a_range,
    the_limit_does_not_matter,
    only_what_comes_after_the_cursor,
    with_a_filter,
    more_than_a_megabyte,
    on_an_index,
    a_bad_query_is_refused,
];

async fn numbers(ground: &Ground, count: i64) {
    for number in 0..count {
        ground.put(&MAIN, row("p", &format!("{number:03}")).with("number", number)).await;
    }
}

async fn counts(ground: &Ground, query: Query, expected: u64) {
    assert_eq!(ground.store.count(query).await.unwrap(), expected);
}

async fn a_partition(ground: Ground) {
    counts(&ground, Query::new(&MAIN, "p"), 0).await;
    numbers(&ground, 12).await;
    ground.put(&MAIN, row("q", "000")).await;
    counts(&ground, Query::new(&MAIN, "p"), 12).await;
}

async fn a_range(ground: Ground) {
    numbers(&ground, 25).await;
    counts(&ground, Query::new(&MAIN, "p").begins_with("01"), 10).await;
    counts(&ground, Query::new(&MAIN, "p").between("003", "005").backward(), 3).await;
}

async fn the_limit_does_not_matter(ground: Ground) {
    numbers(&ground, 12).await;
    counts(&ground, Query::new(&MAIN, "p").limit(1), 12).await;
}

async fn only_what_comes_after_the_cursor(ground: Ground) {
    numbers(&ground, 12).await;
    for query in [Query::new(&MAIN, "p"), Query::new(&MAIN, "p").backward()] {
        let page = ground.store.query(query.clone().limit(5)).await.unwrap();
        counts(&ground, query.clone().after(page.cursor.clone()), 7).await;
        let rare = query.after(page.cursor).filter(Condition::eq("number", 6));
        counts(&ground, rare, 1).await;
    }
}

async fn with_a_filter(ground: Ground) {
    numbers(&ground, 30).await;
    let small = Condition::Lt("number".into(), 7.into());
    counts(&ground, Query::new(&MAIN, "p").filter(small.clone()).limit(2), 7).await;
    counts(&ground, Query::new(&MAIN, "p").begins_with("01").filter(small), 0).await;
}

async fn more_than_a_megabyte(ground: Ground) {
    let text = "x".repeat(350 * 1024);
    for number in 0..10 {
        ground.put(&MAIN, row("p", &number.to_string()).with("text", text.as_str())).await;
    }
    counts(&ground, Query::new(&MAIN, "p"), 10).await;
}

async fn on_an_index(ground: Ground) {
    for number in 0..7 {
        let status = if number < 3 { "STATUS#draft" } else { "STATUS#sent" };
        let item = row("c", &number.to_string()).with("GSI1PK", status).with("GSI1SK", "same");
        ground.put(&EMAIL_TRACKING, item).await;
    }
    counts(&ground, Query::new(&EMAIL_TRACKING, "STATUS#draft").index("GSI1"), 3).await;
    counts(&ground, Query::new(&EMAIL_TRACKING, "STATUS#sent").index("GSI1").limit(1), 4).await;
    counts(&ground, Query::new(&EMAIL_TRACKING, "STATUS#failed").index("GSI1"), 0).await;
}

async fn a_bad_query_is_refused(ground: Ground) {
    assert_refused!(ground.store.count(Query::new(&MAIN, "")).await, Invalid::KeyEmpty { .. });
    let nowhere = ground.store.count(Query::new(&MAIN, "p").index("none")).await;
    assert_refused!(nowhere, Invalid::NoIndex { .. });
}
