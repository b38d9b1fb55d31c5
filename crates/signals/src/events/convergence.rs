//! Whatever the order, however often, and wherever the process dies: the end is the same, and the numbers are those that
//! a recount of the events gives.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use jiff::civil::date;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use tidings_access::Cx;
use tidings_delivery::ledger::Source;
use tidings_delivery::sent::{self, Line};
use tidings_kernel::{Item, Scan, tables};
use tidings_people::suppression;
use tidings_testbed::Bed;

use super::failing::dying;
use super::tests::{AT, counts, event, messages, row, stored};
use super::{Bounce, COUNTERS, Counts, Event, EventKind, Recorded, keys, record};

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

const KINDS: usize = 12;
/// The send log gets its line, which is no event.
const LOGGED: usize = 11;

/// What somebody does for it.
#[derive(Debug, Clone)]
enum Step {
    Record(Event),
    Log(Line),
}

impl Step {
    async fn take(&self, cx: &Cx) {
        match self {
            Self::Record(event) => drop(record(cx, event.clone()).await.unwrap()),
            Self::Log(line) => drop(sent::record(cx, line, None).await.unwrap()),
        }
    }
}

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

/// Where the log has a message was decided once, so its line is always the same.
fn line(source: Source) -> Line {
    let (email, template_key, sequence_id) = match source {
        Source::Transactional(_) => ("ada@example.org", "onboarding/welcome", None),
        Source::Recipient(_) => ("bob@example.org", "broadcasts/spring", Some("spring".into())),
    };
    Line {
        email: email.parse().unwrap(),
        at: AT.parse().unwrap(),
        source,
        subject: "Hello".into(),
        template_key: Some(template_key.into()),
        sequence_id,
        provider_message_id: None,
    }
}

fn steps(happenings: &[Happening], (ada, bob): (Source, Source)) -> Vec<Step> {
    let make = |(at, one): (usize, &Happening)| {
        let source = if one.to_bob { bob } else { ada };
        if one.kind == LOGGED {
            return Step::Log(line(source));
        }
        let mut event = event(&format!("e-{at}"), kind(one.kind), source);
        event.occurred_at += SignedDuration::from_secs(one.second);
        event.verdict = one.human.then(|| json!({ "human": true }));
        Step::Record(event)
    };
    happenings.iter().enumerate().map(make).collect()
}

/// The lines of the send log, of everybody.
async fn lines(cx: &Cx) -> Vec<Item> {
    let scan = Scan::new(&tables::MAIN).limit(1_000);
    let all = cx.items().await.unwrap().scan(scan).await.unwrap().items;
    let is_line = |item: &Item| item.text("SK").is_some_and(|sort| sort.starts_with("SENT#"));
    all.into_iter().filter(is_line).collect()
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

/// The numbers of a sequence, out of its events and lines alone.
async fn recount(cx: &Cx, sequence: &str) -> BTreeMap<&'static str, i64> {
    let mut numbers: BTreeMap<&'static str, i64> =
        COUNTERS.into_iter().map(|name| (name, 0)).collect();
    let mut seen = BTreeSet::new();
    let mut add = |name: &'static str| *numbers.get_mut(name).unwrap() += 1;
    for line in lines(cx).await {
        if line.text("sequenceId") == Some(sequence) {
            add("sendCount");
        }
    }
    for item in stored(cx).await {
        if item.text("sequenceId") != Some(sequence) {
            continue;
        }
        let message = item.text("messageRef").unwrap().to_owned();
        let human = format!("{:?}", item.get("verdict")).contains("true");
        match item.text("eventType").unwrap() {
            "send" => {}
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
    let mut day = Counts::default();
    for shard in 0..keys::SHARDS {
        day.add(counts(cx, &keys::day(date(2026, 7, 1), shard)).await);
    }
    let lines = lines(cx).await;
    assert_eq!(day.send_count, lines.len() as i64);
    for key in ["onboarding/welcome", "broadcasts/spring"] {
        let of_template = |line: &&Item| line.text("templateKey") == Some(key);
        let logged = lines.iter().filter(of_template).count() as i64;
        assert_eq!(counts(cx, &keys::template(key)).await.send_count, logged, "{key}");
    }
}

/// Takes the steps in the order of the numbers, which may name one more than once.
async fn run(bed: &Bed, happenings: &[Happening], order: &[usize]) -> String {
    let cx = bed.cx().await;
    let sources = messages(bed, &cx).await;
    let steps = steps(happenings, sources);
    for at in order {
        steps[*at].take(&cx).await;
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
                let dying = dying(&bed, &cx, place, after).await;
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

/// Whether the provider tells of it before, after or not at all.
#[tokio::test]
async fn a_message_whose_log_was_interrupted_is_counted_as_sent_once() {
    for (before, after_it) in [(false, false), (true, false), (false, true), (true, true)] {
        for (after, place) in
            [false, true].into_iter().flat_map(|after| (0..4).map(move |at| (after, at)))
        {
            let bed = Bed::memory().await;
            let cx = bed.cx().await;
            let (_, bob) = messages(&bed, &cx).await;
            if before {
                record(&cx, event("e-1", EventKind::Send, bob)).await.unwrap();
            }
            let died = sent::record(&dying(&bed, &cx, place, after).await, &line(bob), None)
                .await
                .is_err();
            assert_eq!(died, place < 3, "the log makes so many calls");
            for _ in 0..2 {
                sent::record(&cx, &line(bob), None).await.unwrap();
            }
            if after_it {
                record(&cx, event("e-1", EventKind::Send, bob)).await.unwrap();
            }
            assert_eq!(counts(&cx, &keys::sequence("spring")).await.send_count, 1);
            assert_eq!(lines(&cx).await.len(), 1);
            check_numbers(&cx).await;
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
            let dying = dying(&bed, &cx, place, true).await;
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
