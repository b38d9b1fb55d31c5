//! Where the queues live: a new database for every measurement, so that none works in the remains of another.

use std::path::Path;
use std::sync::Arc;

use tidings_kernel::SystemClock;
use tidings_sql::{Database, PostgresOptions, SqlQueues, SqliteOptions, Tls};

use crate::postgres_server::PostgresServer;

pub(super) enum Engine<'a> {
    Sqlite(&'a Path),
    Postgres(&'a PostgresServer),
}

impl Engine<'_> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    /// As it stands in the name of a figure.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }

    pub(super) async fn open(&self, name: &str) -> anyhow::Result<(Database, SqlQueues)> {
        let database = match self {
            Self::Sqlite(folder) => {
                let path = folder.join(format!("{name}.db"));
                Database::sqlite(&path, SqliteOptions::default()).await?
            }
            Self::Postgres(server) => {
                let options = PostgresOptions { tls: Tls::Disable, ..PostgresOptions::default() };
                Database::postgres(&server.new_database(name)?, options).await?
            }
        };
        let queues = SqlQueues::new(database.clone(), Arc::new(SystemClock));
        Ok((database, queues))
    }
}
