//! `kill -9` of servers, again and again, while a shop tells what people did: each event is on one timeline, once, and what is
//! known of each person is what follows from his timeline.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tidings_sql::{Database, DatabaseError};
use tidings_testkit::PostgresDatabase;

use crate::ledger::{self, Ledger};
use crate::world::{Server, World};

const PEOPLE: usize = 20;
const EVENTS: usize = 800;
/// So many are told at once.
const TOGETHER: usize = 20;
const KILLS: usize = 8;
/// So many of them have to come in the middle of something.
const UNDER_WAY: usize = 4;
/// A moment between two looks, and how often we look before that is a failure.
const MOMENT: Duration = Duration::from_millis(20);
const LOOKS: usize = 2_500;

struct Shop {
    world: World,
    /// The database, from outside.
    database: Database,
    runtime: tokio::runtime::Runtime,
    key: String,
    nodes: usize,
    servers: Vec<Server>,
    /// How many deaths left something to do.
    under_way: usize,
    chance: fastrand::Rng,
    /// Gone with the value, and last.
    _ledger: Ledger,
}

/// What a person did. He is a visitor at first, then a customer, and every third event says that they are the same.
fn event(number: usize) -> Value {
    let person = number % PEOPLE;
    let visitor = json!({"channel": "anonymous_id", "value": format!("a-{person}")});
    let customer = json!({"channel": "customer_id", "value": format!("c-{person}")});
    let identities = match number / PEOPLE {
        0 | 1 => vec![visitor],
        round if round % 3 == 0 => vec![customer, visitor],
        _ => vec![customer],
    };
    let (kind, payload) = match number / PEOPLE % 2 {
        0 => (
            "purchase_completed",
            json!({"amount": 1 + number % 7, "currency": "EUR", "product": "tea"}),
        ),
        _ => ("preference_set", json!({"preference": "colour", "value": format!("v{number}")})),
    };
    json!({
        "event_type": kind, "source": "shop", "external_event_id": number.to_string(),
        "identities": identities, "payload": payload,
        "occurred_at": format!("2026-06-01T{:02}:{:02}:00Z", number / 60, number % 60),
    })
}

fn told_of(person: usize) -> impl Iterator<Item = usize> {
    (person..EVENTS).step_by(PEOPLE)
}

impl Shop {
    fn begin(ledger: Ledger, nodes: usize) -> Self {
        let world = ledger.store();
        let key = ledger::begin(&world);
        let servers = (0..nodes).map(|_| world.serve(&[])).collect();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let database = runtime.block_on(ledger.open(&world));
        let chance = fastrand::Rng::with_seed(77);
        Self {
            world,
            database,
            runtime,
            key,
            nodes,
            servers,
            under_way: 0,
            chance,
            _ledger: ledger,
        }
    }

    fn request(&self, events: &[usize]) -> String {
        let events: Vec<Value> = events.iter().copied().map(event).collect();
        let body = json!({ "events": events }).to_string();
        format!(
            "POST /v1/lead-events HTTP/1.0\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        )
    }

    /// Tells of these, to any server that lives.
    fn tell(&mut self, events: &[usize]) {
        let node = self.chance.usize(..self.nodes);
        let answer = self.servers[node].send(&self.request(events));
        assert!(answer.starts_with("HTTP/1.0 202"), "{answer}");
    }

    /// One server dies, or all do as when the power fails, with a request under way.
    fn kill(&mut self, asking: &[usize]) {
        let first = if self.chance.bool() { 0 } else { self.nodes - 1 };
        let asked = self.servers[first].begin(&self.request(asking));
        std::thread::sleep(Duration::from_micros(self.chance.u64(..6_000)));
        Server::kill_9(self.servers.drain(first..).collect());
        drop(asked);
        self.under_way += usize::from(self.in_queues() > 0);
        self.end_leases();
        while self.servers.len() < self.nodes {
            self.servers.push(self.world.serve(&[]));
        }
    }

    /// The leases of the dead end, as they do after a while, and those of the living come again too, which must do no harm.
    fn end_leases(&self) {
        let end =
            self.database.write(|tx| tx.execute("UPDATE queue_messages SET visible_at = 0", &[]));
        let ended: Result<u64, DatabaseError> = self.runtime.block_on(end);
        ended.unwrap();
    }

    /// How much is left to do.
    fn in_queues(&self) -> i64 {
        let count = self
            .database
            .read(|tx| tx.query("SELECT count(*) FROM queue_messages", &[])?[0].int(0));
        let left: Result<i64, DatabaseError> = self.runtime.block_on(count);
        left.unwrap()
    }

    fn wait_until_all_is_done(&self) {
        for _ in 0..LOOKS {
            if self.in_queues() == 0 {
                return;
            }
            std::thread::sleep(MOMENT);
        }
        panic!("work is left: {}", self.world.ok(&["queues", "list"]));
    }

    /// What a command prints of a person, a line each.
    fn of(&self, person: usize, command: &[&str]) -> Vec<Value> {
        let whom = format!("customer_id=c-{person}");
        let (name, options) = command.split_first().unwrap();
        let arguments = [&["contact", name, whom.as_str()], options].concat();
        let printed = self.world.ok(&arguments);
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// His timeline has what was told of him, and what is known of him is what follows from it.
    fn check(&self, person: usize) {
        let timeline = self.of(person, &["timeline", "--json", "--limit", "1000"]);
        let told = timeline.iter().filter(|event| event["source"] == "shop");
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for event in told {
            let number = event["external_event_id"].as_str().unwrap().parse().unwrap();
            *counts.entry(number).or_default() += 1;
        }
        assert_eq!(counts, told_of(person).map(|number| (number, 1)).collect(), "of {person}");
        let known = self.of(person, &["features"]).remove(0);
        let spent: usize = told_of(person)
            .filter(|number| (number / PEOPLE).is_multiple_of(2))
            .map(|number| 1 + number % 7)
            .sum();
        assert_eq!(known["features"]["monetary_total"].as_f64(), Some(spent as f64), "of {person}");
        let last = told_of(person).filter(|number| number / PEOPLE % 2 == 1).max().unwrap();
        let colour = self.of(person, &["memory", "--type", "preference"]);
        assert_eq!(colour[0]["value"], format!("v{last}"), "of {person}");

        let rebuilt = self.of(person, &["rebuild"]);
        assert_eq!(rebuilt[0]["memories_changed"], 0, "of {person}");
        let anew = self.of(person, &["features"]).remove(0);
        assert_eq!(known["features"], anew["features"], "of {person}");
    }
}

fn kill_9_leaves_every_event_once(ledger: Ledger, nodes: usize) {
    let mut shop = Shop::begin(ledger, nodes);
    let mut order: Vec<usize> = (0..EVENTS).collect();
    shop.chance.shuffle(&mut order);
    let parts: Vec<&[usize]> = order.chunks(TOGETHER).collect();
    for (place, part) in parts.iter().enumerate() {
        shop.tell(part);
        if place % (parts.len() / KILLS) == 1 {
            // What it has just been told it is told again, and its answer is never seen.
            let again = [part, parts[(place + 1) % parts.len()]].concat();
            shop.kill(&again);
        }
    }
    assert!(shop.under_way >= UNDER_WAY, "something was left {} times", shop.under_way);
    shop.wait_until_all_is_done();
    (0..PEOPLE).for_each(|person| shop.check(person));
    let people: BTreeSet<_> = (0..PEOPLE)
        .map(|person| shop.of(person, &["identities"])[0]["contact_id"].to_string())
        .collect();
    assert_eq!(people.len(), PEOPLE);
    let queues = shop.world.ok(&["queues", "list"]);
    for queue in queues.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        assert_eq!(queue["dead"], 0, "{queue}");
    }
    shop.servers.drain(..).for_each(Server::stop);
}

#[test]
fn kill_9_leaves_every_event_once_on_sqlite() {
    kill_9_leaves_every_event_once(Ledger::File, 1);
}

#[test]
fn kill_9_leaves_every_event_once_on_postgres_with_two_nodes() {
    kill_9_leaves_every_event_once(Ledger::Postgres(PostgresDatabase::schema()), 2);
}
