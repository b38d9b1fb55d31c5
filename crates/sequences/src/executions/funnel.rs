//! How many people came to each step of a sequence, and what became of them there.
//!
//! Each number changes in the transaction that moves the walk, so that it counts once whatever comes twice: who is *waiting*
//! is who has a walk that stands there. What has ended is only a number, and stays one when the walk is forgotten. The items
//! are spread, so that a busy step is not written by everybody at once.

use std::collections::BTreeMap;

use tidings_access::{Cx, StorageError};
use tidings_kernel::{Item, Query, Txn, Update, tables};
use tidings_people::keys;

use super::{Execution, ExecutionId};
use crate::definition::Program;

/// So many items are read at once.
const PAGE: usize = 500;

/// What is counted of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Entered,
    Passed,
    /// A mail that was not sent, for a reason, or an inbox message for somebody who has no inbox.
    Skipped,
    Failed,
    /// Somebody who was there went out: an exit, a stop, a restart, an erasure.
    Left,
}

/// What is counted of the sequence as a whole has no step.
const WHOLE: &str = "";

/// Changes of the numbers, to be made together.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes(BTreeMap<(i64, String), BTreeMap<What, i64>>);

/// The numbers of one step, of one version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepNumbers {
    pub step: String,
    pub entered: i64,
    /// Still there.
    pub waiting: i64,
    pub passed: i64,
    pub skipped: i64,
    pub failed: i64,
    pub left: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Funnel {
    pub version: i64,
    pub entered: i64,
    pub active: i64,
    pub completed: i64,
    pub failed: i64,
    pub left: i64,
    /// In the order of the definition.
    pub steps: Vec<StepNumbers>,
}

impl What {
    const ALL: [Self; 5] = [Self::Entered, Self::Passed, Self::Skipped, Self::Failed, Self::Left];

    fn as_str(self) -> &'static str {
        match self {
            Self::Entered => "entered",
            Self::Passed => "passed",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Left => "left",
        }
    }
}

impl Changes {
    /// Whoever is at the end is at no step.
    pub(super) fn step(&mut self, version: i64, step: &str, what: What) {
        if step != WHOLE {
            self.add((version, step), what, 1);
        }
    }

    /// Somebody came in, and is at his first step.
    pub(super) fn entered(&mut self, execution: &Execution) {
        self.whole(execution.version, What::Entered);
        self.step(execution.version, &execution.step, What::Entered);
    }

    /// Takes one back, of the step and of the whole.
    pub(super) fn undo(&mut self, version: i64, step: &str, what: What) {
        if step != WHOLE {
            self.add((version, step), what, -1);
        }
        self.add((version, WHOLE), what, -1);
    }

    /// Of the sequence as a whole; `Passed` are those who came to its end.
    pub(super) fn whole(&mut self, version: i64, what: What) {
        self.add((version, WHOLE), what, 1);
    }

    fn add(&mut self, (version, step): (i64, &str), what: What, change: i64) {
        *self.0.entry((version, step.to_owned())).or_default().entry(what).or_default() += change;
    }

    /// Which of the items has them, chance decides: the execution's id.
    pub(super) fn count(self, mut txn: Txn, by: &ExecutionId, sequence: &str) -> Txn {
        for ((version, step), changes) in self.0 {
            let key = keys::funnel(sequence, version, &step, by.as_str());
            let mut update =
                Update::new(&tables::MAIN, key).set("version", version).set("step", step);
            for (what, change) in changes {
                update = update.add(what.as_str(), change);
            }
            txn = txn.update(update);
        }
        txn
    }
}

/// How people went through one version of a sequence.
pub async fn funnel(cx: &Cx, program: &Program, version: i64) -> Result<Funnel, StorageError> {
    let items = cx.items().await?;
    let (mut numbers, mut cursor) = (BTreeMap::<String, [i64; 5]>::new(), None);
    loop {
        let query = Query::new(&tables::MAIN, keys::funnel_of(program.definition.id.as_str()));
        let query = query.begins_with(keys::funnel_version(version)).after(cursor).limit(PAGE);
        let page = items.query(query).await?;
        for item in &page.items {
            let sums = numbers.entry(item.text("step").unwrap_or_default().to_owned()).or_default();
            add(sums, item);
        }
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    let of = |step: &str| {
        let [entered, passed, skipped, failed, left] =
            numbers.get(step).copied().unwrap_or_default();
        let waiting = entered - passed - failed - left;
        StepNumbers { step: step.to_owned(), entered, waiting, passed, skipped, failed, left }
    };
    let whole = of(WHOLE);
    Ok(Funnel {
        version,
        entered: whole.entered,
        active: whole.waiting,
        completed: whole.passed,
        failed: whole.failed,
        left: whole.left,
        steps: program.places.iter().map(|place| of(&place.step)).collect(),
    })
}

fn add(sums: &mut [i64; 5], item: &Item) {
    for (sum, what) in sums.iter_mut().zip(What::ALL) {
        *sum += item.integer(what.as_str()).unwrap_or(0);
    }
}
