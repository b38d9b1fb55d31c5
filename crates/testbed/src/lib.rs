//! What the features' tests stand on: a workspace on a database of its own, and a clock that is set by hand.
//!
//! Here: `Bed`, `each_store!` that runs a story on every SQL engine, and `until_turn` that ends a worker in the middle. Not here: any feature (a crate's own tests would
//! meet a second copy of its types), and the suites of the engines (`testkit`).
#![expect(
    clippy::unwrap_used,
    reason = "everything here runs inside a test, where a panic is how a failure is told"
)]

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use jiff::ToSpan as _;
use tidings_access::{Access, Actor, Cx, DisplayName, Slug, clients, workspaces};
use tidings_jobs::{Handler, Settings, Worker};
use tidings_kernel::{Clock, Queue, TimerEngine as _};
use tidings_sql::{Database, PostgresOptions, SqlItems, SqlQueues, Tls};
use tidings_testkit::{FakeClock, PostgresDatabase};

/// Runs stories over a `Bed` on every SQL engine, each as a test of its own: `async fn story(bed: &Bed)`. A macro, because
/// tests are named by their functions.
#[macro_export]
macro_rules! each_store {
    ($($story:ident),* $(,)?) => {
        mod memory { $(#[tokio::test] async fn $story() {
            super::$story(&$crate::Bed::memory().await).await;
        })* }
        mod postgres { $(#[tokio::test] async fn $story() {
            super::$story(&$crate::Bed::postgres().await).await;
        })* }
    };
}

/// A workspace `acme` with a client `shop`, at 2026-07-01T12:00:00Z.
pub struct Bed {
    pub access: Access,
    pub clock: Arc<FakeClock>,
    pub queues: Arc<SqlQueues>,
    /// Gone with the value, and last.
    _server: Option<PostgresDatabase>,
}

impl Bed {
    pub async fn memory() -> Self {
        Self::on(Database::memory().await.unwrap(), None).await
    }

    pub async fn postgres() -> Self {
        let server = PostgresDatabase::schema();
        let options = PostgresOptions { connections: 4, tls: Tls::Disable };
        Self::on(Database::postgres(&server.url, options).await.unwrap(), Some(server)).await
    }

    async fn on(database: Database, server: Option<PostgresDatabase>) -> Self {
        let clock = FakeClock::at("2026-07-01T12:00:00Z".parse().unwrap());
        let items = Arc::new(SqlItems::new(database.clone(), clock.clone()));
        let queues = Arc::new(SqlQueues::new(database.clone(), clock.clone()));
        let bed = Self {
            access: Access::new(database, items, clock.clone()),
            clock,
            queues,
            _server: server,
        };
        bed.make_workspace("acme").await;
        bed
    }

    /// What an operator can do in `acme`, at the time that it is now.
    pub async fn cx(&self) -> Cx {
        self.inside("acme").await
    }

    pub async fn inside(&self, workspace: &str) -> Cx {
        let found = workspaces::find(&self.access, workspace.parse().unwrap()).await.unwrap();
        self.access.inside(&found, Actor::Operator)
    }

    /// Another workspace, with a client `shop` of its own.
    pub async fn make_workspace(&self, name: &str) -> Cx {
        let made = workspaces::create(&self.access, name.parse().unwrap()).await.unwrap();
        let cx = self.access.inside(&made, Actor::Operator);
        let slug: Slug = "shop".parse().unwrap();
        let name = DisplayName::from(&slug);
        clients::create(&cx, clients::Create { slug, name }).await.unwrap();
        cx
    }

    pub async fn shop(&self, cx: &Cx) -> clients::Client {
        clients::find(cx, "shop".parse().unwrap()).await.unwrap()
    }

    /// Works on a queue until nothing in it is due. Tells how many deliveries that were.
    pub async fn work(&self, queue: &'static Queue, handler: Arc<dyn Handler>) -> usize {
        let worker = Worker {
            queue,
            handler,
            engine: self.queues.clone(),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            settings: Settings::default(),
        };
        worker.run_until_idle().await.unwrap()
    }

    /// Moves the clock, and what is due then to its queue.
    pub async fn advance(&self, minutes: i64) {
        self.clock.advance(minutes.minutes());
        while self.queues.fire(100).await.unwrap().count > 0 {}
    }
}

/// Lets a future run until it has waited `turns` times, and then drops it as a crash would. `None` if it did not come to its
/// end before.
pub async fn until_turn<T>(future: impl Future<Output = T>, turns: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut left = turns;
    std::future::poll_fn(move |context| match future.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}
