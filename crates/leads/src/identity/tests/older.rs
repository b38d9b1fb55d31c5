//! Consent when a merge is undone that an earlier version made, which did not keep with it what each had said himself.

use std::cell::Cell;

use jiff::ToSpan as _;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tidings_access::Cx;
use tidings_people::consent::{Scope, Whom, audiences};
use tidings_people::contacts::ContactId;
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, each_store};

use super::consent::{Said, ground, leave, of, said, subscribe, told, write};
use super::who;
use crate::identity::{MergeId, merge, unmerge};

/// The two are merged as an earlier version did it: the same rows, and with the merge only what it changed.
async fn merge_as_before(cx: &Cx, winner: ContactId, loser: ContactId) -> MergeId {
    let merged = merge(cx, winner, loser).await.unwrap();
    forget(cx).await;
    merged.id
}

async fn forget(cx: &Cx) {
    let workspace = cx.workspace_id().get();
    let forget = cx.database().write(move |tx| {
        let sql = "SELECT id, CAST(provenance AS TEXT) FROM lead_merges WHERE workspace_id = $1";
        for row in &tx.query(sql, &[Param::Int(workspace)])? {
            let mut kept: Value = serde_json::from_str(row.text(1)?).unwrap();
            kept["consent"] = json!({ "subscriptions": [] });
            let sql = "UPDATE lead_merges SET provenance = $2 WHERE id = $1";
            tx.execute(sql, &[Param::Int(row.int(0)?), Param::Text(&kept.to_string())])?;
        }
        Ok::<_, DatabaseError>(())
    });
    forget.await.unwrap();
}

async fn two(cx: &Cx) -> (ContactId, ContactId) {
    let winner = who(cx, &["email=one@example.org"]).await.lead_id;
    (winner, who(cx, &["email=other@example.org"]).await.lead_id)
}

const NOTHING: [&str; 0] = [];

async fn who_stays_is_not_subscribed_to_what_only_the_other_one_agreed_to(bed: &Bed) {
    let cx = ground(bed, "lone").await;
    let audience = audiences::find(&cx, "a".parse().unwrap()).await.unwrap().id;
    let (winner, loser) = two(&cx).await;
    subscribe(&cx, loser.into(), audience, None).await;
    write(&cx, loser, ([None; 3], [Some(true), None], false)).await;
    let before = told(&cx, loser).await;
    let merged = merge_as_before(&cx, winner, loser).await;
    assert_eq!(of(&cx, winner).await, ["a subscribed", "t on"]);
    bed.clock.advance(1.hour());
    unmerge(&bed.inside("lone").await, merged).await.unwrap();
    assert_eq!(of(&cx, winner).await, NOTHING);
    assert_eq!(told(&cx, loser).await, before);
}

/// Nobody knows who of them said it, whosever the row was.
async fn what_was_left_while_they_were_one_is_left_by_both(bed: &Bed) {
    let cx = ground(bed, "left").await;
    let first = audiences::find(&cx, "a".parse().unwrap()).await.unwrap().id;
    let second = audiences::find(&cx, "b".parse().unwrap()).await.unwrap().id;
    let (winner, loser) = two(&cx).await;
    subscribe(&cx, loser.into(), first, None).await;
    subscribe(&cx, loser.into(), second, None).await;
    subscribe(&cx, winner.into(), second, None).await;
    let merged = merge_as_before(&cx, winner, loser).await;
    bed.clock.advance(1.hour());
    let cx = bed.inside("left").await;
    for scope in [Scope::Audience(first), Scope::Audience(second), Scope::Global] {
        leave(&cx, Whom::Contact(winner), scope).await;
    }
    // As if that, too, had been written before anything was kept of it.
    forget(&cx).await;
    bed.clock.advance(1.hour());
    unmerge(&bed.inside("left").await, merged).await.unwrap();
    for lead in [winner, loser] {
        let left = ["a unsubscribed", "b unsubscribed", "left everything"];
        assert_eq!(of(&cx, lead).await, left);
    }
}

/// What one had left before is no word of the other, until it was said again of the person.
async fn what_was_left_before_is_left_by_him_alone_unless_it_was_said_again(bed: &Bed) {
    for again in [false, true] {
        let workspace = format!("again{again}").to_lowercase();
        let cx = ground(bed, &workspace).await;
        let audience = audiences::find(&cx, "a".parse().unwrap()).await.unwrap().id;
        let (winner, loser) = two(&cx).await;
        leave(&cx, loser.into(), Scope::Audience(audience)).await;
        bed.clock.advance(1.hour());
        let cx = bed.inside(&workspace).await;
        let merged = merge_as_before(&cx, winner, loser).await;
        bed.clock.advance(1.hour());
        let cx = bed.inside(&workspace).await;
        if again {
            let said_at = cx.now().as_millisecond();
            let say = cx.database().write(move |tx| {
                let sql = "UPDATE lead_merges SET said_at = $2 WHERE id = $1";
                tx.execute(sql, &[Param::Int(merged.get()), Param::Int(said_at)])
            });
            say.await.unwrap();
        }
        unmerge(&cx, merged).await.unwrap();
        assert_eq!(of(&cx, loser).await, ["a unsubscribed"]);
        let his: &[&str] = if again { &["a unsubscribed"] } else { &[] };
        assert_eq!(of(&cx, winner).await, his);
    }
}

each_store!(
    who_stays_is_not_subscribed_to_what_only_the_other_one_agreed_to,
    what_was_left_while_they_were_one_is_left_by_both,
    what_was_left_before_is_left_by_him_alone_unless_it_was_said_again,
);

/// Three become one in two merges and come apart in either order: whoever is alone has nothing that he had not agreed to, and
/// has left what he had left.
async fn run(bed: &Bed, workspace: &str, said: [Said; 3], (siblings, last_first): (bool, bool)) {
    let cx = ground(bed, workspace).await;
    let (mut leads, mut before) = (Vec::new(), Vec::new());
    for (number, said) in said.into_iter().enumerate() {
        let lead = who(&cx, &[&format!("email=p{number}@example.org")]).await.lead_id;
        write(&cx, lead, said).await;
        before.push(of(&cx, lead).await);
        leads.push(lead);
    }
    let pairs = if siblings { [(0, 1), (0, 2)] } else { [(1, 2), (0, 1)] };
    let mut merges = Vec::new();
    for (one, other) in pairs {
        bed.clock.advance(1.hour());
        let cx = bed.inside(workspace).await;
        merges.push(merge_as_before(&cx, leads[one], leads[other]).await);
    }
    if last_first {
        merges.reverse();
    }
    for merge in merges {
        bed.clock.advance(1.hour());
        unmerge(&bed.inside(workspace).await, merge).await.unwrap();
    }
    for (lead, before) in leads.iter().zip(&before) {
        let after = of(&cx, *lead).await;
        let is_lax = |line: &&String| line.ends_with(" subscribed") || line.ends_with(" on");
        for lax in after.iter().filter(is_lax) {
            assert!(before.contains(lax), "{lax} of {after:?} was not in {before:?}");
        }
        for strict in before.iter().filter(|line| !is_lax(line) && !line.ends_with(" pending")) {
            assert!(after.contains(strict), "{strict} of {before:?} is not in {after:?}");
        }
    }
}

fn check(bed: impl Future<Output = Bed>, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bed = runtime.block_on(bed);
    let number = Cell::new(0);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let cases = ([said(), said(), said()], (any::<bool>(), any::<bool>()));
    let run = TestRunner::new(config).run(&cases, |(said, how)| {
        number.set(number.get() + 1);
        runtime.block_on(run(&bed, &format!("o{}", number.get()), said, how));
        Ok(())
    });
    run.unwrap();
}

#[test]
fn on_sqlite_nobody_gets_consent_by_the_end_of_an_older_merge() {
    check(Bed::memory(), 60);
}

#[test]
fn on_postgres_nobody_gets_consent_by_the_end_of_an_older_merge() {
    check(Bed::postgres(), 6);
}
