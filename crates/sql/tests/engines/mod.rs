//! The databases that a test runs on: SQLite in memory and in a file, and PostgreSQL.

use tempfile::TempDir;

use tidings_sql::{Database, PostgresOptions, SqliteOptions, Tls};
use tidings_testkit::PostgresDatabase;

/// A fresh database, gone with the value.
pub(crate) enum Engine {
    Memory(Database),
    File(Database, TempDir),
    Postgres(Database, PostgresDatabase),
}

impl Engine {
    pub(crate) async fn memory() -> Self {
        Self::Memory(Database::memory().await.unwrap())
    }

    pub(crate) async fn file() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidings.db");
        Self::File(Database::sqlite(&path, SqliteOptions::default()).await.unwrap(), folder)
    }

    pub(crate) async fn postgres() -> Self {
        let server = PostgresDatabase::schema();
        Self::Postgres(connect(&server.url).await, server)
    }

    pub(crate) fn database(&self) -> &Database {
        match self {
            Self::Memory(database) | Self::File(database, _) | Self::Postgres(database, _) => {
                database
            }
        }
    }
}

pub(crate) async fn connect(url: &str) -> Database {
    let options = PostgresOptions { connections: 4, tls: Tls::Disable };
    Database::postgres(url, options).await.unwrap()
}
