//! Random operations on the engine and on the model: the same answers, and the same contents at the end.
//!
//! The sequence that fails is shrunk to a small one, each time on a fresh workspace. The sequences are the same in
//! every run; `PROPTEST_RNG_SEED=<number>` tries others.

mod answer;
mod operation;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::collection::vec;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use tidings_kernel::{
    Action, Change, ChangeKind, Item, ItemEngine, ItemStore, Key, Query, Returns, Scan, Update,
    Workspace, Write, tables::EMAIL_TRACKING, tables::INBOX,
};

use super::{Case, cases};
use crate::FakeClock;
use crate::items::ground::{Ground, drain, scan};
use crate::items::{Quirk, Subject};
use crate::model::ModelEngine;
use answer::{Answer, walk};
use operation::{Operation, operation};

pub(super) const CASES: &[Case] = &cases![random_operations_agree_with_the_model];

const OPERATIONS: usize = 40;

async fn random_operations_agree_with_the_model(ground: Ground) {
    let handle = tokio::runtime::Handle::current();
    // proptest is not async: it drives the runtime from a thread of its own.
    let tested = tokio::task::spawn_blocking(move || {
        let defaults = Config::default();
        let rng_seed = match defaults.rng_seed {
            RngSeed::Random => RngSeed::Fixed(1),
            fixed @ RngSeed::Fixed(_) => fixed,
        };
        let cases = ground.subject.sequences();
        let config = Config {
            cases,
            rng_seed,
            failure_persistence: None,
            max_shrink_iters: 20 * cases,
            ..defaults
        };
        let sequences = AtomicUsize::new(0);
        TestRunner::new(config).run(&vec(operation(), 1..=OPERATIONS), |operations| {
            let number = sequences.fetch_add(1, Ordering::Relaxed);
            let operations = operations.into_iter().map(|it| suit(it, ground.subject.quirks()));
            handle.block_on(agree(&ground, number, operations.collect()))
        })
    });
    match tested.await.unwrap() {
        Ok(()) => {}
        Err(TestError::Fail(reason, operations)) => {
            let operations: Vec<String> = operations.iter().map(Operation::to_string).collect();
            panic!("{reason}\nThe shortest sequence found:\n{}", operations.join("\n"))
        }
        Err(TestError::Abort(reason)) => panic!("gave up: {reason}"),
    }
}

/// The same operation, but so that a known difference of the server does not show.
fn suit(operation: Operation, quirks: &[Quirk]) -> Operation {
    match operation {
        Operation::Update(update) => Operation::Update(suit_update(update, quirks)),
        Operation::Transact(mut txn) => {
            for write in &mut txn.writes {
                if let Write::Update(update) = write {
                    *update = suit_update(update.clone(), quirks);
                }
            }
            Operation::Transact(txn)
        }
        other => other,
    }
}

fn suit_update(mut update: Update, quirks: &[Quirk]) -> Update {
    let takes_away =
        |action: &Action| matches!(action, Action::Remove(_) | Action::DeleteFromSet(..));
    if quirks.contains(&Quirk::RemoveMakesAnItem) && update.actions.iter().all(takes_away) {
        update = update.set("kept", true);
    }
    if quirks.contains(&Quirk::NewItemHasAnOldKey) && update.returns == Returns::Old {
        update.returns = Returns::New;
    }
    update
}

async fn agree(
    ground: &Ground,
    number: usize,
    operations: Vec<Operation>,
) -> Result<(), TestCaseError> {
    let engine = ground.open(&format!("sequence-{number}")).await;
    let clock = FakeClock::at(ground.now());
    let models = ModelEngine::new(Arc::clone(&clock) as Arc<_>);
    let workspace: Workspace = "model".parse().unwrap();
    let model = models.open(&workspace).await.unwrap();

    for (position, operation) in operations.iter().enumerate() {
        match operation {
            Operation::Pass(seconds) => {
                ground.pass_seconds(*seconds);
                clock.set(ground.now());
            }
            Operation::Sweep => {
                ground.subject.sweep().await;
                models.sweep(usize::MAX).await.unwrap();
            }
            operation => {
                let found = Answer::of(&*engine, operation).await?;
                let expected = Answer::of(&*model, operation).await?;
                compare(&format!("operation {position}: {operation}"), &found, &expected)?;
            }
        }
    }
    compare("contents", &contents(&*engine).await?, &contents(&*model).await?)?;
    let quirks = &*ground.subject;
    compare("changes", &changes(&*engine, quirks).await, &changes(&*model, quirks).await)
}

fn compare<T: PartialEq + std::fmt::Debug>(
    context: &str,
    found: &T,
    expected: &T,
) -> Result<(), TestCaseError> {
    if found == expected {
        return Ok(());
    }
    Err(TestCaseError::fail(format!("{context}\n  found    {found:?}\n  expected {expected:?}")))
}

/// All items, from the tables and once more from the index.
async fn contents(store: &dyn ItemStore) -> Result<Vec<Vec<Item>>, TestCaseError> {
    let mut all = vec![
        scan(store, Scan::new(&EMAIL_TRACKING)).await,
        scan(store, Scan::new(&INBOX).limit(2)).await,
    ];
    for partition in operation::INDEX_PARTITIONS {
        let query = Query::new(&EMAIL_TRACKING, partition).index("GSI1").limit(3);
        all.push(walk(store, &query).await?.unwrap());
    }
    Ok(all)
}

/// The changes of each key in their order, without what a quirk blurs.
async fn changes(store: &dyn ItemStore, subject: &dyn Subject) -> Vec<(Key, Vec<Change>)> {
    let blurred = |quirk| subject.quirks().contains(&quirk);
    let mut told = drain(store, &INBOX, "agreement").await;
    if blurred(Quirk::NoOpMakesARecord) {
        told.retain(|change| change.old != change.new);
    }
    if blurred(Quirk::ExpiryLooksLikeDelete) {
        for change in &mut told {
            if change.kind == ChangeKind::Expired {
                change.kind = ChangeKind::Deleted;
            }
        }
    }
    // A stable sort, so that each key keeps its order.
    told.sort_by(|a, b| a.key.cmp(&b.key));
    told.chunk_by(|a, b| a.key == b.key)
        .map(|of_key| (of_key[0].key.clone(), of_key.to_vec()))
        .collect()
}
