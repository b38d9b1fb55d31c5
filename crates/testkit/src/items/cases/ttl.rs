//! Time to live: no read returns an item whose second has come, swept or not.

use tidings_kernel::{
    Delete, Expect, Item, Key, Number, Put, Query, Returns, Scan, Table, Update, Value,
    tables::{EMAIL_TRACKING, FEATURE, INBOX, MAIN, MEMORY},
};

use super::{Case, cases};
use crate::items::ground::{Ground, failed, row, scan, sorts};

pub(super) const CASES: &[Case] = &cases![
    an_item_is_there_until_its_second_comes,
    each_table_has_its_own_attribute,
    get_does_not_see_it,
    batch_get_does_not_see_it,
    query_does_not_see_it,
    a_page_is_full_despite_it,
    count_does_not_see_it,
    scan_does_not_see_it,
    an_index_does_not_see_it,
    a_sweep_deletes_it,
    a_sweep_deletes_nothing_else,
    a_sweep_takes_it_from_the_index,
    a_sweep_keeps_to_its_limit,
    only_a_number_counts,
    a_fraction_of_a_second_counts_down,
    seconds_beyond_all_bounds,
    a_put_revives,
    an_update_prolongs,
    a_removed_ttl_is_for_ever,
    writes_still_meet_it_until_it_is_swept,
    a_delete_answers_with_it_until_it_is_swept,
];

fn key() -> Key {
    Key::new("a", "b")
}

/// An item that expires in so many seconds.
fn dies(ground: &Ground, sort: &str, seconds: i64) -> Item {
    row("a", sort).with("ttl", ground.in_seconds(seconds))
}

/// One item that has just expired, and one that has not.
async fn one_dead_one_alive(ground: &Ground) {
    ground.put_all(&MAIN, &[dies(ground, "dead", 10), dies(ground, "alive", 11)]).await;
    ground.pass_seconds(10);
}

async fn an_item_is_there_until_its_second_comes(ground: Ground) {
    ground.put(&MAIN, dies(&ground, "b", 10)).await;
    ground.pass_seconds(9);
    assert!(ground.get(&MAIN, &key()).await.is_some());
    ground.pass_seconds(1);
    assert!(ground.get(&MAIN, &key()).await.is_none());
    ground.pass_seconds(1);
    assert!(ground.get(&MAIN, &key()).await.is_none());
}

async fn each_table_has_its_own_attribute(ground: Ground) {
    let soon = ground.in_seconds(1);
    let tables: [(&'static Table, &str, &str); 5] = [
        (&MAIN, "ttl", "expiredat"),
        (&INBOX, "expiredat", "ttl"),
        (&EMAIL_TRACKING, "ttl", "expires_at"),
        (&MEMORY, "expires_at", "ttl"),
        (&FEATURE, "none", "ttl"),
    ];
    let item = |table: &'static Table, partition: &str, name: &str| {
        let sort = table.sort.map(|_| "s".to_owned());
        table.bare_item(&Key { partition: partition.to_owned(), sort }).with(name, soon)
    };
    for (table, its_own, another) in tables {
        ground.put(table, item(table, "its own", its_own)).await;
        ground.put(table, item(table, "another", another)).await;
    }
    ground.pass_seconds(1);
    for (table, its_own, another) in tables {
        let mut expected = vec![item(table, "another", another)];
        if table.ttl.is_none() {
            expected.push(item(table, "its own", its_own));
        }
        assert_eq!(ground.contents(table).await, expected, "{}", table.name);
    }
}

async fn get_does_not_see_it(ground: Ground) {
    one_dead_one_alive(&ground).await;
    assert!(ground.get(&MAIN, &Key::new("a", "dead")).await.is_none());
    assert!(ground.get(&MAIN, &Key::new("a", "alive")).await.is_some());
}

async fn batch_get_does_not_see_it(ground: Ground) {
    one_dead_one_alive(&ground).await;
    let keys = [Key::new("a", "dead"), Key::new("a", "alive")];
    let found = ground.store.batch_get(&MAIN, &keys).await.unwrap();
    assert!(found[0].is_none() && found[1].is_some());
}

async fn query_does_not_see_it(ground: Ground) {
    one_dead_one_alive(&ground).await;
    assert_eq!(sorts(&ground.query(Query::new(&MAIN, "a")).await), ["alive"]);
    assert_eq!(sorts(&ground.query(Query::new(&MAIN, "a").backward()).await), ["alive"]);
    assert_eq!(ground.query(Query::new(&MAIN, "a").begins_with("d")).await, []);
}

async fn a_page_is_full_despite_it(ground: Ground) {
    for number in 0..12 {
        let seconds = if number % 3 == 0 { 100 } else { 1 };
        ground.put(&MAIN, dies(&ground, &format!("{number:02}"), seconds)).await;
    }
    ground.pass_seconds(1);
    let page = ground.store.query(Query::new(&MAIN, "a").limit(2)).await.unwrap();
    assert_eq!(sorts(&page.items), ["00", "03"]);
    let pages = ground.pages(Query::new(&MAIN, "a").limit(2).backward()).await;
    assert_eq!(sorts(&pages.concat()), ["09", "06", "03", "00"]);
}

async fn count_does_not_see_it(ground: Ground) {
    one_dead_one_alive(&ground).await;
    assert_eq!(ground.store.count(Query::new(&MAIN, "a")).await.unwrap(), 1);
}

async fn scan_does_not_see_it(ground: Ground) {
    one_dead_one_alive(&ground).await;
    assert_eq!(sorts(&ground.contents(&MAIN).await), ["alive"]);
    assert_eq!(sorts(&scan(&*ground.store, Scan::new(&MAIN).limit(1)).await), ["alive"]);
}

fn in_index(ground: &Ground, sort: &str, seconds: i64) -> Item {
    dies(ground, sort, seconds).with("GSI1PK", "sent").with("GSI1SK", sort)
}

async fn an_index_does_not_see_it(ground: Ground) {
    let items = [in_index(&ground, "dead", 1), in_index(&ground, "alive", 2)];
    ground.put_all(&EMAIL_TRACKING, &items).await;
    ground.pass_seconds(1);
    let query = Query::new(&EMAIL_TRACKING, "sent").index("GSI1");
    assert_eq!(sorts(&ground.query(query.clone()).await), ["alive"]);
    assert_eq!(ground.store.count(query).await.unwrap(), 1);
}

async fn a_sweep_deletes_it(ground: Ground) {
    one_dead_one_alive(&ground).await;
    ground.subject.sweep().await;
    // Only what is really gone lets this through.
    let put = Put::new(&MAIN, row("a", "dead")).expect(Expect::Absent);
    assert_eq!(ground.store.put(put).await.unwrap(), None);
}

async fn a_sweep_deletes_nothing_else(ground: Ground) {
    one_dead_one_alive(&ground).await;
    ground.put(&MAIN, row("a", "for ever")).await;
    ground.subject.sweep().await;
    ground.subject.sweep().await;
    assert_eq!(sorts(&ground.contents(&MAIN).await), ["alive", "for ever"]);
}

async fn a_sweep_takes_it_from_the_index(ground: Ground) {
    ground.put(&EMAIL_TRACKING, in_index(&ground, "dead", 1)).await;
    ground.pass_seconds(1);
    ground.subject.sweep().await;
    // It is put again without its place in the index: an entry that stayed behind would show now.
    ground.put(&EMAIL_TRACKING, row("a", "dead")).await;
    assert_eq!(ground.query(Query::new(&EMAIL_TRACKING, "sent").index("GSI1")).await, []);
}

/// DynamoDB sweeps by itself and answers 0.
async fn a_sweep_keeps_to_its_limit(ground: Ground) {
    for number in 0..10 {
        ground.put(&MAIN, dies(&ground, &number.to_string(), 1)).await;
    }
    ground.pass_seconds(1);
    let mut swept = 0;
    loop {
        let now = ground.subject.engine().sweep(4).await.unwrap();
        assert!(now <= 4, "swept {now}");
        swept += now;
        if now == 0 {
            break;
        }
    }
    assert!(swept == 10 || swept == 0, "swept {swept}");
}

async fn only_a_number_counts(ground: Ground) {
    let past = ground.in_seconds(-100);
    let values: [Value; 5] = [
        past.to_string().into(),
        Value::Null,
        true.into(),
        Value::L(vec![past.into()]),
        Value::numbers([past]),
    ];
    for (position, value) in values.into_iter().enumerate() {
        ground.put(&MAIN, row("a", &position.to_string()).with("ttl", value)).await;
    }
    ground.subject.sweep().await;
    assert_eq!(ground.contents(&MAIN).await.len(), 5);
}

async fn a_fraction_of_a_second_counts_down(ground: Ground) {
    let ttl: Number = format!("{}.9", ground.in_seconds(10)).parse().unwrap();
    ground.put(&MAIN, row("a", "b").with("ttl", ttl)).await;
    ground.pass_seconds(9);
    assert!(ground.get(&MAIN, &key()).await.is_some());
    ground.pass_seconds(1);
    assert!(ground.get(&MAIN, &key()).await.is_none());
    assert_eq!(ground.query(Query::new(&MAIN, "a")).await, []);
}

async fn seconds_beyond_all_bounds(ground: Ground) {
    let ttls = [("0", false), ("-1", false), ("-1e30", false), ("1e30", true), ("9e125", true)];
    for (ttl, alive) in ttls {
        let ttl: Number = ttl.parse().unwrap();
        ground.put(&MAIN, row("a", "b").with("ttl", ttl)).await;
        assert_eq!(ground.get(&MAIN, &key()).await.is_some(), alive, "{ttl}");
        assert_eq!(ground.query(Query::new(&MAIN, "a")).await.len(), usize::from(alive), "{ttl}");
    }
}

async fn a_put_revives(ground: Ground) {
    ground.put(&MAIN, dies(&ground, "b", 1)).await;
    ground.pass_seconds(1);
    ground.put(&MAIN, dies(&ground, "b", 1)).await;
    assert!(ground.get(&MAIN, &key()).await.is_some());
    ground.subject.sweep().await;
    assert!(ground.get(&MAIN, &key()).await.is_some());
}

async fn an_update_prolongs(ground: Ground) {
    ground.put(&MAIN, dies(&ground, "b", 10)).await;
    let update = Update::new(&MAIN, key()).set("ttl", ground.in_seconds(20));
    ground.update(update).await;
    ground.pass_seconds(15);
    ground.subject.sweep().await;
    assert!(ground.get(&MAIN, &key()).await.is_some());
    ground.pass_seconds(5);
    assert!(ground.get(&MAIN, &key()).await.is_none());
}

async fn a_removed_ttl_is_for_ever(ground: Ground) {
    ground.put(&MAIN, dies(&ground, "b", 10)).await;
    ground.update(Update::new(&MAIN, key()).remove("ttl")).await;
    ground.pass_seconds(1000);
    ground.subject.sweep().await;
    assert_eq!(ground.get(&MAIN, &key()).await, Some(row("a", "b")));
}

async fn writes_still_meet_it_until_it_is_swept(ground: Ground) {
    let item = dies(&ground, "b", 1).with("x", 1);
    ground.put(&MAIN, item.clone()).await;
    ground.pass_seconds(1);
    let put = || Put::new(&MAIN, row("a", "b")).expect(Expect::Absent);
    assert_eq!(failed(ground.store.put(put()).await), Some(item));
    let update = Update::new(&MAIN, key()).add("x", 1).returning(Returns::New);
    assert_eq!(ground.update(update).await.unwrap().integer("x"), Some(2));
    assert_eq!(ground.get(&MAIN, &key()).await, None);
    ground.subject.sweep().await;
    assert_eq!(ground.store.put(put()).await.unwrap(), None);
}

async fn a_delete_answers_with_it_until_it_is_swept(ground: Ground) {
    let item = dies(&ground, "b", 1);
    ground.put_all(&MAIN, &[item.clone(), dies(&ground, "c", 1)]).await;
    ground.pass_seconds(1);
    assert_eq!(ground.store.delete(Delete::new(&MAIN, key())).await.unwrap(), Some(item));
    ground.subject.sweep().await;
    let swept = Delete::new(&MAIN, Key::new("a", "c"));
    assert_eq!(ground.store.delete(swept).await.unwrap(), None);
}
