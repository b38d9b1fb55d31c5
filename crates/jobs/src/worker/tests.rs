//! A worker on queues in memory: how messages end, what a stop leaves behind, and what a crash at any step does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{Timestamp, ToSpan as _};
use tidings_kernel::{
    DeadLetter, Delivery, Depth, Outgoing, Postponement, Queue, QueueEngine, QueueError, Receipt,
    Receive, Which, queues,
};
use tidings_sql::{Database, SqlQueues};
use tidings_testkit::FakeClock;
use tokio::sync::Notify;

use super::{Settings, Worker};
use crate::handler::{Handler, Outcome};
use crate::tasks::Stop;

static QUEUE: &Queue = &queues::PROBE;

struct World {
    clock: Arc<FakeClock>,
    queues: Arc<SqlQueues>,
}

impl World {
    async fn new() -> Self {
        let clock = FakeClock::at("2026-03-01T12:00:00Z".parse::<Timestamp>().unwrap());
        let database = Database::memory().await.unwrap();
        let queues = Arc::new(SqlQueues::new(database, Arc::clone(&clock) as Arc<_>));
        Self { clock, queues }
    }

    async fn send(&self, bodies: &[&str]) {
        let messages = bodies.iter().map(|body| Outgoing::new(QUEUE, *body)).collect();
        self.queues.send(messages).await.unwrap();
    }

    fn worker(&self, handler: Arc<dyn Handler>) -> Worker {
        self.worker_on(handler, Arc::clone(&self.queues) as Arc<_>)
    }

    fn worker_on(&self, handler: Arc<dyn Handler>, engine: Arc<dyn QueueEngine>) -> Worker {
        let settings = Settings { grace: Duration::from_millis(200), ..Settings::default() };
        Worker { queue: QUEUE, handler, engine, clock: Arc::clone(&self.clock) as Arc<_>, settings }
    }

    async fn depth(&self) -> (u64, u64, u64) {
        let depth = self.queues.depth(QUEUE).await.unwrap();
        (depth.ready, depth.hidden, depth.dead)
    }
}

/// Does what the body says, and counts what it did for each.
#[derive(Default)]
struct Obedient {
    done: Mutex<BTreeMap<String, usize>>,
    /// Those that it was told to come no more.
    given_up: Mutex<Vec<String>>,
    go_on: Notify,
    begun: Notify,
}

#[async_trait]
impl Handler for Obedient {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        *self.done.lock().unwrap().entry(delivery.body.clone()).or_default() += 1;
        self.begun.notify_one();
        match delivery.body.as_str() {
            "dead" => Outcome::dead("poison"),
            "panic" => panic!("a bug"),
            "later" => {
                Outcome::Retry { reason: "not now".into(), after: Some(Duration::from_secs(30)) }
            }
            "wait" => Outcome::wait("for somebody", Duration::from_secs(60)),
            "never" => Outcome::retry("never"),
            "slow" => {
                self.go_on.notified().await;
                Outcome::Done
            }
            _ => Outcome::Done,
        }
    }

    async fn given_up(&self, delivery: &Delivery, _: &str) {
        self.given_up.lock().unwrap().push(delivery.body.clone());
    }
}

#[tokio::test]
async fn a_poison_message_never_blocks_its_batch() {
    let world = World::new().await;
    world.send(&["dead", "one", "panic", "two", "later", "three"]).await;
    let handler = Arc::new(Obedient::default());
    let worker = world.worker(Arc::clone(&handler) as Arc<_>);
    assert_eq!(worker.run_until_idle().await.unwrap(), 6);
    assert_eq!(world.depth().await, (0, 2, 1));
    world.clock.advance(30.seconds());
    assert_eq!(worker.run_until_idle().await.unwrap(), 2, "those that failed came again");
    let dead = world.queues.dead_letters(QUEUE, None, 10).await.unwrap();
    assert_eq!(dead[0].reason.as_deref(), Some("poison"));
}

#[tokio::test]
async fn what_always_fails_ends_among_the_dead_with_its_reason() {
    let world = World::new().await;
    world.send(&["never"]).await;
    let worker = world.worker(Arc::new(Obedient::default()));
    let mut tries = 0;
    for _ in 0..20 {
        tries += worker.run_until_idle().await.unwrap();
        world.clock.advance(15.minutes());
    }
    assert_eq!(tries, QUEUE.max_receives as usize);
    assert_eq!(world.depth().await, (0, 0, 1));
    let dead = world.queues.dead_letters(QUEUE, None, 10).await.unwrap();
    assert_eq!(dead[0].reason.as_deref(), Some("never"));
    assert_eq!(dead[0].receives, QUEUE.max_receives);
}

/// A worker that dies with its message says nothing; whoever comes after it hears that it was the last time.
#[tokio::test]
async fn whoever_died_with_a_message_too_often_is_told_by_the_next() {
    let world = World::new().await;
    world.send(&["slow"]).await;
    let lease = Duration::from_secs(30);
    for _ in 0..QUEUE.max_receives {
        let request = Receive { max: 1, lease, wait: Duration::ZERO };
        assert_eq!(world.queues.receive(QUEUE, request).await.unwrap().len(), 1);
        world.clock.advance(31.seconds());
    }
    let handler = Arc::new(Obedient::default());
    let worker = world.worker(Arc::clone(&handler) as Arc<_>);
    for _ in 0..2 {
        assert_eq!(worker.run_until_idle().await.unwrap(), 0);
        assert_eq!(*handler.given_up.lock().unwrap(), ["slow"], "once");
    }
    assert_eq!(world.depth().await, (0, 0, 1));
}

#[tokio::test]
async fn what_waits_for_something_else_is_never_given_up() {
    let world = World::new().await;
    world.send(&["wait"]).await;
    let worker = world.worker(Arc::new(Obedient::default()));
    for _ in 0..3 * QUEUE.max_receives {
        assert_eq!(worker.run_until_idle().await.unwrap(), 1);
        assert_eq!(world.depth().await, (0, 1, 0));
        world.clock.advance(60.seconds());
    }
}

/// Runs a worker beside the test, until it is stopped.
fn start(worker: Worker) -> (tokio::sync::watch::Sender<bool>, tokio::task::JoinHandle<()>) {
    let (stop, stopped) = Stop::new();
    (stop, tokio::spawn(worker.run(stopped)))
}

#[tokio::test]
async fn a_worker_that_stops_ends_what_is_under_way() {
    let world = World::new().await;
    let handler = Arc::new(Obedient::default());
    let (stop, running) = start(world.worker(Arc::clone(&handler) as Arc<_>));
    world.send(&["slow"]).await;
    handler.begun.notified().await;
    stop.send_replace(true);
    handler.go_on.notify_one();
    running.await.unwrap();
    assert_eq!(world.depth().await, (0, 0, 0));
}

#[tokio::test]
async fn what_does_not_end_in_time_is_given_back_at_once() {
    let world = World::new().await;
    let handler = Arc::new(Obedient::default());
    let (stop, running) = start(world.worker(Arc::clone(&handler) as Arc<_>));
    world.send(&["slow"]).await;
    handler.begun.notified().await;
    stop.send_replace(true);
    running.await.unwrap();
    assert_eq!(world.depth().await, (1, 0, 0), "another worker need not wait for the lease");
}

#[tokio::test]
async fn a_long_handler_keeps_its_message() {
    let world = World::new().await;
    world.send(&["slow"]).await;
    let handler = Arc::new(Obedient::default());
    let renewing = Arc::new(Renewing { inner: Arc::clone(&world.queues), renewed: Notify::new() });
    let worker = world.worker_on(Arc::clone(&handler) as Arc<_>, Arc::clone(&renewing) as Arc<_>);
    // A short lease, so that the renewal comes soon; the clock that ends leases is set by hand.
    static SHORT: Queue =
        Queue { lease: Duration::from_millis(90), max_receives: 8, ..queues::PROBE };
    let (stop, running) = start(Worker { queue: &SHORT, ..worker });
    handler.begun.notified().await;
    for _ in 0..3 {
        world.clock.advance(60.milliseconds());
        renewing.renewed.notified().await;
    }
    let request = Receive { max: 1, lease: Duration::from_secs(1), wait: Duration::ZERO };
    assert!(world.queues.receive(QUEUE, request).await.unwrap().is_empty(), "it is still kept");
    handler.go_on.notify_one();
    stop.send_replace(true);
    running.await.unwrap();
    assert_eq!(world.depth().await, (0, 0, 0));
    assert_eq!(handler.done.lock().unwrap()["slow"], 1);
}

/// Tells when leases were renewed.
struct Renewing {
    inner: Arc<SqlQueues>,
    renewed: Notify,
}

/// A step that can fail, and everything after it does too: the process is gone. With `After`, the step itself was
/// still made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Dies {
    Before(usize),
    After(usize),
}

/// Queues that a process uses until it dies.
struct Mortal {
    inner: Arc<SqlQueues>,
    dies: Dies,
    steps: AtomicUsize,
}

impl Mortal {
    async fn step<T>(
        &self,
        work: impl Future<Output = Result<T, QueueError>>,
    ) -> Result<T, QueueError> {
        let step = self.steps.fetch_add(1, Ordering::Relaxed);
        let gone = || Err(QueueError::Unavailable("the process is gone".into()));
        match self.dies {
            Dies::Before(n) if step >= n => gone(),
            Dies::After(n) if step > n => gone(),
            Dies::After(n) if step == n => work.await.and(gone()),
            Dies::Before(_) | Dies::After(_) => work.await,
        }
    }
}

macro_rules! forward {
    ($type:ty, $self:ident, $name:ident, $call:expr) => {
        #[async_trait]
        impl QueueEngine for $type {
            async fn send(&$self, messages: Vec<Outgoing>) -> Result<(), QueueError> {
                $self.inner.send(messages).await
            }
            async fn receive(
                &$self,
                queue: &'static Queue,
                request: Receive,
            ) -> Result<Vec<Delivery>, QueueError> {
                let $name = $self.inner.receive(queue, request);
                $call
            }
            async fn acknowledge(
                &$self,
                queue: &'static Queue,
                receipts: &[Receipt],
            ) -> Result<usize, QueueError> {
                let $name = $self.inner.acknowledge(queue, receipts);
                $call
            }
            async fn postpone(
                &$self,
                queue: &'static Queue,
                postponements: &[Postponement],
            ) -> Result<usize, QueueError> {
                let $name = $self.inner.postpone(queue, postponements);
                let done = $call;
                $self.after_postpone();
                done
            }
            async fn defer(
                &$self,
                queue: &'static Queue,
                delivery: &Delivery,
                lease: Duration,
                reason: &str,
            ) -> Result<(), QueueError> {
                let $name = $self.inner.defer(queue, delivery, lease, reason);
                $call
            }
            async fn bury(
                &$self,
                queue: &'static Queue,
                delivery: &Delivery,
                reason: &str,
            ) -> Result<(), QueueError> {
                let $name = $self.inner.bury(queue, delivery, reason);
                $call
            }
            async fn depth(&$self, queue: &'static Queue) -> Result<Depth, QueueError> {
                $self.inner.depth(queue).await
            }
            async fn dead_letters(
                &$self,
                queue: &'static Queue,
                after: Option<&str>,
                limit: usize,
            ) -> Result<Vec<DeadLetter>, QueueError> {
                $self.inner.dead_letters(queue, after, limit).await
            }
            async fn replay(&$self, queue: &'static Queue, which: Which) -> Result<u64, QueueError> {
                $self.inner.replay(queue, which).await
            }
            async fn purge(&$self, queue: &'static Queue, which: Which) -> Result<u64, QueueError> {
                $self.inner.purge(queue, which).await
            }
        }
    };
}

impl Renewing {
    fn after_postpone(&self) {
        self.renewed.notify_one();
    }
}

impl Mortal {
    fn after_postpone(&self) {}
}

forward!(Renewing, self, work, work.await);
forward!(Mortal, self, work, self.step(work).await);

#[tokio::test]
async fn a_worker_that_dies_between_any_two_steps_loses_nothing() {
    let bodies = ["one", "dead", "two", "later", "wait"];
    for n in 0..8 {
        for dies in [Dies::Before(n), Dies::After(n)] {
            let world = World::new().await;
            world.send(&bodies).await;
            let handler = Arc::new(Obedient::default());
            let mortal =
                Mortal { inner: Arc::clone(&world.queues), dies, steps: AtomicUsize::new(0) };
            let first = world.worker_on(Arc::clone(&handler) as Arc<_>, Arc::new(mortal));
            let ended = first.run_until_idle().await;
            assert!(n >= 7 || ended.is_err(), "{dies:?} was never reached");
            // Another process comes, and the leases of the first one end.
            world.clock.advance(1.hour());
            world.worker(Arc::clone(&handler) as Arc<_>).run_until_idle().await.unwrap();
            world.clock.advance(1.hour());
            world.worker(Arc::clone(&handler) as Arc<_>).run_until_idle().await.unwrap();
            let done = handler.done.lock().unwrap().clone();
            assert!(bodies.iter().all(|body| done.contains_key(*body)), "{dies:?}: {done:?}");
            assert!(done["one"] <= 2 && done["two"] <= 2, "{dies:?}: {done:?}");
            let (ready, _, dead) = world.depth().await;
            assert_eq!((ready, dead), (0, 1), "{dies:?}");
        }
    }
}
