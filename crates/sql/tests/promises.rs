//! What a transaction of relations promises for later: it happens exactly if the transaction does.
#![expect(clippy::unwrap_used, reason = "what fails here fails its test")]

#[expect(dead_code, reason = "this binary uses no file")]
mod engines;

use std::sync::Arc;
use std::time::Duration;

use engines::Engine;
use jiff::{Timestamp, ToSpan as _};
use tidings_kernel::{
    BadMessage, Clock as _, Outgoing, Queue, QueueEngine as _, Receive, Timer, TimerChange,
    TimerEngine as _, Workspace, queues, topics,
};
use tidings_sql::{Database, EnqueueError, Param, SqlQueues, Tx};
use tidings_testkit::FakeClock;

struct World {
    clock: Arc<FakeClock>,
    queues: SqlQueues,
    engine: Engine,
}

impl World {
    async fn memory() -> Self {
        Self::on(Engine::memory().await)
    }

    async fn postgres() -> Self {
        Self::on(Engine::postgres().await)
    }

    fn on(engine: Engine) -> Self {
        let clock = FakeClock::at("2026-03-01T00:00:00Z".parse::<Timestamp>().unwrap());
        let queues = SqlQueues::new(engine.database().clone(), Arc::clone(&clock) as Arc<_>);
        Self { clock, queues, engine }
    }

    fn database(&self) -> &Database {
        self.engine.database()
    }

    /// The bodies that a queue has now.
    async fn bodies(&self, queue: &'static Queue) -> Vec<String> {
        let request = Receive { max: 10, lease: Duration::from_secs(60), wait: Duration::ZERO };
        let deliveries = self.queues.receive(queue, request).await.unwrap();
        deliveries.into_iter().map(|delivery| delivery.body).collect()
    }

    async fn workspaces(&self) -> i64 {
        let sql = "SELECT count(*) FROM workspaces";
        let rows = self.database().read(move |tx| tx.query(sql, &[])).await;
        rows.map_err(EnqueueError::from).unwrap()[0].int(0).unwrap()
    }
}

/// A row, a message, a published message and a timer, all in one transaction.
fn promise(tx: &mut Tx<'_>, now: Timestamp) -> Result<(), EnqueueError> {
    let sql = "INSERT INTO workspaces (name, created_at) VALUES ($1, 0)";
    tx.execute(sql, &[Param::Text("acme")])?;
    tx.enqueue(&Outgoing::new(&queues::PROBE, "now"), now)?;
    tx.enqueue(&Outgoing::publish(&topics::LEAD_EVENTS, "to both"), now)?;
    let workspace: Workspace = "acme".parse().unwrap();
    let (key, due, body) = ("t".to_owned(), now + 1.hour(), "later".to_owned());
    let timer = Timer { key, due, queue: &queues::PROBE, body };
    tx.change_timer(&workspace, &TimerChange::Arm(timer))
}

tidings_testkit::each_engine!(
    a_commit_sends_publishes_and_arms,
    a_rollback_does_nothing_of_it,
    a_row_that_is_refused_takes_its_messages_with_it,
    a_bad_message_takes_its_row_with_it,
    a_timer_can_be_cancelled_with_its_reason,
    a_commit_wakes_whoever_waits,
);

async fn a_commit_sends_publishes_and_arms(world: &World) {
    let now = world.clock.now();
    world.database().write(move |tx| promise(tx, now)).await.unwrap();
    assert_eq!(world.workspaces().await, 1);
    assert_eq!(world.bodies(&queues::PROBE).await, ["now"]);
    for queue in topics::LEAD_EVENTS.queues {
        assert_eq!(world.bodies(queue).await, ["to both"]);
    }
    assert_eq!(world.queues.fire(10).await.unwrap().count, 0);
    world.clock.advance(1.hour());
    assert_eq!(world.queues.fire(10).await.unwrap().count, 1);
    assert!(world.bodies(&queues::PROBE).await.contains(&"later".to_owned()));
}

async fn assert_nothing_happened(world: &World) {
    assert_eq!(world.bodies(&queues::PROBE).await, [""; 0]);
    assert_eq!(world.bodies(&queues::MEMORY_PROCESSING).await, [""; 0]);
    world.clock.advance(2.hours());
    assert_eq!(world.queues.fire(10).await.unwrap().count, 0);
}

async fn a_rollback_does_nothing_of_it(world: &World) {
    let now = world.clock.now();
    let refused: Result<(), EnqueueError> = world
        .database()
        .write(move |tx| {
            promise(tx, now)?;
            Err(BadMessage::Count.into())
        })
        .await;
    assert!(refused.is_err());
    assert_eq!(world.workspaces().await, 0);
    assert_nothing_happened(world).await;
}

async fn a_row_that_is_refused_takes_its_messages_with_it(world: &World) {
    let now = world.clock.now();
    let refused = world.database().write(move |tx| {
        tx.enqueue(&Outgoing::new(&queues::PROBE, "now"), now)?;
        let sql =
            "INSERT INTO clients (workspace_id, slug, name, created_at) VALUES (7, 'a', 'A', 0)";
        tx.execute(sql, &[]).map(drop).map_err(EnqueueError::from)
    });
    assert!(matches!(refused.await, Err(EnqueueError::Database(_))), "there is no workspace 7");
    assert_nothing_happened(world).await;
}

async fn a_bad_message_takes_its_row_with_it(world: &World) {
    let now = world.clock.now();
    let refused = world.database().write(move |tx| {
        promise(tx, now)?;
        tx.enqueue(&Outgoing::new(&queues::PROBE, ""), now)
    });
    assert!(matches!(refused.await, Err(EnqueueError::Invalid(BadMessage::EmptyBody))));
    assert_eq!(world.workspaces().await, 0);
    assert_nothing_happened(world).await;
}

async fn a_timer_can_be_cancelled_with_its_reason(world: &World) {
    let now = world.clock.now();
    world.database().write(move |tx| promise(tx, now)).await.unwrap();
    let workspace: Workspace = "acme".parse().unwrap();
    let cancelled = world.database().write(move |tx| {
        tx.execute("DELETE FROM workspaces", &[])?;
        tx.change_timer(&workspace, &TimerChange::Cancel("t".to_owned()))
    });
    cancelled.await.unwrap();
    world.clock.advance(2.hours());
    assert_eq!(world.queues.fire(10).await.unwrap().count, 0);
}

async fn a_commit_wakes_whoever_waits(world: &World) {
    let mut armed = world.queues.armed();
    // On PostgreSQL once when it begins to listen, because of what it may have missed before.
    if matches!(world.engine, Engine::Postgres(..)) {
        armed.await;
        armed = world.queues.armed();
    }
    assert!(futures_util::poll!(&mut armed).is_pending());
    let now = world.clock.now();
    world.database().write(move |tx| promise(tx, now)).await.unwrap();
    armed.await;
}
