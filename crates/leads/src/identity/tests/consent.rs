//! Consent when two become one: the strictest of both; and when they come apart: what each had, where nothing newer was said.

use std::cell::Cell;

use jiff::ToSpan as _;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidings_access::Cx;
use tidings_people::consent::{Act, By, Proof, Scope, audiences, subscriptions, topics};
use tidings_people::contacts::ContactId;
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::Bed;

use super::who;
use crate::identity::{merge, unmerge};

/// What somebody said of two audiences, of one client's part of the first, and of two topics; and whether he left everything.
type Said = ([Option<usize>; 3], [Option<bool>; 2], bool);

const STATUS: [&str; 3] = ["subscribed", "pending", "unsubscribed"];

/// What is said while they are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    Nothing,
    LeavesEverything,
    LeavesTheFirst,
}

fn said() -> impl Strategy<Value = Said> {
    use proptest::option::of;
    let places = [of(0..3usize), of(0..3usize), of(0..3usize)];
    (places, [of(any::<bool>()), of(any::<bool>())], any::<bool>())
}

async fn write(cx: &Cx, lead: ContactId, (places, topics, left): Said) {
    let (workspace, lead) = (cx.workspace_id().get(), lead.get());
    let at = (cx.now() - 1.hour()).as_millisecond();
    let write = cx.database().write(move |tx| {
        for (place, status) in places.iter().enumerate() {
            let Some(status) = status else { continue };
            let left = if *status == 2 { Param::Int(at) } else { Param::Null };
            let client = if place == 2 { "(SELECT id FROM clients WHERE workspace_id = $1)" } else { "NULL" };
            let sql = format!(
                "INSERT INTO subscriptions (workspace_id, lead_id, audience_id, client_id, status,
                     unsubscribed_at, created_at, updated_at)
                 VALUES ($1, $2, (SELECT id FROM audiences WHERE workspace_id = $1 AND slug = $3),
                     {client}, $4, $5, $6, $6)"
            );
            let audience = if place == 1 { "b" } else { "a" };
            let params = [
                Param::Int(workspace),
                Param::Int(lead),
                Param::Text(audience),
                Param::Text(STATUS[*status]),
                left,
                Param::Int(at),
            ];
            tx.execute(sql.as_str(), &params)?;
        }
        for (topic, on) in topics.iter().enumerate() {
            let Some(on) = on else { continue };
            let sql = "INSERT INTO topic_preferences
                           (workspace_id, lead_id, topic_id, status, created_at, updated_at)
                       VALUES ($1, $2, (SELECT id FROM topics WHERE workspace_id = $1 AND slug = $3),
                           $4, $5, $5)";
            let params = [
                Param::Int(workspace),
                Param::Int(lead),
                Param::Text(["t", "u"][topic]),
                Param::Text(if *on { "on" } else { "off" }),
                Param::Int(at),
            ];
            tx.execute(sql, &params)?;
        }
        if left {
            let sql = "UPDATE leads SET unsubscribed_at = $2 WHERE id = $1";
            tx.execute(sql, &[Param::Int(lead), Param::Int(at)])?;
        }
        Ok::<_, DatabaseError>(())
    });
    write.await.unwrap();
}

/// Every row of somebody's consent, as text.
async fn told(cx: &Cx, lead: ContactId) -> Vec<String> {
    let lead = lead.get();
    let read = cx.database().read(move |tx| {
        let mut told = Vec::new();
        for sql in [
            "SELECT a.slug || coalesce(CAST(s.client_id AS TEXT), ''), s.status,
                    coalesce(s.unsubscribed_at, 0), s.updated_at, coalesce(s.home_lead_id, 0)
             FROM subscriptions s JOIN audiences a ON a.id = s.audience_id WHERE s.lead_id = $1",
            "SELECT t.slug, p.status, 0, p.updated_at, coalesce(p.home_lead_id, 0)
             FROM topic_preferences p JOIN topics t ON t.id = p.topic_id WHERE p.lead_id = $1",
            "SELECT 'left', 'everything', unsubscribed_at, 0, 0 FROM leads
             WHERE id = $1 AND unsubscribed_at IS NOT NULL",
        ] {
            for row in &tx.query(sql, &[Param::Int(lead)])? {
                let (left, updated, home) = (row.int(2)?, row.int(3)?, row.int(4)?);
                told.push(format!("{} {} {left} {updated} {home}", row.text(0)?, row.text(1)?));
            }
        }
        told.sort();
        Ok::<_, DatabaseError>(told)
    });
    read.await.unwrap()
}

fn is_strict(told: &[String], what: &str) -> bool {
    told.iter().any(|line| line.starts_with(what))
}

async fn ground(bed: &Bed, workspace: &str) -> Cx {
    let cx = bed.make_workspace(workspace).await;
    for slug in ["a", "b"] {
        let (slug, name) = (slug.parse().unwrap(), "List".parse().unwrap());
        audiences::create(
            &cx,
            audiences::Create { slug, name, double_opt_in: false, confirm_template_key: None },
        )
        .await
        .unwrap();
    }
    for slug in ["t", "u"] {
        let (slug, name) = (slug.parse().unwrap(), "Topic".parse().unwrap());
        topics::create(&cx, topics::Create { slug, name, description: None }).await.unwrap();
    }
    cx
}

async fn say(cx: &Cx, lead: ContactId, between: Between) {
    let scope = match between {
        Between::Nothing => return,
        Between::LeavesEverything => Scope::Global,
        Between::LeavesTheFirst => {
            Scope::Audience(audiences::find(cx, "a".parse().unwrap()).await.unwrap().id)
        }
    };
    let act = Act {
        by: By::Person,
        source: "page".parse().unwrap(),
        reason: None,
        proof: Proof::default(),
    };
    let cmd = subscriptions::Unsubscribe { whom: lead.into(), scope, act };
    subscriptions::unsubscribe(cx, cmd).await.unwrap();
}

async fn run(bed: &Bed, workspace: &str, (one, other): (Said, Said), between: Between) {
    let cx = ground(bed, workspace).await;
    let winner = who(&cx, &["email=one@example.org"]).await.lead_id;
    let loser = who(&cx, &["email=other@example.org"]).await.lead_id;
    write(&cx, winner, one).await;
    write(&cx, loser, other).await;
    let before = (told(&cx, winner).await, told(&cx, loser).await);
    let merged = merge(&cx, winner, loser).await.unwrap();
    let now = told(&cx, winner).await;
    let both = [before.0.as_slice(), before.1.as_slice()].concat();
    for strict in both.iter().filter(|line| {
        line.contains("unsubscribed") || line.contains("off") || line.starts_with("left")
    }) {
        let what = strict.split_inclusive(' ').take(2).collect::<String>();
        assert!(is_strict(&now, &what), "{what} of {both:?} is not in {now:?}");
    }
    for (line, said) in both.iter().map(|line| (line, line.split(' ').next().unwrap())) {
        assert!(is_strict(&now, said), "{line} was lost: {now:?}");
    }
    bed.clock.advance(1.hour());
    let cx = bed.inside(workspace).await;
    say(&cx, winner, between).await;
    bed.clock.advance(1.hour());
    let cx = bed.inside(workspace).await;
    unmerge(&cx, merged.id).await.unwrap();
    let after = (told(&cx, winner).await, told(&cx, loser).await);
    match between {
        Between::Nothing => assert_eq!(after, before),
        Between::LeavesEverything => {
            assert!(is_strict(&after.0, "left") && is_strict(&after.1, "left"), "{after:?}");
        }
        Between::LeavesTheFirst => {
            for (before, after) in [(&before.0, &after.0), (&before.1, &after.1)] {
                let had = is_strict(before, "a ");
                assert!(!had || is_strict(after, "a unsubscribed"), "{before:?}: {after:?}");
            }
        }
    }
}

/// Three become one in two merges, and come apart in either order: each has again what he had.
async fn run_nested(bed: &Bed, workspace: &str, said: [Said; 3], outer_first: bool) {
    let cx = ground(bed, workspace).await;
    let (mut leads, mut before) = (Vec::new(), Vec::new());
    for (number, said) in said.into_iter().enumerate() {
        let lead = who(&cx, &[&format!("email=p{number}@example.org")]).await.lead_id;
        write(&cx, lead, said).await;
        before.push(told(&cx, lead).await);
        leads.push(lead);
    }
    let inner = merge(&cx, leads[1], leads[2]).await.unwrap();
    let outer = merge(&cx, leads[0], leads[1]).await.unwrap();
    let now = told(&cx, leads[0]).await;
    for strict in before.concat().iter().filter(|line| {
        line.contains("unsubscribed") || line.contains("off") || line.starts_with("left")
    }) {
        let what = strict.split_inclusive(' ').take(2).collect::<String>();
        assert!(is_strict(&now, &what), "{what} of {before:?} is not in {now:?}");
    }
    let order = if outer_first { [outer.id, inner.id] } else { [inner.id, outer.id] };
    for merge in order {
        bed.clock.advance(1.hour());
        unmerge(&bed.inside(workspace).await, merge).await.unwrap();
    }
    for (lead, before) in leads.into_iter().zip(before) {
        assert_eq!(told(&cx, lead).await, before, "{lead}, the outer one first: {outer_first}");
    }
}

fn check_nested(bed: impl Future<Output = Bed>, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bed = runtime.block_on(bed);
    let number = Cell::new(0);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let cases = ([said(), said(), said()], any::<bool>());
    let run = TestRunner::new(config).run(&cases, |(said, outer_first)| {
        number.set(number.get() + 1);
        runtime.block_on(run_nested(&bed, &format!("n{}", number.get()), said, outer_first));
        Ok(())
    });
    run.unwrap();
}

#[test]
fn on_sqlite_consent_comes_back_from_merges_of_merges() {
    check_nested(Bed::memory(), 60);
}

#[test]
fn on_postgres_consent_comes_back_from_merges_of_merges() {
    check_nested(Bed::postgres(), 6);
}

fn check(bed: impl Future<Output = Bed>, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bed = runtime.block_on(bed);
    let number = Cell::new(0);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let between = prop_oneof![
        2 => Just(Between::Nothing),
        1 => Just(Between::LeavesEverything),
        1 => Just(Between::LeavesTheFirst)
    ];
    let run = TestRunner::new(config).run(&((said(), said()), between), |(said, between)| {
        number.set(number.get() + 1);
        runtime.block_on(run(&bed, &format!("c{}", number.get()), said, between));
        Ok(())
    });
    run.unwrap();
}

#[test]
fn on_sqlite_consent_is_the_strictest_and_comes_back() {
    check(Bed::memory(), 120);
}

#[test]
fn on_postgres_consent_is_the_strictest_and_comes_back() {
    check(Bed::postgres(), 12);
}
