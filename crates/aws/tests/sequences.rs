//! Sequences on DynamoDB: somebody comes in, waits, is sent to, leaves and is erased, and whoever takes a walk further may end
//! anywhere. The ledger is in SQL there as everywhere; what a transaction of items enqueues comes out of its outbox.
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

mod credentials;
#[expect(dead_code, reason = "nothing is swept here")]
mod server;
#[expect(dead_code, reason = "a sequence names its client")]
mod shop;

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use jiff::ToSpan as _;
use serde_json::json;
use shop::Shop;
use tidings_access::Cx;
use tidings_delivery::templates::{self, Content, Put, Templates, Then};
use tidings_delivery::transactional::Messages;
use tidings_jobs::{Handler, Outcome};
use tidings_kernel::{Delivery, EmailAddress, Mail, queues};
use tidings_people::contacts;
use tidings_sequences::definition::read;
use tidings_sequences::executions::{
    Enrol, Entered, Person, Tools, Worker, active, enrol, funnel, of_contact, stop,
};
use tidings_sequences::versions::{self, Versions};

struct World {
    shop: Shop,
    tools: Tools,
    templates: Templates,
}

const STEPS: &str = "
id: welcome
client: shop
steps:
  - send: a
  - tag: { add: [welcomed] }
  - condition: { matches: { tag: welcomed } }
    else: [ { exit: {} } ]
  - wait: 2 days
  - send: b
";

fn email(name: &str) -> EmailAddress {
    format!("{name}@example.org").parse().unwrap()
}

impl World {
    async fn new() -> Self {
        let shop = Shop::new().await;
        let cx = shop.cx().await;
        for key in ["a", "b"] {
            let mut content = Content::default();
            content.source.subject = key.to_owned();
            content.source.html = Some("<p>Hello</p>".to_owned());
            let put = Put { key: key.parse().unwrap(), content, then: Then::Activate };
            templates::put(&cx, put).await.unwrap();
        }
        versions::put(&cx, read(STEPS).unwrap()).await.unwrap();
        let templates = Templates::default();
        let messages = Messages::new(templates.clone());
        let (access, versions) = (shop.access.clone(), Versions::default());
        let tools = Tools { access, versions, messages, inbox: Arc::default() };
        Self { shop, tools, templates }
    }

    async fn cx(&self) -> Cx {
        self.shop.cx().await
    }

    fn steps(&self) -> Arc<dyn Handler> {
        Worker::new(self.tools.clone()).handler()
    }

    async fn run(&self) {
        let mail = self.shop.mailing(self.templates.clone()).await;
        loop {
            let mut did = self.shop.relay().await;
            did += self.shop.work(&queues::SEQUENCE_STEPS, self.steps()).await;
            did += self.shop.work(&queues::SEQUENCE_EMAIL, Arc::clone(&mail)).await;
            if did == 0 {
                return;
            }
        }
    }

    async fn enrol(&self, name: &str) -> Delivery {
        let cmd = Enrol {
            sequence: "welcome".to_owned(),
            email: email(name),
            person: Person::default(),
            input: json!({}),
            cause: Some(format!("test/{name}")),
            told_at: Some(self.shop.access.now()),
        };
        let entered = enrol(&self.cx().await, &self.tools.versions, cmd.clone()).await.unwrap();
        let Entered::Began(execution) = entered else { panic!("{entered:?}") };
        let again = enrol(&self.cx().await, &self.tools.versions, cmd).await.unwrap();
        assert_eq!(again, Entered::Before);
        let body = json!({
            "contract": "sequence-step", "version": 1, "workspace": "acme", "task": "go_on",
            "id": execution.id.as_str(),
        });
        Delivery {
            receipt: tidings_kernel::Receipt("test".to_owned()),
            id: "test".to_owned(),
            body: body.to_string(),
            receives: 1,
            enqueued_at: self.shop.access.now(),
        }
    }

    async fn numbers(&self) -> (i64, i64, i64, i64) {
        let cx = self.cx().await;
        let active = self.tools.versions.active(&cx, "welcome").await.unwrap().unwrap();
        let funnel = funnel(&cx, &active.program, active.version).await.unwrap();
        (funnel.entered, funnel.active, funnel.completed, funnel.left)
    }

    fn outbox(&self) -> Vec<String> {
        let told = |mail: &Mail| {
            let mime = String::from_utf8_lossy(&mail.mime);
            let subject = mime.lines().find_map(|line| line.strip_prefix("Subject: "));
            format!("{} {}", mail.to[0], subject.unwrap().trim())
        };
        let mut sent: Vec<_> = self.shop.provider.0.lock().unwrap().iter().map(told).collect();
        sent.sort();
        sent
    }
}

/// Lets a worker run until it has waited so often, and drops it as a crash would.
async fn cut_off(handler: Arc<dyn Handler>, delivery: &Delivery, turns: usize) {
    let mut work = pin!(handler.handle(delivery));
    let mut left = turns;
    std::future::poll_fn(move |context| match work.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending if left == 0 => Poll::Ready(()),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await;
}

#[tokio::test]
async fn a_sequence_is_walked_on_dynamodb_as_it_is_on_sql() {
    let world = World::new().await;
    for name in ["ada", "eve", "kim"] {
        world.enrol(name).await;
    }
    world.run().await;
    assert_eq!(world.outbox(), ["ada@example.org a", "eve@example.org a", "kim@example.org a"]);
    let cx = world.cx().await;
    assert_eq!(active(&cx, "welcome").await.unwrap(), 3);
    assert!(stop(&cx, &world.tools.versions, &email("eve"), "welcome").await.unwrap());
    contacts::erase(&cx, &email("kim")).await.unwrap();
    assert_eq!(world.numbers().await, (3, 1, 0, 2));

    // A clock that is ahead sets the timer off, and one that is behind meets the message.
    world.shop.advance(48.hours());
    assert_eq!(world.shop.fire().await, 1);
    world.shop.advance((-5).minutes());
    world.run().await;
    assert_eq!(of_contact(&cx, &email("ada")).await.unwrap().len(), 1);
    world.shop.advance(6.minutes());
    world.shop.fire().await;
    world.run().await;
    assert_eq!(world.numbers().await, (3, 0, 1, 2));
    assert_eq!(world.outbox()[..2], ["ada@example.org a", "ada@example.org b"]);
    assert_eq!(world.outbox().len(), 4);
}

#[tokio::test]
async fn wherever_a_worker_ends_on_dynamodb_every_mail_goes_out_once() {
    let world = World::new().await;
    let mut expected = Vec::new();
    for turns in 0..24 {
        let name = format!("p{turns:02}");
        let delivery = world.enrol(&name).await;
        cut_off(world.steps(), &delivery, turns).await;
        let again = world.steps().handle(&delivery).await;
        assert!(!matches!(again, Outcome::Dead { .. }), "{again:?}");
        expected.extend(["a", "b"].map(|subject| format!("{name}@example.org {subject}")));
    }
    for _ in 0..4 {
        world.run().await;
        world.shop.advance(24.hours());
        world.shop.fire().await;
    }
    world.run().await;
    assert_eq!(world.outbox(), expected);
    assert_eq!(world.numbers().await, (24, 0, 24, 0));
}
