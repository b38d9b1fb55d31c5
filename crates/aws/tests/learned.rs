//! Timelines, memory and features on DynamoDB: stored once, read as one story, counted once, derived the same, computed
//! day by day and counted anew.
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

mod credentials;
mod deaths;
mod server;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::ToSpan as _;
use serde_json::{Value, json};
use server::{Server, connect};
use tidings_access::{Access, Actor, Cx, Limit, workspaces};
use tidings_aws::{DynamoOutbox, Workspaces};
use tidings_jobs::contracts::{Contract as _, LeadEvent, LeadUpkeep, UpkeepTask};
use tidings_jobs::{Handler, Settings, Worker};
use tidings_kernel::{
    Clock, Expect, ItemEngine, Outbox as _, Outgoing, Queue, QueueEngine as _, Scan, StoreError,
    Txn, Workspace, queues, tables, topics,
};
use tidings_leads::event::{StoredEvent, id_of};
use tidings_leads::identity::{Identity, Resolve, Unknown, Whom, find, merge, resolve, unmerge};
use tidings_leads::ingestion::{Ingested, NewEvent, accept, handler, ingest};
use tidings_leads::timeline::{Listing, timeline};
use tidings_leads::{features, memory};
use tidings_outreach::segments;
use tidings_sql::{Database, SqlQueues};
use tidings_testkit::FakeClock;

/// The only one that there is.
struct Acme;

#[async_trait]
impl Workspaces for Acme {
    async fn list(&self) -> Result<Vec<Workspace>, StoreError> {
        Ok(vec!["acme".parse().unwrap()])
    }
}

/// Items on DynamoDB, relations and queues beside it.
struct World {
    access: Access,
    clock: Arc<FakeClock>,
    queues: Arc<SqlQueues>,
    outbox: DynamoOutbox,
    engine: Arc<dyn ItemEngine>,
    server: Server,
}

impl World {
    async fn new() -> Self {
        let server = Server::start();
        let clock = FakeClock::at("2026-07-01T12:00:00Z".parse().unwrap());
        server.set_now(clock.now().as_second());
        let items = Arc::new(connect(server.endpoint(), Arc::clone(&clock) as Arc<_>));
        let database = Database::memory().await.unwrap();
        let queues = Arc::new(SqlQueues::new(database.clone(), Arc::clone(&clock) as Arc<_>));
        let engine = Arc::clone(&items) as Arc<dyn ItemEngine>;
        let access = Access::new(database, Arc::clone(&engine), Arc::clone(&clock) as Arc<_>);
        workspaces::create(&access, "acme".parse().unwrap()).await.unwrap();
        let outbox = DynamoOutbox::new(items, Arc::new(Acme));
        Self { access, clock, queues, outbox, engine, server }
    }

    async fn cx(&self) -> Cx {
        let found = workspaces::find(&self.access, "acme".parse().unwrap()).await.unwrap();
        self.access.inside(&found, Actor::Operator)
    }

    /// Something happens to Ada, and is told once or more.
    async fn happens(&self, kind: &str, at: &str, payload: Value, times: usize) -> String {
        let cx = self.cx().await;
        let cmd = Resolve {
            identities: vec![Identity::new("email", "ada@example.org").unwrap()],
            at: at.parse().unwrap(),
            received_at: cx.now(),
            event_id: at.to_owned(),
            unknown: Unknown::Make,
        };
        let partition = resolve(&cx, cmd).await.unwrap().unwrap().lead_organization_id;
        let event = StoredEvent {
            lead_organization_id: partition.clone(),
            id: id_of("test", &format!("{kind} {at}")),
            event_type: kind.to_owned(),
            occurred_at: at.parse().unwrap(),
            received_at: cx.now(),
            source_type: "test".to_owned(),
            source: "test".to_owned(),
            external_event_id: format!("{kind} {at}"),
            object_id: None,
            object_id_ref: None,
            payload: payload.as_object().unwrap().clone(),
            raw_payload: None,
        };
        let told = LeadEvent {
            workspace: cx.workspace().clone(),
            lead_organization_id: partition.clone(),
            event_id: event.id.clone(),
            event_type: event.event_type.clone(),
            occurred_at: event.occurred_at,
            source: None,
            metadata: None,
        };
        let mut txn = Txn::new().put(&tables::EVENT, event.to_item(), Expect::Absent);
        for _ in 0..times {
            txn = txn.enqueue(Outgoing::publish(&topics::LEAD_EVENTS, told.to_body().unwrap()));
        }
        cx.items().await.unwrap().transact(txn).await.unwrap();
        partition
    }

    /// Hands on what the items promise, and works on both queues until nothing is left.
    async fn work(&self) {
        self.work_as(&self.access).await;
    }

    async fn work_as(&self, access: &Access) {
        loop {
            let mut some = self.outbox.relay(&*self.queues, 100).await.unwrap();
            some += self.work_on(&queues::LEAD_INGESTION, handler(access.clone())).await;
            let features = features::handler(access.clone());
            some += self.work_on(&queues::FEATURE_PROCESSING, features).await;
            let memory = memory::handler(access.clone());
            some += self.work_on(&queues::MEMORY_PROCESSING, memory).await;
            let segments = segments::handler(access.clone());
            some += self.work_on(&queues::SEGMENT_PROCESSING, segments).await;
            if some == 0 {
                return;
            }
        }
    }

    async fn work_on(&self, queue: &'static Queue, handler: Arc<dyn Handler>) -> usize {
        let worker = Worker {
            queue,
            handler,
            engine: Arc::clone(&self.queues) as Arc<_>,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            settings: Settings::default(),
        };
        worker.run_until_idle().await.unwrap()
    }

    async fn advance(&self, days: i64) {
        self.clock.advance((24 * days).hours());
        self.server.set_now(self.clock.now().as_second());
    }

    /// What the schedule sends.
    async fn day(&self) {
        let at = self.clock.now();
        let message = LeadUpkeep { task: UpkeepTask::Daily, at, workspace: None, after: None };
        let outgoing = Outgoing::new(&queues::FEATURE_PROCESSING, message.to_body().unwrap());
        self.queues.send(vec![outgoing]).await.unwrap();
        self.work().await;
    }
}

#[tokio::test]
async fn what_follows_from_events_is_the_same_on_dynamodb() {
    let world = World::new().await;
    let bought = |amount: &str| json!({"amount": amount, "currency": "EUR", "product": "tea"});
    let ada = world.happens("purchase_completed", "2026-06-20T10:00:00Z", bought("0.1"), 3).await;
    world.happens("product_viewed", "2026-06-25T10:00:00Z", json!({"product": "tea"}), 2).await;
    world.happens("email.clicked", "2026-06-24T10:00:00Z", json!({"product": "tea"}), 1).await;
    // Late, and long before all others.
    world.happens("purchase_completed", "2025-06-20T10:00:00Z", bought("0.2"), 2).await;
    world.work().await;
    let cx = world.cx().await;
    let kept = features::get(&cx, &ada).await.unwrap().unwrap();
    let scratch = features::as_of(&cx, &ada, cx.now()).await.unwrap().unwrap();
    assert_eq!(kept.values, scratch.values);
    assert_eq!(serde_json::to_value(&kept.values["monetary_total"]).unwrap(), json!(0.3));
    assert_eq!(serde_json::to_value(&kept.values["frequency_purchases_90d"]).unwrap(), json!(1));
    let interest = ("interest".parse().unwrap(), "product:tea".parse().unwrap());
    let known = memory::get(&cx, &ada, &interest.0, &interest.1).await.unwrap().unwrap();
    assert_eq!((known.confidence.to_string().as_str(), known.source_event_ids.len()), ("0.65", 2));
    assert_eq!(memory::rebuild(&cx, &ada).await.unwrap(), 0, "it is the same");

    for _ in 0..3 {
        world.advance(10).await;
        world.day().await;
        let cx = world.cx().await;
        let kept = features::get(&cx, &ada).await.unwrap().unwrap();
        let scratch = features::as_of(&cx, &ada, cx.now()).await.unwrap().unwrap();
        assert_eq!(kept.values, scratch.values);
        assert_eq!(kept.score, scratch.score);
    }
    let progress = features::progress(&world.cx().await, UpkeepTask::Daily).await.unwrap().unwrap();
    assert_eq!((progress.done, progress.finished_at), (1, Some(world.clock.now())));

    // What was only remembered for a while is gone, and everything else comes back from the events.
    world.advance(90).await;
    world.server.sweep();
    let cx = world.cx().await;
    assert!(memory::get(&cx, &ada, &interest.0, &interest.1).await.unwrap().is_none());
    memory::erase(&cx, &ada).await.unwrap();
    features::erase(&cx, &ada).await.unwrap();
    assert!(features::rebuild_all(&cx).await.unwrap());
    world.work().await;
    let listing = memory::Listing::default();
    let all = memory::list(&cx, &ada, listing).await.unwrap().unwrap().memories;
    let all: Vec<_> = all.iter().map(|one| format!("{}#{}", one.memory_type, one.key)).collect();
    assert_eq!(all, ["channel#email", "purchase#product:tea"]);
    let kept = features::get(&cx, &ada).await.unwrap().unwrap();
    assert_eq!(kept.values, features::as_of(&cx, &ada, cx.now()).await.unwrap().unwrap().values);
}

/// Ada, as everybody would name her.
fn whom(channel: &str, value: &str) -> Whom {
    Whom::Identity(Identity::new(channel, value).unwrap())
}

#[tokio::test]
async fn events_come_in_once_are_read_as_one_story_and_are_erased_on_dynamodb() {
    let world = World::new().await;
    let cx = world.cx().await;
    let event = |id: &str, minutes: i64, identities: &[(&str, &str)]| {
        let identities =
            identities.iter().map(|(channel, value)| Identity::new(channel, value).unwrap());
        NewEvent {
            event_type: "page_viewed".into(),
            identities: identities.collect(),
            source: Some("shop".into()),
            source_type: None,
            external_event_id: Some(id.into()),
            occurred_at: Some(cx.now() - minutes.minutes()),
            object_id: None,
            object_id_ref: None,
            payload: json!({"url": "/tea"}).as_object().cloned(),
            raw_payload: None,
        }
    };
    let (mail, browser) = (("email", "ada@example.org"), ("anonymous_id", "browser"));
    let events = [
        event("1", 30, &[browser]),
        event("2", 20, &[mail]),
        event("3", 10, &[mail, browser]),
        event("2", 20, &[mail]),
    ];
    let told = events.clone().map(|event| event.told(&cx)).to_vec();
    accept(&cx, told.clone()).await.unwrap();
    world.work_on(&queues::LEAD_INGESTION, handler(world.access.clone())).await;
    // Again, all at once and in another order.
    let again = told.iter().rev().map(|event| ingest(&cx, event.clone()));
    for done in futures_util::future::join_all(again).await {
        assert!(matches!(done.unwrap(), Ingested::Duplicate { .. }));
    }
    let story = async |types: &[&str], limit: usize| {
        let (mut told, mut cursor) = (Vec::new(), None);
        loop {
            let types = types.iter().map(|one| (*one).to_owned()).collect();
            let listing = Listing { types, limit, cursor, ..Listing::default() };
            let page = timeline(&cx, whom("anonymous_id", "browser"), &listing).await.unwrap();
            let Some(page) = page else { return told };
            told.extend(page.events.into_iter().map(|event| event.external_event_id));
            cursor = page.next;
            if cursor.is_none() {
                return told;
            }
        }
    };
    assert_eq!(story(&[], 2).await, ["3", "2", "1"]);
    assert_eq!(story(&["page_viewed"], 1).await, ["3", "2", "1"]);
    assert_eq!(story(&["other"], 1).await, [""; 0]);
    let owner = find(&cx, whom("email", "ada@example.org")).await.unwrap().unwrap();
    assert_eq!(owner.partitions.len(), 2, "each event is where its identity is at home");
    // Each was told on once, to both.
    while world.outbox.relay(&*world.queues, 100).await.unwrap() > 0 {}
    for queue in [&queues::MEMORY_PROCESSING, &queues::FEATURE_PROCESSING] {
        let depth = world.queues.depth(queue).await.unwrap();
        assert_eq!(depth.ready, 3 + 2, "{}: three events, and a merge for each of two", queue.name);
    }
    tidings_people::contacts::erase(&cx, &"ada@example.org".parse().unwrap()).await.unwrap();
    assert_eq!(story(&[], 10).await, [""; 0]);
    let items = cx.items().await.unwrap();
    let scan =
        Scan { table: &tables::EVENT, segment: 0, of: 1, limit: 10, cursor: None, filter: None };
    assert_eq!(items.scan(scan).await.unwrap().items, [], "guards are gone, too");
    assert!(matches!(ingest(&cx, told[0].clone()).await.unwrap(), Ingested::Stored { .. }));
}

#[tokio::test]
async fn a_segment_follows_events_a_merge_and_its_undoing_on_dynamodb() {
    let world = World::new().await;
    let cx = world.cx().await;
    let put = segments::Put {
        slug: "spenders".parse().unwrap(),
        name: None,
        condition: json!({ "feature": "monetary_total", "at_least": 100 }),
        trigger_on_build: false,
    };
    segments::put(&cx, put).await.unwrap();
    world.clock.advance(3.seconds());
    world.work().await;
    let bought = |id: &str, email: &str, amount: i64| {
        let event = NewEvent {
            event_type: "purchase_completed".into(),
            identities: vec![Identity::new("email", email).unwrap()],
            source: Some("shop".into()),
            source_type: None,
            external_event_id: Some(id.into()),
            occurred_at: Some(cx.now() - 1.hour()),
            object_id: None,
            object_id_ref: None,
            payload: json!({ "amount": amount, "currency": "EUR" }).as_object().cloned(),
            raw_payload: None,
        };
        event.told(&cx)
    };
    let events = vec![
        bought("1", "ada@example.org", 150),
        bought("2", "bob@example.org", 60),
        bought("3", "cleo@example.org", 60),
    ];
    accept(&cx, [events.clone(), events].concat()).await.unwrap();
    world.work().await;
    let lead = async |email: &str| find(&cx, whom("email", email)).await.unwrap().unwrap().lead_id;
    let inside = async || {
        let cx = world.cx().await;
        let members = segments::members(&cx, "spenders".parse().unwrap(), None, Limit::MAX);
        let mut all: Vec<_> = members.await.unwrap().items.iter().map(|one| one.lead_id).collect();
        all.sort();
        let verified = segments::verify(&cx, "spenders".parse().unwrap()).await.unwrap();
        assert!(verified.is_right(), "{verified:?}");
        all
    };
    let ada = lead("ada@example.org").await;
    let (bob, cleo) = (lead("bob@example.org").await, lead("cleo@example.org").await);
    assert_eq!(inside().await, [ada]);
    let merged = merge(&cx, bob, cleo).await.unwrap();
    world.work().await;
    assert_eq!(inside().await, [ada, merged.winner]);
    unmerge(&cx, merged.id).await.unwrap();
    world.work().await;
    assert_eq!(inside().await, [ada]);
}
