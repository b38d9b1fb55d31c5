//! Whatever the order, however often, and wherever the process dies: the end is the same, and the numbers are those that
//! a recount of the events gives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

use async_trait::async_trait;
use jiff::SignedDuration;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use tidings_access::{Access, Actor, Cx, workspaces};
use tidings_delivery::ledger::Source;
use tidings_kernel::{
    ChangeBatch, Delete, Item, ItemEngine, ItemStore, Key, Page, Put, Query, Scan, StoreError,
    Table, Txn, Update, Workspace,
};
use tidings_people::suppression;
use tidings_sql::SqlItems;
use tidings_testbed::Bed;

use super::tests::{counts, event, messages, row, stored};
use super::{Bounce, COUNTERS, Event, EventKind, Recorded, keys, record};

/// What can happen to a message: its kind, who it happened to, when, and whether a person did it.
#[derive(Debug, Clone)]
struct Happening {
    kind: usize,
    to_bob: bool,
    second: i64,
    human: bool,
}

fn happening() -> impl Strategy<Value = Happening> {
    (0..KINDS, any::<bool>(), 0..3_i64, any::<bool>())
        .prop_map(|(kind, to_bob, second, human)| Happening { kind, to_bob, second, human })
}

const KINDS: usize = 11;

fn kind(number: usize) -> EventKind {
    let bounce = |kind: &str, subkind: &str| {
        EventKind::Bounce(Bounce {
            kind: kind.into(),
            subkind: subkind.into(),
            ..Bounce::default()
        })
    };
    match number {
        0 => EventKind::Send,
        1 => EventKind::Delivery,
        2 | 3 => EventKind::Open,
        4 => EventKind::Click,
        5 => bounce("Permanent", "General"),
        6 => bounce("Transient", "General"),
        7 => EventKind::Complaint { feedback: Some("abuse".into()) },
        8 => EventKind::Reject { reason: None },
        9 => EventKind::Unsubscribe,
        _ => EventKind::Complaint { feedback: Some("not-spam".into()) },
    }
}

fn events(happenings: &[Happening], (ada, bob): (Source, Source)) -> Vec<Event> {
    let make = |(at, one): (usize, &Happening)| {
        let source = if one.to_bob { bob } else { ada };
        let mut event = event(&format!("e-{at}"), kind(one.kind), source);
        event.occurred_at += SignedDuration::from_secs(one.second);
        event.verdict = one.human.then(|| json!({ "human": true }));
        event
    };
    happenings.iter().enumerate().map(make).collect()
}

/// Everything that can be seen afterwards. Which of two events of one millisecond has the plain key may differ.
async fn state(cx: &Cx, (ada, bob): (Source, Source)) -> String {
    let mut events: Vec<_> = stored(cx)
        .await
        .into_iter()
        .map(|mut item| {
            item.remove("SK");
            format!("{item:?}")
        })
        .collect();
    events.sort();
    let mut state = vec![row(cx, ada).await, row(cx, bob).await];
    for email in ["ada@example.org", "bob@example.org"] {
        let status = suppression::status(cx, &email.parse().unwrap()).await.unwrap();
        let since = status.suppression.map(|one| one.suppressed_at);
        state.push(format!("{email} {since:?}"));
    }
    for key in [keys::sequence("spring"), keys::template("onboarding/welcome")] {
        state.push(format!("{:?}", counts(cx, &key).await));
    }
    state.extend(events);
    state.join("\n")
}

/// The numbers of a sequence, out of its events alone.
async fn recount(cx: &Cx, sequence: &str) -> BTreeMap<&'static str, i64> {
    let mut numbers: BTreeMap<&'static str, i64> =
        COUNTERS.into_iter().map(|name| (name, 0)).collect();
    let mut seen = BTreeSet::new();
    let mut add = |name: &'static str| *numbers.get_mut(name).unwrap() += 1;
    for item in stored(cx).await {
        if item.text("sequenceId") != Some(sequence) {
            continue;
        }
        let message = item.text("messageRef").unwrap().to_owned();
        let human = format!("{:?}", item.get("verdict")).contains("true");
        match item.text("eventType").unwrap() {
            "send" => add("sendCount"),
            "delivery" => add("deliveryCount"),
            "open" => {
                add("openCount");
                if seen.insert((message.clone(), "open")) {
                    add("uniqueOpenCount");
                }
                if human {
                    add("humanOpenCount");
                    if seen.insert((message, "human open")) {
                        add("uniqueHumanOpenCount");
                    }
                }
            }
            "click" => {
                add("clickCount");
                if seen.insert((message.clone(), "click")) {
                    add("uniqueClickCount");
                }
                if human {
                    add("humanClickCount");
                    if seen.insert((message, "human click")) {
                        add("uniqueHumanClickCount");
                    }
                }
            }
            "bounce" => {
                add("bounceCount");
                match item.text("bounceClass").unwrap() {
                    "hard" => add("hardBounceCount"),
                    "soft" => add("softBounceCount"),
                    _ => {}
                }
            }
            "complaint" if item.text("feedbackType") == Some("not-spam") => add("notSpamCount"),
            "complaint" => add("complaintCount"),
            "reject" => add("rejectCount"),
            "unsubscribe" => add("unsubscribeCount"),
            other => panic!("{other} was not made here"),
        }
    }
    numbers
}

async fn check_numbers(cx: &Cx) {
    let counted = serde_json::to_value(counts(cx, &keys::sequence("spring")).await).unwrap();
    for (name, number) in recount(cx, "spring").await {
        assert_eq!(counted[name], number, "{name}");
    }
}

/// Records the events in the order of the numbers, which may name one more than once.
async fn run(bed: &Bed, happenings: &[Happening], order: &[usize]) -> String {
    let cx = bed.cx().await;
    let sources = messages(bed, &cx).await;
    let events = events(happenings, sources);
    for at in order {
        record(&cx, events[*at].clone()).await.unwrap();
    }
    check_numbers(&cx).await;
    state(&cx, sources).await
}

#[derive(Debug, Clone, Copy)]
enum Store {
    Memory,
    Postgres,
}

fn check_orders(store: Store, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let strategy = prop::collection::vec(happening(), 1..9).prop_flat_map(|happenings| {
        let count = happenings.len();
        let again = prop::collection::vec(0..count, 0..6);
        (Just(happenings), again).prop_flat_map(move |(happenings, again)| {
            let order: Vec<usize> = (0..count).chain(again).collect();
            (Just(happenings), Just(order).prop_shuffle())
        })
    });
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&strategy, |(happenings, order)| {
        runtime.block_on(async {
            let bed = async || match store {
                Store::Memory => Bed::memory().await,
                Store::Postgres => Bed::postgres().await,
            };
            let straight: Vec<usize> = (0..happenings.len()).collect();
            let expected = run(&bed().await, &happenings, &straight).await;
            let found = run(&bed().await, &happenings, &order).await;
            prop_assert_eq!(found, expected);
            Ok(())
        })
    });
    result.unwrap();
}

#[test]
fn any_order_and_any_repetition_leave_the_same_state() {
    check_orders(Store::Memory, 48);
}

#[test]
fn any_order_and_any_repetition_leave_the_same_state_on_postgresql() {
    check_orders(Store::Postgres, 4);
}

/// An engine whose stores fail at one call, before it is made or after: then the caller does not know.
pub(crate) struct Failing {
    pub(crate) engine: SqlItems,
    /// How many calls go well first.
    pub(crate) left: Arc<AtomicIsize>,
    pub(crate) after: bool,
}

struct FailingStore {
    store: Arc<dyn ItemStore>,
    left: Arc<AtomicIsize>,
    after: bool,
}

impl FailingStore {
    fn fails(&self) -> bool {
        self.left.fetch_sub(1, Ordering::SeqCst) == 0
    }

    fn error() -> StoreError {
        StoreError::Uncertain("the process died here".into())
    }
}

/// Makes a call, or fails before or after it. A macro, because each call answers with another type.
macro_rules! maybe {
    ($self:ident, $call:expr) => {{
        let fails = $self.fails();
        if fails && !$self.after {
            return Err(FailingStore::error());
        }
        let answer = $call.await;
        if fails { Err(FailingStore::error()) } else { answer }
    }};
}

#[async_trait]
impl ItemStore for FailingStore {
    async fn get(&self, table: &'static Table, key: &Key) -> Result<Option<Item>, StoreError> {
        maybe!(self, self.store.get(table, key))
    }

    async fn batch_get(
        &self,
        table: &'static Table,
        keys: &[Key],
    ) -> Result<Vec<Option<Item>>, StoreError> {
        maybe!(self, self.store.batch_get(table, keys))
    }

    async fn put(&self, put: Put) -> Result<Option<Item>, StoreError> {
        maybe!(self, self.store.put(put))
    }

    async fn update(&self, update: Update) -> Result<Option<Item>, StoreError> {
        maybe!(self, self.store.update(update))
    }

    async fn delete(&self, delete: Delete) -> Result<Option<Item>, StoreError> {
        maybe!(self, self.store.delete(delete))
    }

    async fn transact(&self, txn: Txn) -> Result<(), StoreError> {
        maybe!(self, self.store.transact(txn))
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        maybe!(self, self.store.query(query))
    }

    async fn count(&self, query: Query) -> Result<u64, StoreError> {
        maybe!(self, self.store.count(query))
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        maybe!(self, self.store.scan(scan))
    }

    async fn changes(
        &self,
        table: &'static Table,
        consumer: &str,
        limit: usize,
    ) -> Result<ChangeBatch, StoreError> {
        self.store.changes(table, consumer, limit).await
    }

    async fn acknowledge(
        &self,
        table: &'static Table,
        consumer: &str,
        position: &str,
    ) -> Result<(), StoreError> {
        self.store.acknowledge(table, consumer, position).await
    }
}

#[async_trait]
impl ItemEngine for Failing {
    async fn open(&self, workspace: &Workspace) -> Result<Arc<dyn ItemStore>, StoreError> {
        let store = self.engine.open(workspace).await?;
        Ok(Arc::new(FailingStore { store, left: Arc::clone(&self.left), after: self.after }))
    }

    async fn sweep(&self, limit: usize) -> Result<usize, StoreError> {
        self.engine.sweep(limit).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.engine.ping().await
    }
}

#[tokio::test]
async fn whoever_comes_again_after_a_crash_finishes_what_was_begun() {
    for number in [2, 5, 6, 7] {
        let expected = {
            let bed = Bed::memory().await;
            let cx = bed.cx().await;
            let sources = messages(&bed, &cx).await;
            record(&cx, event("e-1", kind(number), sources.1)).await.unwrap();
            state(&cx, sources).await
        };
        for after in [false, true] {
            for place in 0.. {
                let bed = Bed::memory().await;
                let cx = bed.cx().await;
                let sources = messages(&bed, &cx).await;
                let left = Arc::new(AtomicIsize::new(place));
                let engine = Failing {
                    engine: SqlItems::new(cx.database().clone(), bed.clock.clone()),
                    left: Arc::clone(&left),
                    after,
                };
                let access =
                    Access::new(cx.database().clone(), Arc::new(engine), bed.clock.clone());
                let found = workspaces::find(&access, "acme".parse().unwrap()).await.unwrap();
                let dying = access.inside(&found, Actor::Operator);
                let happened = event("e-1", kind(number), sources.1);
                let died = record(&dying, happened.clone()).await.is_err();
                let again = record(&cx, happened).await.unwrap();
                assert_eq!(state(&cx, sources).await, expected, "{number} at call {place}");
                check_numbers(&cx).await;
                if !died {
                    assert_eq!(again, Recorded::Before);
                    assert!(place > 2, "there are more calls than that");
                    break;
                }
            }
        }
    }
}

/// Others may keep us from counting for long, and mail must not go on to such an address all the while.
#[tokio::test]
async fn an_address_is_suppressed_before_its_bounce_is_counted() {
    let hard = EventKind::Bounce(Bounce { kind: "Permanent".into(), ..Bounce::default() });
    let complaint = EventKind::Complaint { feedback: None };
    for kind in [hard, complaint] {
        for place in 0.. {
            let bed = Bed::memory().await;
            let cx = bed.cx().await;
            let (message, _) = messages(&bed, &cx).await;
            let left = Arc::new(AtomicIsize::new(place));
            let engine = SqlItems::new(cx.database().clone(), bed.clock.clone());
            let engine = Failing { engine, left, after: true };
            let access = Access::new(cx.database().clone(), Arc::new(engine), bed.clock.clone());
            let found = workspaces::find(&access, "acme".parse().unwrap()).await.unwrap();
            let dying = access.inside(&found, Actor::Operator);
            let happened = event("e-1", kind.clone(), message);
            let died = record(&dying, happened.clone()).await.is_err();
            let status = tidings_people::suppression::status(&cx, &happened.email).await.unwrap();
            if !stored(&cx).await.is_empty() {
                assert!(status.suppression.is_some(), "it is counted at call {place}");
            }
            if !died {
                break;
            }
        }
    }
}

#[tokio::test]
async fn two_nodes_with_the_same_events_count_them_once() {
    let bed = Bed::postgres().await;
    let cx = bed.cx().await;
    let sources = messages(&bed, &cx).await;
    let opens: Vec<_> = (0..4)
        .map(|at| {
            let mut open = event(&format!("e-{at}"), EventKind::Open, sources.1);
            open.verdict = Some(json!({ "human": true }));
            open
        })
        .collect();
    let mut tasks = tokio::task::JoinSet::new();
    for (cx, open) in opens.iter().chain(&opens).map(|open| (cx.clone(), open.clone())) {
        // Whoever loses too often is told so, and comes again.
        tasks.spawn(async move { while record(&cx, open.clone()).await.is_err() {} });
    }
    while tasks.join_next().await.is_some() {}
    check_numbers(&cx).await;
    let counted = counts(&cx, &keys::sequence("spring")).await;
    assert_eq!((counted.open_count, counted.unique_open_count), (4, 1));
    assert!(row(&cx, sources.1).await.contains("[4, 0,"));
}
