//! The database as an outbox: what cannot be handed on is kept, however long that takes.
#![expect(clippy::unwrap_used, reason = "what fails here fails its test")]

#[expect(dead_code, reason = "this binary never looks at where its data are")]
mod engines;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use engines::Engine;
use jiff::{Timestamp, ToSpan as _};
use tidings_kernel::{Outbox as _, Outgoing, Queue, QueueEngine, QueueError, Receive, queues};
use tidings_sql::SqlQueues;
use tidings_testkit::{FakeClock, SendOnly, Target};

/// Queues elsewhere, some of which cannot be reached at times.
struct Elsewhere {
    queues: SqlQueues,
    unreachable: &'static Queue,
    is_down: AtomicBool,
    /// Whether a message arrives although the answer says that it did not.
    loses_answers: bool,
}

#[async_trait]
impl Target for Elsewhere {
    async fn take(&self, messages: Vec<Outgoing>) -> Result<(), QueueError> {
        let concerned = messages.iter().any(|one| one.to.queues().contains(&self.unreachable));
        if !concerned || !self.is_down.load(Ordering::Relaxed) {
            return self.queues.send(messages).await;
        }
        if self.loses_answers {
            self.queues.send(messages).await?;
        }
        Err(QueueError::Unavailable("no route".into()))
    }
}

struct World {
    clock: Arc<FakeClock>,
    outbox: SqlQueues,
    elsewhere: SendOnly<Elsewhere>,
    _engines: [Engine; 2],
}

async fn world(here: Engine, loses_answers: bool) -> World {
    let there = Engine::memory().await;
    let clock = FakeClock::at("2026-03-01T00:00:00Z".parse::<Timestamp>().unwrap());
    let queues =
        |engine: &Engine| SqlQueues::new(engine.database().clone(), Arc::clone(&clock) as Arc<_>);
    let elsewhere = Elsewhere {
        queues: queues(&there),
        unreachable: &queues::TRANSACTIONAL_EMAIL,
        is_down: AtomicBool::new(true),
        loses_answers,
    };
    let outbox = queues(&here);
    World { clock, outbox, elsewhere: SendOnly(elsewhere), _engines: [here, there] }
}

async fn a_long_outage_loses_nothing_and_holds_nobody_up(world: World) {
    let messages = (0..30).map(|n| Outgoing::new(&queues::TRANSACTIONAL_EMAIL, n.to_string()));
    world.outbox.send(messages.collect()).await.unwrap();
    world.outbox.send(vec![Outgoing::new(&queues::PROBE, "other")]).await.unwrap();
    assert_eq!(world.outbox.relay(&world.elsewhere, 100).await.unwrap(), 1, "the other queue");
    for _ in 0..3 * queues::TRANSACTIONAL_EMAIL.max_receives {
        assert!(world.outbox.relay(&world.elsewhere, 100).await.is_err());
        world.clock.advance(2.minutes());
    }
    world.elsewhere.is_down.store(false, Ordering::Relaxed);
    assert_eq!(world.outbox.relay(&world.elsewhere, 20).await.unwrap(), 20);
    assert_eq!(world.outbox.relay(&world.elsewhere, 20).await.unwrap(), 10);
    assert_eq!(world.outbox.relay(&world.elsewhere, 20).await.unwrap(), 0);
    let left = world.outbox.depth(&queues::TRANSACTIONAL_EMAIL).await.unwrap();
    assert_eq!((left.ready, left.hidden, left.dead), (0, 0, 0));
    let there = world.elsewhere.queues.depth(&queues::TRANSACTIONAL_EMAIL).await.unwrap();
    assert_eq!(there.ready, 30);
}

#[tokio::test]
async fn sqlite_keeps_what_it_cannot_hand_on() {
    a_long_outage_loses_nothing_and_holds_nobody_up(world(Engine::memory().await, false).await)
        .await;
}

#[tokio::test]
async fn postgres_keeps_what_it_cannot_hand_on() {
    a_long_outage_loses_nothing_and_holds_nobody_up(world(Engine::postgres().await, false).await)
        .await;
}

#[tokio::test]
async fn a_lost_answer_repeats_a_message_and_loses_none() {
    let world = world(Engine::memory().await, true).await;
    world.outbox.send(vec![Outgoing::new(&queues::TRANSACTIONAL_EMAIL, "a")]).await.unwrap();
    assert!(world.outbox.relay(&world.elsewhere, 10).await.is_err());
    world.elsewhere.is_down.store(false, Ordering::Relaxed);
    assert_eq!(world.outbox.relay(&world.elsewhere, 10).await.unwrap(), 1);
    let there = world.elsewhere.queues.depth(&queues::TRANSACTIONAL_EMAIL).await.unwrap();
    assert_eq!(there.ready, 2);
}

#[tokio::test]
async fn a_relay_that_dies_after_sending_repeats_when_its_lease_ends() {
    let world = world(Engine::file().await, false).await;
    world.elsewhere.is_down.store(false, Ordering::Relaxed);
    world.outbox.send(vec![Outgoing::new(&queues::PROBE, "a")]).await.unwrap();
    // Taken and sent, and never acknowledged.
    let lease = Receive { max: 1, lease: Duration::from_secs(60), wait: Duration::ZERO };
    let taken = world.outbox.receive(&queues::PROBE, lease).await.unwrap();
    world
        .elsewhere
        .send(vec![Outgoing::new(&queues::PROBE, taken[0].body.as_str())])
        .await
        .unwrap();
    assert_eq!(world.outbox.relay(&world.elsewhere, 10).await.unwrap(), 0);
    world.clock.advance(61.seconds());
    assert_eq!(world.outbox.relay(&world.elsewhere, 10).await.unwrap(), 1);
}
