//! What the tests of reminders stand on: a workspace that can send, and a provider that takes what it is given.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tidings_access::{Cx, DisplayName, Slug};
use tidings_delivery::links::Links;
use tidings_delivery::pace::Pace;
use tidings_delivery::senders::{self, NewSender};
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::{self, Messages};
use tidings_jobs::Handler;
use tidings_kernel::{Accepted, Item, Mail, Scan, SendError, Sender, queues, tables};
use tidings_testbed::Bed;

use crate::{
    Approve, Choose, ContentType, Customer, CustomerId, Draft, DraftError, DraftId, Drafted, Facts,
    Invoice, Kind, Listing, Money, New, Seen, Sent, Text, Tools, Worker, approve, draft, get,
    history,
};

/// A provider that takes everything, unless it is told otherwise.
#[derive(Default)]
pub(super) struct Provider {
    answers: Mutex<VecDeque<SendError>>,
    taken: Mutex<Vec<Mail>>,
}

impl Provider {
    pub(super) fn answers(&self, error: SendError) {
        self.answers.lock().unwrap().push_back(error);
    }

    pub(super) fn taken(&self) -> Vec<Mail> {
        self.taken.lock().unwrap().clone()
    }
}

#[async_trait]
impl Sender for Provider {
    fn name(&self) -> &'static str {
        "test"
    }

    async fn send(&self, mail: &Mail) -> Result<Accepted, SendError> {
        if let Some(error) = self.answers.lock().unwrap().pop_front() {
            return Err(error);
        }
        let mut taken = self.taken.lock().unwrap();
        taken.push(mail.clone());
        Ok(Accepted::by_all(Some(format!("p-{}", taken.len()))))
    }
}

pub(super) struct World<'a> {
    pub(super) bed: &'a Bed,
    pub(super) provider: Arc<Provider>,
    pub(super) tools: Tools,
    templates: Templates,
}

impl<'a> World<'a> {
    pub(super) async fn new(bed: &'a Bed) -> Self {
        let cx = bed.cx().await;
        let client = bed.shop(&cx).await.id;
        let slug: Slug = "billing".parse().unwrap();
        let sender = NewSender {
            from_name: Some(DisplayName::from(&slug)),
            slug,
            from_email: "billing@shop.example".parse().unwrap(),
            reply_to: None,
            is_default: true,
        };
        senders::add(&cx, senders::Add { client, sender }).await.unwrap();
        Self::beside(bed)
    }

    /// Another node of the same.
    pub(super) fn beside(bed: &'a Bed) -> Self {
        let templates = Templates::default();
        let messages = Messages::new(templates.clone());
        let tools = Tools { access: bed.access.clone(), messages };
        Self { bed, provider: Arc::default(), tools, templates }
    }

    pub(super) async fn cx(&self) -> Cx {
        self.bed.cx().await
    }

    pub(super) fn steps(&self) -> Arc<dyn Handler> {
        Worker::new(self.tools.clone()).handler()
    }

    pub(super) async fn mail(&self) -> Arc<dyn Handler> {
        let now = self.bed.access.now();
        let database = self.bed.access.database();
        let links = Links::load(database, "https://mail.example.org", now).await.unwrap();
        let worker = transactional::Worker {
            access: self.bed.access.clone(),
            templates: self.templates.clone(),
            links,
            sender: Arc::clone(&self.provider) as Arc<dyn Sender>,
            pace: Arc::new(Pace::new(1_000_000, now)),
            settings: transactional::Settings { node: "test".to_owned(), ttl_days: None },
        };
        worker.handler()
    }

    /// Until nothing is due any more.
    pub(super) async fn run(&self) {
        let (steps, mail) = (self.steps(), self.mail().await);
        loop {
            let mut did = self.bed.work(&queues::REMINDER_STEPS, Arc::clone(&steps)).await;
            did += self.bed.work(&queues::TRANSACTIONAL_EMAIL, Arc::clone(&mail)).await;
            if did == 0 {
                return;
            }
        }
    }

    /// Lets so many days pass, with what is due at their end.
    pub(super) async fn days(&self, days: i64) {
        self.bed.advance(days * 24 * 60).await;
        self.run().await;
    }

    pub(super) async fn try_draft(&self, id: &str, kind: Kind) -> Result<Drafted, DraftError> {
        draft(&self.cx().await, new(id, Choose::Kind(kind))).await
    }

    pub(super) async fn draft(&self, id: &str, kind: Kind) -> Draft {
        self.try_draft(id, kind).await.unwrap().draft
    }

    pub(super) async fn approve(&self, draft: &Draft) -> Draft {
        approve(&self.cx().await, by(draft, "ada")).await.unwrap().draft
    }

    /// Drafts, approves and sends.
    pub(super) async fn remind(&self, id: &str, kind: Kind) -> Draft {
        let draft = self.draft(id, kind).await;
        self.approve(&draft).await;
        self.run().await;
        self.get(&draft.id).await
    }

    pub(super) async fn get(&self, id: &DraftId) -> Draft {
        get(&self.cx().await, id).await.unwrap()
    }

    pub(super) async fn sent(&self, id: &str) -> Vec<Sent> {
        let all = Listing { limit: 100, cursor: None };
        history(&self.cx().await, &customer(id), all).await.unwrap().items
    }

    /// Of the whole table.
    pub(super) async fn items(&self) -> Vec<Item> {
        let items = self.cx().await.items().await.unwrap();
        let (mut all, mut scan) = (Vec::new(), Scan::new(&tables::EMAIL_TRACKING));
        loop {
            let page = items.scan(scan.clone()).await.unwrap();
            all.extend(page.items);
            scan.cursor = page.cursor;
            if scan.cursor.is_none() {
                return all;
            }
        }
    }

    /// The words of the mails that went out, as they are in the MIME.
    pub(super) fn outbox(&self) -> Vec<String> {
        let text = |mail: &Mail| String::from_utf8_lossy(&mail.mime).into_owned();
        self.provider.taken().iter().map(text).collect()
    }
}

pub(super) fn customer(id: &str) -> CustomerId {
    id.parse().unwrap()
}

pub(super) fn money(amount: &str) -> Money {
    Money::new(amount, "EUR").unwrap()
}

pub(super) fn invoice(id: &str, amount: &str) -> Invoice {
    let due = Some("2026-06-15".parse().unwrap());
    Invoice { id: id.parse().unwrap(), amount: Some(money(amount)), due }
}

/// Somebody who owes 1500 for two invoices of his own.
pub(super) fn new(id: &str, choose: Choose) -> New {
    New {
        customer: Customer {
            id: customer(id),
            name: format!("Customer {id}"),
            email: format!("{id}@example.org").parse().unwrap(),
        },
        choose,
        facts: Facts {
            owed: money("1500.00"),
            invoices: vec![invoice(&format!("{id}-1"), "1000"), invoice(&format!("{id}-2"), "500")],
        },
        text: Text::Written {
            subject: "Payment Reminder".to_owned(),
            content: format!("Dear {id}, please pay."),
            content_type: ContentType::Text,
        },
        created_by: "ai_system".to_owned(),
        idempotency_key: None,
    }
}

pub(super) fn by(draft: &Draft, person: &str) -> Approve {
    Approve { draft: draft.id.clone(), seen: Seen::Hash(draft.hash.clone()), by: person.to_owned() }
}
