//! People and their mail on DynamoDB: files come in once, tags stay in step with their index, an erasure that was cut short is
//! finished, a suppression is never lost to a profile, and a message is sent once and logged once. The ledger is in SQL there as
//! everywhere; what a transaction of items enqueues comes out of its outbox.
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

mod credentials;
#[expect(dead_code, reason = "nothing is swept here")]
mod server;
#[expect(dead_code, reason = "no timers are needed here")]
mod shop;

use std::collections::BTreeSet;
use std::io::Cursor;
use std::sync::Arc;

use futures_util::future::join_all;
use shop::Shop;
use tidings_access::Cx;
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::{Content, Messages, Send};
use tidings_jobs::{Handler, Outcome};
use tidings_kernel::{Delivery, EmailAddress, Item, Query, Receipt, queues, tables};
use tidings_people::contacts::{self, Attributes, Edit, TagChange, Update, Upsert};
use tidings_people::import::{self, Counts};
use tidings_people::keys;
use tidings_people::suppression::{self, Kind, Suppress};

struct World {
    shop: Shop,
}

impl World {
    async fn new() -> Self {
        Self { shop: Shop::new().await }
    }

    async fn cx(&self) -> Cx {
        self.shop.cx().await
    }

    async fn handler(&self) -> Arc<dyn Handler> {
        self.shop.mailing(Templates::default()).await
    }

    async fn work(&self) {
        self.shop.work(&queues::TRANSACTIONAL_EMAIL, self.handler().await).await;
    }

    /// All items of somebody.
    async fn items(&self, partition: &str) -> Vec<Item> {
        let query = Query::new(&tables::MAIN, partition).limit(1_000);
        self.cx().await.items().await.unwrap().query(query).await.unwrap().items
    }
}

fn ada() -> EmailAddress {
    "ada@example.org".parse().unwrap()
}

fn tagged(tag: &str) -> Update {
    let tags = Some(TagChange::Add(BTreeSet::from([tag.parse().unwrap()])));
    Update { email: ada(), edit: Edit { tags, ..Edit::default() } }
}

fn complaint(cx: &Cx) -> Suppress {
    Suppress {
        email: ada(),
        kind: Kind::Complaint,
        reason: "abuse".parse().unwrap(),
        source: None,
        note: None,
        at: cx.now(),
    }
}

#[tokio::test]
async fn a_file_comes_in_once() {
    let world = World::new().await;
    let cx = world.cx().await;
    let mut text = "email,first name,tags,suppressed\n".to_owned();
    for number in 0..230 {
        let suppressed = if number % 50 == 0 { "yes" } else { "" };
        text += &format!("p{number}@example.org,P,a;b,{suppressed}\n");
    }
    text += "p7@example.org,Last,c,\n";
    let settings = || import::Settings { source: "test".to_owned(), ..import::Settings::default() };
    let counts = import::run(&cx, Cursor::new(text.clone()), settings(), |_| ()).await.unwrap();
    let expected = Counts { lines: 231, new: 230, updated: 1, suppressed: 5, ..Counts::default() };
    assert_eq!(counts, expected);
    assert_eq!(world.items("TAG#a").await.len(), 230);
    let p7 = contacts::get(&cx, &"p7@example.org".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((p7.contact.first_name.as_deref(), p7.contact.tags.len()), (Some("Last"), 3));
    let p50 = contacts::get(&cx, &"p50@example.org".parse().unwrap()).await.unwrap().unwrap();
    assert!(p50.contact.suppressed && p50.suppression.is_some());
    let only = "email,tags\np8@example.org,a\n";
    let again = import::run(&cx, Cursor::new(only), settings(), |_| ()).await.unwrap();
    assert_eq!(again, Counts { lines: 1, unchanged: 1, ..Counts::default() });
}

#[tokio::test]
async fn tags_that_come_at_once_are_all_there_and_in_their_index() {
    let world = World::new().await;
    let cx = world.cx().await;
    contacts::put(&cx, tagged("first")).await.unwrap();
    let names: Vec<String> = (0..8).map(|number| format!("t{number}")).collect();
    let all = join_all(names.iter().map(|name| contacts::put(&cx, tagged(name)))).await;
    all.into_iter().for_each(|done| drop(done.unwrap()));
    let found = contacts::get(&cx, &ada()).await.unwrap().unwrap();
    assert_eq!(found.contact.tags.len(), 9);
    for tag in &found.contact.tags {
        assert_eq!(world.items(&format!("TAG#{tag}")).await.len(), 1, "{tag}");
    }
}

#[tokio::test]
async fn a_suppression_and_a_profile_at_once_agree() {
    let world = World::new().await;
    let cx = world.cx().await;
    let upsert =
        Upsert { email: ada(), first_name: None, attributes: Attributes::default(), tags: None };
    let suppress = suppression::suppress(&cx, complaint(&cx));
    let (made, suppressed) = tokio::join!(contacts::upsert(&cx, upsert), suppress);
    made.unwrap();
    suppressed.unwrap();
    let found = contacts::get(&cx, &ada()).await.unwrap().unwrap();
    assert!(found.contact.suppressed && found.suppression.is_some());
}

#[tokio::test]
async fn an_erasure_that_was_cut_short_is_finished_and_the_suppression_stays() {
    let world = World::new().await;
    let cx = world.cx().await;
    contacts::put(&cx, tagged("vip")).await.unwrap();
    suppression::suppress(&cx, complaint(&cx)).await.unwrap();
    // The relations are clean, and the process ends before the items are: dropped after its first step.
    {
        let email = ada();
        let mut erasing = Box::pin(contacts::erase(&cx, &email));
        let waker = std::task::Waker::noop();
        let mut context = std::task::Context::from_waker(waker);
        for _ in 0..3 {
            let _ = erasing.as_mut().poll(&mut context);
            tokio::task::yield_now().await;
        }
    }
    contacts::erase(&cx, &ada()).await.unwrap();
    assert!(!contacts::erase(&cx, &ada()).await.unwrap().erased);
    assert!(world.items(&keys::subscriber(&ada())).await.is_empty());
    assert!(world.items("TAG#vip").await.is_empty());
    assert!(contacts::get(&cx, &ada()).await.unwrap().is_none());
    assert!(contacts::flags(&cx, &ada()).await.unwrap().suppressed);
}

#[tokio::test]
async fn a_message_is_sent_once_and_logged_once_however_often_it_comes() {
    let world = World::new().await;
    let cx = world.cx().await;
    let content = Content::Inline {
        subject: "Hello".to_owned(),
        html: None,
        text: Some("It works.".to_owned()),
    };
    let send = Send {
        idempotency_key: Some("order-1".to_owned()),
        ..Send::of(world.shop.client, ada(), content)
    };
    let messages = Messages::new(Templates::default());
    let id = messages.accept(&cx, send.clone()).await.unwrap().id;
    assert!(messages.accept(&cx, send).await.unwrap().replayed);
    world.work().await;
    while world.shop.relay().await > 0 {}
    world.work().await;
    let body = serde_json::json!({
        "contract": "transactional-email", "version": 1, "transactional_message_id": id.get(),
        "client_id": world.shop.client.get(), "idempotency_key": "order-1",
    });
    let again = Delivery {
        id: "m".to_owned(),
        body: body.to_string(),
        receives: 2,
        enqueued_at: world.shop.access.now(),
        receipt: Receipt("r".to_owned()),
    };
    assert_eq!(world.handler().await.handle(&again).await, Outcome::Done);
    assert_eq!(world.shop.provider.0.lock().unwrap().len(), 1);
    let log = world.items(&keys::subscriber(&ada())).await;
    let lines = log.iter().filter(|item| item.text("SK").is_some_and(|sk| sk.starts_with("SENT#")));
    assert_eq!(lines.count(), 1);
}

/// A message for each place at which its worker, and whoever takes it in, can die once. Whatever was sent twice or lost on
/// the way shows at the end.
async fn whoever_dies_a_message_is_sent_once(after: bool) {
    let world = World::new().await;
    let mut counts = (0, 0);
    for place in 0.. {
        assert!(place < 40, "it comes to an end");
        let to: EmailAddress = format!("p{place}@example.org").parse().unwrap();
        let content = Content::Inline {
            subject: "Hello".to_owned(),
            html: None,
            text: Some("It works.".to_owned()),
        };
        let send = Send {
            idempotency_key: Some(format!("order-{place}")),
            ..Send::of(world.shop.client, to.clone(), content)
        };
        let messages = Messages::new(Templates::default());
        let dying = Shop::inside(&world.shop.dying(place, after)).await;
        let taken_in = messages.accept(&dying, send.clone()).await.is_ok();
        let id = messages.accept(&world.cx().await, send).await.unwrap().id;
        let dying = world.shop.dying(place, after);
        let handler = world.shop.mailing_as(&dying, Templates::default()).await;
        let deliveries = world.shop.work(&queues::TRANSACTIONAL_EMAIL, handler).await;
        // It comes again as often as it must.
        let mut again = 0;
        for _ in 0..5 {
            world.shop.advance(jiff::Span::new().minutes(3));
            while world.shop.relay().await > 0 {}
            let handler = world.handler().await;
            again += world.shop.work(&queues::TRANSACTIONAL_EMAIL, handler).await;
        }
        let tag = ("message", format!("t-{id}"));
        let sent = world.shop.provider.0.lock().unwrap().clone();
        let sent = sent.iter().filter(|mail| mail.tags.contains(&tag)).count();
        let log = world.items(&keys::subscriber(&to)).await;
        let lines =
            log.iter().filter(|item| item.text("SK").is_some_and(|sk| sk.starts_with("SENT#")));
        assert_eq!((sent, lines.count()), (1, 1), "at call {place}");
        counts = (counts.0 + usize::from(!taken_in), counts.1 + again);
        assert_eq!(deliveries, 1, "at call {place}");
        if taken_in && again == 0 {
            break;
        }
    }
    assert!(
        counts.0 >= 1 && counts.1 >= 3,
        "who takes it in and who sends it both died: {counts:?}"
    );
}

#[tokio::test]
async fn whoever_dies_before_a_call_of_the_items_a_message_is_sent_once() {
    whoever_dies_a_message_is_sent_once(false).await;
}

#[tokio::test]
async fn whoever_dies_after_a_call_of_the_items_a_message_is_sent_once() {
    whoever_dies_a_message_is_sent_once(true).await;
}
