//! Lists: each contact once, in pages, whatever the filter.

use serde_json::json;
use tidings_access::{Cx, Limit};
use tidings_testbed::{Bed, each_store};

use super::{
    address, attributes, bare, ensured, execute, found, suppress, tags, unsubscribe, upsert,
};
use crate::contacts::{
    After, ContactId, Filter, ListError, Standing, TagChange, Upsert, erase, list,
};

each_store!(
    lists_are_walked_page_by_page,
    filters_find_whom_they_name,
    a_page_ends_when_enough_were_looked_at,
    a_list_that_cannot_be_is_refused,
    who_has_no_profile_is_shown_as_he_stands,
);

/// All pages of a list, and how many there were.
async fn walk(cx: &Cx, filter: &Filter, limit: i64) -> (Vec<String>, usize) {
    let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let limit = Limit::try_from(limit).unwrap();
        let page = list(cx, filter.clone(), after, limit).await.unwrap();
        pages += 1;
        found.extend(page.items.iter().map(|contact| contact.email.to_string()));
        after = page.next;
        if after.is_none() {
            return (found, pages);
        }
    }
}

fn tagged(name: &str) -> Filter {
    Filter { tag: Some(name.parse().unwrap()), ..Filter::default() }
}

async fn people(cx: &Cx, count: usize) {
    for number in 0..count {
        let cmd = Upsert {
            attributes: attributes(json!({"number": number, "even": number % 2 == 0})),
            tags: (number % 3 == 0).then(|| TagChange::Add(tags(&["third"]))),
            ..bare(&format!("p{number:03}@example.org"))
        };
        upsert(cx, cmd).await.unwrap();
    }
}

async fn lists_are_walked_page_by_page(bed: &Bed) {
    let cx = bed.cx().await;
    assert_eq!(walk(&cx, &Filter::default(), 10).await, (vec![], 1));
    people(&cx, 25).await;
    let all: Vec<_> = (0..25).map(|number| format!("p{number:03}@example.org")).collect();
    assert_eq!(walk(&cx, &Filter::default(), 10).await, (all.clone(), 3));
    assert_eq!(walk(&cx, &Filter::default(), 25).await, (all.clone(), 1));
    let third: Vec<_> = all.iter().step_by(3).cloned().collect();
    assert_eq!(walk(&cx, &tagged("third"), 3).await, (third.clone(), 3));
    assert_eq!(walk(&cx, &tagged("third"), 100).await, (third, 1));
}

async fn filters_find_whom_they_name(bed: &Bed) {
    let cx = bed.cx().await;
    people(&cx, 12).await;
    unsubscribe(&cx, "p003@example.org").await;
    suppress(&cx, "p006@example.org").await;
    execute(
        &cx,
        "INSERT INTO audiences (workspace_id, slug, name, created_at, updated_at) VALUES ($1, 'news', 'News', 1, 1)",
    )
    .await;
    execute(
        &cx,
        "INSERT INTO subscriptions (workspace_id, lead_id, audience_id, status, unsubscribed_at, created_at, updated_at)
         SELECT $1, i.lead_id, a.id, CASE WHEN i.value < 'p005' THEN 'subscribed' ELSE 'unsubscribed' END, 1, 1, 1
         FROM channel_identities i CROSS JOIN audiences a",
    )
    .await;
    let news = || Some("news".parse().unwrap());
    let even = || Some(("even".to_owned(), "true".to_owned()));
    for (filter, expected) in [
        (Filter { standing: Standing::Unsubscribed, ..Filter::default() }, "003"),
        (Filter { standing: Standing::Suppressed, ..Filter::default() }, "006"),
        (Filter { standing: Standing::Active, ..tagged("third") }, "000 009"),
        (Filter { attribute: even(), ..tagged("third") }, "000 006"),
        (Filter { attribute: Some(("number".into(), "7".into())), ..Filter::default() }, "007"),
        (Filter { attribute: Some(("none".into(), "7".into())), ..Filter::default() }, ""),
        (Filter { audience: news(), ..Filter::default() }, "000 001 002 003 004"),
        (Filter { audience: news(), ..tagged("third") }, "000 003"),
        (Filter { audience: news(), attribute: even(), ..Filter::default() }, "000 002 004"),
        (tagged("nobody"), ""),
    ] {
        let (found, _) = walk(&cx, &filter, 2).await;
        let found: Vec<_> = found.iter().map(|email| &email[1..4]).collect();
        assert_eq!(found.join(" "), expected, "{filter:?}");
    }
}

/// Nobody matches, so that every contact is looked at.
async fn a_page_ends_when_enough_were_looked_at(bed: &Bed) {
    let cx = bed.cx().await;
    let many = "INSERT INTO leads (workspace_id, created_at, updated_at)
                WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 5250)
                SELECT $1, 1, 1 FROM n";
    execute(&cx, many).await;
    let identities = "INSERT INTO channel_identities
                          (workspace_id, lead_id, channel, value, typed_value, created_at, updated_at)
                      SELECT $1, id, 'email', 'p' || id || '@example.org', 'p' || id || '@example.org', 1, 1
                      FROM leads";
    execute(&cx, identities).await;
    let nobody = Filter { standing: Standing::Suppressed, ..Filter::default() };
    let first = list(&cx, nobody.clone(), None, Limit::default()).await.unwrap();
    assert!(first.items.is_empty());
    let second = list(&cx, nobody, Some(first.next.unwrap()), Limit::default()).await.unwrap();
    assert_eq!((second.items.len(), second.next), (0, None));
}

async fn a_list_that_cannot_be_is_refused(bed: &Bed) {
    let cx = bed.cx().await;
    let unknown = Filter { audience: Some("none".parse().unwrap()), ..Filter::default() };
    let refused = list(&cx, unknown, None, Limit::default()).await;
    assert!(matches!(refused, Err(ListError::NoAudience(_))), "{refused:?}");
    let after = Some(After::Id(ContactId::from(3)));
    let refused = list(&cx, tagged("a"), after, Limit::default()).await;
    assert!(matches!(refused, Err(ListError::WrongCursor)), "{refused:?}");
}

async fn who_has_no_profile_is_shown_as_he_stands(bed: &Bed) {
    let cx = bed.cx().await;
    // Known to the relations alone, and suppressed.
    ensured(&cx, "ada@example.org").await;
    suppress(&cx, "ada@example.org").await;
    // Left and erased, and suppressed and erased; both are known again.
    for (email, leaves) in [("bob@example.org", true), ("cyd@example.org", false)] {
        upsert(&cx, bare(email)).await.unwrap();
        if leaves {
            unsubscribe(&cx, email).await;
        } else {
            suppress(&cx, email).await;
        }
        erase(&cx, &address(email)).await.unwrap();
        ensured(&cx, email).await;
    }
    ensured(&cx, "dan@example.org").await;
    let flags = async |email: &str| {
        let contact = found(&cx, email).await;
        (contact.unsubscribed, contact.suppressed)
    };
    assert_eq!(flags("ada@example.org").await, (false, true));
    assert_eq!(flags("bob@example.org").await, (true, false));
    assert_eq!(flags("cyd@example.org").await, (false, true));
    assert_eq!(flags("dan@example.org").await, (false, false));
    for (standing, wanted) in [
        (Standing::Active, vec!["dan@example.org"]),
        (Standing::Unsubscribed, vec!["bob@example.org"]),
        (Standing::Suppressed, vec!["ada@example.org", "cyd@example.org"]),
    ] {
        let filter = Filter { standing, ..Filter::default() };
        assert_eq!(walk(&cx, &filter, 10).await.0, wanted, "{standing:?}");
    }
}
