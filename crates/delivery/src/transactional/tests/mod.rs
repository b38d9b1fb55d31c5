//! Transactional mail on both engines, with a provider that says what it is told to say.

mod accept;
mod answers;
mod copies;
mod crash;
mod erased;
mod given_up;
mod manage;
mod sequences;
mod test_send;
mod together;
mod worker;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tidings_access::{ClientId, Cx};
use tidings_jobs::Outcome;
use tidings_kernel::{
    Accepted, Delivery, Item, Mail, Query, Receipt, Scan, SendError, Sender, queues, tables,
};
use tidings_people::keys;
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::Bed;

use super::{
    AcceptError, Content, Find, Found, MessageId, Messages, Send, Settings, Status, Worker, show,
};
use crate::counters::SENDS;
use crate::links::Links;
use crate::pace::Pace;
use crate::templates::{self, Templates};

/// A provider that takes everything, unless it is told otherwise.
#[derive(Default)]
pub(super) struct Provider {
    answers: Mutex<VecDeque<Result<Accepted, SendError>>>,
    taken: Mutex<Vec<Mail>>,
    /// Where it comes to no end, and whether it is there.
    hang: Mutex<(Option<Place>, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    BeforeTaking,
    AfterTaking,
}

impl Provider {
    pub(super) fn hang(&self, place: Place) {
        *self.hang.lock().unwrap() = (Some(place), false);
    }

    pub(super) fn hangs(&self) -> bool {
        self.hang.lock().unwrap().1
    }

    pub(super) fn go_on(&self) {
        *self.hang.lock().unwrap() = (None, false);
    }

    async fn pass(&self, place: Place) {
        let hangs = {
            let mut hang = self.hang.lock().unwrap();
            hang.1 |= hang.0 == Some(place);
            hang.1
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        tokio::task::yield_now().await;
    }

    pub(super) fn answers(&self, error: SendError) {
        self.answers.lock().unwrap().push_back(Err(error));
    }

    /// Takes the next message, but not for these.
    pub(super) fn leaves_out(&self, left_out: &[(&str, SendError)]) {
        let left_out = left_out.iter().map(|(to, why)| (to.parse().unwrap(), why.clone()));
        let accepted = Accepted { provider_id: None, left_out: left_out.collect() };
        self.answers.lock().unwrap().push_back(Ok(accepted));
    }

    pub(super) fn taken(&self) -> Vec<Mail> {
        self.taken.lock().unwrap().clone()
    }

    /// How many of them were this message.
    pub(super) fn taken_of(&self, id: MessageId) -> usize {
        let tag = ("message", format!("t-{id}"));
        self.taken().iter().filter(|mail| mail.tags.contains(&tag)).count()
    }
}

#[async_trait]
impl Sender for Provider {
    fn name(&self) -> &'static str {
        "test"
    }

    /// It can be interrupted before it takes the message, and after.
    async fn send(&self, mail: &Mail) -> Result<Accepted, SendError> {
        self.pass(Place::BeforeTaking).await;
        let answer = self.answers.lock().unwrap().pop_front();
        let taken = {
            let mut taken = self.taken.lock().unwrap();
            if matches!(answer, None | Some(Ok(_))) {
                taken.push(mail.clone());
            }
            taken.len()
        };
        self.pass(Place::AfterTaking).await;
        answer.unwrap_or_else(|| Ok(Accepted::by_all(Some(format!("p-{taken}")))))
    }
}

/// A client that can send, a provider, and who works for both.
pub(super) struct World<'a> {
    pub(super) bed: &'a Bed,
    pub(super) messages: Messages,
    pub(super) provider: Arc<Provider>,
    pub(super) worker: Worker,
    pub(super) client: ClientId,
}

impl<'a> World<'a> {
    pub(super) async fn new(bed: &'a Bed) -> Self {
        let cx = bed.cx().await;
        let client = bed.shop(&cx).await.id;
        let provider = Arc::new(Provider::default());
        let templates = Templates::default();
        let links = Links::load(cx.database(), "https://mail.example.org", cx.now()).await.unwrap();
        let worker = Worker {
            access: bed.access.clone(),
            templates: templates.clone(),
            links,
            sender: Arc::clone(&provider) as Arc<dyn Sender>,
            pace: Arc::new(Pace::new(100_000, cx.now())),
            settings: Settings { node: "node-1".to_owned(), ttl_days: None },
        };
        let messages = Messages::new(templates);
        let world = Self { bed, messages, provider, worker, client };
        world.make_sender(client, "hello", "hello@example.org", 1).await;
        world
    }

    pub(super) async fn make_sender(&self, client: ClientId, slug: &str, from: &str, default: i64) {
        let cx = self.bed.cx().await;
        let sql = format!(
            "INSERT INTO senders (workspace_id, client_id, slug, from_email, from_name, is_default, created_at, updated_at)
             VALUES ({}, {client}, '{slug}', '{from}', 'The shop', {default}, 0, 0)",
            cx.workspace_id().get()
        );
        self.run(&sql).await;
    }

    pub(super) async fn run(&self, sql: &str) -> u64 {
        let sql = sql.to_owned();
        let run = self.bed.access.database().write(move |tx| tx.execute(&sql, &[]));
        run.await.map_err(|error: DatabaseError| format!("{error:?}")).unwrap()
    }

    pub(super) async fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        let rows = self.bed.access.database().read(move |tx| tx.query(&sql, &[])).await;
        rows.map_err(|error: DatabaseError| error).unwrap()[0].int(0).unwrap()
    }

    /// Makes a version of a template the active one.
    pub(super) async fn put_template(&self, key: &str, subject: &str, required: &[&str]) {
        let content = templates::Content {
            source: tidings_templates::Source {
                subject: subject.to_owned(),
                text: Some("Hello".to_owned()),
                ..Default::default()
            },
            required: required.iter().map(ToString::to_string).collect(),
            examples: serde_json::from_str(r#"{"name":"Ada","order":{"id":1}}"#).unwrap(),
            ..Default::default()
        };
        let (key, then) = (key.parse().unwrap(), templates::Then::Activate);
        let put = templates::Put { key, content, then };
        templates::put(&self.bed.cx().await, put).await.unwrap();
    }

    /// A mail to somebody that needs nothing but a sender.
    pub(super) fn mail(&self, to: &str) -> Send {
        let content = Content::Inline {
            subject: "Hello {{ name }}".to_owned(),
            html: Some("<p>Hi <a href=\"https://example.org/a\">{{ name }}</a></p>".to_owned()),
            text: None,
        };
        let mut send = Send::of(self.client, to.parse().unwrap(), content);
        send.context.insert("name".to_owned(), "Ada".into());
        send
    }

    pub(super) fn keyed(&self, to: &str, key: &str) -> Send {
        Send { idempotency_key: Some(key.to_owned()), ..self.mail(to) }
    }

    pub(super) async fn accept(&self, send: Send) -> Result<super::Accepted, AcceptError> {
        self.messages.accept(&self.bed.cx().await, send).await
    }

    pub(super) async fn accepted(&self, to: &str) -> MessageId {
        self.accept(self.mail(to)).await.unwrap().id
    }

    pub(super) async fn found(&self, id: MessageId) -> Found {
        show(&self.bed.cx().await, Find { id, client: None }).await.unwrap()
    }

    pub(super) async fn status(&self, id: MessageId) -> Status {
        self.found(id).await.message.status
    }

    /// Works on what is in the queue.
    pub(super) async fn work(&self) -> usize {
        self.bed.work(&queues::TRANSACTIONAL_EMAIL, self.worker.handler()).await
    }

    /// The worker's answer to one message.
    pub(super) async fn handle(&self, body: &str) -> Outcome {
        self.worker.handler().handle(&delivery(body)).await
    }

    /// What the queue would hand over for a message.
    pub(super) async fn envelope(&self, id: MessageId) -> String {
        let sql = "SELECT client_id, idempotency_key FROM transactional_messages WHERE id = $1";
        let read = move |tx: &mut tidings_sql::Tx<'_>| tx.query(sql, &[Param::Int(id.get())]);
        let rows = self.bed.access.database().read(read).await;
        let rows = rows.map_err(|error: DatabaseError| error).unwrap();
        super::manage::envelope(id, rows[0].int(0).unwrap().into(), rows[0].text(1).unwrap())
            .unwrap()
    }

    /// The send log of a person.
    pub(super) async fn log(&self, email: &str) -> Vec<Item> {
        let cx: Cx = self.bed.cx().await;
        let partition = keys::subscriber(&email.parse().unwrap());
        let query = Query::new(&tables::MAIN, partition).begins_with("SENT#");
        cx.items().await.unwrap().query(query).await.unwrap().items
    }

    /// How many messages are counted as sent, on all days together.
    pub(super) async fn sends(&self) -> i64 {
        let scan = Scan::new(&tables::MAIN).limit(1_000);
        let items = self.bed.cx().await.items().await.unwrap().scan(scan).await.unwrap().items;
        let of_day = |item: &&Item| item.text("PK").is_some_and(|pk| pk.starts_with("STATS#DAY#"));
        items.iter().filter(of_day).filter_map(|item| item.integer(SENDS)).sum()
    }
}

pub(super) fn delivery(body: &str) -> Delivery {
    Delivery {
        id: "m".to_owned(),
        body: body.to_owned(),
        receives: 1,
        enqueued_at: jiff::Timestamp::UNIX_EPOCH,
        receipt: Receipt("r".to_owned()),
    }
}
