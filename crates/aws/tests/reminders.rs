//! Reminders on DynamoDB: two who approve at once send once, the rules hold, what expires does, and money withdraws. The
//! ledger is in SQL there as everywhere; what a transaction of items enqueues comes out of its outbox.
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

mod credentials;
#[expect(dead_code, reason = "nothing is swept here")]
mod server;
#[expect(dead_code, reason = "a reminder is of no client")]
mod shop;

use std::sync::Arc;

use jiff::ToSpan as _;
use shop::Shop;
use tidings_access::Cx;
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::Messages;
use tidings_jobs::Handler;
use tidings_kernel::queues;
use tidings_reminders::rules::Answer;
use tidings_reminders::{
    Approve, Choose, ContentType, Customer, Draft, DraftError, Facts, Invoice, Kind, Listing,
    Money, New, Payment, Seen, Status, Text, Tools, Worker, allowed, approve, draft, get, history,
    paid, pending, report,
};

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

    fn sent_mails(&self) -> usize {
        self.shop.provider.0.lock().unwrap().len()
    }

    fn steps(&self) -> Arc<dyn Handler> {
        let messages = Messages::new(Templates::default());
        Worker::new(Tools { access: self.shop.access.clone(), messages }).handler()
    }

    async fn sent(&self, id: &str) -> usize {
        let all = Listing { limit: 100, cursor: None };
        history(&self.cx().await, &id.parse().unwrap(), all).await.unwrap().items.len()
    }

    async fn run(&self) {
        let (steps, mail) = (self.steps(), self.shop.mailing(Templates::default()).await);
        loop {
            let mut did = self.shop.relay().await;
            did += self.shop.work(&queues::REMINDER_STEPS, Arc::clone(&steps)).await;
            did += self.shop.work(&queues::TRANSACTIONAL_EMAIL, Arc::clone(&mail)).await;
            if did == 0 {
                return;
            }
        }
    }

    async fn days(&self, days: i64) {
        self.shop.advance((24 * days).hours());
        self.shop.fire().await;
        self.run().await;
    }

    async fn try_draft(&self, id: &str, kind: Kind) -> Result<Draft, DraftError> {
        let new = New {
            customer: Customer {
                id: id.parse().unwrap(),
                name: id.to_owned(),
                email: format!("{id}@example.org").parse().unwrap(),
            },
            choose: Choose::Kind(kind),
            facts: Facts {
                owed: Money::new("0.30", "EUR").unwrap(),
                invoices: vec![Invoice {
                    id: format!("{id}-1").parse().unwrap(),
                    amount: None,
                    due: None,
                }],
            },
            text: Text::Written {
                subject: "Payment Reminder".to_owned(),
                content: "Please pay.".to_owned(),
                content_type: ContentType::Text,
            },
            created_by: "ai_system".to_owned(),
            idempotency_key: None,
        };
        draft(&self.cx().await, new).await.map(|drafted| drafted.draft)
    }
}

fn by(draft: &Draft, person: &str) -> Approve {
    let seen = Seen::Hash(draft.hash.clone());
    Approve { draft: draft.id.clone(), seen, by: person.to_owned() }
}

#[tokio::test]
async fn a_reminder_lives_on_dynamodb_as_it_does_on_sql() {
    let world = World::new().await;
    let one = world.try_draft("c1", Kind::First).await.unwrap();
    let cx = world.cx().await;
    let both = tokio::join!(approve(&cx, by(&one, "ada")), approve(&cx, by(&one, "eve")));
    assert_eq!((both.0.unwrap().missing, both.1.unwrap().missing), (0, 0));
    world.run().await;
    assert_eq!(world.sent_mails(), 1);
    assert_eq!(get(&cx, &one.id).await.unwrap().status, Status::Sent);
    let all = || Listing { limit: 100, cursor: None };
    let customer = "c1".parse().unwrap();
    let sent = history(&cx, &customer, all()).await.unwrap().items;
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].owed.to_string().as_str(), sent[0].approved_by.len()), ("0.30 EUR", 1));
    assert_eq!(sent[0].provider_message_id.as_deref(), Some("p-1"));
    let early = world.try_draft("c1", Kind::Second).await;
    assert!(matches!(early, Err(DraftError::TooEarly { .. })), "{early:?}");

    // One waits until it expires, of one the money comes in.
    let left = world.try_draft("c2", Kind::First).await.unwrap();
    let owed = world.try_draft("c3", Kind::First).await.unwrap();
    assert_eq!(pending(&cx, all()).await.unwrap().items.len(), 2);
    approve(&cx, by(&owed, "ada")).await.unwrap();
    let invoice = Some("c3-1".parse().unwrap());
    let payment = Payment { customer: None, invoice, money: None, paid_at: None, reference: None };
    let noted = paid(&cx, payment).await.unwrap();
    assert_eq!(noted.withdrawn, Some(owed.id.clone()));
    world.run().await;
    assert_eq!(get(&cx, &owed.id).await.unwrap().status, Status::Withdrawn);
    world.days(15).await;
    let cx = world.cx().await;
    assert_eq!(get(&cx, &left.id).await.unwrap().status, Status::Expired);
    assert_eq!(world.sent_mails(), 1);
    assert_eq!(allowed(&cx, &customer).await.unwrap()[1].1, Answer::Allowed);
    let told = report(&cx, sent[0].drafted_at, cx.now()).await.unwrap();
    assert_eq!((told.drafted, told.sent, told.expired, told.withdrawn), (3, 1, 1, 1));
}

#[tokio::test]
async fn of_two_nodes_that_send_at_once_one_does_and_a_crash_between_sends_once() {
    let world = World::new().await;
    let cx = world.cx().await;
    for at in 0..4 {
        let made = world.try_draft(&format!("c{at}"), Kind::First).await.unwrap();
        approve(&cx, by(&made, "ada")).await.unwrap();
    }
    tokio::join!(world.run(), world.run());
    world.run().await;
    for at in 0..4 {
        assert_eq!(world.sent(&format!("c{at}")).await, 1);
    }
    // One node comes as far as the ledger and is gone; what it was asked to do is asked for again.
    let made = world.try_draft("c4", Kind::First).await.unwrap();
    approve(&cx, by(&made, "ada")).await.unwrap();
    world.shop.relay().await;
    world.shop.work(&queues::REMINDER_STEPS, world.steps()).await;
    assert_eq!(get(&cx, &made.id).await.unwrap().status, Status::Sending);
    assert!(approve(&cx, by(&made, "ada")).await.unwrap().replayed);
    world.run().await;
    assert_eq!(world.sent("c4").await, 1);
    assert_eq!(world.sent_mails(), 5);
}

#[tokio::test]
async fn money_and_a_send_at_once_are_one_or_the_other() {
    let world = World::new().await;
    let cx = world.cx().await;
    for at in 0..4 {
        let id = format!("c{at}");
        let made = world.try_draft(&id, Kind::First).await.unwrap();
        approve(&cx, by(&made, "ada")).await.unwrap();
        let part = Payment {
            customer: Some(id.parse().unwrap()),
            invoice: Some(format!("{id}-1").parse().unwrap()),
            money: Some(Money::new("0.10", "EUR").unwrap()),
            paid_at: None,
            reference: Some("bank-1".to_owned()),
        };
        let mails = world.sent_mails();
        let (noted, ()) = tokio::join!(paid(&cx, part), world.run());
        assert_eq!(noted.unwrap().left, Some(Money::new("0.20", "EUR").unwrap()));
        world.run().await;
        let mails = world.sent_mails() - mails;
        match get(&cx, &made.id).await.unwrap().status {
            Status::Sent => assert_eq!(mails, 1),
            Status::Withdrawn => assert_eq!(mails, 0),
            status => panic!("{status}"),
        }
    }
}
