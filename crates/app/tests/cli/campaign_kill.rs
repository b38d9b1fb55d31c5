//! `kill -9` of servers, again and again, while they send a campaign: nobody gets it twice, nobody is left out, and those
//! of whom nobody knows are listed. Meanwhile people unsubscribe and are suppressed: each of them gets it before, or is skipped.
//!
//! The provider is a real mail server: what it has is what people would have got. The kills are spread over the whole run
//! by how far the campaign is, and what the ledger says after each shows that there was something left to do.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tidings_sql::{Database, DatabaseError, Param, Tx};
use tidings_testkit::{PostgresDatabase, SmtpSink};

use crate::ledger::Ledger;
use crate::world::{Server, World};

const RECIPIENTS: usize = 20_000;
const KILLS: usize = 100;
/// So many of them fall into the snapshot.
const EARLY: usize = 8;
/// The last one comes when so many have got their mail: whoever is slow to kill is still not too late. Of the others some
/// never get it: those who leave, and most of those who were just being handed over at one of the kills.
const LAST: usize = 17_000;
/// So many unsubscribe meanwhile, and as many are suppressed, some at a time.
const LEAVING: usize = 200;
const AT_A_TIME: usize = 40;
/// After so many kills some leave again.
const APART: usize = 8;
/// How fast all servers may send, so that those who live do not send everything while another one starts.
const PER_SECOND: u32 = 150;
/// A moment between two looks, and how often we look before that is a failure.
const MOMENT: Duration = Duration::from_millis(20);
const LOOKS: usize = 6_000;

struct Mailing {
    world: World,
    ledger: Ledger,
    sink: SmtpSink,
    key: String,
    nodes: usize,
    servers: Vec<Server>,
    /// How many were being handed over when a server died. They came or did not, and nobody asks again.
    handed: i64,
    /// What the campaign was doing when a server died, for each kill.
    kills: Vec<String>,
    /// How many recipients were known at the last one.
    known: i64,
    /// Who has left, and the reason with which he is skipped if he has not got it by then.
    left: BTreeMap<String, &'static str>,
    chance: fastrand::Rng,
}

/// What a server that was killed leaves behind.
struct Left {
    /// What the campaign was doing.
    status: String,
    /// How many recipients are known, and how many of them have no end yet.
    known: i64,
    open: i64,
    /// How many the dead one was just handing over.
    handed: i64,
}

impl Mailing {
    fn begin(ledger: Ledger, nodes: usize) -> Self {
        let sink = SmtpSink::start(&[]);
        let world = ledger.world(&sink, 32, PER_SECOND);
        let key = world.ok(&["bootstrap", "--client", "shop"]).trim_end().to_owned();
        world.ok(&["senders", "add", "hello", "--from", "hello@example.org", "--client", "shop"]);
        let people: String = (0..RECIPIENTS).map(|n| format!("p{n}@example.org,{n}\n")).collect();
        world.write("people.csv", &format!("email,number\n{people}"));
        world.ok(&["contacts", "import", "people.csv"]);
        let servers = (0..nodes).map(|_| world.serve(&[])).collect();
        let chance = fastrand::Rng::with_seed(17);
        let mailing = Self {
            world,
            ledger,
            sink,
            key,
            nodes,
            servers,
            handed: 0,
            kills: Vec::new(),
            known: 0,
            left: BTreeMap::new(),
            chance,
        };
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

    /// Looks until it is so.
    fn wait_until(&self, holds: impl Fn() -> bool) {
        for _ in 0..LOOKS {
            if holds() {
                return;
            }
            std::thread::sleep(MOMENT);
        }
        panic!("nothing goes on: the mail server has {} messages", self.sink.count());
    }

    /// All servers die at any moment after a page of the snapshot or a few were written, as when the power fails.
    fn kill_in_snapshot(&mut self) {
        let known = self.known + self.chance.i64(..1_200);
        let wait = Duration::from_millis(self.chance.u64(..30));
        self.in_ledger(move |database| Box::pin(a_page(database, known)));
        std::thread::sleep(wait);
        self.kill_all();
    }

    /// A server dies when the mail server has so many messages. If it has more already, since the living have sent them
    /// in the meantime, all die.
    fn kill_in_sending(&mut self, wanted: usize) {
        let come = self.sink.count();
        self.wait_until(|| self.sink.count() >= wanted.max(come + 1));
        if come > wanted && self.kills.len() + self.nodes <= KILLS {
            return self.kill_all();
        }
        let place = self.chance.usize(..self.nodes);
        let server = self.servers.swap_remove(place);
        server.signal(Signal::KILL);
        self.bury(server);
        self.start();
    }

    fn kill_all(&mut self) {
        let dead: Vec<Server> = self.servers.drain(..).collect();
        dead.iter().for_each(|server| server.signal(Signal::KILL));
        for server in dead {
            self.bury(server);
        }
        self.start();
    }

    /// Some unsubscribe and some are suppressed, all over the campaign: most of them have not got it yet.
    fn let_some_leave(&mut self) {
        let mut file = String::from("email,unsubscribed,suppressed\n");
        for (cells, reason) in [("yes,", "global_unsubscribe"), (",yes", "manual")] {
            let wanted = self.left.len() + AT_A_TIME;
            while self.left.len() < wanted {
                let email = format!("p{}@example.org", self.chance.usize(..RECIPIENTS));
                if let Entry::Vacant(place) = self.left.entry(email) {
                    file += &format!("{},{cells}\n", place.key());
                    place.insert(reason);
                }
            }
        }
        self.world.write("leaving.csv", &file);
        self.world.ok(&["contacts", "import", "leaving.csv"]);
    }

    /// Others take the place of the dead. They are not waited for: what is left is done before they listen.
    fn start(&mut self) {
        while self.servers.len() < self.nodes {
            self.servers.push(self.world.spawn(&["serve", "--listen", "127.0.0.1:0"]));
        }
    }

    fn wait_for_servers(&mut self) {
        self.servers = self.servers.drain(..).map(Server::listening).collect();
    }

    /// Notes what a server that was killed leaves behind.
    fn bury(&mut self, mut server: Server) {
        let process = server.id();
        assert_eq!(server.wait(), None, "it ended by itself: {:#?}", server.log);
        let left = self.in_ledger(move |database| Box::pin(end_leases(database, process)));
        match left.status.as_str() {
            "snapshotting" => {}
            "sending" => assert!(left.open > 0, "nothing was left to be sent"),
            other => panic!("the campaign is {other}, so this kill shows nothing"),
        }
        (self.known, self.handed) = (left.known, self.handed + left.handed);
        self.kills.push(left.status);
    }

    /// Works on the ledger from outside.
    fn in_ledger<T>(
        &self,
        work: impl FnOnce(Database) -> std::pin::Pin<Box<dyn Future<Output = Result<T, DatabaseError>>>>,
    ) -> T {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let database = self.ledger.open(&self.world).await;
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
/// come again too, which must do no harm.
async fn end_leases(database: Database, process: u32) -> Result<Left, DatabaseError> {
    let end = database.write_committed(move |tx| {
        let of_it = format!("{process}-%");
        let sql = "SELECT count(*) FROM campaign_recipients
                   WHERE status = 'claimed' AND handed_at IS NOT NULL AND claimed_by LIKE $1";
        let handed = tx.query(sql, &[Param::Text(&of_it)])?[0].int(0)?;
        let sql = "UPDATE campaign_recipients SET claimed_until = 0
                   WHERE status = 'claimed' AND claimed_by LIKE $1";
        tx.execute(sql, &[Param::Text(&of_it)])?;
        // So many deaths in so short a time would make dead letters of batches that only waited for their turn.
        let sql = "UPDATE queue_messages SET visible_at = 0, receives = 0, deferrals = 0, last_deferred = 0";
        tx.execute(sql, &[])?;
        let sql = "SELECT count(*) FROM campaign_recipients WHERE status IN ('pending', 'claimed')";
        let open = tx.query(sql, &[])?[0].int(0)?;
        let (status, known) = standing(tx)?;
        Ok::<_, DatabaseError>(Left { status, known, open, handed })
    });
    end.await
}

/// Waits until more recipients are known than these, or all are.
async fn a_page(database: Database, known: i64) -> Result<(), DatabaseError> {
    for _ in 0..LOOKS {
        let (status, now) = database.read(standing).await?;
        if now > known || status != "snapshotting" {
            return Ok(());
        }
        std::thread::sleep(MOMENT / 10);
    }
    panic!("the snapshot does not go on");
}

/// What the campaign is doing, and how many recipients are known.
fn standing(tx: &mut Tx<'_>) -> Result<(String, i64), DatabaseError> {
    let rows = tx.query("SELECT status, recipient_count FROM campaigns", &[])?;
    Ok((rows[0].text(0)?.to_owned(), rows[0].int(1)?))
}

/// What became of each recipient: his status, or why he was skipped.
async fn outcomes(database: Database) -> Result<BTreeMap<String, String>, DatabaseError> {
    let read = database.read(|tx| {
        let sql = "SELECT email, COALESCE(skip_reason, status) FROM campaign_recipients";
        let rows = tx.query(sql, &[])?;
        rows.iter().map(|row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned()))).collect()
    });
    read.await
}

fn kill_9_sends_a_campaign_once(ledger: Ledger, nodes: usize) {
    let mut mailing = Mailing::begin(ledger, nodes);
    while mailing.kills.len() < EARLY {
        mailing.kill_in_snapshot();
    }
    let apart = LAST / (KILLS - mailing.kills.len());
    for place in 0.. {
        if mailing.kills.len() == KILLS {
            break;
        }
        let wanted = place * apart + mailing.chance.usize(1..apart);
        mailing.kill_in_sending(wanted);
        if place % APART == 0 && mailing.left.len() < 2 * LEAVING {
            mailing.let_some_leave();
        }
    }
    let early = mailing.kills.iter().filter(|doing| *doing == "snapshotting").count();
    assert!(early >= EARLY / 2, "only {early} kills fell into the snapshot");
    assert!(mailing.handed > 0, "nothing was ever being sent, so this shows nothing");
    mailing.wait_for_servers();
    mailing
        .wait_until(|| mailing.ok("GET", "/v1/campaigns/news", &Value::Null)["status"] == "sent");
    let outcomes = mailing.in_ledger(|database| Box::pin(outcomes(database)));
    let results = mailing.ok("GET", "/v1/campaigns/news/results", &Value::Null);
    let listed = mailing.world.ok(&["campaign", "uncertain", "news"]).lines().count();
    mailing.servers.drain(..).for_each(Server::stop);

    assert_eq!(outcomes.len(), RECIPIENTS);
    assert_eq!(mailing.left.len(), 2 * LEAVING);
    let received = mailing.received();
    assert!(received.keys().all(|email| outcomes.contains_key(email)), "a mail for nobody");
    let (mut uncertain, mut skipped) = (0, 0);
    for (email, status) in &outcomes {
        let times = received.get(email).copied().unwrap_or(0);
        match status.as_str() {
            "sent" => assert_eq!(times, 1, "{email}"),
            "uncertain" => {
                uncertain += 1;
                assert!(times <= 1, "{email} came {times} times");
            }
            reason if mailing.left.get(email) == Some(&reason) => {
                skipped += 1;
                assert_eq!(times, 0, "{email} was skipped");
            }
            other => panic!("{email} is {other}"),
        }
    }
    assert!(skipped > LEAVING as i64, "only {skipped} had not got it when they left");
    // Only what was being handed over when a server died is in doubt, and all of that is listed.
    assert_eq!(uncertain, mailing.handed);
    assert_eq!(listed as i64, uncertain);
    assert_eq!(results["outcomes"]["uncertain"], uncertain, "{results}");
    assert_eq!(results["outcomes"]["skipped"], skipped, "{results}");
    assert_eq!(results["outcomes"]["sent"], RECIPIENTS as i64 - uncertain - skipped, "{results}");
}

#[test]
fn kill_9_sends_a_campaign_once_on_sqlite() {
    kill_9_sends_a_campaign_once(Ledger::File, 1);
}

#[test]
fn kill_9_sends_a_campaign_once_on_postgres_with_two_nodes() {
    kill_9_sends_a_campaign_once(Ledger::Postgres(PostgresDatabase::schema()), 2);
}
