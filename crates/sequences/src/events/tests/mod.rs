//! Events on both engines: how they are taken in, and what sequences do with them.

mod accepting;
mod crash;
mod knowing;
mod leaving;
mod paying;
mod routing;
mod segment;
mod timeline;

use serde_json::{Value, json};
use tidings_access::Cx;
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::Messages;
use tidings_jobs::contracts::{Object, Origin, SequenceEvent};
use tidings_jobs::{Outcome, Work as _};
use tidings_kernel::{EmailAddress, queues};
use tidings_people::contacts::{self, Contact};
use tidings_sql::DatabaseError;
use tidings_testbed::Bed;

use super::{Event, Worker};
use crate::executions::{self, Execution, Tools};
use crate::versions::Versions;
use crate::versions::tests::{prepare, put_welcome};

/// A workspace that can send, and workers of both queues.
struct World<'a> {
    bed: &'a Bed,
    tools: Tools,
}

fn email(name: &str) -> EmailAddress {
    format!("{name}@example.org").parse().unwrap()
}

fn object(data: Value) -> Object {
    match data {
        Value::Object(data) => data,
        other => panic!("{other} is no object"),
    }
}

/// Something that happened to Ada.
fn event(name: &str, data: Value) -> Event {
    Event {
        message_id: None,
        name: name.to_owned(),
        email: Some(email("ada")),
        user_id: None,
        anonymous_id: None,
        occurred_at: None,
        data: object(data),
    }
}

impl<'a> World<'a> {
    async fn new(bed: &'a Bed) -> Self {
        prepare(bed).await;
        let tools = Tools {
            access: bed.access.clone(),
            versions: Versions::default(),
            messages: Messages::new(Templates::default()),
            inbox: std::sync::Arc::default(),
        };
        Self { bed, tools }
    }

    async fn cx(&self) -> Cx {
        self.bed.cx().await
    }

    async fn put(&self, but: Value) {
        put_welcome(&self.cx().await, but).await;
    }

    /// As the queue has it, told now.
    async fn message(&self, id: &str, name: &str, data: Value) -> SequenceEvent {
        let cx = self.cx().await;
        SequenceEvent {
            workspace: cx.workspace().clone(),
            event_id: id.to_owned(),
            name: name.to_owned(),
            origin: Origin::Api,
            email: Some(email("ada").to_string()),
            user_id: None,
            occurred_at: cx.now(),
            data: Some(object(data)),
        }
    }

    /// Works on it, as often as it is delivered.
    async fn deliver(&self, event: &SequenceEvent) -> Outcome {
        Worker::new(self.tools.clone()).work(event.clone()).await
    }

    async fn tell(&self, id: &str, name: &str, data: Value) {
        let message = self.message(id, name, data).await;
        assert_eq!(self.deliver(&message).await, Outcome::Done);
    }

    async fn tell_of_system(&self, id: &str, name: &str, data: Value) {
        let message = self.message(id, name, data).await;
        let message = SequenceEvent { origin: Origin::System, ..message };
        assert_eq!(self.deliver(&message).await, Outcome::Done);
    }

    /// Takes all executions as far as they go.
    async fn walk(&self) {
        let worker = executions::Worker::new(self.tools.clone());
        self.bed.work(&queues::SEQUENCE_STEPS, worker.handler()).await;
    }

    /// The executions of somebody.
    async fn inside(&self, name: &str) -> Vec<Execution> {
        executions::of_contact(&self.cx().await, &email(name)).await.unwrap()
    }

    /// The sequences that somebody is in.
    async fn sequences(&self, name: &str) -> Vec<String> {
        self.inside(name).await.into_iter().map(|execution| execution.sequence).collect()
    }

    async fn contact(&self, name: &str) -> Option<Contact> {
        let found = contacts::get(&self.cx().await, &email(name)).await.unwrap();
        found.map(|everything| everything.contact)
    }

    /// The mails that were accepted, as `to template sequence execution kind status`.
    async fn mails(&self) -> Vec<String> {
        let sql = "SELECT email || ' ' || template_key || ' ' || COALESCE(sequence_id, '-') || ' ' ||
                       CASE WHEN execution_id IS NULL THEN 'alone' ELSE 'walking' END || ' ' || kind || ' ' || status
                   FROM transactional_messages ORDER BY id";
        crate::versions::tests::rows(&self.cx().await, sql).await
    }

    async fn run(&self, sql: &'static str) {
        let run = self.cx().await.database().clone();
        let run = run.write(move |tx| tx.execute(sql, &[]));
        run.await.map_err(|error: DatabaseError| error).unwrap();
    }

    /// What waits in the queue of events.
    async fn queued(&self) -> Vec<Value> {
        let sql = "SELECT body FROM queue_messages WHERE queue = 'sequence-events' ORDER BY id";
        let bodies = crate::versions::tests::rows(&self.cx().await, sql).await;
        bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect()
    }
}

fn wait_a_week() -> Value {
    json!([{ "wait": "7 days" }, { "send": "hello" }])
}
