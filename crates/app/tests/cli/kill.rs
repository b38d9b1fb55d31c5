//! `kill -9` of the whole server while it accepts and sends: what was acknowledged is sent once, or nobody knows.
//!
//! The provider is a server of its own, so what it has is what people would have got.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tidings_sql::DatabaseError;
use tidings_testkit::PostgresDatabase;

use crate::ledger::{self, Ledger};
#[cfg(feature = "aws")]
use crate::providers::over_ses;
use crate::providers::{Received, over_smtp};
use crate::world::{Server, World};

const MESSAGES: usize = 300;
const KILLS: usize = 8;
/// A moment between two looks, and how often we look before that is a failure.
const MOMENT: std::time::Duration = std::time::Duration::from_millis(20);
const LOOKS: usize = 1_500;

/// A client that sends, the mail server that it sends to, and what it was promised.
struct Shop {
    world: World,
    ledger: Ledger,
    received: Received,
    key: String,
    /// The id of each message that was acknowledged, by its number.
    ids: BTreeMap<usize, i64>,
    /// How many were being handed over when a server died. They came or did not, and nobody asks again.
    handed: usize,
    /// How many of them nobody knows of in the end.
    in_doubt: usize,
    chance: fastrand::Rng,
}

impl Shop {
    fn new(ledger: Ledger) -> Self {
        let mut world = ledger.store();
        let received = match &ledger {
            #[cfg(feature = "aws")]
            Ledger::Aws(..) => over_ses(&mut world),
            // Every fourth message is answered a second late, so that there is always one whose answer is awaited.
            Ledger::File | Ledger::Postgres(_) => over_smtp(&mut world, &["-W", ".:1:25"]),
        };
        world.set("TIDINGS_MAIL__SMTP_CONNECTIONS", "16");
        world.set("TIDINGS_MAIL__RATE_PER_SECOND", "10000");
        let key = ledger::begin(&world);
        Self {
            world,
            ledger,
            received,
            key,
            ids: BTreeMap::new(),
            handed: 0,
            in_doubt: 0,
            chance: fastrand::Rng::with_seed(9),
        }
    }

    /// The request for a message, with the key that makes it safe to ask again.
    fn request(&self, number: usize) -> String {
        let body = json!({
            "to": format!("p{number}@example.org"),
            "subject": format!("Number {number}"),
            "text": "Hello",
        });
        let body = body.to_string();
        format!(
            "POST /v1/messages HTTP/1.0\r\nauthorization: Bearer {}\r\nidempotency-key: n-{number}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        )
    }

    /// Sends what was not acknowledged yet, until so many are.
    fn send_until(&mut self, server: &Server, wanted: usize) {
        for number in 0..MESSAGES {
            if self.ids.len() >= wanted {
                return;
            }
            if !self.ids.contains_key(&number) {
                let answer = server.send(&self.request(number));
                assert!(answer.starts_with("HTTP/1.0 202"), "{answer}");
                let body = answer.split("\r\n\r\n").nth(1).unwrap();
                self.ids.insert(number, json_of(body)["id"].as_i64().unwrap());
            }
        }
    }

    /// Waits until the mail server has so many. Not for long: what somebody dead had received may come much later.
    fn wait_for_mail(&self, wanted: usize) {
        for _ in 0..LOOKS / 10 {
            if (self.received)().len() >= wanted {
                return;
            }
            std::thread::sleep(MOMENT);
        }
    }

    /// One life of the server, which ends in the middle of something.
    fn live_and_die(&mut self, round: usize) {
        let server = self.world.serve(&[]);
        let share = MESSAGES / KILLS;
        let wanted = round * share + self.chance.usize(1..share);
        let before = (self.received)().len();
        self.send_until(&server, wanted);
        let under_way = if round.is_multiple_of(2) {
            // While it accepts: the next request is under way, and its answer is never seen.
            let next = (0..MESSAGES).find(|number| !self.ids.contains_key(number)).unwrap();
            Some(server.begin(&self.request(next)))
        } else {
            // While it sends.
            let more = self.chance.usize(1..share);
            self.wait_for_mail(before + more);
            None
        };
        Server::kill_9(vec![server]);
        drop(under_way);
    }

    /// The leases of the dead end, as they do after minutes.
    fn let_leases_end(&mut self) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let handed = runtime.block_on(async {
            let database = self.ledger.open(&self.world).await;
            let end = database.write(|tx| {
                tx.execute("UPDATE queue_messages SET visible_at = 0", &[])?;
                let sql = "UPDATE transactional_messages SET claimed_until = 0
                     WHERE status = 'claimed' AND claimed_until > 0";
                tx.execute(sql, &[])
            });
            let handed = end.await.map_err(|error: DatabaseError| error).unwrap();
            database.close().await;
            usize::try_from(handed).unwrap()
        });
        self.handed += handed;
    }

    /// All messages with a status, over the pages of the list.
    fn with_status(&self, server: &Server, status: &str) -> BTreeSet<i64> {
        let (mut found, mut cursor) = (BTreeSet::new(), String::new());
        loop {
            let path = format!("/v1/messages?status={status}&limit=100{cursor}");
            let answer = server.get_with(&self.key, &path);
            let page = json_of(answer.split("\r\n\r\n").nth(1).unwrap());
            let data = page["data"].as_array().unwrap_or_else(|| panic!("{answer}"));
            found.extend(data.iter().map(|message| message["id"].as_i64().unwrap()));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return found,
            }
        }
    }

    /// Leases of SQS end in their own time.
    fn looks(&self) -> usize {
        match self.ledger {
            #[cfg(feature = "aws")]
            Ledger::Aws(..) => 3 * LOOKS,
            Ledger::File | Ledger::Postgres(_) => LOOKS,
        }
    }

    fn wait_until_nothing_is_left(&self, server: &Server) {
        for _ in 0..self.looks() {
            let left = ["queued", "claimed"].map(|status| self.with_status(server, status).len());
            if left == [0, 0] {
                return;
            }
            std::thread::sleep(MOMENT);
        }
        panic!("messages are left: {:?}", self.with_status(server, "queued"));
    }

    /// What died with its receiver comes again and is done with.
    fn wait_until_the_queue_is_empty(&self) {
        let empty = r#"{"queue":"transactional-email","ready":0,"hidden":0,"dead":0}"#;
        let mut queues = String::new();
        for _ in 0..self.looks() {
            queues = self.world.ok(&["queues", "list"]);
            if queues.contains(empty) {
                return;
            }
            std::thread::sleep(MOMENT);
        }
        panic!("{queues}");
    }

    fn check_that_mail_was_under_way(&self) {
        assert!(self.handed > 0, "nothing was ever being sent, so this shows nothing");
    }

    /// How often the mail server got each number.
    fn received(&self) -> BTreeMap<usize, usize> {
        let mut received = BTreeMap::new();
        for message in (self.received)() {
            let subject = message.lines().find_map(|line| line.strip_prefix("Subject: Number "));
            *received.entry(subject.unwrap().trim().parse().unwrap()).or_default() += 1;
        }
        received
    }
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn kill_9_sends_nothing_twice_and_loses_nothing() {
    let shop = killed(Shop::new(Ledger::File), None);
    shop.check_that_mail_was_under_way();
    // Only what was being handed over when the server died is in doubt.
    assert_eq!(shop.in_doubt, shop.handed);
}

#[test]
fn kill_9_of_one_of_two_nodes_sends_nothing_twice_and_loses_nothing() {
    let shop = Shop::new(Ledger::Postgres(PostgresDatabase::schema()));
    // It goes on, whatever happens to the other one.
    let other = shop.world.serve(&[]);
    let shop = killed(shop, Some(other));
    shop.check_that_mail_was_under_way();
    // What the other one was handing over meanwhile is answered after all.
    assert!(shop.in_doubt <= shop.handed, "{} of {}", shop.in_doubt, shop.handed);
}

/// What was received by one who died comes again by itself, after a minute. This provider answers at once, so it may be that
/// nothing was being handed over.
#[cfg(feature = "aws")]
#[test]
fn kill_9_sends_nothing_twice_and_loses_nothing_on_dynamodb_sqs_and_ses() {
    let shop = killed(Shop::new(Ledger::aws()), None);
    assert!(shop.in_doubt <= shop.handed, "{} of {}", shop.in_doubt, shop.handed);
}

/// Kills one server after the other while they accept and send, and checks what is left.
fn killed(mut shop: Shop, other: Option<Server>) -> Shop {
    for round in 0..KILLS {
        shop.live_and_die(round);
        shop.let_leases_end();
    }

    let server = shop.world.serve(&[]);
    shop.send_until(&server, MESSAGES);
    shop.wait_until_nothing_is_left(&server);
    shop.wait_until_the_queue_is_empty();
    // What it was still handing over is answered now.
    other.into_iter().for_each(Server::stop);
    let sent = shop.with_status(&server, "sent");
    let uncertain = shop.with_status(&server, "uncertain");
    server.stop();

    assert_eq!(shop.ids.values().collect::<BTreeSet<_>>().len(), MESSAGES, "one id, two messages");
    let received = shop.received();
    assert!(received.keys().all(|number| shop.ids.contains_key(number)), "{received:?}");
    for (number, id) in &shop.ids {
        let times = received.get(number).copied().unwrap_or(0);
        if sent.contains(id) {
            assert_eq!(times, 1, "message {id} (number {number}) is sent");
        } else {
            assert!(uncertain.contains(id), "message {id} is neither sent nor uncertain");
            assert!(times <= 1, "message {id} (number {number}) came {times} times");
        }
    }
    assert_eq!(sent.len() + uncertain.len(), MESSAGES, "there are messages that nobody asked for");
    let listed = shop.world.ok(&["messages", "uncertain"]);
    let listed: BTreeSet<_> =
        listed.lines().map(|line| json_of(line)["id"].as_i64().unwrap()).collect();
    assert_eq!(listed, uncertain);
    shop.in_doubt = uncertain.len();
    shop
}
