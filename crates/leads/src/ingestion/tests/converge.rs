//! Whatever the order in which events come, and however often: the same is stored, once, and people were seen at the same times.

use std::collections::BTreeSet;

use jiff::ToSpan as _;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidings_access::Cx;
use tidings_jobs::contracts::LeadIngestion;
use tidings_testbed::Bed;

use super::{ids, told};
use crate::identity::{Identity, Whom, view};
use crate::ingestion::{Ingested, ingest};

const NAMES: [&str; 8] = [
    "email=ada@example.org",
    "user_id=ada",
    "phone=+493012345",
    "anonymous_id=browser",
    "email=bob@example.org",
    "customer_id=bob",
    "custom:card=7",
    "whatsapp=+493054321",
];

/// Three people who are never named together, each by one or two of his names.
fn log(cx: &Cx) -> Vec<LeadIngestion> {
    let groups: [&[usize]; 3] = [&[0, 1, 2, 3], &[4, 5], &[6, 7]];
    let mut log = Vec::new();
    for (group, names) in groups.iter().enumerate() {
        for number in 0..8 {
            let (one, other) = (names[number % names.len()], names[(number + 1) % names.len()]);
            let at = cx.now() - ((number * 7 + group) as i64 % 24).hours();
            log.push(told(cx, &format!("{group}-{number}"), at, &[NAMES[one], NAMES[other]]));
        }
    }
    log
}

/// Everybody whom the log is about, as anybody would see him.
async fn seen(cx: &Cx) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for name in NAMES {
        let (channel, value) = name.split_once('=').unwrap();
        let whom = Whom::Identity(Identity::new(channel, value).unwrap());
        let view = view(cx, whom.clone()).await.unwrap().unwrap();
        let mut names: Vec<_> = view.identities.iter().map(|one| one.value.as_str()).collect();
        names.sort_unstable();
        let events = ids(cx, whom).await;
        all.insert(format!(
            "{names:?} {:?}..{:?} {events:?}",
            view.first_seen_at, view.last_seen_at
        ));
    }
    all
}

async fn replay(bed: &Bed, workspace: &str, order: &[usize]) -> BTreeSet<String> {
    let cx = bed.make_workspace(workspace).await;
    let log = log(&cx);
    let mut stored = 0;
    for place in order {
        if let Ingested::Stored { .. } = ingest(&cx, log[*place].clone()).await.unwrap() {
            stored += 1;
        }
    }
    assert_eq!(stored, log.len(), "each was stored once");
    seen(&cx).await
}

fn check(bed: impl Future<Output = Bed>, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bed = runtime.block_on(bed);
    let in_order: Vec<usize> = (0..24).collect();
    let expected = runtime.block_on(replay(&bed, "inorder", &in_order));
    assert_eq!(expected.len(), 3, "{expected:?}");
    let number = std::cell::Cell::new(0);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let twice = [in_order.clone(), in_order].concat();
    let run = TestRunner::new(config).run(&Just(twice).prop_shuffle(), |order| {
        number.set(number.get() + 1);
        let seen = runtime.block_on(replay(&bed, &format!("r{}", number.get()), &order));
        prop_assert_eq!(&seen, &expected);
        Ok(())
    });
    run.unwrap();
}

#[test]
fn on_sqlite_a_shuffled_log_converges() {
    check(Bed::memory(), 25);
}

#[test]
fn on_postgres_a_shuffled_log_converges() {
    check(Bed::postgres(), 3);
}
