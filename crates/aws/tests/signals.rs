//! What comes back, on DynamoDB: whatever the order and however often it comes, also all at once and over SQS, the end is the
//! same; and whoever wants to be told is told, again after a failure, and once more when somebody asks for it.
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

mod credentials;
mod queue_server;
#[expect(dead_code, reason = "nothing is swept here")]
mod server;
#[expect(dead_code, reason = "no timers of items are needed here")]
mod shop;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use jiff::ToSpan as _;
use serde_json::{Value, json};
use shop::Shop;
use tidings_access::Limit;
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::{Content, Messages, Send, Tracking};
use tidings_jobs::Outcome;
use tidings_kernel::{
    Delivery, Item, Outgoing, QueueEngine as _, Receipt, Receive, Scan, queues, tables,
};
use tidings_people::suppression;
use tidings_signals::replies::Replies;
use tidings_signals::ses;
use tidings_sql::{DatabaseError, Param};
use tidings_webhooks::deliveries::{self, Status};
use tidings_webhooks::endpoints::{self, Create};
use tidings_webhooks::{EventType, Poster, Targets, handlers};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const BOB: &str = "bob@example.org";
/// As SES calls the message in its documentation.
const SES_ID: &str = "0100018f-ses-bob";
/// What happens to it, each another event.
const HAPPENED: [&str; 8] = [
    "send",
    "delivery-delay",
    "delivery",
    "open",
    "click",
    "bounce-transient",
    "bounce-permanent",
    "complaint",
];

/// What SNS puts into a queue.
fn notification(name: &str) -> String {
    let path = format!("{}/../signals/tests/fixtures/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let event: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let envelope = json!({
        "Type": "Notification",
        "MessageId": format!("sns-{name}"),
        "TopicArn": "arn:aws:sns:eu-west-1:123456789012:ses-events",
        "Message": event.to_string(),
        "Timestamp": "2026-07-01T11:59:59.900Z",
    });
    envelope.to_string()
}

/// A shop that has written to bob.
struct World {
    shop: Shop,
}

impl World {
    async fn new() -> Self {
        let shop = Shop::new().await;
        let cx = shop.cx().await;
        let content = Content::Inline {
            subject: "Spring!".to_owned(),
            html: None,
            text: Some("Hello Bob".to_owned()),
        };
        // Only the provider looks who opens and clicks.
        let send = Send {
            tracking: Tracking::Off,
            ..Send::of(shop.client, BOB.parse().unwrap(), content)
        };
        Messages::new(Templates::default()).accept(&cx, send).await.unwrap();
        let mailing = shop.mailing(Templates::default()).await;
        assert_eq!(shop.work(&queues::TRANSACTIONAL_EMAIL, mailing).await, 1);
        let name = cx.database().write(|tx| {
            let sql = "UPDATE transactional_messages SET ses_message_id = $1";
            tx.execute(sql, &[Param::Text(SES_ID)])
        });
        name.await.map_err(|error: DatabaseError| error).unwrap();
        Self { shop }
    }

    /// Brings an event until it is recorded: who meets others at the same items comes again.
    async fn tell(&self, name: &str) {
        let worker = ses::worker(Replies::new(self.shop.access.clone(), None));
        let delivery = Delivery {
            id: "m".to_owned(),
            body: notification(name),
            receives: 1,
            enqueued_at: self.shop.access.now(),
            receipt: Receipt("r".to_owned()),
        };
        for _ in 0..100 {
            if worker.handle(&delivery).await == Outcome::Done {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{name} was never recorded");
    }

    async fn items(&self, table: &'static tidings_kernel::Table) -> Vec<Item> {
        let scan = Scan::new(table).limit(1_000);
        self.shop.cx().await.items().await.unwrap().scan(scan).await.unwrap().items
    }

    /// Everything that can be seen afterwards: events, counters, the row and the suppression. Which of two events of one
    /// millisecond has the plain key may differ.
    async fn state(&self) -> String {
        let cx = self.shop.cx().await;
        let mut events = self.items(&tables::EVENTS).await;
        for event in events.iter_mut().filter(|item| item.text("eventId").is_some()) {
            event.remove("SK");
        }
        let mut state: Vec<String> = events.iter().map(|item| format!("{item:?}")).collect();
        let is_counter = |item: &&Item| item.text("PK").is_some_and(|pk| pk.starts_with("STATS#"));
        let counters = self.items(&tables::MAIN).await;
        state.extend(counters.iter().filter(is_counter).map(|item| format!("{item:?}")));
        state.sort();
        let row = cx.database().read(|tx| {
            let sql = "SELECT status, delivered_at, bounced_at, complained_at, first_opened_at, first_clicked_at,
                              open_count, click_count FROM transactional_messages";
            tx.query(sql, &[])
        });
        let row = row.await.map_err(|error: DatabaseError| error).unwrap();
        state.push(format!("{row:?}"));
        let status = suppression::status(&cx, &BOB.parse().unwrap()).await.unwrap();
        state.push(format!("{:?}", status.suppression));
        state.join("\n")
    }
}

#[tokio::test]
async fn events_in_any_order_and_number_end_the_same() {
    let straight = World::new().await;
    for name in HAPPENED {
        straight.tell(name).await;
    }
    let expected = straight.state().await;
    for kind in HAPPENED {
        let word = kind.split('-').next_back().filter(|_| kind == "delivery-delay");
        let word = word.unwrap_or(kind.split('-').next().unwrap());
        assert!(expected.contains(&format!("\"{word}\"")), "{kind}: {expected}");
    }
    for seed in 0..4 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut order: Vec<&str> =
            HAPPENED.iter().chain(&HAPPENED[seed as usize..]).copied().collect();
        chance.shuffle(&mut order);
        let world = World::new().await;
        for name in &order {
            world.tell(name).await;
        }
        assert_eq!(world.state().await, expected, "{order:?}");
    }
    // And all at once, each twice.
    let world = World::new().await;
    join_all(HAPPENED.iter().chain(&HAPPENED).map(|name| world.tell(name))).await;
    assert_eq!(world.state().await, expected);
}

#[tokio::test]
async fn events_that_come_twice_over_sqs_are_recorded_once() {
    let straight = World::new().await;
    for name in HAPPENED {
        straight.tell(name).await;
    }
    let world = World::new().await;
    let sqs = queue_server::connect(&queue_server::prefix());
    for _ in 0..2 {
        let all =
            HAPPENED.iter().map(|name| Outgoing::new(&queues::SES_WEBHOOKS, notification(name)));
        sqs.send(all.collect()).await.unwrap();
    }
    let worker = ses::worker(Replies::new(world.shop.access.clone(), None));
    let mut taken = 0;
    while taken < 2 * HAPPENED.len() {
        let request =
            Receive { max: 10, lease: Duration::from_secs(60), wait: Duration::from_secs(5) };
        for delivery in sqs.receive(&queues::SES_WEBHOOKS, request).await.unwrap() {
            assert_eq!(worker.handle(&delivery).await, Outcome::Done, "{}", delivery.body);
            sqs.acknowledge(&queues::SES_WEBHOOKS, &[delivery.receipt]).await.unwrap();
            taken += 1;
        }
    }
    assert_eq!(world.state().await, straight.state().await);
}

/// An endpoint on this machine, which answers as it is told to and notes what it is sent.
struct Endpoint {
    url: String,
    status: Arc<Mutex<&'static str>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Endpoint {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks", listener.local_addr().unwrap());
        let status = Arc::new(Mutex::new("503 Service Unavailable"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let endpoint = Self { url, status: Arc::clone(&status), requests: Arc::clone(&requests) };
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (mut read, mut part) = (Vec::new(), [0; 4096]);
                // A body of JSON ends with its object.
                while !read.ends_with(b"}") {
                    match stream.read(&mut part).await {
                        Ok(0) | Err(_) => break,
                        Ok(count) => read.extend_from_slice(&part[..count]),
                    }
                }
                requests.lock().unwrap().push(String::from_utf8(read).unwrap());
                let status = *status.lock().unwrap();
                let answer =
                    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        endpoint
    }

    /// The `webhook-id` of each request.
    fn ids(&self) -> Vec<String> {
        let id = |request: &String| {
            let line = request.lines().find_map(|line| line.strip_prefix("webhook-id: "));
            line.unwrap().to_owned()
        };
        self.requests.lock().unwrap().iter().map(id).collect()
    }
}

#[tokio::test]
async fn whoever_wants_to_be_told_is_told_and_told_again() {
    let world = World::new().await;
    let cx = world.shop.cx().await;
    let endpoint = Endpoint::start().await;
    let targets = Targets::new(true);
    let create = Create {
        url: endpoint.url.parse().unwrap(),
        description: None,
        event_types: [EventType::EmailBounced].into_iter().collect(),
    };
    let made = endpoints::create(&cx, &targets, create).await.unwrap().endpoint.id;
    let work = async || {
        while world.shop.relay().await > 0 {}
        for (queue, handler) in handlers(&world.shop.access, Poster::new(targets.clone())) {
            world.shop.work(queue, handler).await;
        }
    };
    for name in ["bounce-permanent", "delivery", "bounce-permanent"] {
        world.tell(name).await;
    }
    work().await;
    work().await;
    let all = deliveries::list(&cx, made, None, None, Limit::MAX).await.unwrap().items;
    assert_eq!(all.len(), 1, "once, though it was told twice: {all:?}");
    assert_eq!((all[0].status, all[0].attempts), (Status::Pending, 1));
    *endpoint.status.lock().unwrap() = "204 No Content";
    world.shop.advance(1.minute());
    world.shop.fire_relations().await;
    work().await;
    let told = deliveries::find(&cx, all[0].id).await.unwrap();
    assert_eq!((told.delivery.status, told.delivery.attempts), (Status::Delivered, 2));
    let codes: Vec<_> = told.attempts.iter().map(|attempt| attempt.status_code).collect();
    assert_eq!(codes, [Some(204), Some(503)], "the newest first");
    deliveries::replay(&cx, all[0].id).await.unwrap();
    work().await;
    let told = deliveries::find(&cx, all[0].id).await.unwrap();
    assert_eq!((told.delivery.status, told.attempts.len()), (Status::Delivered, 3));
    let ids = endpoint.ids();
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| *id == ids[0]), "the same on every try: {ids:?}");
}
