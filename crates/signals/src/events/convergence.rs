//! Whatever the order, however often, and wherever the process dies: the end is the same, and the numbers are those that
//! a recount of the events gives.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use jiff::civil::date;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use tidings_access::Cx;
use tidings_delivery::breakdown::{self, OTHER};
use tidings_delivery::ledger::Source;
use tidings_delivery::sent::{self, Line};
use tidings_kernel::{Item, Query, Scan, Value, tables};
use tidings_people::suppression;
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, dying};

use super::tests::{AT, counts, event, messages, row, stored};
use super::{Bounce, Counts, Event, EventKind, Recorded, keys, record, revise};

/// What can happen to a message: its kind, who it happened to, when, whether a person did it, and with which link.
#[derive(Debug, Clone)]
struct Happening {
    kind: usize,
    to: usize,
    /// Some of them in another hour.
    moment: i64,
    human: bool,
    link: usize,
}

fn happening() -> impl Strategy<Value = Happening> {
    (0..KINDS, 0..3_usize, 0..3_i64, any::<bool>(), 0..3_usize)
        .prop_map(|(kind, to, moment, human, link)| Happening { kind, to, moment, human, link })
}

fn transient(to: usize, moment: i64) -> Happening {
    Happening { kind: TRANSIENT, to, moment, human: false, link: 0 }
}

/// A transactional message to ada, and of the campaign `spring` one to bob, who has a variant, and one to carol.
type Sources = [Source; 3];

async fn ground(bed: &Bed, cx: &Cx) -> Sources {
    let (ada, bob) = messages(bed, cx).await;
    let workspace = cx.workspace_id().get();
    let variants = r#"[{"name":"A","weight":1},{"name":"B","weight":1}]"#;
    let make = cx.database().write(move |tx| {
        tx.execute("UPDATE campaigns SET variants = $1", &[Param::Text(variants)])?;
        tx.execute("UPDATE campaign_recipients SET arm = 1", &[])?;
        let lead = "INSERT INTO leads (workspace_id, created_at, updated_at) VALUES ($1, 0, 0) RETURNING id";
        let lead = tx.query(lead, &[Param::Int(workspace)])?[0].int(0)?;
        let sql = "INSERT INTO campaign_recipients (workspace_id, campaign_id, lead_id, email, created_at, updated_at)
                   SELECT $1, campaign_id, $2, 'carol@example.com', 0, 0 FROM campaign_recipients RETURNING id";
        tx.query(sql, &[Param::Int(workspace), Param::Int(lead)])?[0].int(0)
    });
    let carol = make.await.map_err(|error: DatabaseError| error).unwrap();
    [ada, bob, Source::Recipient(carol)]
}

const LINKS: [&str; 3] =
    ["https://shop.test/a", "https://shop.test/b?u=bob@example.org", "https://shop.test/b"];

const KINDS: usize = 16;
/// The send log gets its line, which is no event.
const LOGGED: usize = 15;
/// A transient bounce.
const TRANSIENT: usize = 6;

/// What somebody does for it.
#[derive(Debug, Clone)]
enum Step {
    Record(Event),
    Log(Line),
    /// Somebody thinks otherwise of what was recorded.
    Revise {
        id: String,
        human: bool,
    },
}

impl Step {
    async fn take(&self, cx: &Cx) {
        match self {
            Self::Record(event) => drop(record(cx, event.clone()).await.unwrap()),
            Self::Log(line) => drop(sent::record(cx, line, None).await.unwrap()),
            Self::Revise { id, human } => {
                let all = stored(cx).await;
                let event = all.iter().find(|item| item.text("eventId") == Some(id));
                if let Some(event) = event {
                    let source = event.text("messageRef").and_then(Source::from_reference);
                    let message = super::load(cx, source.unwrap()).await.unwrap().unwrap();
                    let verdict = json!({ "human": human });
                    revise(cx, &message, event, &verdict).await.unwrap();
                }
            }
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
        TRANSIENT => bounce("Transient", "General"),
        7 => EventKind::Complaint { feedback: Some("abuse".into()) },
        8 => EventKind::Reject { reason: None },
        9 => EventKind::Unsubscribe,
        10 => bounce("Permanent", "MailboxFull"),
        11 => EventKind::Delay { reason: Some("MailboxFull".into()) },
        12 => EventKind::RenderingFailure { error: Some("name is missing".into()) },
        13 => EventKind::Reply {
            subject: None,
            body: "Yes, please".into(),
            automatic: false,
            unproven: false,
        },
        _ => EventKind::Complaint { feedback: Some("not-spam".into()) },
    }
}

/// Where the log has a message was decided once, so its line is always the same.
fn line(source: Source, email: &str) -> Line {
    let (template_key, sequence_id) = match source {
        Source::Transactional(_) => ("onboarding/welcome", None),
        Source::Recipient(_) => ("broadcasts/spring", Some("spring".into())),
    };
    Line {
        email: email.parse().unwrap(),
        at: AT.parse().unwrap(),
        source,
        subject: "Hello".into(),
        template_key: Some(template_key.into()),
        awaited: false,
        sequence_id,
        provider_message_id: None,
    }
}

const EMAILS: [&str; 3] = ["ada@example.org", "bob@example.org", "carol@example.com"];

fn steps(happenings: &[Happening], sources: Sources) -> Vec<Step> {
    let make = |(at, one): (usize, &Happening)| {
        let (source, email) = (sources[one.to], EMAILS[one.to]);
        if one.kind == LOGGED {
            return Step::Log(line(source, email));
        }
        let mut event = event(&format!("e-{at}"), kind(one.kind), source);
        event.email = email.parse().unwrap();
        event.occurred_at += SignedDuration::from_mins(one.moment * 31);
        event.verdict = one.human.then(|| json!({ "human": true }));
        if event.kind == EventKind::Click {
            event.url = Some(LINKS[one.link].into());
        }
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
async fn state(cx: &Cx, sources: Sources) -> String {
    let mut events: Vec<_> = stored(cx)
        .await
        .into_iter()
        .map(|mut item| {
            item.remove("SK");
            format!("{item:?}")
        })
        .collect();
    events.sort();
    let mut state = Vec::new();
    for (source, email) in sources.into_iter().zip(EMAILS) {
        state.push(row(cx, source).await);
        let status = suppression::status(cx, &email.parse().unwrap()).await.unwrap();
        let why =
            status.suppression.map(|one| (one.kind, one.reason, one.source, one.suppressed_at));
        state.push(format!("{email} {why:?}"));
    }
    for key in [keys::sequence("spring"), keys::template("onboarding/welcome")] {
        state.push(format!("{:?}", counts(cx, &key).await));
    }
    state.push(format!("{:?}", parts(cx).await));
    state.extend(events);
    state.join("\n")
}

/// Numbers by the sort keys of their items and their names. A nought is no number.
type Numbers = BTreeMap<String, BTreeMap<String, i64>>;

/// All that is counted of the campaign.
async fn parts(cx: &Cx) -> Numbers {
    let query = Query::new(&tables::MAIN, "STATS#spring").limit(1_000);
    let page = cx.items().await.unwrap().query(query).await.unwrap();
    let mut parts = Numbers::new();
    for item in page.items.iter().filter(|item| item.text("SK") != Some("LINKS")) {
        let numbers = item.iter().filter_map(|(name, value)| match value {
            Value::N(number) => number.to_i64().filter(|n| *n != 0).map(|n| (name.clone(), n)),
            _ => None,
        });
        let numbers: BTreeMap<_, _> = numbers.collect();
        if !numbers.is_empty() {
            parts.insert(item.text("SK").unwrap().to_owned(), numbers);
        }
    }
    parts
}

/// What is counted of one event: the numbers, and whether each message has them once.
fn names(event: &Item) -> Vec<(String, bool)> {
    let human = format!("{:?}", event.get("verdict")).contains("true");
    let mut names = Vec::new();
    let mut add = |name: &str| names.push((name.to_owned(), false));
    match event.text("eventType").unwrap() {
        "send" => {}
        "bounce" => {
            add("bounceCount");
            match event.text("bounceClass").unwrap() {
                "hard" => add("hardBounceCount"),
                "soft" => add("softBounceCount"),
                _ => {}
            }
        }
        "complaint" if event.text("feedbackType") == Some("not-spam") => add("notSpamCount"),
        kind @ ("delivery" | "complaint" | "reject" | "unsubscribe") => {
            add(&format!("{kind}Count"));
        }
        kind @ ("open" | "click") => {
            let word = if kind == "open" { "Open" } else { "Click" };
            add(&format!("{kind}Count"));
            names.push((format!("unique{word}Count"), true));
            if human {
                names.push((format!("human{word}Count"), false));
                names.push((format!("uniqueHuman{word}Count"), true));
            }
        }
        kind @ ("delay" | "reply") => add(&format!("{kind}Count")),
        "rendering_failure" => add("renderingFailureCount"),
        other => panic!("{other} was not made here"),
    }
    names
}

/// The sort keys of the items that an event is counted in.
fn places(event: &Item) -> Vec<String> {
    let (_, domain) = event.text("PK").unwrap().rsplit_once('@').unwrap();
    let hour = &event.text("timestamp").unwrap()[..13];
    let mut places =
        vec!["COUNTERS".to_owned(), format!("DOMAIN#{domain}"), format!("HOUR#{hour}")];
    if domain == "example.org" {
        places.push("ARM#1".to_owned());
    }
    if let Some(url) = event.text("linkUrl") {
        let url = url.strip_suffix("?u=bob@example.org").filter(|_| domain == "example.org");
        let url = url.unwrap_or(event.text("linkUrl").unwrap());
        places.push(format!("LINK#{}", breakdown::keys::label(url)));
    }
    if let Some(class) = event.text("bounceClass") {
        places.push(format!("BOUNCE#{class}/{}", event.text("bounceSubType").unwrap()));
    }
    places
}

/// The numbers of the campaign, out of its events and lines alone.
async fn recount(cx: &Cx) -> Numbers {
    let (mut numbers, mut seen) = (Numbers::new(), BTreeSet::new());
    let mut add = |place: &str, name: &str| {
        *numbers.entry(place.to_owned()).or_default().entry(name.to_owned()).or_default() += 1;
    };
    for line in lines(cx).await {
        if line.text("sequenceId") == Some("spring") {
            add("COUNTERS", "sendCount");
        }
    }
    for event in stored(cx).await {
        if event.text("sequenceId") != Some("spring") {
            continue;
        }
        let message = event.text("messageRef").unwrap();
        for place in places(&event) {
            for (name, unique) in names(&event) {
                let first =
                    !unique || seen.insert((place.clone(), name.clone(), message.to_owned()));
                let left_out = match place.split_once('#').map(|(kind, _)| kind) {
                    Some("HOUR") => unique,
                    Some("BOUNCE") => name != "bounceCount",
                    _ => false,
                };
                if first && !left_out {
                    add(&place, &name);
                }
            }
        }
    }
    numbers
}

async fn check_numbers(cx: &Cx) {
    assert_eq!(parts(cx).await, recount(cx).await);
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
    let sources = ground(bed, &cx).await;
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
    let some = prop::collection::vec(happening(), 1..9);
    let strategy = (some, prop::option::of(0..3_usize)).prop_flat_map(|(mut happenings, to)| {
        // As many transient bounces in a row as suppress, unless something comes between them.
        happenings.extend(to.into_iter().flat_map(|to| (0..5).map(move |at| transient(to, at))));
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

/// Records and revisions in any order, each maybe more than once.
fn check_revisions(store: Store, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let opens_and_clicks = happening().prop_map(|one| Happening { kind: 2 + one.kind % 3, ..one });
    let strategy = prop::collection::vec(opens_and_clicks, 1..6).prop_flat_map(|happenings| {
        let step = (0..happenings.len(), prop::option::of(any::<bool>()));
        (Just(happenings), prop::collection::vec(step, 1..16))
    });
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&strategy, |(happenings, order)| {
        runtime.block_on(async {
            let bed = match store {
                Store::Memory => Bed::memory().await,
                Store::Postgres => Bed::postgres().await,
            };
            let cx = bed.cx().await;
            let steps = steps(&happenings, ground(&bed, &cx).await);
            for (at, human) in order {
                let step = match human {
                    Some(human) => Step::Revise { id: format!("e-{at}"), human },
                    None => steps[at].clone(),
                };
                step.take(&cx).await;
            }
            check_numbers(&cx).await;
        });
        Ok(())
    });
    result.unwrap();
}

#[test]
fn numbers_follow_every_revision() {
    check_revisions(Store::Memory, 64);
}

#[test]
fn numbers_follow_every_revision_on_postgresql() {
    check_revisions(Store::Postgres, 4);
}

#[tokio::test]
async fn a_revision_that_died_and_came_again_is_counted_once() {
    for after in [false, true] {
        for place in 0.. {
            let bed = Bed::memory().await;
            let cx = bed.cx().await;
            let sources = ground(&bed, &cx).await;
            let mut click = event("e-1", EventKind::Click, sources[1]);
            click.url = Some(LINKS[0].into());
            record(&cx, click).await.unwrap();
            let verdict = json!({ "human": true });
            let message = super::load(&cx, sources[1]).await.unwrap().unwrap();
            let dying = dying(&bed, &cx, place, after).await;
            let died = revise(&dying, &message, &stored(&cx).await[0], &verdict).await.is_err();
            revise(&cx, &message, &stored(&cx).await[0], &verdict).await.unwrap();
            check_numbers(&cx).await;
            let link = &parts(&cx).await[&format!("LINK#{}", breakdown::keys::label(LINKS[0]))];
            assert_eq!(link["uniqueHumanClickCount"], 1);
            if !died {
                assert!(place > 1, "there are more calls than that");
                break;
            }
        }
    }
}

/// Whatever is written into the links, the numbers of a campaign stay few.
#[tokio::test]
async fn more_links_than_there_is_room_for_are_counted_together() {
    let bed = Bed::memory().await;
    let cx = bed.cx().await;
    let sources = ground(&bed, &cx).await;
    let click = |at: i64| {
        let mut click = event(&format!("e-{at}"), EventKind::Click, sources[1]);
        click.url = Some(format!("https://shop.test/{at}"));
        click
    };
    record(&cx, click(0)).await.unwrap();
    let links = breakdown::keys::links("spring");
    let full = tidings_kernel::Update::new(&tables::MAIN, links)
        .set(breakdown::LINK_COUNT, breakdown::MAX_LINKS);
    cx.items().await.unwrap().update(full).await.unwrap();
    for at in 1..4 {
        record(&cx, click(at)).await.unwrap();
    }
    let mut again = click(0);
    again.id = "e-again".into();
    record(&cx, again).await.unwrap();
    let parts = parts(&cx).await;
    let clicks = |label: &str| {
        let link = &parts[&format!("LINK#{label}")];
        (link["clickCount"], link["uniqueClickCount"])
    };
    assert_eq!(clicks(&breakdown::keys::label("https://shop.test/0")), (2, 1));
    assert_eq!(clicks(OTHER), (3, 1));
    assert_eq!(parts.keys().filter(|sort| sort.starts_with("LINK#")).count(), 2);
}

#[tokio::test]
async fn whoever_comes_again_after_a_crash_finishes_what_was_begun() {
    for number in [2, 4, 5, 6, 7] {
        let expected = {
            let bed = Bed::memory().await;
            let cx = bed.cx().await;
            let sources = ground(&bed, &cx).await;
            record(&cx, event("e-1", kind(number), sources[1])).await.unwrap();
            state(&cx, sources).await
        };
        for after in [false, true] {
            for place in 0.. {
                let bed = Bed::memory().await;
                let cx = bed.cx().await;
                let sources = ground(&bed, &cx).await;
                let dying = dying(&bed, &cx, place, after).await;
                let happened = event("e-1", kind(number), sources[1]);
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
            let [_, bob, _] = ground(&bed, &cx).await;
            if before {
                record(&cx, event("e-1", EventKind::Send, bob)).await.unwrap();
            }
            let died = sent::record(
                &dying(&bed, &cx, place, after).await,
                &line(bob, "bob@example.org"),
                None,
            )
            .await
            .is_err();
            assert_eq!(died, place < 3, "the log makes so many calls");
            for _ in 0..2 {
                sent::record(&cx, &line(bob, "bob@example.org"), None).await.unwrap();
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
            let [message, ..] = ground(&bed, &cx).await;
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
    let sources = ground(&bed, &cx).await;
    let opens: Vec<_> = (0..4)
        .map(|at| {
            let mut open = event(&format!("e-{at}"), EventKind::Open, sources[1]);
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
    assert!(row(&cx, sources[1]).await.contains("[4, 0,"));
}
