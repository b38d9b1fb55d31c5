//! Workers that end anywhere, messages and timers that come twice, and two nodes at once: what is sent is the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tidings_jobs::{Handler, Outcome};
use tidings_kernel::{Delivery, queues};
use tidings_people::contacts;
use tidings_testbed::{Bed, each_store, until_turn};

use crate::events::{Event, accept};
use crate::executions::Doing;
use crate::world::World;

each_store!(wherever_a_worker_ends_every_mail_goes_out_once, two_nodes_take_every_step_once,);

const STEPS: &str = "
steps:
  - send: a
  - inbox: { inbox: app, title: Hello }
  - set: { plan: pro }
  - condition: { subscriber_field_equals: { field: plan, value: pro } }
    then: [ { send: b }, { tag: { add: [pro] } } ]
    else: [ { send: d } ]
  - wait: 1 hour
  - send: c
";

/// A worker that ends after so many turns when it meets its first message.
pub(super) struct EndsOnce {
    pub(super) inner: Arc<dyn Handler>,
    pub(super) turns: AtomicU64,
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
        let (cx, email) = (world.cx().await, email.parse().unwrap());
        contacts::learn_user_id(&cx, &email, &format!("u{turns}"), cx.now()).await.unwrap();
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
    for number in 0..45 {
        let reader = tidings_inbox::Reader {
            inbox: "app".parse().unwrap(),
            uid: format!("u{number}").parse().unwrap(),
            let_in: None,
        };
        let cx = world.cx().await;
        let counts = tidings_inbox::read::counts(&cx, &world.tools.inbox, &reader).await.unwrap();
        assert_eq!(counts.total, 1, "u{number}");
    }
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
        deliveries.push(message(&id, 1));
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

pub(super) fn message(id: &crate::executions::ExecutionId, receives: u32) -> Delivery {
    let body = json!({
        "contract": "sequence-step", "version": 1, "workspace": "acme", "task": "go_on", "id": id.as_str(),
    });
    Delivery {
        receipt: tidings_kernel::Receipt("test".to_owned()),
        id: "test".to_owned(),
        body: body.to_string(),
        receives,
        enqueued_at: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// A worker that often does the same twice, and often ends too early, if its work bears that.
struct Unreliable {
    inner: Arc<dyn Handler>,
    ends: bool,
    chance: Arc<Chance>,
}

struct Chance(AtomicU64);

impl Chance {
    fn roll(&self) -> u64 {
        let step = |seed: u64| {
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
        };
        let seed =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seed| Some(step(seed)));
        step(seed.unwrap()) >> 33
    }
}

#[async_trait]
impl Handler for Unreliable {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        match self.chance.roll() % 4 {
            0 if self.ends => {
                let turns = usize::try_from(self.chance.roll() % 30).unwrap();
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
        1 => Just(json!({ "send": { "variants": [{ "template": "a" }, { "template": "d" }] } })),
        2 => (4..7).prop_map(|hours| json!({ "wait": format!("{hours} hours") })),
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
            "wait_for": "paid", "timeout": "8 hours", "then": then, "else": late,
        })),
    ];
    prop::collection::vec(prop_oneof![3 => leaf, 1 => branch], 1..5).boxed()
}

const PEOPLE: [(&str, &str); 3] = [
    // Pays whenever that is waited for.
    ("pro@example.org", "pro"),
    ("free@example.org", "free"),
    // Is gone as soon as there is a pause.
    ("gone@example.org", "pro"),
];

/// What is sent to three people, and how they are counted.
async fn sends(bed: &Bed, steps: &[Value], seed: Option<u64>) -> (Vec<String>, Vec<i64>) {
    let world = World::new(bed).await;
    let definition = json!({ "id": "random", "exitOn": ["gone"], "steps": steps });
    world.define(&yaml(&definition)).await;
    let chance = seed.map(|seed| Arc::new(Chance(AtomicU64::new(seed))));
    let wrapped = |inner: Arc<dyn Handler>, ends: bool| match &chance {
        None => inner,
        Some(chance) => {
            Arc::new(Unreliable { inner, ends, chance: Arc::clone(chance) }) as Arc<dyn Handler>
        }
    };
    let handlers = [
        (
            &queues::SEQUENCE_EVENTS,
            wrapped(crate::events::Worker::new(world.tools.clone()).handler(), true),
        ),
        (&queues::SEQUENCE_STEPS, wrapped(world.steps(), true)),
        // A mail that was being handed over when a worker ended is not sent again: nobody knows whether it was.
        (&queues::SEQUENCE_EMAIL, wrapped(world.mail().await, false)),
    ];
    for (email, plan) in PEOPLE {
        world.enrol(email, "random", json!({ "plan": plan })).await;
    }
    for _ in 0..150 {
        for _ in 0..3 {
            for (queue, handler) in &handlers {
                bed.work(queue, Arc::clone(handler)).await;
            }
        }
        if world.keys("EXEC#random").await.is_empty() {
            break;
        }
        tell(&world).await;
        // Timers that fire twice, and before their time.
        if let Some(chance) = &chance {
            for (email, _) in PEOPLE.iter().filter(|_| chance.roll().is_multiple_of(3)) {
                for execution in world.inside(email).await {
                    handlers[1].1.handle(&message(&execution.id, 1)).await;
                }
            }
        }
        bed.advance(60).await;
    }
    assert_eq!(world.keys("EXEC#random").await, [] as [&str; 0]);
    world.hours(2).await;
    let mut sent = world.outbox();
    sent.sort();
    let funnel = world.funnel("random").await;
    let mut numbers = vec![funnel.entered, funnel.active, funnel.completed, funnel.left];
    numbers.extend(
        funnel
            .steps
            .iter()
            .flat_map(|step| [step.entered, step.passed, step.waiting, step.skipped, step.left]),
    );
    (sent, numbers)
}

/// What happens to people who wait, at the same place of their walk in every run. Told twice, it counts once.
async fn tell(world: &World<'_>) {
    let cx = world.cx().await;
    let unsent = "SELECT email FROM transactional_messages WHERE status IN ('queued', 'claimed')";
    let unsent = crate::versions::tests::rows(&cx, unsent).await;
    for (email, _) in PEOPLE {
        // Whoever leaves before his mail is sent does not get it.
        if unsent.iter().any(|one| one == email) {
            continue;
        }
        for execution in world.inside(email).await {
            let name = match (email, &execution.doing) {
                ("pro@example.org", Doing::WaitingFor { .. }) => "paid",
                ("gone@example.org", Doing::Waiting { .. } | Doing::WaitingFor { .. }) => "gone",
                _ => continue,
            };
            let event = Event {
                message_id: Some(format!("{email}/{name}/{}", execution.at)),
                name: name.to_owned(),
                email: Some(email.parse().unwrap()),
                user_id: None,
                anonymous_id: None,
                occurred_at: None,
                data: serde_json::Map::new(),
            };
            for _ in 0..2 {
                accept(&cx, vec![event.clone()]).await.unwrap();
            }
        }
    }
}

/// The fields of an object, one to a line: the world adds its own.
fn yaml(definition: &Value) -> String {
    let fields = definition.as_object().unwrap().iter();
    fields.map(|(name, value)| format!("{name}: {value}\n")).collect()
}

fn in_runtime(check: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(check);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn unreliable_workers_send_what_reliable_ones_send(steps in steps(2), seed in any::<u64>()) {
        in_runtime(async {
            let expected = sends(&Bed::memory().await, &steps, None).await;
            let got = sends(&Bed::memory().await, &steps, Some(seed)).await;
            assert_eq!(got, expected);
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn unreliable_workers_send_the_same_on_postgres(steps in steps(2), seed in any::<u64>()) {
        in_runtime(async {
            let expected = sends(&Bed::memory().await, &steps, None).await;
            let got = sends(&Bed::postgres().await, &steps, Some(seed)).await;
            assert_eq!(got, expected);
        });
    }
}
