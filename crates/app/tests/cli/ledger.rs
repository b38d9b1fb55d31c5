//! Where the servers that are killed keep their ledger, and how they reach a real mail server.

use tidings_sql::{Database, PostgresOptions, SqliteOptions, Tls};
use tidings_testkit::{PostgresDatabase, SmtpSink};

#[cfg(feature = "aws")]
use crate::aws::DynamoDb;
use crate::providers;
use crate::world::World;

pub(crate) enum Ledger {
    File,
    Postgres(PostgresDatabase),
    /// With items in DynamoDB and queues in SQS.
    #[cfg(feature = "aws")]
    Aws(PostgresDatabase, DynamoDb),
}

impl Ledger {
    #[cfg(feature = "aws")]
    pub(crate) fn aws() -> Self {
        Self::Aws(PostgresDatabase::schema(), DynamoDb::start())
    }

    /// A world whose servers keep everything here.
    pub(crate) fn store(&self) -> World {
        match self {
            Self::File => World::new(),
            Self::Postgres(postgres) => {
                let mut world = World::new();
                world.set("TIDINGS_STORE__ENGINE", "postgres");
                reach(&mut world, postgres);
                world
            }
            #[cfg(feature = "aws")]
            Self::Aws(postgres, dynamodb) => {
                let mut world = dynamodb.world();
                reach(&mut world, postgres);
                world.set("TIDINGS_AWS__QUEUE_ENDPOINT_URL", &told("TIDINGS_TEST_SQS"));
                world.set("TIDINGS_AWS__QUEUE_PREFIX", &format!("cli-{}", std::process::id()));
                world
            }
        }
    }

    /// The same, and they send to the sink over so many connections, as fast as they may.
    pub(crate) fn world(&self, sink: &SmtpSink, connections: u32, per_second: u32) -> World {
        let mut world = self.store();
        providers::smtp(&mut world, sink);
        world.set("TIDINGS_MAIL__SMTP_CONNECTIONS", &connections.to_string());
        world.set("TIDINGS_MAIL__RATE_PER_SECOND", &per_second.to_string());
        world
    }

    /// The ledger itself, whoever else has it open.
    pub(crate) async fn open(&self, world: &World) -> Database {
        let postgres = match self {
            Self::File => {
                let file = world.path("tidings.db");
                return Database::sqlite(&file, SqliteOptions::default()).await.unwrap();
            }
            Self::Postgres(postgres) => postgres,
            #[cfg(feature = "aws")]
            Self::Aws(postgres, _) => postgres,
        };
        let options = PostgresOptions { tls: Tls::Disable, connections: 2 };
        Database::postgres(&postgres.url, options).await.unwrap()
    }
}

fn reach(world: &mut World, postgres: &PostgresDatabase) {
    world.set("TIDINGS_POSTGRES__URL", &postgres.url);
    world.set("TIDINGS_POSTGRES__CONNECTIONS", "6");
}

/// Where a test server is.
#[cfg(feature = "aws")]
pub(crate) fn told(variable: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "the script that starts the servers tells where")]
    let found = std::env::var(variable);
    found.unwrap_or_else(|_| {
        panic!("{variable} is not set: run ./test, which starts the test servers")
    })
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
