//! What the tests of sequences stand on: a workspace with templates and a provider that remembers what it was given.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::Value;
use tidings_access::{Cx, DisplayName, Slug};
use tidings_delivery::links::Links;
use tidings_delivery::pace::Pace;
use tidings_delivery::senders::{self, NewSender};
use tidings_delivery::templates::{self, Content, Put, Templates, Then};
use tidings_delivery::transactional::{self, Messages};
use tidings_jobs::Handler;
use tidings_kernel::{Accepted, Mail, Query, SendError, Sender, queues, tables};
use tidings_testbed::Bed;
use tokio::sync::Notify;

use crate::definition::read;
use crate::executions::{
    Enrol, Entered, Execution, Funnel, Person, Tools, Worker, enrol, funnel, of_contact,
};
use crate::versions::{self, Versions};

/// A provider that takes everything.
#[derive(Default)]
pub(crate) struct Provider {
    taken: Mutex<Vec<Mail>>,
    /// Told of each mail.
    pub(crate) took: Notify,
}

#[async_trait]
impl Sender for Provider {
    fn name(&self) -> &'static str {
        "test"
    }

    async fn send(&self, mail: &Mail) -> Result<Accepted, SendError> {
        self.taken.lock().unwrap().push(mail.clone());
        self.took.notify_one();
        Ok(Accepted::by_all(None))
    }
}

pub(crate) struct World<'a> {
    pub(crate) bed: &'a Bed,
    pub(crate) provider: Arc<Provider>,
    pub(crate) versions: Versions,
    pub(crate) tools: Tools,
    templates: Templates,
}

impl<'a> World<'a> {
    /// With the templates `a`, `b`, `c` and `d`, each of which has its own key as its subject.
    pub(crate) async fn new(bed: &'a Bed) -> Self {
        let cx = bed.cx().await;
        let client = bed.shop(&cx).await.id;
        let slug: Slug = "hello".parse().unwrap();
        let sender = NewSender {
            from_name: Some(DisplayName::from(&slug)),
            slug,
            from_email: "hello@shop.example".parse().unwrap(),
            reply_to: None,
            is_default: true,
        };
        senders::add(&cx, senders::Add { client, sender }).await.unwrap();
        let templates = Templates::default();
        let versions = Versions::default();
        let tools = Tools {
            access: bed.access.clone(),
            versions: versions.clone(),
            messages: Messages::new(templates.clone()),
            inbox: Arc::default(),
        };
        let provider = Arc::default();
        let world = Self { bed, provider, versions, tools, templates };
        for key in ["a", "b", "c", "d"] {
            world.template(key, key).await;
        }
        world
    }

    pub(crate) async fn cx(&self) -> Cx {
        self.bed.cx().await
    }

    pub(crate) async fn template(&self, key: &str, subject: &str) {
        let mut content = Content::default();
        content.source.subject = subject.to_owned();
        content.source.html = Some("<p>Hello {{ firstName }}</p>".to_owned());
        let put = Put { key: key.parse().unwrap(), content, then: Then::Activate };
        templates::put(&self.cx().await, put).await.unwrap();
    }

    /// Puts a definition that leaves out what all of them have.
    pub(crate) async fn define(&self, yaml: &str) {
        let text = format!("client: shop\n{yaml}");
        let definition = read(&text).unwrap_or_else(|faults| panic!("{faults:?}\n{text}"));
        versions::put(&self.cx().await, definition).await.unwrap();
    }

    pub(crate) async fn enrol(&self, email: &str, sequence: &str, input: Value) -> Entered {
        let cmd = Enrol {
            sequence: sequence.to_owned(),
            email: email.parse().unwrap(),
            person: Person::default(),
            input,
            cause: None,
            told_at: None,
        };
        enrol(&self.cx().await, &self.versions, cmd).await.unwrap()
    }

    pub(crate) fn steps(&self) -> Arc<dyn Handler> {
        Worker::new(self.tools.clone()).handler()
    }

    pub(crate) async fn mail(&self) -> Arc<dyn Handler> {
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
    pub(crate) async fn run(&self) {
        let (steps, mail) = (self.steps(), self.mail().await);
        let events = crate::events::Worker::new(self.tools.clone()).handler();
        loop {
            let mut did = self.bed.work(&queues::SEQUENCE_EVENTS, Arc::clone(&events)).await;
            did += self.bed.work(&queues::SEQUENCE_STEPS, Arc::clone(&steps)).await;
            did += self.bed.work(&queues::SEQUENCE_EMAIL, Arc::clone(&mail)).await;
            if did == 0 {
                return;
            }
        }
    }

    /// Lets so many hours pass, each with what is due in it.
    pub(crate) async fn hours(&self, hours: i64) {
        for _ in 0..hours {
            self.bed.advance(60).await;
            self.run().await;
        }
    }

    pub(crate) async fn days(&self, days: i64) {
        self.hours(24 * days).await;
    }

    /// What was sent, in order: to whom, and the subject.
    pub(crate) fn outbox(&self) -> Vec<String> {
        let taken = self.provider.taken.lock().unwrap();
        let line = |mail: &Mail| {
            let mime = String::from_utf8_lossy(&mail.mime).into_owned();
            let subject = mime.lines().find_map(|line| line.strip_prefix("Subject: "));
            format!("{} {}", mail.to[0], subject.unwrap_or_default().trim())
        };
        taken.iter().map(line).collect()
    }

    pub(crate) async fn inside(&self, email: &str) -> Vec<Execution> {
        of_contact(&self.cx().await, &email.parse().unwrap()).await.unwrap()
    }

    pub(crate) async fn funnel(&self, sequence: &str) -> Funnel {
        let cx = self.cx().await;
        let active = self.versions.active(&cx, sequence).await.unwrap().unwrap();
        funnel(&cx, &active.program, active.version).await.unwrap()
    }

    /// The keys of all items that begin so, in the main table.
    pub(crate) async fn keys(&self, partition: &str) -> Vec<String> {
        let items = self.cx().await.items().await.unwrap();
        let page = items.query(Query::new(&tables::MAIN, partition)).await.unwrap();
        page.items.iter().map(|item| item.text("SK").unwrap().to_owned()).collect()
    }
}
