//! The databases that the stories run on, and a clock that they move.

use std::sync::Arc;

use tidings_kernel::Clock;
use tidings_sql::{Database, PostgresOptions, SqlItems, Tls};
use tidings_testkit::{FakeClock, PostgresDatabase};

use crate::Access;

pub(crate) struct World {
    pub(crate) access: Access,
    pub(crate) clock: Arc<FakeClock>,
    /// Gone with the value.
    _server: Option<PostgresDatabase>,
}

impl World {
    pub(crate) async fn memory() -> Self {
        Self::on(Database::memory().await.unwrap(), None)
    }

    pub(crate) async fn postgres() -> Self {
        let server = PostgresDatabase::schema();
        let options = PostgresOptions { connections: 4, tls: Tls::Disable };
        let database = Database::postgres(&server.url, options).await.unwrap();
        Self::on(database, Some(server))
    }

    fn on(database: Database, server: Option<PostgresDatabase>) -> Self {
        let clock = FakeClock::at("2026-07-01T12:00:00Z".parse().unwrap());
        Self { access: on(database, clock.clone()), clock, _server: server }
    }

    /// The same database, seen by a node with a clock and a memory of its own.
    pub(crate) fn another_node(access: &Access, clock: Arc<FakeClock>) -> Access {
        on(access.database.clone(), clock)
    }
}

fn on(database: Database, clock: Arc<dyn Clock>) -> Access {
    let items = Arc::new(SqlItems::new(database.clone(), Arc::clone(&clock)));
    Access::new(database, items, clock)
}
