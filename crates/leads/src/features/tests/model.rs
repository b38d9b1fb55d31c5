//! Whatever happens in whatever order, late or twice: what was counted one by one is what is computed from all events, and
//! what was derived one by one is what a rebuild derives.

use std::collections::BTreeMap;

use jiff::{Timestamp, ToSpan as _};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value as Json, json};
use tidings_kernel::Clock as _;
use tidings_testbed::Bed;

use super::daily::day;
use super::world::{What, World};
use crate::event::StoredEvent;
use crate::features::state::{State, day_of};
use crate::features::{self, registry};
use crate::memory;

const ADA: &str = "ada@x.org";
const BEGIN: &str = "2026-01-01T00:00:00Z";

/// What happens so many minutes after the beginning, and how many days later it is told, once or more.
#[derive(Debug, Clone)]
struct Step {
    kind: usize,
    number: i64,
    minute: i64,
    late: i64,
    times: usize,
}

fn happening(step: &Step, place: usize) -> What {
    let number = step.number;
    let product = format!("p{}", number % 3);
    let invoice = format!("i{}", number % 4);
    let message = format!("m{}", number % 6);
    let category = (number % 3 == 0).then_some("news");
    let inbox =
        ["inbox.read", "inbox.unread", "inbox.archived"][usize::try_from(number % 3).unwrap()];
    let (kind, payload): (&str, Json) = match step.kind {
        0 => (
            "purchase_completed",
            json!({"amount": format!("{number}.{:02}", number % 100), "currency": if number % 3 == 0 { "USD" } else { "EUR" }, "product": product}),
        ),
        1 => (
            "order.refunded",
            json!({"amount": if number % 2 == 0 { number } else { -number }, "currency": "EUR"}),
        ),
        2 => ("email.delivered", json!({"kind": "campaign"})),
        3 => ("email.opened", json!({})),
        4 => ("email.clicked", json!({"product": product})),
        5 => (
            "message_received",
            json!({"sentiment": (number % 21 - 10) as f64 / 10.0, "channel": "whatsapp"}),
        ),
        6 => ("inbox.published", json!({"inbox": "app", "message": message, "category": category})),
        7 => (inbox, json!({"inbox": "app", "message": message})),
        14 => (
            "inbox.read_all",
            json!({"inbox": "app", "category": category, "up_to": (number % 2 == 0).then_some(message)}),
        ),
        15 => ("inbox.withdrawn", json!({"inbox": "app", "message": message})),
        8 => ("invoice.overdue", json!({"invoice": invoice, "amount": number, "currency": "EUR"})),
        9 => ("invoice.paid", json!({"invoice": invoice})),
        10 => ("product_viewed", json!({"product": product, "category": "food"})),
        11 => ("preference_set", json!({"preference": "colour", "value": number})),
        16 => ("email.sent", json!({"kind": "campaign"})),
        17 => ("email.bounced", json!({})),
        18 => (
            "invoice.overdue",
            json!({"currency": "EUR", "invoices": [{"invoice": invoice, "amount": number}, {"invoice": "i9", "amount": 1, "currency": "USD"}]}),
        ),
        12 => ("email.unsubscribed", json!({"reason": "too many"})),
        13 => ("Order Rated", json!({"sentiment": (number % 21 - 10) as f64 / 10.0})),
        19 => {
            ("email.subscribed", json!({"by": if number % 2 == 0 { "operator" } else { "person" }}))
        }
        _ => ("page_viewed", json!({})),
    };
    let begin: Timestamp = BEGIN.parse().unwrap();
    What {
        id: place.to_string(),
        kind: kind.to_owned(),
        at: begin + step.minute.minutes(),
        payload,
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let late = prop_oneof![6 => Just(0), 2 => 1..20_i64, 1 => 80..140_i64];
    let step = (0..20_usize, 0..500_i64, 0..200_000_i64, late, 1..3_usize);
    let step = step.prop_map(|(kind, number, minute, late, times)| Step {
        kind,
        number,
        minute,
        late,
        times,
    });
    proptest::collection::vec(step, 1..40)
}

fn stored(step: &Step, place: usize) -> StoredEvent {
    let what = happening(step, place);
    StoredEvent {
        lead_organization_id: "1".to_owned(),
        id: what.id.clone(),
        event_type: what.kind,
        occurred_at: what.at,
        received_at: what.at,
        source_type: "test".to_owned(),
        source: "test".to_owned(),
        external_event_id: what.id,
        object_id: None,
        object_id_ref: None,
        payload: what.payload.as_object().cloned().unwrap_or_default(),
        raw_payload: None,
    }
}

/// Others ask for features by these names.
#[test]
fn the_names_that_people_are_told_are_those_that_there_are() {
    let names: Vec<&str> = features::ALL.iter().map(|feature| feature.name).collect();
    assert_eq!(names, tidings_people::features::NAMES);
}

/// And of whom nothing is computed yet, they are told the same as if it were.
#[test]
fn what_is_told_before_anything_happened_is_what_is_computed_of_nothing() {
    let mut computed = BTreeMap::new();
    let now: Timestamp = BEGIN.parse().unwrap();
    registry::compute(&mut computed, features::ALL.iter(), &State::default(), now);
    assert_eq!(computed, tidings_people::features::all_before_anything());
}

/// Only those are computed again that say that the event touches them. So it must change no other one.
#[test]
fn an_event_changes_only_the_features_that_say_so() {
    let begin: Timestamp = BEGIN.parse().unwrap();
    let config = Config { failure_persistence: None, ..Config::with_cases(500) };
    let outcome = TestRunner::new(config).run(&(steps(), 0..200_i64), |(steps, days)| {
        let now = begin + (days * 24).hours();
        let (mut state, mut before) = (State::default(), BTreeMap::new());
        registry::compute(&mut before, features::ALL.iter(), &state, now);
        for (place, step) in steps.iter().enumerate() {
            let event = stored(step, place);
            state.add(&event, day_of(now));
            let mut after = BTreeMap::new();
            registry::compute(&mut after, features::ALL.iter(), &state, now);
            for feature in &features::ALL {
                if !feature.is_touched_by(&event) {
                    let (name, kind) = (feature.name, &event.event_type);
                    prop_assert_eq!(before.get(name), after.get(name), "{} by {}", name, kind);
                }
            }
            before = after;
        }
        Ok(())
    });
    outcome.unwrap();
}

/// More of everything than is kept.
fn too_much() -> Vec<StoredEvent> {
    let begin: Timestamp = BEGIN.parse().unwrap();
    let event = |place: usize| {
        let name = (place * 7 + place / 9) % 30;
        let currency =
            format!("X{}{}", char::from(b'A' + name as u8 % 26), if name < 26 { "A" } else { "B" });
        let (kind, payload) = match place % 3 {
            0 => ("purchase_completed", json!({"amount": place, "currency": currency})),
            1 => ("inbox.read_all", json!({"inbox": format!("i{name}")})),
            _ => (
                "inbox.read_all",
                json!({"inbox": format!("i{name}"), "up_to": format!("m{}", place % 5)}),
            ),
        };
        StoredEvent {
            id: place.to_string(),
            event_type: kind.to_owned(),
            occurred_at: begin + (((place * 31) % 97) as i64).minutes(),
            payload: payload.as_object().cloned().unwrap_or_default(),
            ..stored(&Step { kind: 13, number: 0, minute: 0, late: 0, times: 1 }, place)
        }
    };
    (0..270).map(event).collect()
}

#[test]
fn what_is_kept_of_too_much_is_the_same_in_any_order() {
    let day = day_of(BEGIN.parse().unwrap());
    let added = |events: &[StoredEvent]| {
        let mut state = State::default();
        events.iter().for_each(|event| state.add(event, day));
        state
    };
    let expected = added(&too_much());
    let config = Config { failure_persistence: None, ..Config::with_cases(100) };
    let outcome = TestRunner::new(config).run(&Just(too_much()).prop_shuffle(), |events| {
        prop_assert_eq!(added(&events), expected.clone());
        Ok(())
    });
    outcome.unwrap();
}

/// Each is told when its time has come, in the order in which they are told.
async fn holds(bed: Bed, steps: &[Step]) {
    let world = World::new(&bed);
    let begin: Timestamp = BEGIN.parse().unwrap();
    let told_at = |step: &Step| step.minute + step.late * 24 * 60;
    let mut order: Vec<(usize, &Step)> = steps.iter().enumerate().collect();
    order.sort_by_key(|(_, step)| told_at(step));
    world.bed.clock.set(begin);
    let (mut days, mut told) = (0, Vec::new());
    for (place, step) in order {
        let now = begin + told_at(step).minutes();
        // Some of the days in between are computed, at six.
        while days < told_at(step) / (24 * 60) {
            days += 1;
            if days % 17 == 0 {
                world.bed.clock.set(begin + (days * 24 * 60 - 18 * 60).minutes());
                day(&world).await;
            }
        }
        world.bed.clock.set(now.max(world.bed.clock.now()));
        let message = world.store(ADA, &happening(step, place)).await;
        for _ in 0..step.times {
            world.tell(&message).await;
        }
        told.push(message);
        // One that was told before, once more.
        world.tell(&told[place % told.len()]).await;
        world.work().await;
    }
    let now = world.bed.clock.now();
    let scratch = world.as_of(ADA, now).await;
    let kept = world.features(ADA).await;
    for feature in &features::ALL {
        if !feature.by_time {
            assert_eq!(
                kept.values.get(feature.name),
                scratch.values.get(feature.name),
                "{}",
                feature.name
            );
        }
    }
    check_all(&world).await;
}

/// A day computes the rest, a rebuild changes nothing.
async fn check_all(world: &World<'_>) {
    day(world).await;
    let (kept, scratch) =
        (world.features(ADA).await, world.as_of(ADA, world.bed.clock.now()).await);
    let lately = world.bed.clock.now() - (24 * 99).hours();
    let cx = world.cx().await;
    let seen = cx
        .database()
        .read(|tx| tx.query("SELECT last_seen_at FROM lead_organizations", &[])?[0].int(0));
    let is_active = seen.await.unwrap() > lately.as_millisecond();
    if is_active {
        assert_eq!(kept.values, scratch.values);
        assert_eq!(kept.score, scratch.score);
    }
    let memories = world.memory(ADA).await;
    let id = world.own(ADA).await;
    assert_eq!(
        memory::rebuild(&cx, &id).await.unwrap(),
        0,
        "a rebuild of memory finds nothing to change"
    );
    assert_eq!(world.memory(ADA).await, memories);
    features::rebuild(&cx, &id).await.unwrap();
    let again = world.features(ADA).await;
    assert_eq!(again.values, scratch.values, "a rebuild computes what the events say");
    if is_active {
        assert_eq!(again.values, kept.values);
    }
}

fn run(cases: u32, bed: impl AsyncFn() -> Bed) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner =
        TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases) });
    let outcome = runner.run(&steps(), |steps| {
        runtime.block_on(async { holds(bed().await, &steps).await });
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn memory() {
    run(12, async || Bed::memory().await);
}

#[test]
fn postgres() {
    run(2, async || Bed::postgres().await);
}
