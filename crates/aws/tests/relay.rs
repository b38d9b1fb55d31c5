//! The relay and the timers when things go wrong: crashes in between, several nodes at once, one queue that fails.
//!
//! What every engine must do is in the conformance suite (`later.rs`); here is what only this one has.
#![expect(
    clippy::unwrap_used,
    reason = "everything here runs inside a test, where a panic is how a failure is told"
)]

mod credentials;
#[expect(dead_code, reason = "nothing expires here")]
mod server;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::{Timestamp, ToSpan};
use server::{Server, connect};
use tidings_aws::{DynamoDb, DynamoOutbox, DynamoTimers, Workspaces};
use tidings_kernel::queues::{EMAIL_EVENTS, PROBE};
use tidings_kernel::{
    Item, ItemEngine, ItemStore, Outbox, Outgoing, Put, Query, Queue, QueueError, Timer,
    TimerEngine, Txn, Workspace, tables::MAIN,
};
use tidings_testkit::{FakeClock, SendOnly, Target};
use tokio::task::JoinSet;

/// Takes messages, and says so or not.
#[derive(Default)]
struct Sink {
    taken: Mutex<Vec<Outgoing>>,
    /// What is sent there is taken, and then answered with an error.
    lossy: Mutex<Option<&'static Queue>>,
    /// A message with this body is refused; those that come with it are taken.
    refused: Option<&'static str>,
}

impl Sink {
    fn bodies(&self) -> Vec<String> {
        let taken = self.taken.lock().unwrap();
        let mut bodies: Vec<_> = taken.iter().map(|message| message.body.clone()).collect();
        bodies.sort_unstable();
        bodies
    }
}

#[async_trait]
impl Target for Sink {
    async fn take(&self, messages: Vec<Outgoing>) -> Result<(), QueueError> {
        let lossy = *self.lossy.lock().unwrap();
        let lost = messages.iter().any(|message| lossy.is_some_and(|q| message.to.queues() == [q]));
        let (refused, taken): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| Some(message.body.as_str()) == self.refused);
        self.taken.lock().unwrap().extend(taken);
        if !refused.is_empty() {
            return Err(QueueError::Failed("it is refused".into()));
        }
        if lost { Err(QueueError::Unavailable("the answer is lost".into())) } else { Ok(()) }
    }
}

struct World {
    clock: Arc<FakeClock>,
    store: Arc<dyn ItemStore>,
    server: Server,
}

impl World {
    async fn new() -> Self {
        let server = Server::start();
        let clock = FakeClock::at("2025-07-01T09:00:00Z".parse::<Timestamp>().unwrap());
        let engine = connect(server.endpoint(), Arc::clone(&clock) as Arc<_>);
        let store = engine.open(&acme()).await.unwrap();
        Self { clock, store, server }
    }

    /// A process of its own.
    fn node(&self) -> Arc<DynamoDb> {
        Arc::new(connect(self.server.endpoint(), Arc::clone(&self.clock) as Arc<_>))
    }

    fn outbox(&self) -> DynamoOutbox {
        DynamoOutbox::new(self.node(), workspaces())
    }

    fn timers(&self) -> DynamoTimers {
        DynamoTimers::new(self.node(), workspaces())
    }

    async fn enqueue(&self, queue: &'static Queue, bodies: impl IntoIterator<Item = String>) {
        let messages = bodies.into_iter().map(|body| Outgoing::new(queue, body));
        let txn = messages.fold(Txn::new(), Txn::enqueue);
        self.store.transact(txn).await.unwrap();
    }

    async fn count(&self, partition: &str) -> u64 {
        self.store.count(Query::new(&MAIN, partition)).await.unwrap()
    }
}

fn acme() -> Workspace {
    "acme".parse().unwrap()
}

fn workspaces() -> Arc<dyn Workspaces> {
    Arc::new(vec![acme()])
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:03}")).collect()
}

#[tokio::test]
async fn a_crash_between_send_and_delete_repeats_and_loses_nothing() {
    let world = World::new().await;
    world.enqueue(&PROBE, numbers(3)).await;
    let sink = SendOnly::<Sink>::default();
    *sink.lossy.lock().unwrap() = Some(&PROBE);
    assert!(world.outbox().relay(&sink, 100).await.is_err());
    let unanswered = sink.bodies();
    assert!(!unanswered.is_empty());

    *sink.lossy.lock().unwrap() = None;
    assert_eq!(world.outbox().relay(&sink, 100).await.unwrap(), 3);
    let mut expected = [numbers(3), unanswered].concat();
    expected.sort_unstable();
    assert_eq!(sink.bodies(), expected);
    assert_eq!(world.outbox().relay(&sink, 100).await.unwrap(), 0);
}

#[tokio::test]
async fn a_queue_that_fails_does_not_hold_up_another() {
    let world = World::new().await;
    world.enqueue(&EMAIL_EVENTS, numbers(90)).await;
    world.enqueue(&PROBE, ["a".to_owned()]).await;
    let sink = SendOnly::<Sink>::default();
    *sink.lossy.lock().unwrap() = Some(&EMAIL_EVENTS);
    // Fewer than those that stand before it.
    assert_eq!(world.outbox().relay(&sink, 5).await.unwrap(), 1);
    let taken = sink.taken.lock().unwrap().clone();
    assert!(taken.iter().any(|message| message.body == "a"));
    assert!(taken.len() < 10, "{} were tried in vain", taken.len());

    let sink = SendOnly::<Sink>::default();
    assert_eq!(world.outbox().relay(&sink, 1_000).await.unwrap(), 90);
    assert_eq!(sink.bodies(), numbers(90));
}

#[tokio::test]
async fn nodes_that_relay_at_once_lose_nothing() {
    let world = World::new().await;
    for chunk in numbers(300).chunks(100) {
        world.enqueue(&PROBE, chunk.to_vec()).await;
    }
    let sink = Arc::new(SendOnly::<Sink>::default());
    let mut nodes = JoinSet::new();
    for _ in 0..4 {
        let (outbox, sink) = (world.outbox(), Arc::clone(&sink));
        nodes.spawn(async move { while outbox.relay(&*sink, 50).await.unwrap() > 0 {} });
    }
    nodes.join_all().await;
    let distinct: HashSet<_> = sink.bodies().into_iter().collect();
    assert_eq!(distinct, numbers(300).into_iter().collect());
    for shard in 0..2 {
        assert_eq!(world.count(&format!("OUTBOX#probe#{shard}")).await, 0);
    }
    assert_eq!(world.count("OUTBOX-LEASES").await, 0);
}

#[tokio::test]
async fn a_relay_goes_a_limit_at_a_time() {
    let world = World::new().await;
    world.enqueue(&PROBE, numbers(90)).await;
    let (outbox, sink) = (world.outbox(), SendOnly::<Sink>::default());
    let mut calls = 0;
    while outbox.relay(&sink, 10).await.unwrap() > 0 {
        calls += 1;
    }
    assert!(calls >= 9, "{calls}");
    assert_eq!(sink.bodies(), numbers(90));
}

#[tokio::test]
async fn a_refused_message_does_not_repeat_its_neighbours() {
    let world = World::new().await;
    world.enqueue(&PROBE, numbers(60)).await;
    let (outbox, sink) =
        (world.outbox(), SendOnly(Sink { refused: Some("030"), ..Sink::default() }));
    while outbox.relay(&sink, 100).await.unwrap_or(0) > 0 {}
    let taken = sink.bodies();
    let distinct: HashSet<_> = taken.iter().cloned().collect();
    assert_eq!(distinct.len(), 59);
    assert!(taken.len() < 59 + 10, "{} were sent", taken.len());

    for _ in 0..3 {
        assert!(outbox.relay(&sink, 100).await.is_err());
    }
    assert_eq!(sink.bodies().len(), taken.len());
    assert_eq!(outbox.relay(&SendOnly::<Sink>::default(), 100).await.unwrap(), 1);
}

#[tokio::test]
async fn a_backlog_of_one_queue_does_not_delay_another() {
    let world = World::new().await;
    for chunk in numbers(300).chunks(100) {
        world.enqueue(&EMAIL_EVENTS, chunk.to_vec()).await;
    }
    world.enqueue(&PROBE, ["a".to_owned()]).await;
    let sink = SendOnly::<Sink>::default();
    assert!(world.outbox().relay(&sink, 20).await.unwrap() <= 20);
    assert!(sink.bodies().contains(&"a".to_owned()));
}

#[tokio::test]
async fn what_another_node_is_handing_on_is_left_to_it_until_it_must_be_dead() {
    let world = World::new().await;
    world.enqueue(&PROBE, numbers(20)).await;
    let until = tidings_kernel::Clock::now(&*world.clock) + 30.seconds();
    for shard in ["probe#0", "probe#1"] {
        let lease = Item::new().with("PK", "OUTBOX-LEASES").with("SK", shard);
        let lease = lease.with("holder", "another").with("until", until.as_millisecond());
        world.store.put(Put::new(&MAIN, lease)).await.unwrap();
    }
    let (outbox, sink) = (world.outbox(), SendOnly::<Sink>::default());
    assert_eq!(outbox.relay(&sink, 100).await.unwrap(), 0);
    world.clock.advance(31.seconds());
    assert_eq!(outbox.relay(&sink, 100).await.unwrap(), 20);
    assert_eq!(sink.bodies(), numbers(20));
}

fn timer(world: &World, key: &str, minutes: i64) -> Txn {
    let due = tidings_kernel::Clock::now(&*world.clock) + minutes.minutes();
    Txn::new().arm(Timer { key: key.to_owned(), due, queue: &PROBE, body: key.to_owned() })
}

#[tokio::test]
async fn after_a_long_sleep_everything_fires_and_no_trace_is_left() {
    let world = World::new().await;
    for (key, minutes) in [("a", 5), ("b", 90), ("c", 60 * 24 * 100), ("d", 60 * 24 * 300)] {
        world.store.transact(timer(&world, key, minutes)).await.unwrap();
    }
    world.store.transact(timer(&world, "b", 95)).await.unwrap();
    world.store.transact(Txn::new().cancel_timer("c")).await.unwrap();
    assert_eq!(world.count("TIMERS").await, 4);

    world.clock.advance(400.days());
    let fired = world.timers().fire(1_000).await.unwrap();
    assert_eq!((fired.count, fired.next_due), (3, None));
    let sink = SendOnly::<Sink>::default();
    assert_eq!(world.outbox().relay(&sink, 100).await.unwrap(), 3);
    assert_eq!(sink.bodies(), ["a", "b", "d"]);
    let left = world.store.scan(tidings_kernel::Scan::new(&MAIN)).await.unwrap();
    assert_eq!(left.items, []);
}

#[tokio::test]
async fn a_node_whose_clock_is_ahead_does_not_hide_the_timers_of_others() {
    let world = World::new().await;
    world.store.transact(timer(&world, "a", 0)).await.unwrap();
    let ahead = FakeClock::at(tidings_kernel::Clock::now(&*world.clock) + 240.hours());
    let engine = Arc::new(connect(world.server.endpoint(), ahead));
    let fired = DynamoTimers::new(engine, workspaces()).fire(100).await.unwrap();
    assert_eq!(fired.count, 1);
    assert_eq!(world.count("TIMERS").await, 0);

    // The hour is no longer noted, and the store does not know.
    world.store.transact(timer(&world, "b", 10)).await.unwrap();
    world.clock.advance(10.minutes());
    assert_eq!(world.timers().fire(100).await.unwrap().count, 1);
}

/// The note of an hour is gone, and the store that armed a timer in it does not know.
#[tokio::test]
async fn a_timer_of_an_hour_whose_note_was_taken_away_fires_in_the_next() {
    for began_before in [true, false] {
        let world = World::new().await;
        let old = world.timers();
        world.store.transact(timer(&world, "a", 0)).await.unwrap();
        assert_eq!(old.fire(100).await.unwrap().count, 1);
        let ahead = FakeClock::at(tidings_kernel::Clock::now(&*world.clock) + 2.hours());
        let engine = Arc::new(connect(world.server.endpoint(), ahead));
        assert_eq!(DynamoTimers::new(engine, workspaces()).fire(100).await.unwrap().count, 0);
        world.store.transact(timer(&world, "b", 59)).await.unwrap();
        assert_eq!(world.count("TIMERS").await, 0);

        world.clock.advance(61.minutes());
        let node = if began_before { old } else { world.timers() };
        assert_eq!(node.fire(100).await.unwrap().count, 1, "{began_before}");
    }
}

#[tokio::test]
async fn timers_of_an_unknown_queue_are_kept_and_stand_in_nobodys_way() {
    let world = World::new().await;
    for number in 0..150 {
        let entry = Item::new().with("PK", "TIMERS#2025-07-01T09#0");
        let entry = entry.with("SK", format!("001751360400000#{number:03}"));
        let entry = entry.with("entry", "x").with("key", "x").with("queue", "of tomorrow");
        world.store.put(Put::new(&MAIN, entry.with("body", "x"))).await.unwrap();
    }
    world.store.transact(timer(&world, "a", 5)).await.unwrap();
    let timers = world.timers();
    let fired = timers.fire(100).await.unwrap();
    let due = tidings_kernel::Clock::now(&*world.clock) + 5.minutes();
    assert_eq!((fired.count, fired.next_due), (0, Some(due)));
    world.clock.advance(5.minutes());
    let fired = timers.fire(100).await.unwrap();
    assert_eq!((fired.count, fired.next_due), (1, None));

    world.clock.advance(5.hours());
    let fired = timers.fire(100).await.unwrap();
    assert_eq!((fired.count, fired.next_due), (0, None));
    assert_eq!(world.count("TIMERS").await, 1);
    assert_eq!(world.count("TIMERS#2025-07-01T09#0").await, 150);
}
