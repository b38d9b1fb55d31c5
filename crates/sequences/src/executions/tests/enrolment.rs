//! Letting many people in at once.

use serde_json::json;
use tidings_outreach::audience::Condition;
use tidings_people::contacts::{self, Attributes, TagChange, Upsert};
use tidings_testbed::{Bed, each_store};

use crate::executions::{
    BeginError, EnrolmentId, active, begin_enrolment, begin_enrolment_once, enrolment, within,
};
use crate::world::World;

each_store!(everybody_who_is_meant_is_let_in_once, an_enrolment_of_a_known_id_begins_once);

async fn everybody_who_is_meant_is_let_in_once(bed: &Bed) {
    let world = World::new(bed).await;
    world.define("id: offer\nreentry: ignore\nsteps: [ { send: a }, { wait: 9 days } ]").await;
    let cx = world.cx().await;
    for number in 0..250 {
        let tag = if number % 10 == 0 { "no" } else { "yes" };
        let upsert = Upsert {
            email: format!("p{number:03}@example.org").parse().unwrap(),
            first_name: None,
            attributes: Attributes::default(),
            tags: Some(TagChange::Add([tag.parse().unwrap()].into())),
        };
        contacts::upsert(&cx, upsert).await.unwrap();
    }
    world.enrol("p001@example.org", "offer", json!({})).await;
    let condition = Condition::parse(&json!({ "tag": "yes" }), "condition").unwrap();
    let begun = begin_enrolment(&cx, &world.versions, "offer", (condition, json!({}))).await;
    let id = begun.unwrap().id;
    world.run().await;
    let done = enrolment(&cx, &id).await.unwrap().unwrap();
    assert!(done.ended_at.is_some());
    assert_eq!((done.counts.entered, done.counts.already_in, done.counts.refused), (224, 1, 0));
    assert_eq!(active(&cx, "offer").await.unwrap(), 225);
    assert_eq!(world.outbox().len(), 225);
    assert_eq!(world.funnel("offer").await.active, 225);

    // The newest first, each once.
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = within(&cx, "offer", cursor, 100).await.unwrap();
        seen.extend(page.inside.iter().map(|one| one.started_at));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 225);
    assert!(seen.is_sorted_by(|one, other| one >= other));
}

async fn an_enrolment_of_a_known_id_begins_once(bed: &Bed) {
    let world = World::new(bed).await;
    // Whoever comes again begins anew: a second enrolment would be seen.
    world.define("id: offer\nsteps: [ { wait: 9 days } ]").await;
    world.enrol("ada@example.org", "offer", json!({})).await;
    let cx = world.cx().await;
    let id = EnrolmentId::parse("0197c5f1a2b300112233445566778899").unwrap();
    let begin = || {
        let what = (Condition::EVERYONE, json!({}));
        begin_enrolment_once(&cx, &world.versions, "offer", what, id.clone())
    };
    let (one, other) = tokio::join!(begin(), begin());
    assert_eq!(one.unwrap(), other.unwrap());
    world.run().await;
    let ended = begin().await.unwrap();
    assert!(ended.ended_at.is_some(), "it tells how far the one is that was begun");
    let other = (Condition::EVERYONE, json!({ "plan": "pro" }));
    let other = begin_enrolment_once(&cx, &world.versions, "offer", other, id.clone()).await;
    assert!(matches!(other, Err(BeginError::KeyReused)), "{other:?}");
    world.run().await;
    let funnel = world.funnel("offer").await;
    assert_eq!((funnel.entered, funnel.left, funnel.active), (2, 1, 1));
}
