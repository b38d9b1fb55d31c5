//! Stories of events that come in: once, whole, in any order, and through any death.

mod converge;
mod crash;
mod judged;

use jiff::{Timestamp, ToSpan as _};
use serde_json::json;
use tidings_access::Cx;
use tidings_jobs::contracts::{Contract as _, LeadEvent, LeadIngestion, Object};
use tidings_jobs::happened::{Happened, by_email};
use tidings_kernel::{QueueEngine as _, Receive, Txn, queues, tables};
use tidings_people::contacts;
use tidings_testbed::{Bed, each_store};

use super::{AcceptError, IngestError, Ingested, accept, handler, ingest};
use crate::event::{self, StoredEvent};
use crate::identity::{Identity, Whom, find};
use crate::timeline::{Listing, timeline};

each_store!(
    an_event_is_stored_once_and_told_on,
    what_is_accepted_is_worked_on,
    everything_wrong_is_told_at_once_and_nothing_is_taken,
    nobody_outside_can_give_orders,
    what_is_wrong_in_the_queue_is_given_up,
    our_own_events_make_nobody,
    many_that_bring_the_same_event_store_it_once,
    whoever_is_erased_keeps_no_event,
    what_was_heard_before_an_erasure_brings_nobody_back,
);

pub(super) fn object(json: serde_json::Value) -> Object {
    match json {
        serde_json::Value::Object(object) => object,
        _ => unreachable!("it is an object"),
    }
}

pub(crate) fn told(cx: &Cx, id: &str, at: Timestamp, identities: &[&str]) -> LeadIngestion {
    let identities = identities.iter().map(|text| {
        let (channel, value) = text.split_once('=').unwrap();
        (&Identity::new(channel, value).unwrap()).into()
    });
    LeadIngestion {
        workspace: cx.workspace().clone(),
        source_type: "api".into(),
        source: "shop".into(),
        event_type: "purchase_completed".into(),
        external_event_id: id.into(),
        occurred_at: at,
        received_at: cx.now(),
        identities: identities.collect(),
        object_id: Some("order 7".into()),
        object_id_ref: None,
        payload: Some(object(json!({"amount": 12.5, "product": {"id": "whey", "$b": 1}}))),
        raw_payload: Some("{\"amount\":12.5}".into()),
        metadata: None,
    }
}

/// Ids of a person's events, the newest first.
pub(crate) async fn ids(cx: &Cx, whom: Whom) -> Vec<String> {
    let listing = Listing { limit: 200, ..Listing::default() };
    let page = timeline(cx, whom, &listing).await.unwrap();
    page.map_or_else(Vec::new, |page| {
        page.events.into_iter().map(|event| event.external_event_id).collect()
    })
}

pub(super) fn ada() -> Whom {
    Whom::Email("ada@example.org".parse().unwrap())
}

async fn messages(bed: &Bed, queue: &'static tidings_kernel::Queue) -> Vec<String> {
    let ask = Receive { max: 10, lease: queue.lease, wait: std::time::Duration::ZERO };
    let told = bed.queues.receive(queue, ask).await.unwrap();
    told.into_iter().map(|told| told.body).collect()
}

async fn an_event_is_stored_once_and_told_on(bed: &Bed) {
    let cx = bed.cx().await;
    let event = told(&cx, "o-1", cx.now() - 1.hour(), &["email=Ada@Example.org"]);
    let Ingested::Stored { event_id, resolved } = ingest(&cx, event.clone()).await.unwrap() else {
        panic!("it is new")
    };
    assert!(resolved.created);
    let again = ingest(&cx, event.clone()).await.unwrap();
    assert_eq!(again, Ingested::Duplicate { event_id: event_id.clone() });
    let items = cx.items().await.unwrap();
    let key = event::key(&resolved.lead_organization_id, cx.now() - 1.hour(), &event_id);
    let item = items.get(&tables::EVENT, &key).await.unwrap().unwrap();
    let stored = StoredEvent::from_item(&item).unwrap();
    assert_eq!(Some(&stored.payload), event.payload.as_ref());
    assert_eq!(stored.raw_payload, event.raw_payload);
    for queue in [&queues::MEMORY_PROCESSING, &queues::FEATURE_PROCESSING] {
        let bodies = messages(bed, queue).await;
        assert_eq!(bodies.len(), 1, "{}", queue.name);
        let told = LeadEvent::parse(&bodies[0]).unwrap();
        assert_eq!(told.lead_organization_id, resolved.lead_organization_id);
        assert_eq!((told.event_id, told.occurred_at), (event_id.clone(), stored.occurred_at));
    }
    // Another source may use the same id.
    let other = LeadIngestion { source: "crm".into(), ..event };
    assert!(matches!(ingest(&cx, other).await.unwrap(), Ingested::Stored { .. }));
    assert_eq!(ids(&cx, ada()).await, ["o-1", "o-1"]);
}

async fn what_is_accepted_is_worked_on(bed: &Bed) {
    let cx = bed.cx().await;
    let now = cx.now();
    let events = vec![
        told(&cx, "1", now - 2.hours(), &["email=ada@example.org"]),
        told(&cx, "2", now - 1.hour(), &["phone=+49 30 12345", "email=ada@example.org"]),
        told(&cx, "1", now - 2.hours(), &["email=ada@example.org"]),
    ];
    let accepted = accept(&cx, events).await.unwrap();
    assert_eq!(accepted[0], accepted[2]);
    assert_eq!(ids(&cx, ada()).await, [""; 0], "it is not there yet");
    bed.work(&queues::LEAD_INGESTION, handler(bed.access.clone())).await;
    assert_eq!(ids(&cx, ada()).await, ["2", "1"]);
    let by_number = Whom::Identity(Identity::new("phone", "+493012345").unwrap());
    assert_eq!(find(&cx, by_number).await.unwrap(), find(&cx, ada()).await.unwrap());
}

async fn everything_wrong_is_told_at_once_and_nothing_is_taken(bed: &Bed) {
    let cx = bed.cx().await;
    let fine = told(&cx, "1", cx.now(), &["email=ada@example.org"]);
    let mut wrong = told(&cx, "2", cx.now() + 48.hours(), &["email=ada@example.org"]);
    wrong.identities[0].value = "nobody".into();
    wrong.event_type = "a#b".into();
    wrong.source = "tidings".into();
    wrong.external_event_id = "\n".into();
    wrong.payload = Some(object(json!({"n": 1e300, "": 1, "big": "x".repeat(70_000)})));
    wrong.raw_payload = Some("x".repeat(65_537));
    let Err(AcceptError::Invalid(faults)) = accept(&cx, vec![fine.clone(), wrong]).await else {
        panic!("it is wrong")
    };
    let fields: Vec<_> =
        faults.iter().map(|(place, fault)| (*place, fault.field.as_str())).collect();
    for field in [
        "event_type",
        "external_event_id",
        "occurred_at",
        "payload",
        "payload.n",
        "payload.",
        "raw_payload",
        "identities[0].value",
        "source",
    ] {
        assert!(fields.contains(&(1, field)), "{field} is not in {fields:?}");
    }
    assert!(fields.iter().all(|(place, _)| *place == 1));
    assert!(matches!(accept(&cx, Vec::new()).await, Err(AcceptError::Count)));
    assert!(matches!(accept(&cx, vec![fine; 501]).await, Err(AcceptError::Count)));
    assert_eq!(bed.work(&queues::LEAD_INGESTION, handler(bed.access.clone())).await, 0);
}

/// What workers take for an order, and what only segments know, nobody tells as an event.
async fn nobody_outside_can_give_orders(bed: &Bed) {
    let cx = bed.cx().await;
    for event_type in [
        "contact.rebuild",
        "contact.revised",
        "contact.merged",
        "contact.unmerged",
        "segment.entered",
        "segment.x",
    ] {
        let fine = told(&cx, "1", cx.now(), &["email=ada@example.org"]);
        let order = LeadIngestion { event_type: event_type.into(), ..fine };
        let Err(AcceptError::Invalid(faults)) = accept(&cx, vec![order]).await else {
            panic!("{event_type} is an order")
        };
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].1.field, "event_type");
        assert!(faults[0].1.message.contains("use another name"), "{faults:?}");
    }
    let near = told(&cx, "1", cx.now(), &["email=ada@example.org"]);
    accept(&cx, vec![LeadIngestion { event_type: "contact.called".into(), ..near }]).await.unwrap();
}

async fn what_is_wrong_in_the_queue_is_given_up(bed: &Bed) {
    let cx = bed.cx().await;
    let mut wrong = told(&cx, "2", cx.now(), &["email=ada@example.org"]);
    wrong.identities[0].value = "nobody".into();
    assert!(matches!(ingest(&cx, wrong.clone()).await, Err(IngestError::Invalid(_))));
    let message = tidings_kernel::Outgoing::new(&queues::LEAD_INGESTION, wrong.to_body().unwrap());
    bed.queues.send(vec![message]).await.unwrap();
    bed.work(&queues::LEAD_INGESTION, handler(bed.access.clone())).await;
    let depth = bed.queues.depth(&queues::LEAD_INGESTION).await.unwrap();
    assert_eq!((depth.ready, depth.hidden, depth.dead), (0, 0, 1));
}

async fn our_own_events_make_nobody(bed: &Bed) {
    let cx = bed.cx().await;
    let happened = Happened {
        event_type: "email.opened",
        cause: "message 1".into(),
        who: by_email("ada@example.org"),
        at: cx.now(),
        object_id: Some("1".into()),
        payload: object(json!({"kind": "campaign"})),
    };
    let message = happened.to_message(cx.workspace(), cx.now());
    let event = LeadIngestion::parse(&message.body).unwrap();
    assert_eq!(ingest(&cx, event.clone()).await.unwrap(), Ingested::Nobody);
    assert_eq!(find(&cx, ada()).await.unwrap(), None);
    ingest(&cx, told(&cx, "1", cx.now(), &["email=ada@example.org"])).await.unwrap();
    assert!(matches!(ingest(&cx, event).await.unwrap(), Ingested::Stored { .. }));
}

async fn many_that_bring_the_same_event_store_it_once(bed: &Bed) {
    let cx = bed.cx().await;
    let all = (0..40).map(|_| {
        let (cx, event) =
            (&cx, told(&cx, "1", cx.now(), &["email=ada@example.org", "user_id=ada"]));
        async move {
            loop {
                match ingest(cx, event.clone()).await {
                    Ok(done) => return done,
                    Err(IngestError::Store(error)) if error.is_passing() => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    });
    let done = futures_util::future::join_all(all).await;
    let stored = done.iter().filter(|one| matches!(one, Ingested::Stored { .. })).count();
    assert_eq!(stored, 1);
    assert_eq!(ids(&cx, ada()).await, ["1"]);
    assert_eq!(messages(bed, &queues::MEMORY_PROCESSING).await.len(), 1);
}

async fn whoever_is_erased_keeps_no_event(bed: &Bed) {
    let cx = bed.cx().await;
    let bob = told(&cx, "3", cx.now(), &["email=bob@example.org"]);
    ingest(&cx, told(&cx, "1", cx.now(), &["email=ada@example.org"])).await.unwrap();
    ingest(&cx, bob.clone()).await.unwrap();
    let by_number = told(&cx, "2", cx.now(), &["phone=+493012345"]);
    ingest(&cx, by_number.clone()).await.unwrap();
    let joined = told(&cx, "4", cx.now(), &["phone=+493012345", "email=ada@example.org"]);
    ingest(&cx, joined).await.unwrap();
    let owner = find(&cx, ada()).await.unwrap().unwrap();
    assert_eq!(owner.partitions.len(), 2);
    let items = cx.items().await.unwrap();
    for partition in &owner.partitions {
        let memory = tables::MEMORY
            .bare_item(&tidings_kernel::Key::new(partition.as_str(), "purchase#product:x"));
        let feature = tables::FEATURE.bare_item(&tidings_kernel::Key::single(partition.as_str()));
        let any = tidings_kernel::Expect::Anything;
        let txn = Txn::new().put(&tables::MEMORY, memory, any.clone());
        items.transact(txn.put(&tables::FEATURE, feature, any)).await.unwrap();
    }
    // One more is on its way: it was resolved before, and is stored after.
    let late = told(&cx, "5", cx.now(), &["email=ada@example.org"]);
    let resolved = crate::identity::resolve(&cx, resolve_of(&late, &cx)).await.unwrap().unwrap();
    assert!(contacts::erase(&cx, &"ada@example.org".parse().unwrap()).await.unwrap().erased);
    let stored = super::to_store(late, &resolved);
    let (place, guard) = (stored.key(), event::guard("shop", "5"));
    let txn = Txn::new()
        .put(&tables::EVENT, stored.to_guard(), tidings_kernel::Expect::Absent)
        .put(&tables::EVENT, stored.to_item(), tidings_kernel::Expect::Absent);
    items.transact(txn).await.unwrap();
    let done = super::settle(&cx, items.as_ref(), (&place, &guard), Ingested::Nobody).await;
    assert_eq!(done.unwrap(), Ingested::Erased);
    // Nothing is left of her but what is Bob's, in any table.
    for table in [&tables::EVENT, &tables::MEMORY, &tables::FEATURE] {
        let scan = tidings_kernel::Scan {
            table,
            segment: 0,
            of: 1,
            limit: 100,
            cursor: None,
            filter: None,
        };
        let left = items.scan(scan).await.unwrap().items;
        let expected = if table.name == "event" { 2 } else { 0 };
        assert_eq!(left.len(), expected, "{}: {left:?}", table.name);
    }
    // Whoever comes with the address is somebody new.
    let again = ingest(&cx, told(&cx, "6", cx.now(), &["email=ada@example.org"])).await.unwrap();
    assert_ne!(again.lead(), Some(resolved.lead_id));
    assert_eq!(ids(&cx, ada()).await, ["6"]);
    assert!(matches!(ingest(&cx, bob).await.unwrap(), Ingested::Duplicate { .. }));
}

async fn what_was_heard_before_an_erasure_brings_nobody_back(bed: &Bed) {
    let cx = bed.cx().await;
    let named = ["email=ada@example.org", "user_id=u1", "phone=+493012345"];
    ingest(&cx, told(&cx, "1", cx.now(), &named)).await.unwrap();
    let on_their_way: Vec<_> =
        (2..5).zip(named).map(|(id, name)| told(&cx, &id.to_string(), cx.now(), &[name])).collect();
    let with_bob = told(&cx, "9", cx.now(), &["email=bob@example.org", "user_id=u1"]);
    let late = told(&cx, "10", cx.now(), &["user_id=u1"]);
    bed.clock.advance(1.second());
    let cx = bed.cx().await;
    assert!(contacts::erase(&cx, &"ada@example.org".parse().unwrap()).await.unwrap().erased);
    for event in on_their_way {
        assert_eq!(ingest(&cx, event).await.unwrap(), Ingested::Erased);
    }
    for name in named {
        let (channel, value) = name.split_once('=').unwrap();
        let whom = Whom::Identity(Identity::new(channel, value).unwrap());
        assert_eq!(find(&cx, whom).await.unwrap(), None, "{name}");
    }
    // What else the event names is somebody.
    assert!(ingest(&cx, with_bob).await.unwrap().lead().is_some());
    assert_eq!(
        find(&cx, Whom::Identity(Identity::new("user_id", "u1").unwrap())).await.unwrap(),
        None
    );
    // And whoever is heard of since is new.
    bed.clock.advance(1.second());
    let cx = bed.cx().await;
    let again = ingest(&cx, told(&cx, "6", cx.now(), &["user_id=u1"])).await.unwrap();
    assert!(again.lead().is_some());
    // His timeline has nothing of who was erased.
    assert_eq!(ingest(&cx, late).await.unwrap(), Ingested::Erased);
}

fn resolve_of(event: &LeadIngestion, cx: &Cx) -> crate::identity::Resolve {
    crate::identity::Resolve {
        identities: super::check::check(event, cx.now()).unwrap(),
        at: event.occurred_at,
        received_at: event.received_at,
        event_id: "late".into(),
        unknown: crate::identity::Unknown::Make,
    }
}
