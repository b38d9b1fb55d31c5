//! A walk meets everybody who is meant, once, however it is cut into pages and wherever it is interrupted.

use std::cell::Cell;
use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value as Json, json};
use tidings_access::Cx;
use tidings_kernel::{Invalid, StoreError};
use tidings_sql::{Among, DatabaseError, Dialect, Param};
use tidings_testbed::{Bed, each_store};

use super::world::{
    Described, Fate, Names, Person, address, condition, describe, make, names, person,
};
use crate::audience::members::{ADDRESSED, AUDIENCES, EVERYONE, SUBSCRIBED, people_of};
use crate::audience::{Condition, Found, Member, Walk, matches, page, unknown_audiences, why};

/// A walk, and how it goes: how much of each page, and whether its end is lost once.
#[derive(Debug, Clone)]
struct Way {
    condition: Condition,
    in_news: bool,
    profiles: bool,
    steps: Vec<(usize, bool)>,
}

fn way() -> impl Strategy<Value = Way> {
    let steps = proptest::collection::vec((1..12_usize, any::<bool>()), 1..5);
    (condition(), prop::bool::weighted(0.3), any::<bool>(), steps).prop_map(
        |(condition, in_news, profiles, steps)| Way { condition, in_news, profiles, steps },
    )
}

impl Way {
    fn walk(&self, names: &Names) -> Walk {
        Walk {
            condition: self.condition.clone(),
            client: names.shop,
            audience: self.in_news.then_some(names.news),
            profiles: self.profiles,
        }
    }

    /// Everybody it means, as it would be without any of the code that finds them.
    fn meant(&self, people: &[Person], ids: &[i64]) -> BTreeSet<(i64, String)> {
        let mut meant = BTreeSet::new();
        for (number, (person, id)) in people.iter().zip(ids).enumerate() {
            let Some(facts) = person.facts(number) else { continue };
            // Whoever has left since is met, so that the gate can say why he does not get it.
            let in_news = person.has_agreed_to_news();
            if (in_news || !self.in_news) && matches(&self.condition, &facts) {
                meant.insert((*id, address(number, 0).to_string()));
            }
        }
        meant
    }
}

async fn go(bed: &Bed, workspace: &str, walk: &Walk, steps: &[(usize, bool)]) -> Vec<Member> {
    let (mut met, mut after) = (Vec::new(), None::<String>);
    for (limit, lost) in steps.iter().cycle() {
        // Each page is another process's.
        let cx = bed.inside(workspace).await;
        let found = page(&cx, walk, after.as_deref(), *limit).await.unwrap();
        assert!(found.contacts.len() <= *limit);
        assert!(found.looked_at > 0 || found.next.is_none());
        if *lost {
            let again = page(&cx, walk, after.as_deref(), *limit).await.unwrap();
            assert_eq!(again, found, "whoever goes on from the same place finds the same");
        }
        met.extend(found.contacts);
        after = found.next;
        if after.is_none() {
            return met;
        }
    }
    unreachable!("there is at least one step")
}

async fn check(bed: &Bed, number: usize, people: &[Person], ways: &[Way]) {
    let workspace = format!("w{number}");
    let cx = bed.make_workspace(&workspace).await;
    let names = names(bed, &cx).await;
    let ids = make(&cx, &names, people).await;
    for way in ways {
        let walk = way.walk(&names);
        let met = go(bed, &workspace, &walk, &way.steps).await;
        let found: BTreeSet<(i64, String)> =
            met.iter().map(|one| (one.lead_id.get(), one.email.to_string())).collect();
        assert_eq!(found.len(), met.len(), "nobody is met twice");
        let expected = way.meant(people, &ids);
        assert_eq!(found, expected, "{}", way.condition.to_json());
        for (number, person) in people.iter().enumerate() {
            let has_profile = person.profiles.first().is_some_and(Option::is_some);
            let member = met.iter().find(|one| one.lead_id.get() == ids[number]);
            if let Some(member) = member.filter(|_| way.profiles) {
                assert_eq!(member.profile.is_some(), has_profile);
            }
            for place in 0..person.profiles.len() {
                let told = why(&cx, &walk, &address(number, place)).await.unwrap();
                let meant = expected.iter().any(|(id, _)| *id == ids[number]);
                assert_eq!(told.meant, meant, "{told:?}");
            }
        }
    }
}

fn on(bed: impl Future<Output = Bed>, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bed = runtime.block_on(bed);
    let number = Cell::new(0);
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let people = proptest::collection::vec(person(), 0..24);
    let ways = proptest::collection::vec(way(), 1..8);
    let run = TestRunner::new(config).run(&(people, ways), |(people, ways)| {
        number.set(number.get() + 1);
        runtime.block_on(check(&bed, number.get(), &people, &ways));
        Ok(())
    });
    run.unwrap();
}

#[test]
fn a_walk_meets_who_is_meant_in_memory() {
    on(Bed::memory(), 32);
}

#[test]
fn a_walk_meets_who_is_meant_on_postgres() {
    on(Bed::postgres(), 8);
}

each_store!(
    a_cursor_goes_on_with_what_the_walk_began_with,
    who_comes_before_the_cursor_is_not_met_and_nobody_is_met_twice,
    a_page_ends_though_nobody_is_found,
    what_a_condition_names_and_there_is_not_is_told,
    another_workspace_has_other_people,
    whoever_has_done_nothing_yet_has_never_bought_anything,
);

fn there(tags: &[&'static str]) -> Person {
    Person {
        profiles: vec![Some(Described { tags: tags.to_vec(), plan: None })],
        fate: Fate::There,
        subscriptions: [Some(1), None, None, None],
        feature: None,
        memory: None,
    }
}

async fn whoever_has_done_nothing_yet_has_never_bought_anything(bed: &Bed) {
    let cx = bed.cx().await;
    let names = names(bed, &cx).await;
    make(&cx, &names, &[there(&[])]).await;
    for (condition, fact) in [
        (json!({"feature": "has_purchased", "equals": false}), "it is false"),
        (json!({"feature": "opens_30d", "at_most": 0}), "it is 0"),
        (json!({"feature": "monetary_total", "exists": true}), "it is 0"),
        (json!({"feature": "recency_days", "exists": false}), "nothing is known of it"),
    ] {
        let walk = over(&names, &condition);
        assert_eq!(first(&cx, &walk, 5).await.contacts.len(), 1, "{condition}");
        let told = why(&cx, &walk, &address(0, 0)).await.unwrap();
        assert_eq!((told.meant, told.condition.unwrap().fact.as_str()), (true, fact));
    }
}

fn over(names: &Names, condition: &Json) -> Walk {
    Walk {
        condition: Condition::parse(condition, "").unwrap(),
        client: names.shop,
        audience: None,
        profiles: false,
    }
}

async fn first(cx: &Cx, walk: &Walk, limit: usize) -> Found {
    page(cx, walk, None, limit).await.unwrap()
}

async fn a_cursor_goes_on_with_what_the_walk_began_with(bed: &Bed) {
    let cx = bed.cx().await;
    let names = names(bed, &cx).await;
    make(&cx, &names, &[there(&["a"]), there(&["a", "b"]), there(&["a"])]).await;
    let every = address(0, 0);
    let listed = json!({"contacts": [every.as_str(), address(1, 0).as_str()]});
    let walks = [
        (json!({"tag": "a"}), "t.a.p0.0@example.org"),
        (json!({"any": [{"tag": "a"}, {"tag": "b"}]}), "u.a+b.p0.0@example.org"),
        (json!({"audience": "news"}), "s.news.1"),
        (listed, "l.2.1"),
        (json!({}), "c.1"),
    ];
    let mut cursors = Vec::new();
    for (condition, cursor) in &walks {
        let walk = over(&names, condition);
        let found = first(&cx, &walk, 1).await;
        assert_eq!(found.next.as_deref().unwrap().split('.').next(), cursor.split('.').next());
        cursors.push((walk, found.next.unwrap()));
    }
    let mut own = over(&names, &json!({}));
    own.audience = Some(names.news);
    let cursor = first(&cx, &own, 1).await.next.unwrap();
    assert!(cursor.starts_with(&format!("a.{}.", names.news)), "{cursor}");
    cursors.push((own, cursor));
    for (walk, own) in &cursors {
        for (_, cursor) in &cursors {
            let gone_on = page(&cx, walk, Some(cursor), 1).await;
            // Everybody can be met by going over all contacts, so that is never wrong.
            if cursor == own || cursor.starts_with("c.") {
                gone_on.unwrap();
                continue;
            }
            let refused = gone_on.unwrap_err();
            let tidings_access::StorageError::Items(refused) = refused else { panic!("{refused}") };
            assert!(matches!(refused, StoreError::Invalid(Invalid::BadCursor)), "{cursor}");
        }
        for bad in ["", "c.", "c.x", "t.a.", "l.2.3", "l.2.-1", "a.1", "nonsense"] {
            assert!(page(&cx, walk, Some(bad), 1).await.is_err(), "{bad}");
        }
    }
}

async fn who_comes_before_the_cursor_is_not_met_and_nobody_is_met_twice(bed: &Bed) {
    let cx = bed.cx().await;
    let names = names(bed, &cx).await;
    // By address: p0.0, p10.3, p3.2, p7.1.
    make(&cx, &names, &[there(&["a"]), there(&["a"]), there(&["a"]), there(&[])]).await;
    let walk = over(&names, &json!({"tag": "a"}));
    let found = first(&cx, &walk, 2).await;
    let emails = |found: &Found| -> Vec<String> {
        found.contacts.iter().map(|one| one.email.to_string()).collect()
    };
    assert_eq!(emails(&found), ["p0.0@example.org", "p3.2@example.org"]);
    let tagged = Described { tags: vec!["a"], plan: None };
    // Before the place, and after it.
    describe(&cx, address(3, 0), &tagged).await;
    describe(&cx, address(11, 0), &tagged).await;
    let rest = page(&cx, &walk, found.next.as_deref(), 10).await.unwrap();
    assert_eq!((emails(&rest), rest.next), (vec!["p7.1@example.org".to_owned()], None));
    assert_eq!(emails(&first(&cx, &walk, 10).await).len(), 5);
}

/// Rows only, with as few statements as it takes.
pub(super) async fn crowd(cx: &Cx, names: &Names, count: usize) {
    let (workspace, news) = (cx.workspace_id().get(), names.news.get());
    let write = cx.database().write(move |tx| {
        let numbers = match tx.dialect() {
            Dialect::Sqlite => {
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $2) SELECT i FROM n"
            }
            Dialect::Postgres => "SELECT i FROM generate_series(1, $2::bigint) AS n (i)",
        };
        let leads = format!(
            "INSERT INTO leads (workspace_id, timezone, created_at, updated_at)
             SELECT $1, 'UTC', 0, 0 FROM ({numbers}) numbers"
        );
        let count = i64::try_from(count).unwrap();
        tx.execute(&leads, &[Param::Int(workspace), Param::Int(count)])?;
        let identities = "INSERT INTO channel_identities (workspace_id, lead_id, channel, value, typed_value, created_at, updated_at)
             SELECT workspace_id, id, 'email', 'c' || id || '@example.org', 'C' || id || '@example.org', 0, 0
             FROM leads WHERE workspace_id = $1";
        tx.execute(identities, &[Param::Int(workspace)])?;
        let subscriptions = "INSERT INTO subscriptions (workspace_id, lead_id, audience_id, status, created_at, updated_at)
             SELECT workspace_id, id, $2, 'subscribed', 0, 0 FROM leads WHERE workspace_id = $1";
        tx.execute(subscriptions, &[Param::Int(workspace), Param::Int(news)])?;
        Ok::<_, DatabaseError>(())
    });
    write.await.unwrap();
}

async fn a_page_ends_though_nobody_is_found(bed: &Bed) {
    let cx = bed.cx().await;
    let names = names(bed, &cx).await;
    crowd(&cx, &names, 5_200).await;
    let walk = over(
        &names,
        &json!({"all": [{"audience": "news"}, {"attribute": "plan", "equals": "pro"}]}),
    );
    let found = first(&cx, &walk, 500).await;
    assert_eq!((found.contacts.len(), found.looked_at), (0, 5_000));
    let rest = page(&cx, &walk, found.next.as_deref(), 500).await.unwrap();
    assert_eq!((rest.contacts.len(), rest.looked_at, rest.next), (0, 200, None));
    let everyone = over(&names, &json!({}));
    let found = first(&cx, &everyone, 700).await;
    assert_eq!((found.contacts.len(), found.looked_at), (500, 500), "half full is full enough");
    assert_eq!(found.contacts[0].timezone.as_deref(), Some("UTC"));
}

async fn what_a_condition_names_and_there_is_not_is_told(bed: &Bed) {
    let cx = bed.cx().await;
    let names = names(bed, &cx).await;
    make(&cx, &names, &[there(&[])]).await;
    let condition =
        json!({"any": [{"audience": "news"}, {"audience": "gone"}, {"not": {"audience": "gone"}}]});
    let walk = over(&names, &condition);
    let unknown = unknown_audiences(&cx, &walk.condition).await.unwrap();
    assert_eq!(unknown, ["gone".parse().unwrap()]);
    let nobody = over(&names, &json!({"audience": "gone"}));
    assert_eq!(
        first(&cx, &nobody, 5).await,
        Found { contacts: Vec::new(), next: None, looked_at: 0 }
    );
}

async fn another_workspace_has_other_people(bed: &Bed) {
    let cx = bed.cx().await;
    let own = names(bed, &cx).await;
    make(&cx, &own, &[there(&["a"])]).await;
    let other = bed.make_workspace("other").await;
    let theirs = names(bed, &other).await;
    for condition in [json!({}), json!({"tag": "a"}), json!({"audience": "news"})] {
        assert_eq!(first(&cx, &over(&own, &condition), 5).await.contacts.len(), 1, "{condition}");
        assert_eq!(first(&other, &over(&theirs, &condition), 5).await.contacts.len(), 0);
        let mut foreign = over(&own, &condition);
        foreign.audience = Some(own.news);
        assert_eq!(first(&other, &foreign, 5).await.contacts.len(), 0, "{condition}");
    }
    let told = why(&other, &over(&theirs, &json!({})), &address(0, 0)).await.unwrap();
    assert_eq!((told.meant, told.member, told.condition), (false, None, None));
}

/// What a page costs must not grow with the workspace, so nothing is gone through but the page itself.
#[tokio::test]
async fn no_statement_goes_through_a_whole_table() {
    let bed = Bed::memory().await;
    for (sql, params, given) in [
        (people_of(EVERYONE), 3, None),
        (people_of(SUBSCRIBED), 5, None),
        (people_of(ADDRESSED), 1, Some(Among::Texts(&["a@x.org"]))),
        (AUDIENCES.to_owned(), 1, Some(Among::Ints(&[1, 2, 3]))),
    ] {
        let asked = format!("EXPLAIN QUERY PLAN {sql}");
        let read = bed.access.database().read(move |tx| {
            let params = vec![Param::Int(1); params];
            let rows = match given {
                Some(given) => tx.query_among(&asked, &params, given)?,
                None => tx.query(&asked, &params)?,
            };
            rows.iter().map(|row| row.text(3).map(ToOwned::to_owned)).collect()
        });
        let plan: Result<Vec<String>, DatabaseError> = read.await;
        let plan = plan.unwrap();
        let searched = |step: &&String| step.starts_with("SEARCH");
        assert!(plan.iter().filter(searched).count() >= 1, "{sql}: {plan:?}");
        for step in &plan {
            let all =
                step.starts_with("SCAN") && *step != "SCAN page" && !step.contains("SCAN given");
            let of_workspace = step.ends_with("(workspace_id=?)");
            assert!(!all && !of_workspace, "{step} in {sql}");
        }
    }
}
