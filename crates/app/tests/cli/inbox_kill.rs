//! `kill -9` of servers, again and again, while they bring messages to thousands of users who mark them: everybody has each message
//! once, what was acknowledged is read, and every count is right.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tidings_sql::{Database, DatabaseError};
use tidings_testkit::PostgresDatabase;

use crate::ledger::Ledger;
use crate::world::{Server, World};

const USERS: usize = 1_500;
const POSTS: usize = 3;
const KILLS: usize = 8;
/// So many of them have to come in the middle of a delivery. Those that are missing come right after a post was accepted.
const UNDER_WAY: usize = 2;
const MAX_KILLS: usize = 40;
/// So many requests come between two kills.
const REQUESTS: usize = 15;
/// A moment between two looks, and how often we look before that is a failure.
const MOMENT: Duration = Duration::from_millis(20);
const LOOKS: usize = 2_500;

struct App {
    world: World,
    /// The database, from outside.
    database: Database,
    runtime: tokio::runtime::Runtime,
    key: String,
    nodes: usize,
    servers: Vec<Server>,
    /// The messages that were accepted.
    posts: Vec<String>,
    /// Who was told that which message is read.
    read: BTreeSet<(usize, String)>,
    /// How many deliveries were not at their end when a server died.
    under_way: usize,
    chance: fastrand::Rng,
    /// Gone with the value, and last.
    _ledger: Ledger,
}

impl App {
    fn begin(ledger: Ledger, nodes: usize) -> Self {
        let world = ledger.store();
        world.ok(&["bootstrap", "--client", "shop"]);
        let new = ["keys", "create", "--client", "shop", "--name", "fast", "--burst", "10000"];
        let may = ["--scope", "inbox:admin", "--scope", "inbox:user", "--requests-per-second"];
        let made: Value =
            serde_json::from_str(&world.ok(&[&new[..], &may, &["10000"]].concat())).unwrap();
        let servers = (0..nodes).map(|_| world.serve(&[])).collect();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let database = runtime.block_on(ledger.open(&world));
        Self {
            world,
            database,
            runtime,
            key: made["key"].as_str().unwrap().to_owned(),
            nodes,
            servers,
            posts: Vec::new(),
            read: BTreeSet::new(),
            under_way: 0,
            chance: fastrand::Rng::with_seed(31),
            _ledger: ledger,
        }
    }

    fn request(&self, line: &str, user: usize, body: &Value) -> String {
        let (body, key) = (body.to_string(), &self.key);
        format!(
            "{line} HTTP/1.0\r\nauthorization: Bearer {key}\r\nx-user-id: u{user}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// What is answered to a request that must succeed, by a server that is alive.
    #[track_caller]
    fn ok(&self, line: &str, user: usize, body: &Value) -> Value {
        let answer = self.servers[0].send(&self.request(line, user, body));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 2"), "{line}: {answer}");
        serde_json::from_str(body).unwrap()
    }

    /// To all users, or one to everyone. The id makes it safe to ask again.
    fn publish(&mut self, number: usize) {
        let users: Vec<String> = (0..USERS).map(|user| format!("u{user}")).collect();
        let is_public = number == POSTS;
        let to = if is_public { json!({ "everyone": true }) } else { json!({ "users": users }) };
        let post = json!({
            "to": to, "title": format!("Number {number}"), "category": "news",
            "host_system_id": format!("post-{number}"),
        });
        let line = "POST /v1/inboxes/app/messages";
        // The first to come is accepted, and its answer is never seen.
        drop(self.servers[self.nodes - 1].begin(&self.request(line, 0, &post)));
        let made = self.ok(line, 0, &post);
        self.posts.push(made["id"].as_str().unwrap().to_owned());
    }

    /// A mark or a read-all of somebody.
    fn next(&mut self) -> (String, usize, Value) {
        let user = self.chance.usize(..USERS);
        let id = self.posts[self.chance.usize(..self.posts.len())].clone();
        let of = "PUT /inbox/v1/app/messages";
        match self.chance.usize(..8) {
            0 => (format!("{of}/read-all"), user, json!({})),
            1 => (format!("{of}/read-all"), user, json!({ "category": "news", "up_to": id })),
            2 => (format!("{of}/archive"), user, json!({ "ids": [id] })),
            _ => (format!("{of}/read"), user, json!({ "ids": [id] })),
        }
    }

    fn mark(&mut self) {
        let (line, user, ask) = self.next();
        let answer = self.ok(&line, user, &ask);
        // Who has not got it yet is told of nothing.
        for receipt in answer["receipts"].as_array().into_iter().flatten() {
            self.read.insert((user, receipt["id"].as_str().unwrap().to_owned()));
        }
    }

    /// One server dies, or all do as when the power fails, with requests under way.
    fn kill(&mut self) {
        let asked: Vec<_> = (0..4)
            .map(|number| {
                let (line, user, ask) = self.next();
                let request = self.request(&line, user, &ask);
                self.servers[number % self.nodes].begin(&request)
            })
            .collect();
        std::thread::sleep(Duration::from_micros(self.chance.u64(..4_000)));
        let first = if self.chance.bool() { 0 } else { self.nodes - 1 };
        Server::kill_9(self.servers.drain(first..).collect());
        drop(asked);
        self.under_way += usize::from(self.in_queue() > 0);
        while self.servers.len() < self.nodes {
            self.servers.push(self.world.serve(&[]));
        }
    }

    /// How many jobs there are. The leases of the dead end, as they do after a while, and those of the living come again too, which must
    /// do no harm.
    fn in_queue(&self) -> i64 {
        let end = self.database.write(|tx| {
            tx.execute("UPDATE queue_messages SET visible_at = 0", &[])?;
            let sql = "SELECT count(*) FROM queue_messages WHERE queue = 'inbox-posts'";
            tx.query(sql, &[])?[0].int(0)
        });
        let left: Result<i64, DatabaseError> = self.runtime.block_on(end);
        left.unwrap()
    }

    fn is_delivered(&self) -> bool {
        let state =
            |id: &String| self.ok(&format!("GET /v1/inboxes/app/messages/{id}"), 0, &json!(null));
        self.posts.iter().all(|id| state(id)["state"] == "done")
    }
}

fn kill_9_leaves_every_count_right(ledger: Ledger, nodes: usize) {
    let mut app = App::begin(ledger, nodes);
    for kill in 0..KILLS {
        if kill % 2 == 0 && app.posts.len() <= POSTS {
            app.publish(app.posts.len());
        }
        (0..REQUESTS).for_each(|_| app.mark());
        app.kill();
    }
    for kill in KILLS.. {
        if app.under_way >= UNDER_WAY {
            break;
        }
        assert!(kill < MAX_KILLS, "something was under way {} times", app.under_way);
        app.publish(app.posts.len());
        app.kill();
    }
    assert!(app.read.len() > 10, "{} were read", app.read.len());
    for look in 0.. {
        assert!(look < LOOKS, "a delivery does not come to its end");
        if app.is_delivered() {
            break;
        }
        std::thread::sleep(MOMENT);
    }
    assert!(app.posts.len() > POSTS, "{} were published", app.posts.len());
    for (user, id) in &app.read {
        let message = app.ok(&format!("GET /inbox/v1/app/messages/{id}"), *user, &json!(null));
        assert_eq!(message["unread"], false, "u{user} has read {id}");
    }
    for user in (0..USERS).step_by(97) {
        let counts = app.ok("GET /inbox/v1/app/counts", user, &json!(null));
        assert_eq!(counts["total"], app.posts.len(), "u{user}: {counts}");
    }
    app.servers.drain(..).for_each(Server::stop);
    let verified: Value = serde_json::from_str(&app.world.ok(&["inbox", "verify"])).unwrap();
    assert_eq!((&verified["drifts"], &verified["unsettled"]), (&json!(0), &json!(0)));
    assert_eq!(verified["inboxes"], USERS + 1);
    assert!(verified["items"].as_u64().unwrap() > (USERS * POSTS) as u64, "{verified}");
}

#[test]
fn kill_9_leaves_every_count_right_on_sqlite() {
    kill_9_leaves_every_count_right(Ledger::File, 1);
}

#[test]
fn kill_9_leaves_every_count_right_on_postgres_with_two_nodes() {
    kill_9_leaves_every_count_right(Ledger::Postgres(PostgresDatabase::schema()), 2);
}
