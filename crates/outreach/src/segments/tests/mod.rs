//! Segments on both engines: what is in them, who races for it, and what a crash leaves behind.

mod crashing;
mod living;
mod racing;
mod using;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::ToSpan as _;
use serde_json::{Value as Json, json};
use tidings_access::{Cx, Limit};
use tidings_jobs::Handler;
use tidings_jobs::contracts::{Contract as _, LeadIngestion, SequenceEvent};
use tidings_kernel::{
    Item, Outgoing, Put as PutItem, Queue, QueueEngine as _, Receive, Value, queues, tables,
};
use tidings_people::contacts::{self, Attributes, ContactId, TagChange, Upsert};
use tidings_sql::Param;
use tidings_testbed::Bed;

use super::{Put, Segment, State, find, handler, members, put, verify};

/// Somebody with these tags and this plan, and no others.
async fn person(cx: &Cx, name: &str, tags: &[&str], plan: &str) -> ContactId {
    let attributes = json!({ "plan": plan });
    let upsert = Upsert {
        email: format!("{name}@example.org").parse().unwrap(),
        first_name: None,
        attributes: Attributes::parse(attributes.as_object().unwrap().clone()).unwrap(),
        tags: Some(TagChange::Replace(tags.iter().map(|tag| tag.parse().unwrap()).collect())),
    };
    contacts::upsert(cx, upsert).await.unwrap().contact.id
}

async fn segment(cx: &Cx, slug: &str, condition: Json) -> Segment {
    let put_it =
        Put { slug: slug.parse().unwrap(), name: None, condition, trigger_on_build: false };
    put(cx, put_it).await.unwrap().0
}

/// Something is remembered of somebody for so many minutes, and gives way to something else before, if that is said.
async fn remember(cx: &Cx, contact: ContactId, key: &str, (until, then): (i64, Option<i64>)) {
    let look = cx.database().read(move |tx| {
        let sql = "SELECT id FROM lead_organizations WHERE lead_id = $1";
        tx.query(sql, &[Param::Int(contact.get())])?[0].int(0)
    });
    let organization: Result<i64, tidings_sql::DatabaseError> = look.await;
    let at = |minutes: i64| cx.now().as_second() + 60 * minutes;
    let later = then.map(|from| {
        let one = [("from".to_owned(), at(from).into()), ("value".to_owned(), "blue".into())];
        Value::M(one.into())
    });
    let item = Item::new()
        .with("lead_organization_id", organization.unwrap().to_string())
        .with("memory_type#key", format!("preference#{key}"))
        .with("value", "red")
        .with("later", later.into_iter().collect::<Vec<_>>())
        .with(tables::MEMORY.ttl.unwrap(), at(until));
    cx.items().await.unwrap().put(PutItem::new(&tables::MEMORY, item)).await.unwrap();
}

fn vip() -> Json {
    json!({ "all": [{ "tag": "vip" }, { "attribute": "plan", "equals": "pro" }] })
}

/// Everything that is due in the queue, and what the first build waits for.
async fn work(bed: &Bed) -> usize {
    bed.clock.advance(3.seconds());
    bed.work(&queues::SEGMENT_PROCESSING, worker(bed)).await
}

/// The names of those inside.
async fn inside(cx: &Cx, slug: &str) -> BTreeSet<String> {
    let page = members(cx, slug.parse().unwrap(), None, Limit::MAX).await.unwrap();
    let name = |email: String| email.split('@').next().unwrap().to_owned();
    page.items.into_iter().map(|one| name(one.email.unwrap().to_string())).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// It is live and has exactly those whom a walk over everybody finds.
async fn assert_right(cx: &Cx, slug: &str) {
    let verified = verify(cx, slug.parse().unwrap()).await.unwrap();
    assert!(verified.is_right(), "{verified:?}");
    assert_eq!(find(cx, slug.parse().unwrap()).await.unwrap().state, State::Live);
}

/// Somebody listens, so that it is told who enters and leaves.
async fn listen(cx: &Cx) {
    let within = cx.clone();
    let write = cx.database().write(move |tx| {
        let workspace = Param::Int(within.workspace_id().get());
        tx.execute(
            "INSERT INTO sequences (workspace_id, slug, client_id, active_version, created_at, updated_at)
             VALUES ($1, 'welcome', (SELECT MIN(id) FROM clients WHERE workspace_id = $1), 1, 1, 1)",
            &[workspace],
        )?;
        for name in ["segment.entered", "segment.left"] {
            tx.execute(
                "INSERT INTO sequence_listens (workspace_id, event_name, sequence_id, role)
                 VALUES ($1, $2, (SELECT MIN(id) FROM sequences WHERE workspace_id = $1), 'trigger')",
                &[workspace, Param::Text(name)],
            )?;
        }
        Ok::<_, tidings_sql::DatabaseError>(())
    });
    write.await.unwrap();
}

/// All bodies that wait in a queue. They are gone from it then.
async fn drain(bed: &Bed, queue: &'static Queue) -> Vec<String> {
    let mut bodies = Vec::new();
    loop {
        let lease = Duration::from_secs(60);
        let request = Receive { max: 10, lease, wait: Duration::ZERO };
        let taken = bed.queues.receive(queue, request).await.unwrap();
        if taken.is_empty() {
            return bodies;
        }
        let receipts: Vec<_> = taken.iter().map(|one| one.receipt.clone()).collect();
        bodies.extend(taken.into_iter().map(|one| one.body));
        bed.queues.acknowledge(queue, &receipts).await.unwrap();
    }
}

/// What sequences heard: `ada segment.entered vip`, in order.
async fn heard(bed: &Bed) -> Vec<String> {
    let bodies = drain(bed, &queues::SEQUENCE_EVENTS).await;
    let told = bodies.iter().map(|body| {
        let event = SequenceEvent::parse(body).unwrap();
        let segment = event.data.unwrap()["segment"].as_str().unwrap().to_owned();
        let email = event.email.unwrap();
        format!("{} {} {segment}", email.split('@').next().unwrap(), event.name)
    });
    let mut told: Vec<String> = told.filter(|line| line.contains("segment.")).collect();
    told.sort();
    told
}

/// How many events of this kind are on their way to timelines.
async fn on_timelines(bed: &Bed, event_type: &str) -> usize {
    let bodies = drain(bed, &queues::LEAD_INGESTION).await;
    let events = bodies.iter().map(|body| LeadIngestion::parse(body).unwrap());
    events.filter(|event| event.event_type == event_type).count()
}

/// Messages as if they had come again.
async fn again(bed: &Bed, cx: &Cx, contacts: &[ContactId]) {
    let messages: Vec<Outgoing> = tidings_people::segments::to_check(cx, contacts).await.unwrap();
    bed.queues.send(messages).await.unwrap();
}

fn worker(bed: &Bed) -> Arc<dyn Handler> {
    handler(bed.access.clone())
}
