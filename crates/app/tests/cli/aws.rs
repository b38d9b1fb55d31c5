//! The same commands on DynamoDB.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::ledger::Ledger;
use crate::world::World;

/// A throw-away DynamoDB, which ends with its standard input.
pub(crate) struct DynamoDb {
    server: Child,
    endpoint: String,
}

impl DynamoDb {
    pub(crate) fn start() -> Self {
        let program = std::env::var_os("TIDINGS_TEST_DYNAMODB_SERVER").expect(
            "TIDINGS_TEST_DYNAMODB_SERVER is not set: run ./test, which builds the test servers",
        );
        let mut server =
            Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut endpoint = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut endpoint).unwrap();
        Self { server, endpoint: endpoint.trim().to_owned() }
    }

    /// A world whose items are there.
    pub(crate) fn world(&self) -> World {
        let mut world = World::new();
        world.set("TIDINGS_STORE__ENGINE", "aws");
        world.set("TIDINGS_AWS__ENDPOINT_URL", &self.endpoint);
        world.set("AWS_REGION", "eu-central-1");
        world.set("AWS_ACCESS_KEY_ID", "test");
        world.set("AWS_SECRET_ACCESS_KEY", "test");
        world
    }
}

impl Drop for DynamoDb {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        self.server.wait().unwrap();
    }
}

pub(crate) fn on_dynamodb() -> (World, DynamoDb) {
    let server = DynamoDb::start();
    (server.world(), server)
}

#[test]
fn items_and_the_doctor_work_on_dynamodb() {
    let (world, _server) = on_dynamodb();
    let item = r#"{"PK":"a","SK":"b","n":1,"tags":{"$ss":["x"]}}"#;
    world.ok(&["items", "put", "main", item]);
    assert_eq!(world.ok(&["items", "get", "main", "a", "b"]), format!("{item}\n"));
    assert_eq!(world.ok(&["items", "query", "main", "a", "--filter", "n=1"]), format!("{item}\n"));
    assert_eq!(world.ok(&["items", "scan", "main", "--segments", "2"]), format!("{item}\n"));
    assert_eq!(world.ok(&["items", "delete", "main", "a", "b"]), format!("{item}\n"));

    world.ok(&["doctor", "--set", "http.listen=127.0.0.1:0"]);
    let ran = world.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("postgres.url is not set"), "{ran:?}");
}

#[test]
fn messages_come_through_dynamodb_postgresql_and_sqs() {
    let ledger = Ledger::aws();
    let world = ledger.store();
    let server = world.serve(&[]);
    assert!(server.get("/readyz").ends_with("ready\n"));
    let summary = world.ok(&["queues", "probe", "--count", "120"]);
    assert!(summary.contains("\"sent\":120,\"handled\":120,"), "{summary}");
    server.stop();
    assert_eq!(world.ok(&["queues", "list"]).lines().count(), 20);
    assert!(!world.path("tidings.db").exists());
}

#[test]
fn the_doctor_asks_ses_what_the_account_may_do() {
    let mut world = World::new();
    world.ok(&["bootstrap"]);
    world.set("AWS_REGION", "eu-central-1");
    world.set("AWS_SECRET_ACCESS_KEY", "test");
    let _received = crate::providers::over_ses(&mut world);
    let said = |world: &World| world.ok(&["doctor", "--set", "http.listen=127.0.0.1:0"]);
    assert!(said(&world).contains("SES answers, and lets this account send"));
    world.set("TIDINGS_MAIL__RATE_PER_SECOND", "200");
    assert!(said(&world).contains("mail.rate_per_second is 200, and SES takes 14 a second"));
}

#[test]
fn looking_makes_no_tables() {
    let (world, _server) = on_dynamodb();
    for command in [&["get", "main", "a", "b"][..], &["query", "main", "a"], &["scan", "main"]] {
        let ran = world.run(&[&["items", "--workspace", "nowhere"][..], command].concat());
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.stderr.contains("there is no table tidings.nowhere.main"), "{ran:?}");
        assert!(ran.stderr.contains("is the workspace right?"), "{ran:?}");
    }
}

#[test]
fn a_server_that_is_not_there_is_told_with_where_to_look() {
    let (mut world, server) = on_dynamodb();
    drop(server);
    // The later wins; port 1 is nobody's.
    world.set("TIDINGS_AWS__ENDPOINT_URL", "http://127.0.0.1:1");
    let ran = world.run(&["items", "scan", "main"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("AWS_REGION, AWS_PROFILE and aws.endpoint_url"), "{ran:?}");
}
