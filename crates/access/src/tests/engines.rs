//! The databases that the stories run on, and a clock that they move.

use std::sync::Arc;

use jiff::Timestamp;
use tidings_sql::{Database, DatabaseError, PostgresOptions, Tls};
use tidings_testkit::FakeClock;

use crate::Access;

pub(super) struct World {
    pub(super) access: Access,
    pub(super) clock: Arc<FakeClock>,
    /// The schema on the test server, and a way to get rid of it.
    schema: Option<(Database, String)>,
}

impl World {
    pub(super) async fn memory() -> Self {
        Self::on(Database::memory().await.unwrap(), None)
    }

    pub(super) async fn postgres() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the script that starts the servers tells where"
        )]
        let url = std::env::var("TIDINGS_TEST_POSTGRES");
        let url = url
            .expect("TIDINGS_TEST_POSTGRES is not set: run ./test, which starts the test servers");
        let name = format!("access_{}_{:08x}", std::process::id(), fastrand::u32(..));
        let admin = connect(&url).await;
        run(&admin, format!("CREATE SCHEMA {name}")).await;
        let database = connect(&format!("{url}?options=-csearch_path%3D{name}")).await;
        Self::on(database, Some((admin, name)))
    }

    fn on(database: Database, schema: Option<(Database, String)>) -> Self {
        let clock = FakeClock::at("2026-07-01T12:00:00Z".parse().unwrap());
        Self { access: Access::new(database, clock.clone()), clock, schema }
    }

    /// The same database, seen by a node with a clock and a memory of its own.
    pub(super) fn another_node(access: &Access, now: Timestamp) -> Access {
        Access::new(access.database.clone(), FakeClock::at(now))
    }

    pub(super) async fn remove(self) {
        self.access.database.close().await;
        if let Some((admin, name)) = self.schema {
            run(&admin, format!("DROP SCHEMA {name} CASCADE")).await;
        }
    }
}

async fn connect(url: &str) -> Database {
    let options = PostgresOptions { connections: 4, tls: Tls::Disable };
    Database::postgres(url, options).await.unwrap()
}

async fn run(database: &Database, sql: String) {
    let run = database.write(move |tx| tx.execute(&sql, &[]).map(drop));
    run.await.map_err(|error: DatabaseError| error).unwrap();
}
