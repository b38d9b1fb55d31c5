//! What the features' tests stand on: a workspace on a database of its own, and a clock that is set by hand.
//!
//! Here: `Bed`, `each_store!` that runs a story on every SQL engine, `until_turn` that ends a worker in the middle, and a store
//! that dies at one of its calls or is interrupted before each (`failing`), or that counts what it is asked (`metered`). Not here: any feature (a crate's own tests would meet a second copy of its
//! types), and the suites of the engines (`testkit`).
#![expect(
    clippy::unwrap_used,
    reason = "everything here runs inside a test, where a panic is how a failure is told"
)]

mod failing;
mod metered;

use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::Poll;

use futures_util::future::try_join_all;
use jiff::ToSpan as _;
use tempfile::TempDir;
use tidings_access::{Access, Actor, Cx, DisplayName, Slug, clients, workspaces};
use tidings_jobs::{Handler, Settings, Worker};
use tidings_kernel::{Clock, Delete, Key, Queue, TimerEngine as _, tables};
use tidings_sql::{
    Database, DatabaseError, Dialect, PostgresOptions, SqlItems, SqlQueues, SqliteOptions, Streams,
    Tls,
};
use tidings_testkit::{FakeClock, PostgresDatabase};

pub use failing::{dying, dying_access, dying_engine, interrupted, interrupted_at, scattered};
pub use metered::{Cost, Meter, metered_access};

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

/// Of each node to PostgreSQL: half of them write.
const CONNECTIONS: usize = 4;

/// A workspace `acme` with a client `shop`, at 2026-07-01T12:00:00Z.
pub struct Bed {
    pub access: Access,
    pub clock: Arc<FakeClock>,
    pub queues: Arc<SqlQueues>,
    /// Gone with the value, and last.
    place: Place,
}

/// Where the database is.
enum Place {
    Memory,
    Folder {
        _folder: TempDir,
    },
    Server(PostgresDatabase),
    /// On the server of another one.
    Beside,
}

/// Items as the product keeps them.
fn items(database: &Database, clock: &Arc<FakeClock>) -> SqlItems {
    SqlItems::with_streams(database.clone(), clock.clone(), Streams::Expiries)
}

impl Bed {
    pub async fn memory() -> Self {
        Self::on(Database::memory().await.unwrap(), Place::Memory).await
    }

    /// In a file, as the product has it: what is read is read over other connections than the one that writes.
    pub async fn file() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidings.db");
        let database = Database::sqlite(&path, SqliteOptions::default()).await.unwrap();
        Self::on(database, Place::Folder { _folder: folder }).await
    }

    pub async fn postgres() -> Self {
        let server = PostgresDatabase::schema();
        let options = PostgresOptions { connections: CONNECTIONS, tls: Tls::Disable };
        let database = Database::postgres(&server.url, options).await.unwrap();
        Self::on(database, Place::Server(server)).await
    }

    async fn on(database: Database, place: Place) -> Self {
        let clock = FakeClock::at("2026-07-01T12:00:00Z".parse().unwrap());
        let items = Arc::new(items(&database, &clock));
        let queues = Arc::new(SqlQueues::new(database.clone(), clock.clone()));
        let bed =
            Self { access: Access::new(database, items, clock.clone()), clock, queues, place };
        bed.make_workspace("acme").await;
        bed
    }

    /// Another node on the same PostgreSQL, with the same clock. It must not outlive the first.
    pub async fn beside(&self) -> Self {
        let Place::Server(server) = &self.place else {
            panic!("only PostgreSQL has several nodes")
        };
        let options = PostgresOptions { connections: CONNECTIONS, tls: Tls::Disable };
        let database = Database::postgres(&server.url, options).await.unwrap();
        let clock = Arc::clone(&self.clock);
        let items = Arc::new(items(&database, &clock));
        let queues = Arc::new(SqlQueues::new(database.clone(), clock.clone()));
        Self {
            access: Access::new(database, items, clock.clone()),
            clock,
            queues,
            place: Place::Beside,
        }
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

    /// The items as an engine, which removes what is past its time.
    pub fn items(&self) -> SqlItems {
        items(self.access.database(), &self.clock)
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

    /// Waits for what a future that was dropped has left to the database: a process that is gone has no writes under way, and
    /// its messages come again later than that.
    pub async fn settle(&self) {
        // Items are written by a thread that hands over many at once: what was there before this is with the database then.
        let items = self.cx().await.items().await.unwrap();
        let nothing = Delete::new(&tables::MAIN, Key::new("NOTHING", "NOTHING"));
        items.delete(nothing).await.unwrap();
        let database = self.access.database();
        let writers = match database.dialect() {
            Dialect::Sqlite => 1,
            Dialect::Postgres => CONNECTIONS / 2,
        };
        // Once they have met here, none of them has anything else in hand.
        let met = Arc::new(Barrier::new(writers));
        let meet = (0..writers).map(|_| {
            let met = Arc::clone(&met);
            database.write(move |_| {
                met.wait();
                Ok::<_, DatabaseError>(())
            })
        });
        try_join_all(meet).await.unwrap();
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
