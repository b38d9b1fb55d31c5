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
use std::time::Duration;

use async_trait::async_trait;
use jiff::{Timestamp, ToSpan};
use server::{Server, connect};
use tidings_aws::{DynamoDb, DynamoOutbox, DynamoTimers, Workspaces};
use tidings_kernel::queues::{EMAIL_EVENTS, PROBE};
use tidings_kernel::{
    DeadLetter, Delivery, Depth, ItemEngine, ItemStore, Outbox, Outgoing, Postponement, Query,
    Queue, QueueEngine, QueueError, Receipt, Receive, Timer, TimerEngine, Txn, Which, Workspace,
    tables::MAIN,
};
use tidings_testkit::FakeClock;
use tokio::task::JoinSet;

/// Takes messages, and says so or not.
#[derive(Default)]
struct Sink {
    taken: Mutex<Vec<Outgoing>>,
    /// What is sent there is taken, and then answered with an error.
    lossy: Mutex<Option<&'static Queue>>,
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
impl QueueEngine for Sink {
    async fn send(&self, messages: Vec<Outgoing>) -> Result<(), QueueError> {
        let lossy = *self.lossy.lock().unwrap();
        let lost = messages.iter().any(|message| lossy.is_some_and(|q| message.to.queues() == [q]));
        self.taken.lock().unwrap().extend(messages);
        if lost { Err(QueueError::Unavailable("the answer is lost".into())) } else { Ok(()) }
    }

    async fn receive(&self, _: &'static Queue, _: Receive) -> Result<Vec<Delivery>, QueueError> {
        unreachable!("the relay only sends")
    }

    async fn acknowledge(&self, _: &'static Queue, _: &[Receipt]) -> Result<usize, QueueError> {
        unreachable!("the relay only sends")
    }

    async fn postpone(&self, _: &'static Queue, _: &[Postponement]) -> Result<usize, QueueError> {
        unreachable!("the relay only sends")
    }

    async fn defer(
        &self,
        _: &'static Queue,
        _: &Delivery,
        _: Duration,
        _: &str,
    ) -> Result<(), QueueError> {
        unreachable!("the relay only sends")
    }

    async fn bury(&self, _: &'static Queue, _: &Delivery, _: &str) -> Result<(), QueueError> {
        unreachable!("the relay only sends")
    }

    async fn depth(&self, _: &'static Queue) -> Result<Depth, QueueError> {
        unreachable!("the relay only sends")
    }

    async fn dead_letters(
        &self,
        _: &'static Queue,
        _: Option<&str>,
        _: usize,
    ) -> Result<Vec<DeadLetter>, QueueError> {
        unreachable!("the relay only sends")
    }

    async fn replay(&self, _: &'static Queue, _: Which) -> Result<u64, QueueError> {
        unreachable!("the relay only sends")
    }

    async fn purge(&self, _: &'static Queue, _: Which) -> Result<u64, QueueError> {
        unreachable!("the relay only sends")
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
    let sink = Sink::default();
    *sink.lossy.lock().unwrap() = Some(&PROBE);
    assert!(world.outbox().relay(&sink, 100).await.is_err());
    assert_eq!(sink.bodies(), numbers(3));

    *sink.lossy.lock().unwrap() = None;
    assert_eq!(world.outbox().relay(&sink, 100).await.unwrap(), 3);
    assert_eq!(sink.bodies(), ["000", "000", "001", "001", "002", "002"]);
    assert_eq!(world.outbox().relay(&sink, 100).await.unwrap(), 0);
}

#[tokio::test]
async fn a_queue_that_fails_does_not_hold_up_another() {
    let world = World::new().await;
    world.enqueue(&EMAIL_EVENTS, numbers(90)).await;
    world.enqueue(&PROBE, ["a".to_owned()]).await;
    let sink = Sink::default();
    *sink.lossy.lock().unwrap() = Some(&EMAIL_EVENTS);
    // Fewer than those that stand before it.
    assert_eq!(world.outbox().relay(&sink, 5).await.unwrap(), 1);
    let taken = sink.taken.lock().unwrap().clone();
    assert!(taken.iter().any(|message| message.body == "a"));

    let sink = Sink::default();
    assert_eq!(world.outbox().relay(&sink, 1_000).await.unwrap(), 90);
    assert_eq!(sink.bodies(), numbers(90));
}

#[tokio::test]
async fn nodes_that_relay_at_once_lose_nothing() {
    let world = World::new().await;
    for chunk in numbers(300).chunks(100) {
        world.enqueue(&PROBE, chunk.to_vec()).await;
    }
    let sink = Arc::new(Sink::default());
    let mut nodes = JoinSet::new();
    for _ in 0..4 {
        let (outbox, sink) = (world.outbox(), Arc::clone(&sink));
        nodes.spawn(async move { while outbox.relay(&*sink, 50).await.unwrap() > 0 {} });
    }
    nodes.join_all().await;
    let distinct: HashSet<_> = sink.bodies().into_iter().collect();
    assert_eq!(distinct, numbers(300).into_iter().collect());
    for shard in 0..4 {
        assert_eq!(world.count(&format!("OUTBOX#{shard}")).await, 0);
    }
}

#[tokio::test]
async fn a_relay_goes_a_limit_at_a_time() {
    let world = World::new().await;
    world.enqueue(&PROBE, numbers(90)).await;
    let (outbox, sink) = (world.outbox(), Sink::default());
    let mut calls = 0;
    while outbox.relay(&sink, 10).await.unwrap() > 0 {
        calls += 1;
    }
    assert!(calls >= 9, "{calls}");
    assert_eq!(sink.bodies(), numbers(90));
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
    let sink = Sink::default();
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
