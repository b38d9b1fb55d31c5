//! `kill -9` of servers, again and again, while they send a campaign: nobody gets it twice, nobody is left out, and those
//! of whom nobody knows are listed.
//!
//! The provider is a real mail server: what it has is what people would have got.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tidings_sql::{Database, DatabaseError, Param, PostgresOptions, SqliteOptions, Tls};
use tidings_testkit::{PostgresDatabase, SmtpSink};

use crate::world::{Server, World};

const RECIPIENTS: usize = 20_000;
const KILLS: usize = 100;
/// A moment between two looks, and how often we look before that is a failure.
const MOMENT: Duration = Duration::from_millis(20);
const LOOKS: usize = 6_000;

/// Where the ledger is.
enum Ledger {
    File,
    Postgres(PostgresDatabase),
}

struct Mailing {
    world: World,
    ledger: Ledger,
    sink: SmtpSink,
    key: String,
    servers: Vec<Server>,
    /// How many were being handed over when a server died. They came or did not, and nobody asks again.
    handed: i64,
    chance: fastrand::Rng,
}

impl Mailing {
    fn begin(ledger: Ledger, nodes: usize) -> Self {
        let sink = SmtpSink::start(&[]);
        let mut world = World::new();
        if let Ledger::Postgres(postgres) = &ledger {
            world.set("TIDINGS_STORE__ENGINE", "postgres");
            world.set("TIDINGS_POSTGRES__URL", &postgres.url);
            world.set("TIDINGS_POSTGRES__CONNECTIONS", "6");
        }
        world.set("TIDINGS_MAIL__PROVIDER", "smtp");
        world.set("TIDINGS_MAIL__SMTP_HOST", "127.0.0.1");
        world.set("TIDINGS_MAIL__SMTP_PORT", &sink.port.to_string());
        world.set("TIDINGS_MAIL__SMTP_TLS", "none");
        world.set("TIDINGS_MAIL__SMTP_CONNECTIONS", "32");
        world.set("TIDINGS_MAIL__RATE_PER_SECOND", "100000");
        let key = world.ok(&["bootstrap", "--client", "shop"]).trim_end().to_owned();
        world.ok(&["senders", "add", "hello", "--from", "hello@example.org", "--client", "shop"]);
        let people: String = (0..RECIPIENTS).map(|n| format!("p{n}@example.org,{n}\n")).collect();
        world.write("people.csv", &format!("email,number\n{people}"));
        world.ok(&["contacts", "import", "people.csv"]);
        let servers = (0..nodes).map(|_| world.serve(&[])).collect();
        let chance = fastrand::Rng::with_seed(17);
        let mailing = Self { world, ledger, sink, key, servers, handed: 0, chance };
        let campaign = json!({
            "name": "News", "external_key": "news", "sender": "hello",
            "subject": "Number {{ number }}", "text": "Hello {{ number }}",
        });
        mailing.ok("POST", "/v1/campaigns", &campaign);
        mailing.ok("POST", "/v1/campaigns/news/start", &json!({}));
        mailing
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
        serde_json::from_str(body).unwrap()
    }

    fn status(&self) -> String {
        self.ok("GET", "/v1/campaigns/news", &Value::Null)["status"].as_str().unwrap().to_owned()
    }

    /// Waits until the mail server has so many more, or there is nothing more to come.
    fn wait_for_mail(&self, more: usize) {
        let wanted = self.sink.count() + more;
        for look in 0..LOOKS {
            if self.sink.count() >= wanted || (look % 50 == 49 && self.status() == "sent") {
                return;
            }
            std::thread::sleep(MOMENT);
        }
        panic!("{} of {wanted} messages came", self.sink.count());
    }

    /// One server dies in the middle of something, and another takes its place.
    fn kill_one(&mut self) {
        let more = self.chance.usize(1..RECIPIENTS / KILLS);
        self.wait_for_mail(more);
        let place = self.chance.usize(..self.servers.len());
        let mut server = self.servers.swap_remove(place);
        let process = server.id();
        server.signal(Signal::KILL);
        assert_eq!(server.wait(), None, "it ended by itself: {:#?}", server.log);
        self.handed += self.in_ledger(move |database| Box::pin(end_leases(database, process)));
        self.servers.push(self.world.serve(&[]));
    }

    /// Works on the ledger from outside.
    fn in_ledger<T>(
        &self,
        work: impl FnOnce(Database) -> std::pin::Pin<Box<dyn Future<Output = Result<T, DatabaseError>>>>,
    ) -> T {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let database = match &self.ledger {
                Ledger::File => {
                    Database::sqlite(&self.world.path("tidings.db"), SqliteOptions::default()).await
                }
                Ledger::Postgres(postgres) => {
                    let options =
                        PostgresOptions { tls: Tls::Disable, ..PostgresOptions::default() };
                    Database::postgres(&postgres.url, options).await
                }
            };
            let database = database.unwrap();
            let done = work(database.clone()).await.unwrap();
            database.close().await;
            done
        })
    }

    /// How often the mail server got the message of each recipient.
    fn received(&self) -> BTreeMap<String, usize> {
        let mut received = BTreeMap::new();
        for message in self.sink.messages() {
            let number = message.lines().find_map(|line| line.strip_prefix("Subject: Number "));
            *received.entry(format!("p{}@example.org", number.unwrap().trim())).or_default() += 1;
        }
        received
    }
}

/// The leases of a server that is dead end, as they do after minutes, and its batches come again; those of the living
/// come again too, which must do no harm. Tells how many it was just handing over.
async fn end_leases(database: Database, process: u32) -> Result<i64, DatabaseError> {
    let end = database.write(move |tx| {
        let of_it = format!("{process}-%");
        let sql = "SELECT count(*) FROM campaign_recipients
                   WHERE status = 'claimed' AND handed_at IS NOT NULL AND claimed_by LIKE $1";
        let handed = tx.query(sql, &[Param::Text(&of_it)])?[0].int(0)?;
        let sql = "UPDATE campaign_recipients SET claimed_until = 0
                   WHERE status = 'claimed' AND claimed_by LIKE $1";
        tx.execute(sql, &[Param::Text(&of_it)])?;
        tx.execute("UPDATE queue_messages SET visible_at = 0", &[])?;
        Ok::<_, DatabaseError>(handed)
    });
    end.await
}

/// What became of each recipient.
async fn outcomes(database: Database) -> Result<BTreeMap<String, String>, DatabaseError> {
    let read = database.read(|tx| {
        let rows = tx.query("SELECT email, status FROM campaign_recipients", &[])?;
        rows.iter().map(|row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned()))).collect()
    });
    read.await
}

fn kill_9_sends_a_campaign_once(ledger: Ledger, nodes: usize) {
    let mut mailing = Mailing::begin(ledger, nodes);
    for _ in 0..KILLS {
        mailing.kill_one();
    }
    assert!(mailing.handed > 0, "nothing was ever being sent, so this shows nothing");
    for _ in 0..LOOKS {
        if mailing.status() == "sent" {
            break;
        }
        std::thread::sleep(MOMENT);
    }
    assert_eq!(mailing.status(), "sent");
    let outcomes = mailing.in_ledger(|database| Box::pin(outcomes(database)));
    let results = mailing.ok("GET", "/v1/campaigns/news/results", &Value::Null);
    let listed = mailing.world.ok(&["campaign", "uncertain", "news"]).lines().count();
    mailing.servers.drain(..).for_each(Server::stop);

    assert_eq!(outcomes.len(), RECIPIENTS);
    let received = mailing.received();
    assert!(received.keys().all(|email| outcomes.contains_key(email)), "a mail for nobody");
    let mut uncertain = 0;
    for (email, status) in &outcomes {
        let times = received.get(email).copied().unwrap_or(0);
        match status.as_str() {
            "sent" => assert_eq!(times, 1, "{email}"),
            "uncertain" => {
                uncertain += 1;
                assert!(times <= 1, "{email} came {times} times");
            }
            other => panic!("{email} is {other}"),
        }
    }
    // Only what was being handed over when a server died is in doubt, and all of that is listed.
    assert_eq!(uncertain, mailing.handed);
    assert_eq!(listed as i64, uncertain);
    assert_eq!(results["outcomes"]["uncertain"], uncertain, "{results}");
    assert_eq!(results["outcomes"]["sent"], RECIPIENTS as i64 - uncertain, "{results}");
}

#[test]
fn kill_9_sends_a_campaign_once_on_sqlite() {
    kill_9_sends_a_campaign_once(Ledger::File, 1);
}

#[test]
fn kill_9_sends_a_campaign_once_on_postgres_with_two_nodes() {
    kill_9_sends_a_campaign_once(Ledger::Postgres(PostgresDatabase::schema()), 2);
}
