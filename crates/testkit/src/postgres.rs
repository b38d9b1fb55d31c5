//! A place of one test's own on the PostgreSQL that `./test` starts.

/// A database or a schema, gone with the value.
pub struct PostgresDatabase {
    pub url: String,
    admin: String,
    drop: String,
}

impl PostgresDatabase {
    /// A schema: quickly made, and enough for all that looks only at tables.
    pub fn schema() -> Self {
        let (admin, name) = (server(), name());
        on_server(&admin, &format!("CREATE SCHEMA {name}"));
        let url = format!("{admin}?options=-csearch_path%3D{name}");
        Self { url, admin, drop: format!("DROP SCHEMA {name} CASCADE") }
    }

    /// A database: for what looks at its connections.
    pub fn database() -> Self {
        let (admin, name) = (server(), name());
        on_server(&admin, &format!("CREATE DATABASE {name}"));
        let (host, _) = admin.rsplit_once('/').expect("the URL names a database");
        let url = format!("{host}/{name}");
        Self { url, admin, drop: format!("DROP DATABASE {name} WITH (FORCE)") }
    }
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        on_server(&self.admin, &self.drop);
    }
}

fn server() -> String {
    #[expect(clippy::disallowed_methods, reason = "the script that starts the servers tells where")]
    let url = std::env::var("TIDINGS_TEST_POSTGRES");
    url.expect("TIDINGS_TEST_POSTGRES is not set: run ./test, which starts the test servers")
}

fn name() -> String {
    format!("test_{}_{:08x}", std::process::id(), fastrand::u32(..))
}

fn on_server(url: &str, sql: &str) {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    // The client brings a runtime of its own, which cannot live inside the test's.
    let done = std::thread::spawn(move || {
        postgres::Client::connect(&url, postgres::NoTls)
            .and_then(|mut client| client.batch_execute(&sql))
    });
    done.join().expect("the thread only asks the server").expect("the server does it");
}
