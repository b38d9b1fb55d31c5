//! From what somebody did to a mail: an event changes a feature, that brings him into a segment, and that into a sequence.

use jiff::ToSpan as _;
use serde_json::{Value, json};
use tidings_access::Slug;
use tidings_jobs::contracts::{Channel, Identity, LeadIngestion};
use tidings_kernel::{EmailAddress, queues};
use tidings_leads::identity::{Whom, find, merge, unmerge};
use tidings_leads::memory::{self as remembered, Remember};
use tidings_leads::timeline::{Listing, timeline};
use tidings_leads::{features, ingestion};
use tidings_outreach::segments;
use tidings_people::contacts::{self, Attributes, TagChange, Upsert};
use tidings_testbed::{Bed, each_store};

use crate::executions::Enrol;
use crate::world::World;

each_store!(
    whoever_spends_enough_comes_into_a_sequence_and_leaves_it_when_he_does_not,
    a_step_can_ask_whether_somebody_is_in_a_segment,
    nobody_else_can_say_who_entered,
    a_segment_follows_merges_and_what_is_remembered,
    each_address_says_what_somebody_is_until_they_are_taken_apart,
);

pub(super) async fn put(world: &World<'_>, slug: &str, condition: Value) {
    let segment = segments::Put {
        slug: slug.parse().unwrap(),
        name: None,
        condition,
        trigger_on_build: false,
    };
    segments::put(&world.cx().await, segment).await.unwrap();
    // The first one waits a moment for those who did not know of it.
    world.bed.clock.advance(3.seconds());
    drain(world).await;
}

/// Everything that is due, in all queues that are between what somebody did and a mail.
async fn drain(world: &World<'_>) {
    let access = || world.bed.access.clone();
    loop {
        let bed = world.bed;
        let mut did = bed.work(&queues::LEAD_INGESTION, ingestion::handler(access())).await;
        did += bed.work(&queues::MEMORY_PROCESSING, remembered::handler(access())).await;
        did += bed.work(&queues::FEATURE_PROCESSING, features::handler(access())).await;
        did += bed.work(&queues::SEGMENT_PROCESSING, segments::handler(access())).await;
        world.run().await;
        if did == 0 {
            return;
        }
    }
}

async fn did(world: &World<'_>, kind: &str, id: &str, payload: Value) {
    somebody_did(world, "ada@example.org", kind, id, payload).await;
}

async fn somebody_did(world: &World<'_>, email: &str, kind: &str, id: &str, payload: Value) {
    let cx = world.cx().await;
    let Value::Object(payload) = payload else { panic!("it is an object") };
    let event = LeadIngestion {
        workspace: cx.workspace().clone(),
        source_type: "shop".to_owned(),
        source: "shop".to_owned(),
        event_type: kind.to_owned(),
        external_event_id: id.to_owned(),
        occurred_at: cx.now(),
        received_at: cx.now(),
        identities: vec![Identity { channel: Channel::Email, value: email.to_owned() }],
        object_id: None,
        object_id_ref: None,
        payload: Some(payload),
        raw_payload: None,
        metadata: None,
    };
    ingestion::ingest(&cx, event).await.unwrap();
    drain(world).await;
}

async fn whoever_spends_enough_comes_into_a_sequence_and_leaves_it_when_he_does_not(bed: &Bed) {
    let world = World::new(bed).await;
    world
        .define(
            "id: big-spenders
transactional: true
trigger:
  event: segment.entered
  filter: [{ path: $.segment, equals: spenders }]
exitOn:
  - event: segment.left
    filter: [{ path: $.segment, equals: spenders }]
steps:
  - send: a
  - wait: 2 days
  - send: b
",
        )
        .await;
    put(&world, "spenders", json!({ "feature": "monetary_total", "at_least": 100 })).await;
    put(&world, "others", json!({ "feature": "monetary_total", "at_least": 1 })).await;
    did(&world, "purchase_completed", "1", json!({ "amount": "60.00", "currency": "EUR" })).await;
    assert_eq!(world.outbox(), [""; 0], "he entered another segment only");
    did(&world, "purchase_completed", "2", json!({ "amount": "60.00", "currency": "EUR" })).await;
    // All of it within one drain of the queues, without any time passing.
    assert_eq!(world.outbox(), ["ada@example.org a"]);
    assert_eq!(world.inside("ada@example.org").await.len(), 1);
    let listing =
        Listing { types: vec!["segment.entered".to_owned()], limit: 10, ..Listing::default() };
    let whom = Whom::Email("ada@example.org".parse().unwrap());
    let page = timeline(&world.cx().await, whom, &listing).await.unwrap().unwrap();
    let entered: Vec<_> =
        page.events.iter().map(|event| event.object_id.clone().unwrap()).collect();
    assert_eq!(entered, ["spenders", "others"]);

    bed.clock.advance(1.hour());
    did(&world, "purchase_refunded", "3", json!({ "amount": "60.00", "currency": "EUR" })).await;
    assert!(world.inside("ada@example.org").await.is_empty());
    world.days(3).await;
    assert_eq!(world.outbox(), ["ada@example.org a"]);
    // And what he went through is on his timeline.
    drain(&world).await;
    let types = ["sequence.entered", "sequence.step_sent", "sequence.exited"].map(str::to_owned);
    let listing = Listing { types: types.to_vec(), limit: 10, ..Listing::default() };
    let whom = Whom::Email("ada@example.org".parse().unwrap());
    let page = timeline(&world.cx().await, whom, &listing).await.unwrap().unwrap();
    let mut went: Vec<_> = page.events.iter().map(|event| event.event_type.clone()).collect();
    went.sort();
    assert_eq!(went, ["sequence.entered", "sequence.exited", "sequence.step_sent"]);
    for slug in ["spenders", "others"] {
        let verified = segments::verify(&world.cx().await, slug.parse().unwrap()).await.unwrap();
        assert!(verified.is_right(), "{verified:?}");
    }
}

async fn a_segment_follows_merges_and_what_is_remembered(bed: &Bed) {
    let world = World::new(bed).await;
    put(&world, "spenders", json!({ "feature": "monetary_total", "at_least": 100 })).await;
    put(&world, "red", json!({ "memory": "preference/colour", "equals": "red" })).await;
    let inside = async |slug: &str| {
        let slug: Slug = slug.parse().unwrap();
        let cx = world.cx().await;
        let verified = segments::verify(&cx, slug.clone()).await.unwrap();
        assert!(verified.is_right(), "{slug}: {verified:?}");
        segments::find(&cx, slug).await.unwrap().members
    };
    let paid = json!({ "amount": "60.00", "currency": "EUR" });
    for (number, email) in ["ada@example.org", "bob@example.org"].into_iter().enumerate() {
        let id = number.to_string();
        somebody_did(&world, email, "purchase_completed", &id, paid.clone()).await;
    }
    assert_eq!(inside("spenders").await, 0);

    // Together they have spent enough, and each alone has not.
    let mut ids = Vec::new();
    for email in ["ada@example.org", "bob@example.org"] {
        let whom = Whom::Email(email.parse().unwrap());
        ids.push(find(&world.cx().await, whom).await.unwrap().unwrap());
    }
    let merged = merge(&world.cx().await, ids[0].lead_id, ids[1].lead_id).await.unwrap();
    drain(&world).await;
    assert_eq!(inside("spenders").await, 1);
    unmerge(&world.cx().await, merged.id).await.unwrap();
    drain(&world).await;
    assert_eq!(inside("spenders").await, 0);

    // An event says it, and somebody states something else.
    let red = json!({ "preference": "colour", "value": "red" });
    did(&world, "preference_set", "red", red).await;
    assert_eq!(inside("red").await, 1);
    let stated = Remember {
        memory_type: "preference".parse().unwrap(),
        key: "colour".parse().unwrap(),
        value: json!("blue"),
        confidence: remembered::CERTAIN,
        source: "crm".to_owned(),
        expires_at: None,
    };
    bed.clock.advance(1.minute());
    remembered::remember(&world.cx().await, &ids[0].lead_organization_id, stated).await.unwrap();
    drain(&world).await;
    assert_eq!(inside("red").await, 0);
}

async fn each_address_says_what_somebody_is_until_they_are_taken_apart(bed: &Bed) {
    let world = World::new(bed).await;
    let pro_and_vip =
        json!({ "all": [{ "tag": "vip" }, { "attribute": "plan", "equals": "pro" }] });
    put(&world, "both", pro_and_vip).await;
    let mut ids = Vec::new();
    for (name, plan, tags) in
        [("ada", "pro", vec![]), ("bob", "free", vec!["vip".parse().unwrap()])]
    {
        let email: EmailAddress = format!("{name}@example.org").parse().unwrap();
        let attributes = json!({ "plan": plan });
        let upsert = Upsert {
            email: email.clone(),
            first_name: None,
            attributes: Attributes::parse(attributes.as_object().unwrap().clone()).unwrap(),
            tags: Some(TagChange::Replace(tags.into_iter().collect())),
        };
        let cx = world.cx().await;
        contacts::upsert(&cx, upsert).await.unwrap();
        ids.push(find(&cx, Whom::Email(email)).await.unwrap().unwrap().lead_id);
    }
    drain(&world).await;
    let inside = async || {
        let (cx, slug) = (world.cx().await, "both".parse::<Slug>().unwrap());
        let verified = segments::verify(&cx, slug.clone()).await.unwrap();
        assert!(verified.is_right(), "{verified:?}");
        let why = segments::why(&cx, slug, &ids[0].into()).await.unwrap().unwrap();
        assert_eq!(why.meant, verified.members == 1);
        verified.members
    };
    assert_eq!(inside().await, 0);
    let merged = merge(&world.cx().await, ids[0], ids[1]).await.unwrap();
    drain(&world).await;
    assert_eq!(inside().await, 1);
    unmerge(&world.cx().await, merged.id).await.unwrap();
    drain(&world).await;
    assert_eq!(inside().await, 0);
}

async fn a_step_can_ask_whether_somebody_is_in_a_segment(bed: &Bed) {
    let world = World::new(bed).await;
    put(&world, "vip", json!({ "attribute": "plan", "equals": "pro" })).await;
    world
        .define(
            "id: welcome
transactional: true
steps:
  - condition: { matches: { segment: vip } }
    then: [{ send: a }]
    else: [{ send: b }]
",
        )
        .await;
    for (name, plan) in [("ada", "pro"), ("bob", "free")] {
        let enrol = Enrol {
            sequence: "welcome".to_owned(),
            email: format!("{name}@example.org").parse().unwrap(),
            person: crate::executions::Person {
                attributes: tidings_people::contacts::Attributes::parse(
                    json!({ "plan": plan }).as_object().unwrap().clone(),
                )
                .unwrap(),
                ..crate::executions::Person::default()
            },
            input: json!({}),
            cause: None,
            told_at: None,
        };
        let cx = world.cx().await;
        crate::executions::enrol(&cx, &world.versions, enrol).await.unwrap();
        let access = bed.access.clone();
        bed.work(&queues::SEGMENT_PROCESSING, segments::handler(access)).await;
    }
    world.run().await;
    let mut sent = world.outbox();
    sent.sort();
    assert_eq!(sent, ["ada@example.org a", "bob@example.org b"]);
    let unknown = "client: shop
id: other
transactional: true
steps:
  - condition: { matches: { segment: gone } }
    then: [{ send: a }]
";
    let definition = crate::definition::read(unknown).unwrap();
    let refused = crate::versions::put(&world.cx().await, definition).await;
    let Err(crate::versions::PutError::Faults(faults)) = refused else {
        panic!("it names nothing")
    };
    assert!(faults[0].message.contains("there is no segment gone"), "{faults:?}");
}

async fn nobody_else_can_say_who_entered(bed: &Bed) {
    let world = World::new(bed).await;
    let event = crate::events::Event {
        message_id: None,
        name: "segment.entered".to_owned(),
        email: Some("ada@example.org".parse().unwrap()),
        user_id: None,
        anonymous_id: None,
        occurred_at: None,
        data: json!({ "segment": "vip" }).as_object().unwrap().clone(),
    };
    let refused = crate::events::accept(&world.cx().await, vec![event]).await;
    assert!(refused.is_err(), "{refused:?}");
}
