//! `kill -9` of servers, again and again, while people walk through a sequence: everybody gets each of its mails once and comes to
//! its end, those mails of which nobody knows are listed, and the funnel is what counting gives.
//!
//! The provider is a real mail server: what it has is what people would have got.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tidings_sql::{Database, DatabaseError, Param, Row, Tx};
use tidings_testkit::{PostgresDatabase, SmtpSink};

use crate::ledger::{self, Ledger};
use crate::world::{Server, World};

/// So many walk at once, and so often before the first of them go on.
const WAVE: usize = 60;
const WAVES: usize = 4;
const PEOPLE: usize = WAVE * WAVES;
const KILLS: usize = 10;
/// The subjects of the mails that everybody gets.
const MAILS: [&str; 3] = ["First", "Second", "Third"];
/// A moment between two looks, and how often we look before that is a failure.
const MOMENT: Duration = Duration::from_millis(20);
const LOOKS: usize = 2_500;
/// If there is no more mail for so many looks, none comes.
const STILL: usize = 100;

const STEPS: &str = "\
id: walk
client: shop
transactional: true
trigger: { event: begin }
steps:
  - { id: first, send: first }
  - { id: plan, set: { plan: pro } }
  - id: pause
    wait_for: go
    timeout: 30 days
    then:
      - { id: tagged, tag: { add: [went] } }
    else:
      - { id: late, send: first }
  - id: check
    condition: { subscriber_field_equals: { field: plan, value: pro } }
    then: [ { id: second, send: second } ]
    else: [ { id: other, send: first } ]
  - id: rest
    wait_for: go
    timeout: 30 days
    then: []
  - { id: third, send: third }
";
/// Where nobody comes to.
const UNMET: [&str; 2] = ["late", "other"];

struct Walks {
    world: World,
    /// The ledger, from outside.
    database: Database,
    runtime: tokio::runtime::Runtime,
    sink: SmtpSink,
    key: String,
    servers: Vec<Server>,
    /// Servers that are no more, by their processes.
    dead: Vec<u32>,
    /// How many mails were being handed over when a server died. They came or did not, and nobody asks again.
    handed: i64,
    /// How often something was told.
    told: usize,
    chance: fastrand::Rng,
    /// Gone with the value, and last.
    _ledger: Ledger,
}

impl Walks {
    fn begin(ledger: Ledger, nodes: usize) -> Self {
        // Every tenth mail is answered a second late, so that there is always one whose answer is awaited.
        let sink = SmtpSink::start(&["-W", ".:1:10"]);
        let world = ledger.world(&sink, 16, 10_000);
        let key = ledger::begin(&world);
        std::fs::create_dir_all(world.path("mail/templates")).unwrap();
        std::fs::create_dir_all(world.path("mail/sequences")).unwrap();
        for subject in MAILS {
            let file = format!("mail/templates/{}.html", subject.to_lowercase());
            world.write(&file, &format!("---\nsubject = \"{subject}\"\n---\n<p>Hello</p>\n"));
        }
        world.write("mail/sequences/walk.yaml", STEPS);
        world.ok(&["apply", "mail", "--yes"]);
        let servers = (0..nodes).map(|_| world.serve(&[])).collect();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let database = runtime.block_on(ledger.open(&world));
        let chance = fastrand::Rng::with_seed(23);
        let (dead, handed, told) = (Vec::new(), 0, 0);
        Self {
            world,
            database,
            runtime,
            sink,
            key,
            servers,
            dead,
            handed,
            told,
            chance,
            _ledger: ledger,
        }
    }

    /// What is answered to a request that must succeed, by a server that is alive.
    #[track_caller]
    fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let answer = self.servers[0].send(&format!(
            "{method} {path} HTTP/1.0\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        ));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.0 2"), "{method} {path}: {answer}");
        json_of(body)
    }

    /// Tells that something happened to some people. Whoever does not wait for it is not concerned.
    fn tell(&mut self, name: &str, people: std::ops::Range<usize>) {
        self.told += 1;
        let events = people.map(|n| {
            let id = format!("{name}-{}-{n}", self.told);
            json!({ "name": name, "message_id": id, "email": format!("p{n}@example.org") })
        });
        let events: Vec<_> = events.collect();
        self.ok("POST", "/v1/events", &json!({ "events": events }));
    }

    fn funnel(&self) -> Value {
        self.ok("GET", "/v1/sequences/walk/funnel", &Value::Null)
    }

    /// Waits until the mail server has so many more, or no more come.
    fn wait_for_mail(&self, more: usize) {
        let wanted = self.sink.count() + more;
        let (mut last, mut still) = (self.sink.count(), 0);
        while last < wanted && still < STILL {
            std::thread::sleep(MOMENT);
            let count = self.sink.count();
            still = if count == last { still + 1 } else { 0 };
            last = count;
        }
    }

    /// Some people begin or go on; one server dies in the middle of that, and another takes its place.
    fn kill_one(&mut self, round: usize) {
        let first = round % WAVES * WAVE;
        self.tell(if round < WAVES { "begin" } else { "go" }, first..first + WAVE);
        let more = self.chance.usize(1..WAVE / 2);
        self.wait_for_mail(more);
        let place = self.chance.usize(..self.servers.len());
        let server = self.servers.swap_remove(place);
        self.dead.push(server.id());
        Server::kill_9(vec![server]);
        self.let_leases_end();
        self.servers.push(self.world.serve(&[]));
    }

    /// Those of the dead end, as they do after minutes, and what they had in hand comes again; that of the living comes again
    /// too, which must do no harm.
    fn let_leases_end(&mut self) {
        let dead = self.dead.clone();
        self.handed += self.in_ledger(move |tx| {
            let mut handed = 0;
            for process in &dead {
                let of_it = format!("{process}-%");
                let sql = "UPDATE transactional_messages SET claimed_until = 0
                           WHERE status = 'claimed' AND claimed_until > 0 AND claimed_by LIKE $1";
                handed += i64::try_from(tx.execute(sql, &[Param::Text(&of_it)])?).unwrap();
            }
            tx.execute("UPDATE queue_messages SET visible_at = 0", &[])?;
            Ok(handed)
        });
    }

    fn in_ledger<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Tx<'_>) -> Result<T, DatabaseError> + Send + 'static,
    ) -> T {
        self.runtime.block_on(self.database.write(work)).unwrap()
    }

    /// Until everybody is at the end and no mail is on its way.
    fn finish(&mut self) {
        for look in 0..LOOKS {
            let [mails, steps] = self.in_ledger(|tx| {
                let mails = "SELECT count(*) FROM transactional_messages WHERE status IN ('queued', 'claimed')";
                let steps = "SELECT count(*) FROM queue_messages
                             WHERE queue IN ('sequence-events', 'sequence-steps', 'sequence-email')";
                Ok([tx.query(mails, &[])?[0].int(0)?, tx.query(steps, &[])?[0].int(0)?])
            });
            let funnel = self.funnel();
            if mails + steps == 0 && funnel["active"] == 0 && funnel["entered"] == PEOPLE {
                return;
            }
            // Nothing is under way, so they wait.
            if mails + steps == 0 {
                (0..WAVES).for_each(|wave| self.tell("go", wave * WAVE..(wave + 1) * WAVE));
            }
            // A server on PostgreSQL may die with a commit under way, which counts.
            if look % 50 == 49 {
                self.let_leases_end();
            }
            std::thread::sleep(MOMENT);
        }
        panic!("not everybody came to the end: {}", self.funnel());
    }

    /// What became of each mail, by whom it is for and its step.
    fn outcomes(&self) -> BTreeMap<(String, String), String> {
        let rows = self.in_ledger(|tx| {
            let sql = "SELECT email, sequence_step, status FROM transactional_messages";
            let text = |row: &Row, at| row.text(at).map(str::to_owned);
            let rows = tx.query(sql, &[])?;
            rows.iter().map(|row| Ok((text(row, 0)?, text(row, 1)?, text(row, 2)?))).collect()
        });
        let rows: Vec<(String, String, String)> = rows;
        let count = rows.len();
        let outcomes: BTreeMap<_, _> =
            rows.into_iter().map(|(email, step, status)| ((email, step), status)).collect();
        assert_eq!(outcomes.len(), count, "a mail is there twice");
        outcomes
    }

    /// How often the mail server got each mail, by whom it is for and its step.
    fn received(&self) -> BTreeMap<(String, String), usize> {
        let mut received = BTreeMap::new();
        for message in self.sink.messages() {
            let header = |name: &str| {
                message.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim()
            };
            let step = format!("1/{}", header("Subject: ").to_lowercase());
            let email = header("To: ").trim_matches(['<', '>']).to_owned();
            *received.entry((email, step)).or_default() += 1;
        }
        received
    }
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

fn kill_9_walks_everybody_to_the_end(ledger: Ledger, nodes: usize) {
    let mut walks = Walks::begin(ledger, nodes);
    for round in 0..KILLS {
        walks.kill_one(round);
    }
    walks.finish();
    assert!(walks.handed > 0, "nothing was ever being sent, so this shows nothing");
    let (funnel, outcomes) = (walks.funnel(), walks.outcomes());
    let listed = walks.world.ok(&["messages", "uncertain"]).lines().count() as i64;
    let queues = walks.world.ok(&["queues", "list"]);
    walks.servers.drain(..).for_each(Server::stop);
    walks.runtime.block_on(walks.database.close());

    let people = (0..PEOPLE).map(|n| format!("p{n}@example.org"));
    let steps = MAILS.map(|subject| format!("1/{}", subject.to_lowercase()));
    let all: BTreeSet<_> =
        people.flat_map(|email| steps.clone().map(|step| (email.clone(), step))).collect();
    assert!(outcomes.keys().eq(&all), "{outcomes:?}");
    let received = walks.received();
    let nobodys: Vec<_> = received.keys().filter(|mail| !all.contains(*mail)).collect();
    assert!(nobodys.is_empty(), "{nobodys:?}");
    let mut uncertain = 0;
    for (mail, status) in &outcomes {
        let times = received.get(mail).copied().unwrap_or(0);
        match status.as_str() {
            "sent" => assert_eq!(times, 1, "{mail:?}"),
            "uncertain" => {
                uncertain += 1;
                assert!(times <= 1, "{mail:?} came {times} times");
            }
            other => panic!("{mail:?} is {other}"),
        }
    }
    // Only what was being handed over when a server died is in doubt, and all of that is listed.
    assert_eq!((uncertain, listed), (walks.handed, walks.handed));
    assert_eq!(funnel["completed"], PEOPLE, "{funnel}");
    for step in funnel["steps"].as_array().unwrap() {
        let came = if UNMET.contains(&step["step"].as_str().unwrap()) { 0 } else { PEOPLE };
        let numbers = ["entered", "passed", "waiting", "skipped", "failed", "left"];
        let numbers = numbers.map(|name| step[name].as_i64().unwrap() as usize);
        assert_eq!(numbers, [came, came, 0, 0, 0, 0], "{step}");
    }
    for queue in ["sequence-steps", "sequence-events", "sequence-email"] {
        let empty = format!(r#"{{"queue":"{queue}","ready":0,"hidden":0,"dead":0}}"#);
        assert!(queues.contains(&empty), "{queues}");
    }
}

#[test]
fn kill_9_walks_everybody_to_the_end_on_sqlite() {
    kill_9_walks_everybody_to_the_end(Ledger::File, 1);
}

#[test]
fn kill_9_walks_everybody_to_the_end_on_postgres_with_two_nodes() {
    kill_9_walks_everybody_to_the_end(Ledger::Postgres(PostgresDatabase::schema()), 2);
}
