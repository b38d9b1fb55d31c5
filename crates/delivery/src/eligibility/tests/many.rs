//! What is said of many at once is what is said of each alone, whatever is known of them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use jiff::SignedDuration;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidings_access::{Cx, DisplayName, Slug, clients};
use tidings_kernel::{EmailAddress, Put, tables};
use tidings_people::consent::subscriptions::{self, Unsubscribe};
use tidings_people::consent::{Act, By, Proof, Scope, Whom, audiences, topics};
use tidings_people::suppression::{self, Suppress};
use tidings_people::{contacts, keys};
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::Bed;

use crate::eligibility::rules::Cap;
use crate::eligibility::settings::{self, Sending};
use crate::eligibility::{Kind, Loaded, Mailing, Person, Verdict, check, check_all, skips_all};

/// A workspace, and what is asked in it.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is drawn by itself")]
struct Case {
    kind: usize,
    to_audience: bool,
    on_topic: bool,
    double_opt_in: bool,
    cap: Option<u8>,
    quiet: bool,
    people: Vec<Known>,
}

/// What is known of somebody.
#[derive(Debug, Clone)]
struct Known {
    /// What he was when he was erased, long ago.
    erased_before: Option<bool>,
    row: Option<Row>,
    /// The flags of his profile.
    profile: Option<(bool, bool)>,
    suppression: Option<usize>,
    /// How many hours ago he was sent something, and whether that counts.
    sent: Vec<(u8, bool)>,
    /// Whether whoever asks has read the profile.
    loaded: bool,
}

#[derive(Debug, Clone)]
struct Row {
    unsubscribed: bool,
    erased: bool,
    verified: bool,
    zone: usize,
    validation: usize,
    topic: Option<bool>,
    /// To the whole, to the part of the client who writes, to another's.
    subscriptions: [Option<Subscription>; 3],
}

#[derive(Debug, Clone)]
struct Subscription {
    status: usize,
    verified: bool,
    agreed: Option<i64>,
    left: i64,
}

const STATUSES: [&str; 3] = ["pending", "subscribed", "unsubscribed"];
const ZONES: [Option<&str>; 4] =
    [None, Some("Asia/Tokyo"), Some("America/New_York"), Some("Nowhere/Atall")];
const VALIDATIONS: [&str; 4] = ["unknown", "valid", "invalid", "risky"];

fn case() -> impl Strategy<Value = Case> {
    let kind = prop_oneof![1 => 0..Kind::ALL.len(), 3 => Just(2)];
    let asked = (kind, prop::bool::weighted(0.7), any::<bool>(), any::<bool>());
    let people = proptest::collection::vec(known(), 0..9);
    (asked, proptest::option::of(1..4_u8), any::<bool>(), people).prop_map(
        |((kind, to_audience, on_topic, double_opt_in), cap, quiet, people)| Case {
            kind,
            to_audience,
            on_topic,
            double_opt_in,
            cap,
            quiet,
            people,
        },
    )
}

fn known() -> impl Strategy<Value = Known> {
    let sent = proptest::collection::vec((0..30_u8, any::<bool>()), 0..4);
    let profile = weighted(0.7, (prop::bool::weighted(0.1), prop::bool::weighted(0.1)));
    let before = weighted(0.15, any::<bool>());
    (before, weighted(0.9, row()), profile, weighted(0.1, 0..4_usize), sent, any::<bool>())
        .prop_map(|(erased_before, row, profile, suppression, sent, loaded)| Known {
            erased_before,
            row,
            profile,
            suppression,
            sent,
            loaded,
        })
}

fn row() -> impl Strategy<Value = Row> {
    let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.1), any::<bool>());
    let places = (0..ZONES.len(), 0..VALIDATIONS.len());
    let one = || weighted(0.7, subscription());
    (flags, places, proptest::option::of(any::<bool>()), [one(), one(), one()]).prop_map(
        |((unsubscribed, erased, verified), (zone, validation), topic, subscriptions)| Row {
            unsubscribed,
            erased,
            verified,
            zone,
            validation,
            topic,
            subscriptions,
        },
    )
}

fn subscription() -> impl Strategy<Value = Subscription> {
    let status = prop_oneof![1 => Just(0_usize), 4 => Just(1), 1 => Just(2)];
    (status, any::<bool>(), proptest::option::of(1..100_i64), 1..100_i64).prop_map(
        |(status, verified, agreed, left)| Subscription { status, verified, agreed, left },
    )
}

fn address(number: usize) -> EmailAddress {
    format!("p{number}@example.org").parse().unwrap()
}

fn act() -> Act {
    let source = "test".parse().unwrap();
    Act { by: By::Person, source, reason: None, proof: Proof::default() }
}

async fn other_client(cx: &Cx) -> i64 {
    let slug: Slug = "blog".parse().unwrap();
    let name = DisplayName::from(&slug);
    clients::create(cx, clients::Create { slug, name }).await.unwrap().id.get()
}

async fn make_mailing(bed: &Bed, cx: &Cx, case: &Case) -> (Mailing, i64, i64) {
    let slug: Slug = "news".parse().unwrap();
    let create = audiences::Create {
        name: DisplayName::from(&slug),
        slug,
        double_opt_in: case.double_opt_in,
        confirm_template_key: None,
    };
    let audience = audiences::create(cx, create).await.unwrap().id;
    let slug: Slug = "tips".parse().unwrap();
    let create = topics::Create { name: DisplayName::from(&slug), slug, description: None };
    let topic = topics::create(cx, create).await.unwrap().id;
    let quiet = case.quiet.then(|| ("20:00".parse().unwrap(), "08:00".parse().unwrap()));
    let cap = case.cap.map(|count| Cap { count, hours: 24 });
    settings::put(cx, Sending { cap, quiet, ..Sending::default() }).await.unwrap();
    let mailing = Mailing {
        kind: Kind::ALL[case.kind],
        client: bed.shop(cx).await.id,
        audience: case.to_audience.then_some(audience),
        topic: case.on_topic.then_some(topic),
    };
    (mailing, audience.get(), topic.get())
}

async fn suppress(cx: &Cx, email: EmailAddress, kind: usize) {
    let kinds = [
        suppression::Kind::Permanent,
        suppression::Kind::Transient,
        suppression::Kind::Complaint,
        suppression::Kind::Manual,
    ];
    let cmd = Suppress {
        email,
        kind: kinds[kind],
        reason: "test".parse().unwrap(),
        source: None,
        note: None,
        at: cx.now(),
    };
    suppression::suppress(cx, cmd).await.unwrap();
}

async fn make_person(cx: &Cx, number: usize, known: &Known, ids: [i64; 4]) {
    let email = address(number);
    if let Some(complained) = known.erased_before {
        let scope = Scope::Global;
        let leave = Unsubscribe { whom: Whom::Email(email.clone()), scope, act: act() };
        subscriptions::unsubscribe(cx, leave).await.unwrap();
        if complained {
            suppress(cx, email.clone(), 2).await;
        }
        contacts::erase(cx, &email).await.unwrap();
    }
    if let Some(row) = known.row.clone() {
        let (within, email) = (cx.clone(), email.clone());
        let write = cx.database().write(move |tx| {
            let id = contacts::ensure(tx, &within, &email)?.get();
            store(tx, &within, id, &row, ids)
        });
        write.await.unwrap();
    }
    let items = cx.items().await.unwrap();
    if let Some((unsubscribed, suppressed)) = known.profile {
        let item = tables::MAIN.bare_item(&keys::profile(&email));
        let item = item.with("unsubscribed", unsubscribed).with("suppressed", suppressed);
        items.put(Put::new(&tables::MAIN, item)).await.unwrap();
    }
    if let Some(kind) = known.suppression {
        suppress(cx, email.clone(), kind).await;
    }
    for (hours, counts) in &known.sent {
        let at = cx.now() - SignedDuration::from_hours((*hours).into());
        let mut line =
            tables::MAIN.bare_item(&keys::sent(&email, at)).with("sentAt", keys::time(at));
        if *counts {
            line.set("sequenceId", "spring");
        }
        items.put(Put::new(&tables::MAIN, line)).await.unwrap();
    }
}

fn store(
    tx: &mut tidings_sql::Tx<'_>,
    cx: &Cx,
    id: i64,
    row: &Row,
    [audience, topic, shop, blog]: [i64; 4],
) -> Result<(), DatabaseError> {
    let now = cx.now().as_millisecond();
    let at = |there: bool| there.then_some(now).into();
    let (workspace, id) = (Param::Int(cx.workspace_id().get()), Param::Int(id));
    tx.execute(
        "UPDATE leads SET unsubscribed_at = $2, erased_at = $3, timezone = $4 WHERE id = $1",
        &[id, at(row.unsubscribed), at(row.erased), ZONES[row.zone].into()],
    )?;
    tx.execute(
        "UPDATE channel_identities SET validation_status = $2, verified_at = $3 WHERE lead_id = $1",
        &[id, Param::Text(VALIDATIONS[row.validation]), at(row.verified)],
    )?;
    if let Some(on) = row.topic {
        tx.execute(
            "INSERT INTO topic_preferences (workspace_id, lead_id, topic_id, status, created_at, updated_at)
             VALUES ($1, $2, $3, $4, 0, 0)",
            &[workspace, id, Param::Int(topic), Param::Text(if on { "on" } else { "off" })],
        )?;
    }
    let clients = [None, Some(shop), Some(blog)];
    for (client, one) in clients.into_iter().zip(&row.subscriptions) {
        let Some(one) = one else { continue };
        let left = (STATUSES[one.status] == "unsubscribed").then_some(one.left);
        tx.execute(
            "INSERT INTO subscriptions (workspace_id, lead_id, audience_id, client_id, status, verified_at,
                 agreed_at, unsubscribed_at, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, 0)",
            &[
                workspace,
                id,
                Param::Int(audience),
                client.into(),
                Param::Text(STATUSES[one.status]),
                at(one.verified),
                one.agreed.into(),
                left.into(),
            ],
        )?;
    }
    Ok(())
}

/// Tells which verdicts there were.
async fn agree(bed: &Bed, cx: &Cx, case: &Case) -> BTreeSet<&'static str> {
    let (mailing, audience, topic) = make_mailing(bed, cx, case).await;
    let ids = [audience, topic, mailing.client.get(), other_client(cx).await];
    for (number, known) in case.people.iter().enumerate() {
        make_person(cx, number, known, ids).await;
    }
    let items = cx.items().await.unwrap();
    let (mut people, mut profiles) = (Vec::new(), Vec::new());
    // Somebody asked about twice is answered twice.
    let numbers = (0..case.people.len()).chain((!case.people.is_empty()).then_some(0));
    for number in numbers {
        let email = address(number);
        let profile = items.get(&tables::MAIN, &keys::profile(&email)).await.unwrap();
        let loaded = match case.people[number].loaded {
            true => Loaded::Profile(profile.clone()),
            false => Loaded::NotYet,
        };
        people.push(Person { email, profile: loaded });
        profiles.push(profile);
    }
    let answers = check_all(cx, &mailing, people.clone()).await.unwrap();
    assert_eq!(answers.len(), people.len());
    // Whoever must wait is nobody who never gets it, and the others are told apart alike.
    let skips = skips_all(cx, &mailing, people.clone()).await.unwrap();
    let skipped = answers.iter().map(|answer| match answer.explanation.verdict {
        Verdict::Skip(reason) => Some(reason),
        Verdict::Send | Verdict::Defer { .. } => None,
    });
    assert_eq!(skips, skipped.collect::<Vec<_>>());
    let mut met = BTreeSet::new();
    for ((person, profile), answer) in people.into_iter().zip(profiles).zip(answers) {
        let alone = check(cx, &mailing.about(person.email.clone())).await.unwrap();
        assert_eq!((&answer.email, &answer.profile), (&person.email, &profile));
        assert_eq!(answer.explanation, alone, "{mailing:?}");
        met.insert(match alone.verdict {
            Verdict::Send => "send",
            Verdict::Skip(reason) | Verdict::Defer { reason, .. } => reason.as_str(),
        });
    }
    met
}

fn on(bed: impl Future<Output = Bed>, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bed = runtime.block_on(bed);
    let (number, met) = (Cell::new(0), RefCell::new(BTreeSet::new()));
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&case(), |case| {
        number.set(number.get() + 1);
        let told = runtime.block_on(async {
            let cx = bed.make_workspace(&format!("w{}", number.get())).await;
            agree(&bed, &cx, &case).await
        });
        met.borrow_mut().extend(told);
        Ok(())
    });
    run.unwrap();
    // The cases are no use if the same thing stops most people in them.
    assert!(met.borrow().len() >= 6, "{met:?}");
}

#[test]
fn many_are_told_what_each_is_told_in_memory() {
    on(Bed::memory(), 64);
}

#[test]
fn many_are_told_what_each_is_told_on_postgres() {
    on(Bed::postgres(), 16);
}
