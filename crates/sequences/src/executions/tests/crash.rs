//! Workers that end anywhere, messages and timers that come twice, and two nodes at once: what is sent is the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tidings_jobs::{Handler, Outcome};
use tidings_kernel::{Delivery, queues};
use tidings_testbed::{Bed, each_store, until_turn};

use crate::world::World;

each_store!(wherever_a_worker_ends_every_mail_goes_out_once, two_nodes_take_every_step_once,);

const STEPS: &str = "
steps:
  - send: a
  - set: { plan: pro }
  - condition: { subscriber_field_equals: { field: plan, value: pro } }
    then: [ { send: b }, { tag: { add: [pro] } } ]
    else: [ { send: d } ]
  - wait: 1 hour
  - send: c
";

/// A worker that ends after so many turns when it meets its first message.
struct EndsOnce {
    inner: Arc<dyn Handler>,
    turns: AtomicU64,
}

#[async_trait]
impl Handler for EndsOnce {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        let turns = self.turns.swap(u64::MAX, Ordering::Relaxed);
        if turns == u64::MAX {
            return self.inner.handle(delivery).await;
        }
        let turns = usize::try_from(turns).unwrap();
        let done = until_turn(self.inner.handle(delivery), turns).await;
        done.unwrap_or_else(|| Outcome::retry("it ended"))
    }
}

async fn wherever_a_worker_ends_every_mail_goes_out_once(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(&format!("id: crash\n{STEPS}")).await;
    for turns in 0..45 {
        let email = format!("p{turns}@example.org");
        world.enrol(&email, "crash", json!({})).await;
        let turns = AtomicU64::new(turns);
        let ends: Arc<dyn Handler> = Arc::new(EndsOnce { inner: world.steps(), turns });
        bed.work(&queues::SEQUENCE_STEPS, ends).await;
    }
    world.hours(4).await;
    let mut sent = world.outbox();
    sent.sort();
    let expected = (0..45).flat_map(|n| ["a", "b", "c"].map(|s| format!("p{n}@example.org {s}")));
    let mut expected: Vec<_> = expected.collect();
    expected.sort();
    assert_eq!(sent, expected);
    let funnel = world.funnel("crash").await;
    assert_eq!((funnel.entered, funnel.completed, funnel.active), (45, 45, 0));
    for step in funnel.steps.iter().filter(|step| !step.step.contains("else")) {
        assert_eq!((step.entered, step.passed), (45, 45), "{}", step.step);
    }
}

async fn two_nodes_take_every_step_once(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(&format!("id: race\n{STEPS}")).await;
    let mut deliveries = Vec::new();
    for number in 0..20 {
        let email = format!("p{number}@example.org");
        world.enrol(&email, "race", json!({})).await;
        let id = world.inside(&email).await[0].id.clone();
        deliveries.push(message(&id));
    }
    let (one, other) = (world.steps(), world.steps());
    for delivery in &deliveries {
        tokio::join!(one.handle(delivery), other.handle(delivery));
    }
    world.hours(3).await;
    let mut sent = world.outbox();
    sent.sort();
    let all = sent.len();
    sent.dedup();
    assert_eq!((sent.len(), all), (60, 60));
    let funnel = world.funnel("race").await;
    assert_eq!((funnel.entered, funnel.completed, funnel.active), (20, 20, 0));
}

fn message(id: &crate::executions::ExecutionId) -> Delivery {
    let body = json!({
        "contract": "sequence-step", "version": 1, "workspace": "acme", "task": "go_on", "id": id.as_str(),
    });
    Delivery {
        receipt: tidings_kernel::Receipt("test".to_owned()),
        id: "test".to_owned(),
        body: body.to_string(),
        receives: 1,
        enqueued_at: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// A worker that often ends too early, and often does the same twice.
struct Unreliable {
    inner: Arc<dyn Handler>,
    /// The state of its chance.
    seed: AtomicU64,
}

impl Unreliable {
    fn roll(&self) -> u64 {
        let step = |seed: u64| {
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
        };
        let seed =
            self.seed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seed| Some(step(seed)));
        step(seed.unwrap()) >> 33
    }
}

#[async_trait]
impl Handler for Unreliable {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        match self.roll() % 4 {
            0 => {
                let turns = usize::try_from(self.roll() % 30).unwrap();
                let done = until_turn(self.inner.handle(delivery), turns).await;
                done.unwrap_or_else(|| Outcome::retry("it ended"))
            }
            1 => {
                self.inner.handle(delivery).await;
                self.inner.handle(delivery).await
            }
            _ => self.inner.handle(delivery).await,
        }
    }
}

/// Steps of every kind that need nobody else.
fn steps(depth: u32) -> BoxedStrategy<Vec<Value>> {
    let template = || select(vec!["a", "b", "c", "d"]);
    let tag = || select(vec!["red", "blue"]);
    let leaf = prop_oneof![
        4 => template().prop_map(|key| json!({ "send": key })),
        2 => (1..5).prop_map(|hours| json!({ "wait": format!("{hours} hours") })),
        1 => tag().prop_map(|tag| json!({ "tag": { "add": [tag] } })),
        1 => tag().prop_map(|tag| json!({ "tag": { "remove": [tag] } })),
        1 => Just(json!({ "set": { "plan": "$.plan" } })),
        1 => Just(json!({ "exit": {} })),
    ];
    if depth == 0 {
        return prop::collection::vec(leaf, 0..3).boxed();
    }
    let inner = || steps(depth - 1);
    let check = prop_oneof![
        template().prop_map(|key| json!({ "has_been_sent": key })),
        tag().prop_map(|tag| json!({ "matches": { "tag": tag } })),
        Just(json!({ "subscriber_field_equals": { "field": "plan", "value": "pro" } })),
    ];
    let branch = prop_oneof![
        (check, inner(), inner())
            .prop_map(|(check, then, no)| json!({ "condition": check, "then": then, "else": no })),
        (inner(), inner()).prop_map(|(pro, other)| json!({
            "choice": "$.plan", "branches": [{ "value": "pro", "steps": pro }], "default": other,
        })),
        (inner(), inner()).prop_map(|(then, late)| json!({
            "wait_for": "paid", "timeout": "3 hours", "then": then, "else": late,
        })),
    ];
    prop::collection::vec(prop_oneof![3 => leaf, 1 => branch], 1..5).boxed()
}

/// What is sent to two people with different data.
async fn sends(steps: &[Value], chance: Option<u64>) -> (Vec<String>, Vec<i64>) {
    let bed = Bed::memory().await;
    let world = World::new(&bed).await;
    let definition = json!({ "id": "random", "steps": steps });
    world.define(&format!("{}", yaml(&definition))).await;
    let handler: Arc<dyn Handler> = match chance {
        None => world.steps(),
        Some(seed) => Arc::new(Unreliable { inner: world.steps(), seed: AtomicU64::new(seed) }),
    };
    let mail = world.mail().await;
    world.enrol("pro@example.org", "random", json!({ "plan": "pro" })).await;
    world.enrol("free@example.org", "random", json!({ "plan": "free" })).await;
    for _ in 0..60 {
        for _ in 0..3 {
            bed.work(&queues::SEQUENCE_STEPS, Arc::clone(&handler)).await;
            bed.work(&queues::SEQUENCE_EMAIL, Arc::clone(&mail)).await;
        }
        bed.advance(30).await;
    }
    assert_eq!(world.keys("EXEC#random").await, [] as [&str; 0]);
    let mut sent = world.outbox();
    sent.sort();
    let funnel = world.funnel("random").await;
    let mut numbers = vec![funnel.entered, funnel.active, funnel.completed, funnel.left];
    numbers.extend(funnel.steps.iter().flat_map(|step| [step.entered, step.passed, step.waiting]));
    (sent, numbers)
}

/// The fields of an object, one to a line: the world adds its own.
fn yaml(definition: &Value) -> String {
    let fields = definition.as_object().unwrap().iter();
    fields.map(|(name, value)| format!("{name}: {value}\n")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_unreliable_worker_sends_what_a_reliable_one_sends(steps in steps(2), seed in any::<u64>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let expected = sends(&steps, None).await;
            let got = sends(&steps, Some(seed)).await;
            assert_eq!(got, expected);
        });
    }
}
