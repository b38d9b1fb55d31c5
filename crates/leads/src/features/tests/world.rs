//! People to whom something happens, at any time and in any order.

use jiff::Timestamp;
use serde_json::Value as Json;
use tidings_access::Cx;
use tidings_jobs::contracts::{Contract as _, LeadEvent};
use tidings_kernel::{Clock as _, Expect, Item, Outgoing, Txn, Value, queues, tables, topics};
use tidings_testbed::Bed;

use crate::event::{StoredEvent, id_of};
use crate::features::{self, Features};
use crate::identity::{Identity, Resolve, Unknown, resolve};
use crate::memory;

pub(crate) struct World<'b> {
    pub(crate) bed: &'b Bed,
}

/// Something that happens.
#[derive(Debug, Clone)]
pub(crate) struct What {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) at: Timestamp,
    pub(crate) payload: Json,
}

#[expect(clippy::needless_pass_by_value, reason = "a story reads better without references")]
pub(crate) fn what(id: impl ToString, kind: &str, at: &str, payload: Json) -> What {
    let at = at.parse().unwrap();
    What { id: id.to_string(), kind: kind.to_owned(), at, payload }
}

impl<'b> World<'b> {
    pub(crate) fn new(bed: &'b Bed) -> Self {
        Self { bed }
    }

    pub(crate) async fn cx(&self) -> Cx {
        self.bed.cx().await
    }

    /// Where the timeline of somebody is, who was seen at a time.
    pub(crate) async fn partition(&self, email: &str, at: Timestamp) -> String {
        let cmd = Resolve {
            identities: vec![Identity::new("email", email).unwrap()],
            at,
            received_at: self.bed.clock.now(),
            event_id: "e".to_owned(),
            unknown: Unknown::Make,
        };
        resolve(&self.cx().await, cmd).await.unwrap().unwrap().lead_organization_id
    }

    /// An event as it is stored.
    pub(crate) fn event(&self, partition: &str, email: &str, what: &What) -> StoredEvent {
        StoredEvent {
            lead_organization_id: partition.to_owned(),
            id: id_of("test", &format!("{email}/{}", what.id)),
            event_type: what.kind.clone(),
            occurred_at: what.at,
            received_at: self.bed.clock.now().max(what.at),
            source_type: "test".to_owned(),
            source: "test".to_owned(),
            external_event_id: what.id.clone(),
            object_id: None,
            object_id_ref: None,
            payload: what.payload.as_object().cloned().unwrap_or_default(),
            raw_payload: None,
        }
    }

    /// Stores an event, and tells nobody.
    pub(crate) async fn store(&self, email: &str, what: &What) -> LeadEvent {
        let partition = self.partition(email, what.at).await;
        let event = self.event(&partition, email, what);
        let txn = Txn::new().put(&tables::EVENT, event.to_item(), Expect::Absent);
        let cx = self.cx().await;
        match cx.items().await.unwrap().transact(txn).await {
            Ok(()) => {}
            Err(error) => assert!(error.is_condition_failed(), "{error}"),
        }
        LeadEvent {
            workspace: cx.workspace().clone(),
            lead_organization_id: partition,
            event_id: event.id,
            event_type: event.event_type,
            occurred_at: event.occurred_at,
            source: None,
            metadata: None,
        }
    }

    /// Stores an event and tells the workers.
    pub(crate) async fn happens(&self, email: &str, what: &What) {
        let message = self.store(email, what).await;
        self.tell(&message).await;
    }

    pub(crate) async fn tell(&self, message: &LeadEvent) {
        let outgoing = Outgoing::publish(&topics::LEAD_EVENTS, message.to_body().unwrap());
        self.send(outgoing).await;
    }

    pub(crate) async fn send(&self, message: Outgoing) {
        let cx = self.cx().await;
        let now = cx.now();
        let sent = cx
            .database()
            .write(move |tx| tx.enqueue(&message, now).map_err(tidings_sql::DatabaseError::from));
        sent.await.unwrap();
    }

    /// Works on both queues until they are empty.
    pub(crate) async fn work(&self) {
        loop {
            let access = self.bed.access.clone();
            let features = features::handler(access.clone());
            let some = self.bed.work(&queues::FEATURE_PROCESSING, features).await;
            let memory = memory::handler(access);
            if some + self.bed.work(&queues::MEMORY_PROCESSING, memory).await == 0 {
                return;
            }
        }
    }

    pub(crate) async fn features(&self, email: &str) -> Features {
        let partition = self.own(email).await;
        features::get(&self.cx().await, &partition).await.unwrap().unwrap()
    }

    pub(crate) async fn as_of(&self, email: &str, moment: Timestamp) -> Features {
        let partition = self.own(email).await;
        features::as_of(&self.cx().await, &partition, moment).await.unwrap().unwrap()
    }

    /// Where his memory and features are.
    pub(crate) async fn own(&self, email: &str) -> String {
        let whom = crate::identity::Whom::Email(email.parse().unwrap());
        let cx = self.cx().await;
        crate::identity::find(&cx, whom).await.unwrap().unwrap().lead_organization_id
    }

    /// One feature as text.
    pub(crate) async fn told(&self, email: &str, name: &str) -> String {
        match self.features(email).await.values.get(name) {
            Some(value) => serde_json::to_string(value).unwrap(),
            None => "-".to_owned(),
        }
    }

    /// The item as it is stored.
    pub(crate) async fn item(&self, email: &str) -> Option<Item> {
        let key = features::store::key(&self.own(email).await);
        self.cx().await.items().await.unwrap().get(&tables::FEATURE, &key).await.unwrap()
    }

    /// What is remembered, as it is stored.
    pub(crate) async fn memory(&self, email: &str) -> Vec<Item> {
        let query = tidings_kernel::Query::new(&tables::MEMORY, self.own(email).await).limit(1000);
        self.cx().await.items().await.unwrap().query(query).await.unwrap().items
    }

    /// One memory's value and confidence.
    pub(crate) async fn remembers(&self, email: &str, sort: &str) -> String {
        let all = self.memory(email).await;
        let found = all.iter().find(|item| item.text("memory_type#key") == Some(sort));
        let Some(item) = found else { return "-".to_owned() };
        let told = |name: &str| serde_json::to_string(item.get(name).unwrap_or(&Value::Null));
        format!("{} {}", told("value").unwrap(), told("confidence").unwrap())
    }
}
