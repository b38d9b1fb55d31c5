//! Consent when two become one: the strictest of both; and when they come apart: what each had, where nothing newer was said.

use std::cell::Cell;

use jiff::ToSpan as _;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidings_access::{ClientId, Cx};
use tidings_kernel::EmailAddress;
use tidings_people::consent::{
    Act, AudienceId, By, Proof, Scope, Whom, audiences, confirmations, subscriptions, topics,
};
use tidings_people::contacts::{self, ContactId};
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, each_store};

use super::who;
use crate::identity::{merge, unmerge};

/// What somebody said of two audiences, of one client's part of the first, and of two topics; and whether he left everything.
pub(super) type Said = ([Option<usize>; 3], [Option<bool>; 2], bool);

const STATUS: [&str; 3] = ["subscribed", "pending", "unsubscribed"];

/// What is said while they are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    Nothing,
    LeavesEverything,
    LeavesTheFirst,
    /// By the id of the person, by an address of the one who stays, by one of the other's.
    ComesBackToTheFirst(Named),
    ComesBackToEverything(Named),
    SubscribesToTheSecond(Named),
}

/// By what the person is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Id,
    Winner,
    Loser,
}

fn named() -> impl Strategy<Value = Named> {
    prop_oneof![Just(Named::Id), Just(Named::Winner), Just(Named::Loser)]
}

pub(super) fn said() -> impl Strategy<Value = Said> {
    use proptest::option::of;
    let places = [of(0..3usize), of(0..3usize), of(0..3usize)];
    (places, [of(any::<bool>()), of(any::<bool>())], any::<bool>())
}

pub(super) async fn write(cx: &Cx, lead: ContactId, (places, topics, left): Said) {
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
pub(super) async fn told(cx: &Cx, lead: ContactId) -> Vec<String> {
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

pub(super) async fn ground(bed: &Bed, workspace: &str) -> Cx {
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
    let whom = |named| match named {
        Named::Id => Whom::Contact(lead),
        Named::Winner => Whom::Email("one@example.org".parse().unwrap()),
        Named::Loser => Whom::Email("other@example.org".parse().unwrap()),
    };
    let act = Act {
        by: By::Person,
        source: "page".parse().unwrap(),
        reason: None,
        proof: Proof::default(),
    };
    let first = audiences::find(cx, "a".parse().unwrap()).await.unwrap().id;
    let second = audiences::find(cx, "b".parse().unwrap()).await.unwrap().id;
    let scope = match between {
        Between::Nothing => return,
        Between::LeavesEverything | Between::ComesBackToEverything(_) => Scope::Global,
        _ => Scope::Audience(first),
    };
    match between {
        Between::Nothing => {}
        Between::LeavesEverything | Between::LeavesTheFirst => {
            let cmd = subscriptions::Unsubscribe { whom: lead.into(), scope, act };
            subscriptions::unsubscribe(cx, cmd).await.unwrap();
        }
        Between::ComesBackToTheFirst(named) | Between::ComesBackToEverything(named) => {
            let cmd = subscriptions::Resubscribe { whom: whom(named), scope, act };
            subscriptions::resubscribe(cx, cmd).await.unwrap();
        }
        Between::SubscribesToTheSecond(named) => {
            let (whom, client) = (whom(named), None);
            let cmd =
                subscriptions::Subscribe { whom, audience: second, client, confirmed: true, act };
            subscriptions::subscribe(cx, cmd).await.unwrap();
        }
    }
}

/// Nobody has more than he had or said himself: the other one's word is none of his.
fn is_his_own(before: &[String], after: &[String], (what, said_himself): (&str, bool)) {
    let lines = |all: &[String]| -> Vec<String> {
        all.iter().filter(|line| said_himself == line.starts_with(what)).cloned().collect()
    };
    if said_himself {
        let rest = |all: &[String]| -> Vec<String> {
            all.iter().filter(|line| !line.starts_with(what)).cloned().collect()
        };
        // Who came back for one list has not come back to the others.
        for line in rest(after).iter().filter(|line| line.contains(" subscribed")) {
            assert!(before.contains(line), "{line} of {after:?} was not in {before:?}");
        }
    } else {
        assert_eq!(lines(after), lines(before));
        for line in after.iter().filter(|line| line.contains(" subscribed")) {
            assert!(before.contains(line), "{line} of {after:?} was not in {before:?}");
        }
        for line in before.iter().filter(|line| line.starts_with("left")) {
            assert!(after.contains(line), "{line} is not in {after:?}");
        }
    }
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
        Between::ComesBackToTheFirst(named) => {
            is_his_own(&before.0, &after.0, ("a ", named == Named::Winner));
            is_his_own(&before.1, &after.1, ("a ", named == Named::Loser));
        }
        Between::ComesBackToEverything(named) => {
            is_his_own(&before.0, &after.0, ("left", named == Named::Winner));
            is_his_own(&before.1, &after.1, ("left", named == Named::Loser));
        }
        Between::SubscribesToTheSecond(named) => {
            let said = [named != Named::Loser, named == Named::Loser];
            for ((before, after), said) in
                [(&before.0, &after.0), (&before.1, &after.1)].into_iter().zip(said)
            {
                let had = is_strict(before, "b subscribed");
                let has = is_strict(after, "b subscribed");
                assert!(!has || had || said, "{before:?}: {after:?}");
            }
            let (winner, loser) =
                (is_strict(&after.0, "b subscribed"), is_strict(&after.1, "b subscribed"));
            assert!(named != Named::Winner || winner, "{after:?}");
            assert!(named != Named::Loser || loser, "{after:?}");
        }
    }
}

/// Everything strict that somebody of these said, the person must have, and nothing lax that somebody of them did not agree to.
fn is_strictest(now: &[String], parts: &[&Vec<String>]) {
    let word = |line: &str| line.split_inclusive(' ').take(2).collect::<String>();
    let all: Vec<&String> = parts.iter().flat_map(|part| part.iter()).collect();
    for strict in all.iter().filter(|line| {
        line.contains("unsubscribed") || line.contains("off") || line.starts_with("left")
    }) {
        assert!(is_strict(now, &word(strict)), "{strict} of {parts:?} is not in {now:?}");
    }
    for pending in all.iter().filter(|line| line.contains(" pending")) {
        let place = pending.split(' ').next().unwrap();
        assert!(!is_strict(now, &format!("{place} subscribed")), "{pending}: {now:?}");
    }
    for line in now {
        assert!(
            all.iter().any(|one| word(one) == word(line) || is_left_with_whole(line, &all)),
            "{line} of {now:?} is nobody's: {parts:?}"
        );
    }
}

/// One client's part is left with the audience, if another one left that.
fn is_left_with_whole(line: &str, all: &[&String]) -> bool {
    let part = line.split(' ').next().unwrap();
    part.len() > 1
        && line.contains(" unsubscribed")
        && all.iter().any(|one| one.starts_with(&part[..1]) && one.contains(" unsubscribed"))
}

/// Three become one in two merges, one into the other or both into one, and come apart in either order: whoever is still one has
/// the strictest, and each who is alone has again what he had.
async fn run_nested(
    bed: &Bed,
    workspace: &str,
    said: [Said; 3],
    (siblings, last_first): (bool, bool),
) {
    let cx = ground(bed, workspace).await;
    let (mut leads, mut before) = (Vec::new(), Vec::new());
    for (number, said) in said.into_iter().enumerate() {
        let lead = who(&cx, &[&format!("email=p{number}@example.org")]).await.lead_id;
        write(&cx, lead, said).await;
        before.push(told(&cx, lead).await);
        leads.push(lead);
    }
    let pairs = if siblings { [(0, 1), (0, 2)] } else { [(1, 2), (0, 1)] };
    let mut merges = Vec::new();
    for (one, other) in pairs {
        merges.push((merge(&cx, leads[one], leads[other]).await.unwrap().id, other));
    }
    is_strictest(&told(&cx, leads[0]).await, &before.iter().collect::<Vec<_>>());
    if last_first {
        merges.reverse();
    }
    let mut apart = Vec::new();
    for (merge, loser) in merges {
        bed.clock.advance(1.hour());
        unmerge(&bed.inside(workspace).await, merge).await.unwrap();
        apart.push(loser);
        // Who is one with whom: the first with whoever is not apart; and who was merged into the second, while he is.
        let with = |lead: usize| apart.contains(&lead);
        let groups: Vec<Vec<usize>> = match (siblings, with(1), with(2)) {
            (_, true, true) => vec![vec![0], vec![1], vec![2]],
            (true, true, false) => vec![vec![0, 2], vec![1]],
            (false, true, false) => vec![vec![0], vec![1, 2]],
            (_, false, true) => vec![vec![0, 1], vec![2]],
            (_, false, false) => vec![vec![0, 1, 2]],
        };
        for group in groups {
            let now = told(&cx, leads[group[0]]).await;
            match group.as_slice() {
                [alone] => assert_eq!(now, before[*alone], "{alone} of {siblings} {last_first}"),
                _ => {
                    let parts: Vec<_> = group.iter().map(|lead| &before[*lead]).collect();
                    is_strictest(&now, &parts);
                }
            }
        }
    }
}

fn check_nested(bed: impl Future<Output = Bed>, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bed = runtime.block_on(bed);
    let number = Cell::new(0);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let cases = ([said(), said(), said()], (any::<bool>(), any::<bool>()));
    let run = TestRunner::new(config).run(&cases, |(said, how)| {
        number.set(number.get() + 1);
        runtime.block_on(run_nested(&bed, &format!("n{}", number.get()), said, how));
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
        1 => Just(Between::LeavesTheFirst),
        3 => named().prop_map(Between::ComesBackToTheFirst),
        2 => named().prop_map(Between::ComesBackToEverything),
        2 => named().prop_map(Between::SubscribesToTheSecond),
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

pub(super) async fn subscribe(cx: &Cx, whom: Whom, audience: AudienceId, client: Option<ClientId>) {
    let confirmed = true;
    let cmd = subscriptions::Subscribe { whom, audience, client, confirmed, act: page() };
    subscriptions::subscribe(cx, cmd).await.unwrap();
}

pub(super) async fn leave(cx: &Cx, whom: Whom, scope: Scope) {
    let cmd = subscriptions::Unsubscribe { whom, scope, act: page() };
    subscriptions::unsubscribe(cx, cmd).await.unwrap();
}

fn page() -> Act {
    Act { by: By::Person, source: "page".parse().unwrap(), reason: None, proof: Proof::default() }
}

pub(super) async fn of(cx: &Cx, lead: ContactId) -> Vec<String> {
    let words = |line: &String| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    told(cx, lead).await.iter().map(words).collect()
}

/// One left the whole audience; that the other one agreed to a client's part later is not his word.
async fn who_left_the_audience_is_not_brought_back_by_the_other_ones_part(bed: &Bed) {
    let cx = ground(bed, "parts").await;
    let client = bed.shop(&cx).await.id;
    let audience = audiences::find(&cx, "a".parse().unwrap()).await.unwrap().id;
    let winner = who(&cx, &["email=one@example.org"]).await.lead_id;
    let loser = who(&cx, &["email=other@example.org"]).await.lead_id;
    leave(&cx, loser.into(), Scope::Audience(audience)).await;
    bed.clock.advance(1.hour());
    let cx = bed.inside("parts").await;
    subscribe(&cx, winner.into(), audience, Some(client)).await;
    let merged = merge(&cx, winner, loser).await.unwrap();
    let part = format!("a{client}");
    assert_eq!(of(&cx, winner).await, ["a unsubscribed", &format!("{part} unsubscribed")]);
    bed.clock.advance(1.hour());
    let cx = bed.inside("parts").await;
    unmerge(&cx, merged.id).await.unwrap();
    assert_eq!(of(&cx, winner).await, [format!("{part} subscribed")]);
    assert_eq!(of(&cx, loser).await, ["a unsubscribed"]);
}

/// Whoever was merged is still named by his old id, in links that were sent before.
async fn who_was_merged_leaves_by_his_old_id(bed: &Bed) {
    let cx = ground(bed, "old").await;
    let audience = audiences::find(&cx, "a".parse().unwrap()).await.unwrap().id;
    let winner = who(&cx, &["email=one@example.org"]).await.lead_id;
    let loser = who(&cx, &["email=other@example.org"]).await.lead_id;
    subscribe(&cx, winner.into(), audience, None).await;
    merge(&cx, winner, loser).await.unwrap();
    leave(&cx, loser.into(), Scope::Audience(audience)).await;
    assert_eq!(of(&cx, winner).await, ["a unsubscribed"]);
}

/// A merge more does not take back what the person agreed to since the last one.
async fn what_the_person_agreed_to_stays_when_a_third_joins(bed: &Bed) {
    let cx = ground(bed, "third").await;
    let audience = audiences::find(&cx, "a".parse().unwrap()).await.unwrap().id;
    let mut leads = Vec::new();
    for name in ["one", "other", "third"] {
        leads.push(who(&cx, &[&format!("email={name}@example.org")]).await.lead_id);
    }
    leave(&cx, leads[1].into(), Scope::Audience(audience)).await;
    merge(&cx, leads[0], leads[1]).await.unwrap();
    subscribe(&cx, leads[0].into(), audience, None).await;
    assert_eq!(of(&cx, leads[0]).await, ["a subscribed"]);
    let third = merge(&cx, leads[0], leads[2]).await.unwrap();
    assert_eq!(of(&cx, leads[0]).await, ["a subscribed"]);
    unmerge(&cx, third.id).await.unwrap();
    assert_eq!(of(&cx, leads[0]).await, ["a subscribed"]);
    assert_eq!(of(&cx, leads[2]).await, [] as [&str; 0]);
}

/// Only an item remembers of somebody erased that he had left everything. Whoever has his address now and is merged brings it
/// along.
async fn what_is_remembered_of_an_erased_address_is_absorbed(bed: &Bed) {
    let cx = ground(bed, "erased").await;
    let other: EmailAddress = "other@example.org".parse().unwrap();
    leave(&cx, Whom::Email(other.clone()), Scope::Global).await;
    contacts::erase(&cx, &other).await.unwrap();
    let winner = who(&cx, &["email=one@example.org"]).await.lead_id;
    let loser = who(&cx, &["email=other@example.org"]).await.lead_id;
    assert_eq!(of(&cx, loser).await, [] as [&str; 0]);
    who(&cx, &["email=one@example.org", "email=other@example.org"]).await;
    assert_eq!(of(&cx, winner).await, ["left everything"]);
}

/// One of several left everything. That yet another joins them makes no other one leave.
async fn only_who_left_has_left_however_many_join(bed: &Bed) {
    let cx = ground(bed, "leaver").await;
    let mut leads = Vec::new();
    for name in ["one", "other", "third"] {
        leads.push(who(&cx, &[&format!("email={name}@example.org")]).await.lead_id);
    }
    leave(&cx, leads[0].into(), Scope::Global).await;
    let other = merge(&cx, leads[0], leads[1]).await.unwrap();
    merge(&cx, leads[0], leads[2]).await.unwrap();
    unmerge(&cx, other.id).await.unwrap();
    assert_eq!(of(&cx, leads[0]).await, ["left everything"]);
    assert_eq!(of(&cx, leads[1]).await, [] as [&str; 0]);
}

/// Both asked, and one confirms by the mail that he was sent before they were one.
async fn a_confirmation_from_before_counts_for_the_person(bed: &Bed) {
    let cx = ground(bed, "asked").await;
    let (slug, name) = ("doi".parse().unwrap(), "List".parse().unwrap());
    let create = audiences::Create { slug, name, double_opt_in: true, confirm_template_key: None };
    let audience = audiences::create(&cx, create).await.unwrap().id;
    let mut asked = Vec::new();
    for name in ["one", "other"] {
        let whom = Whom::Email(format!("{name}@example.org").parse().unwrap());
        let cmd = subscriptions::Subscribe {
            whom,
            audience,
            client: None,
            confirmed: false,
            act: page(),
        };
        let outcome = subscriptions::subscribe(&cx, cmd).await.unwrap();
        asked.push((outcome.contact, outcome.subscription.unwrap().id));
    }
    let [(winner, _), (loser, subscription)] = asked[..] else { unreachable!() };
    let merged = merge(&cx, winner, loser).await.unwrap();
    for _ in 0..2 {
        let cmd = confirmations::Confirm { subscription, proof: Proof::default() };
        confirmations::confirm(&cx, cmd).await.unwrap();
        assert_eq!(of(&cx, winner).await, ["doi subscribed"]);
    }
    unmerge(&cx, merged.id).await.unwrap();
    assert_eq!(of(&cx, winner).await, ["doi pending"]);
    assert_eq!(of(&cx, loser).await, ["doi subscribed"]);
}

each_store!(
    who_left_the_audience_is_not_brought_back_by_the_other_ones_part,
    who_was_merged_leaves_by_his_old_id,
    what_the_person_agreed_to_stays_when_a_third_joins,
    what_is_remembered_of_an_erased_address_is_absorbed,
    only_who_left_has_left_however_many_join,
    a_confirmation_from_before_counts_for_the_person,
);
