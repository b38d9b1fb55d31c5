//! Whatever is resolved, merged and taken apart in whatever order, everybody has what a simple model says, and when everything is
//! taken apart everybody has what was his.
//!
//! The model moves nothing: an identity is at home with a lead for ever, and whose it is now is found by going up.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidings_access::Cx;
use tidings_testbed::Bed;

use super::{by, identity};
use crate::identity::{MAX_MERGED, MergeError, MergeId, Whom, find, merge, resolve, unmerge};

#[derive(Debug, Clone)]
enum Step {
    Resolve(Vec<usize>),
    Merge(usize, usize),
    Unmerge(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => proptest::collection::vec(0..9usize, 1..4).prop_map(Step::Resolve),
        2 => (0..9usize, 0..9usize).prop_map(|(one, other)| Step::Merge(one, other)),
        3 => (0..12usize).prop_map(Step::Unmerge),
    ]
}

#[derive(Default)]
struct Model {
    /// Leads in the order in which they came.
    leads: Vec<i64>,
    home: BTreeMap<usize, i64>,
    up: BTreeMap<i64, i64>,
    merges: Vec<(MergeId, i64, i64)>,
    undone: BTreeSet<usize>,
    apart: BTreeSet<(i64, i64)>,
}

impl Model {
    fn root(&self, lead: i64) -> i64 {
        self.up.get(&lead).map_or(lead, |up| self.root(*up))
    }

    fn size(&self, lead: i64) -> usize {
        self.leads.iter().filter(|one| self.root(**one) == lead).count()
    }

    /// Joins two who are merged into nobody.
    fn join(&mut self, one: i64, other: i64, id: MergeId) -> i64 {
        let (winner, loser) = (one.min(other), one.max(other));
        self.up.insert(loser, winner);
        self.merges.push((id, winner, loser));
        winner
    }
}

fn name(number: usize) -> String {
    format!("custom:x={number}")
}

async fn run(bed: &Bed, workspace: &str, steps: &[Step]) {
    let cx = bed.make_workspace(workspace).await;
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Resolve(numbers) => resolve_both(&cx, &mut model, numbers).await,
            Step::Merge(one, other) => merge_both(&cx, &mut model, *one, *other).await,
            Step::Unmerge(place) => unmerge_both(&cx, &mut model, *place).await,
        }
        compare(&cx, &model, step).await;
    }
    for place in (0..model.merges.len()).rev().step_by(2).chain(0..model.merges.len()) {
        unmerge_both(&cx, &mut model, place).await;
    }
    assert!(model.up.is_empty());
    compare(&cx, &model, &steps[0]).await;
}

async fn resolve_both(cx: &Cx, model: &mut Model, numbers: &[usize]) {
    let names: Vec<String> = numbers.iter().map(|number| name(*number)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let told = resolve(cx, by(&names, cx)).await.unwrap().unwrap();
    let mut found: Vec<i64> = Vec::new();
    for lead in numbers.iter().filter_map(|number| model.home.get(number)) {
        let root = model.root(*lead);
        if !found.contains(&root) {
            found.push(root);
        }
    }
    let first_home = numbers.iter().find_map(|number| model.home.get(number)).copied();
    assert_eq!(told.created, found.is_empty());
    let mut person = *found.first().unwrap_or(&told.lead_id.get());
    if told.created {
        model.leads.push(person);
    }
    for number in numbers {
        model.home.entry(*number).or_insert(first_home.unwrap_or(person));
    }
    let (mut ids, mut joined) = (told.merged.iter(), vec![person]);
    let pair = |(one, other): &(i64, i64)| {
        let (one, other) = (model.root(*one), model.root(*other));
        (one.min(other), one.max(other))
    };
    let apart: BTreeSet<(i64, i64)> = model.apart.iter().map(pair).collect();
    for other in found.into_iter().skip(1) {
        let is_apart =
            joined.iter().any(|one| apart.contains(&(*one.min(&other), *one.max(&other))));
        if is_apart || model.size(person) + model.size(other) > MAX_MERGED {
            continue;
        }
        person = model.join(person, other, *ids.next().unwrap());
        joined.push(other);
    }
    assert_eq!(ids.next(), None);
    assert_eq!(told.lead_id.get(), person);
    let owner = crate::identity::owner(cx, &told.lead_organization_id).await.unwrap().unwrap();
    assert_eq!(owner.lead_id.get(), person);
    if let Some(home) = first_home {
        let at_home = find(cx, Whom::Contact(home.into())).await.unwrap().unwrap();
        assert!(at_home.partitions.contains(&told.lead_organization_id));
    }
}

async fn merge_both(cx: &Cx, model: &mut Model, one: usize, other: usize) {
    let (Some(one), Some(other)) = (model.leads.get(one), model.leads.get(other)) else { return };
    let told = merge(cx, (*one).into(), (*other).into()).await;
    let (one, other) = (model.root(*one), model.root(*other));
    match told {
        Ok(merged) => {
            assert_ne!(one, other);
            model.join(one, other, merged.id);
        }
        Err(MergeError::Same) => assert_eq!(one, other),
        Err(error) => panic!("{error:?}"),
    }
}

async fn unmerge_both(cx: &Cx, model: &mut Model, place: usize) {
    let Some((id, winner, loser)) = model.merges.get(place).copied() else { return };
    unmerge(cx, id).await.unwrap();
    if model.undone.insert(place) {
        model.up.remove(&loser);
        model.apart.insert((winner, loser));
    }
}

async fn compare(cx: &Cx, model: &Model, step: &Step) {
    for (number, home) in &model.home {
        let found = find(cx, Whom::Identity(identity(&name(*number)))).await.unwrap().unwrap();
        assert_eq!(found.lead_id.get(), model.root(*home), "{number} after {step:?}");
        let partitions = found.partitions.len();
        assert_eq!(partitions, model.size(model.root(*home)), "{number} after {step:?}");
    }
}

fn check(bed: impl Future<Output = Bed>, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bed = runtime.block_on(bed);
    let number = Cell::new(0);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let steps = proptest::collection::vec(step(), 10..40);
    let run = TestRunner::new(config).run(&steps, |steps| {
        number.set(number.get() + 1);
        runtime.block_on(run(&bed, &format!("w{}", number.get()), &steps));
        Ok(())
    });
    run.unwrap();
}

#[test]
fn on_sqlite_everybody_has_what_the_model_says() {
    check(Bed::memory(), 60);
}

#[test]
fn on_postgres_everybody_has_what_the_model_says() {
    check(Bed::postgres(), 6);
}
