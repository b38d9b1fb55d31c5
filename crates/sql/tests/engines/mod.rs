//! The databases that a test runs on: SQLite in memory and in a file, and PostgreSQL.

use tempfile::TempDir;
use tidings_sql::{Database, PostgresOptions, SqliteOptions, Tls};

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
        let server = PostgresDatabase::create();
        Self::Postgres(connect(&server.url).await, server)
    }

    pub(crate) fn database(&self) -> &Database {
        match self {
            Self::Memory(database) | Self::File(database, _) | Self::Postgres(database, _) => {
                database
            }
        }
    }

    /// The same data through a new handle, if they outlive the first one.
    pub(crate) async fn reopen(&self) -> Option<Database> {
        match self {
            Self::Memory(_) => None,
            Self::File(_, folder) => {
                let path = folder.path().join("tidings.db");
                Some(Database::sqlite(&path, SqliteOptions::default()).await.unwrap())
            }
            Self::Postgres(_, server) => Some(connect(&server.url).await),
        }
    }
}

async fn connect(url: &str) -> Database {
    let options = PostgresOptions { connections: 8, tls: Tls::Disable };
    Database::postgres(url, options).await.unwrap()
}

/// A database of one test's own on the server that `./test` starts.
pub(crate) struct PostgresDatabase {
    pub(crate) url: String,
    admin: String,
    name: String,
}

impl PostgresDatabase {
    pub(crate) fn create() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the script that starts the servers tells where"
        )]
        let admin = std::env::var("TIDINGS_TEST_POSTGRES")
            .expect("TIDINGS_TEST_POSTGRES is not set: run ./test, which starts the test servers");
        let name = format!("test_{}_{:08x}", std::process::id(), fastrand::u32(..));
        on_server(&admin, &format!("CREATE DATABASE {name}"));
        let (server, _) = admin.rsplit_once('/').expect("the URL names a database");
        Self { url: format!("{server}/{name}"), admin, name }
    }
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        on_server(&self.admin, &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

fn on_server(url: &str, sql: &str) {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    // The client brings a runtime of its own, which cannot live inside the test's.
    let done = std::thread::spawn(move || {
        postgres::Client::connect(&url, postgres::NoTls)
            .and_then(|mut client| client.batch_execute(&sql))
    });
    done.join().unwrap().unwrap();
}

/// Runs each story on every engine, as tests of their own.
macro_rules! each_engine {
    ($($story:ident),* $(,)?) => {
        mod memory { $(#[tokio::test] async fn $story() { super::$story(super::Engine::memory().await).await }
        )* }
        mod file { $(#[tokio::test] async fn $story() { super::$story(super::Engine::file().await).await }
        )* }
        mod postgres { $(#[tokio::test] async fn $story() { super::$story(super::Engine::postgres().await).await }
        )* }
    };
}
pub(crate) use each_engine;
