//! Where the servers that are killed keep their ledger, and how they reach a real mail server.

use tidings_sql::{Database, PostgresOptions, SqliteOptions, Tls};
use tidings_testkit::{PostgresDatabase, SmtpSink};

use crate::world::World;

pub(crate) enum Ledger {
    File,
    Postgres(PostgresDatabase),
}

impl Ledger {
    /// A world whose servers keep everything here.
    pub(crate) fn store(&self) -> World {
        let mut world = World::new();
        if let Self::Postgres(postgres) = self {
            world.set("TIDINGS_STORE__ENGINE", "postgres");
            world.set("TIDINGS_POSTGRES__URL", &postgres.url);
            world.set("TIDINGS_POSTGRES__CONNECTIONS", "6");
        }
        world
    }

    /// The same, and they send to the sink over so many connections, as fast as they may.
    pub(crate) fn world(&self, sink: &SmtpSink, connections: u32, per_second: u32) -> World {
        let mut world = self.store();
        world.set("TIDINGS_MAIL__PROVIDER", "smtp");
        world.set("TIDINGS_MAIL__SMTP_HOST", "127.0.0.1");
        world.set("TIDINGS_MAIL__SMTP_PORT", &sink.port.to_string());
        world.set("TIDINGS_MAIL__SMTP_TLS", "none");
        world.set("TIDINGS_MAIL__SMTP_CONNECTIONS", &connections.to_string());
        world.set("TIDINGS_MAIL__RATE_PER_SECOND", &per_second.to_string());
        world
    }

    /// The ledger itself, whoever else has it open.
    pub(crate) async fn open(&self, world: &World) -> Database {
        let opened = match self {
            Self::File => {
                Database::sqlite(&world.path("tidings.db"), SqliteOptions::default()).await
            }
            Self::Postgres(postgres) => {
                let options = PostgresOptions { tls: Tls::Disable, connections: 2 };
                Database::postgres(&postgres.url, options).await
            }
        };
        opened.unwrap()
    }
}

/// A client that sends, and a key of its which may ask as often as it likes.
pub(crate) fn begin(world: &World) -> String {
    world.ok(&["bootstrap", "--client", "shop"]);
    world.ok(&["senders", "add", "hello", "--from", "hello@example.org", "--client", "shop"]);
    let new = ["keys", "create", "--client", "shop", "--name", "fast"];
    let may = ["--scope", "send", "--scope", "read", "--requests-per-second", "10000"];
    let made = world.ok(&[&new[..], &may, &["--burst", "10000"]].concat());
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    made["key"].as_str().unwrap().to_owned()
}
