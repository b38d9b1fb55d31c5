//! What an event ends or wakes: exits, waits, and what the system tells of people.

use serde_json::{Value, json};
use tidings_jobs::Outcome;
use tidings_testbed::{Bed, each_store};

use super::{World, wait_a_week};
use crate::versions::tests::make_audience;

each_store!(
    an_exit_that_is_faster_than_what_it_ends_ends_it,
    an_exit_told_late_does_not_end_what_began_since,
    an_exit_is_that_of_the_version_that_somebody_walks_through,
    an_exit_finds_the_person_by_its_mapping,
    an_exit_finds_the_person_by_the_mapping_of_his_version,
    whoever_leaves_everything_leaves_marketing,
    whoever_leaves_an_audience_leaves_what_is_part_of_it,
    whoever_is_suppressed_leaves_everything,
    nobody_else_can_say_so,
    an_event_that_restarts_does_not_end_what_it_began,
    what_is_waited_for_wakes_the_walk,
    a_reply_ends_it,
);

async fn an_exit_told_late_does_not_end_what_began_since(bed: &Bed) {
    let world = World::new(bed).await;
    world.put(json!({ "exitOn": ["user.paid"], "steps": wait_a_week() })).await;
    world.tell("e1", "user.created", json!({})).await;
    bed.advance(1).await;
    let paid = world.message("e2", "user.paid", json!({})).await;
    bed.advance(1).await;
    world.tell("e3", "user.created", json!({})).await;
    let begun = world.inside("ada").await;
    bed.advance(1).await;
    assert_eq!(world.deliver(&paid).await, Outcome::Done);
    assert_eq!(world.inside("ada").await, begun);
    world.tell("e4", "user.paid", json!({})).await;
    assert!(world.inside("ada").await.is_empty());
}

async fn an_exit_that_is_faster_than_what_it_ends_ends_it(bed: &Bed) {
    let world = World::new(bed).await;
    world.put(json!({ "exitOn": ["user.paid"], "steps": wait_a_week() })).await;
    let created = world.message("e1", "user.created", json!({})).await;
    bed.advance(1).await;
    let paid = world.message("e2", "user.paid", json!({})).await;
    assert_eq!(world.deliver(&paid).await, Outcome::Done);
    for _ in 0..2 {
        assert_eq!(world.deliver(&created).await, Outcome::Done);
        assert!(world.inside("ada").await.is_empty(), "he has paid since");
    }
    bed.advance(1).await;
    world.tell("e3", "user.created", json!({})).await;
    assert_eq!(world.inside("ada").await.len(), 1, "what is told after it is not ended by it");
}

async fn an_exit_is_that_of_the_version_that_somebody_walks_through(bed: &Bed) {
    let world = World::new(bed).await;
    world.put(json!({ "exitOn": ["user.paid"], "steps": wait_a_week() })).await;
    world.tell("e1", "user.created", json!({})).await;
    world.put(json!({ "exitOn": ["user.left"], "steps": wait_a_week() })).await;
    bed.advance(1).await;
    world.tell("e2", "user.left", json!({})).await;
    assert_eq!(world.inside("ada").await.len(), 1);
    world.tell("e3", "user.paid", json!({})).await;
    assert_eq!(world.inside("ada").await.len(), 0);
    world.tell("e4", "user.created", json!({})).await;
    bed.advance(1).await;
    world.tell("e5", "user.paid", json!({})).await;
    assert_eq!(world.inside("ada").await.len(), 1);
    world.tell("e6", "user.left", json!({})).await;
    assert_eq!(world.inside("ada").await.len(), 0);
}

async fn an_exit_finds_the_person_by_its_mapping(bed: &Bed) {
    let world = World::new(bed).await;
    let exit = json!([{ "event": "user.moved", "map": { "email": "$.old" } }]);
    world.put(json!({ "exitOn": exit, "steps": wait_a_week() })).await;
    world.tell("e1", "user.created", json!({})).await;
    let bob = world.message("e2", "user.created", json!({})).await;
    let bob =
        tidings_jobs::contracts::SequenceEvent { email: Some("bob@example.org".into()), ..bob };
    assert_eq!(world.deliver(&bob).await, Outcome::Done);
    bed.advance(1).await;
    world.tell("e3", "user.moved", json!({ "old": "bob@example.org" })).await;
    assert_eq!((world.inside("ada").await.len(), world.inside("bob").await.len()), (1, 0));
}

async fn an_exit_finds_the_person_by_the_mapping_of_his_version(bed: &Bed) {
    let world = World::new(bed).await;
    let exit = |path: &str| json!([{ "event": "user.moved", "map": { "email": path } }]);
    world.put(json!({ "exitOn": exit("$.old"), "steps": wait_a_week() })).await;
    world.tell("e1", "user.created", json!({})).await;
    world.put(json!({ "exitOn": exit("$.former"), "steps": wait_a_week() })).await;
    bed.advance(1).await;
    let moved = world.message("e2", "user.moved", json!({ "old": "ada@example.org" })).await;
    let moved = tidings_jobs::contracts::SequenceEvent { email: None, ..moved };
    assert_eq!(world.deliver(&moved).await, Outcome::Done);
    assert_eq!(world.inside("ada").await.len(), 0);
}

/// Ada is in three: of marketing for an audience and for none, and of what she waits for.
async fn enter_three(world: &World<'_>) {
    make_audience(&world.cx().await, "news").await;
    let all = [
        json!({ "id": "a-news", "audience": "news" }),
        json!({ "id": "b-plain" }),
        json!({ "id": "c-order", "transactional": true }),
    ];
    for mut one in all {
        one["steps"] = wait_a_week();
        world.put(one).await;
    }
    // Whoever is no member of an audience does not come in.
    use tidings_people::consent::subscriptions::{Subscribe, subscribe};
    use tidings_people::consent::{Act, By, Proof, Whom, audiences};
    let cx = world.cx().await;
    let audience = audiences::find(&cx, "news".parse().unwrap()).await.unwrap().id;
    let act = Act {
        by: By::Person,
        source: "a page".parse().unwrap(),
        reason: None,
        proof: Proof::default(),
    };
    let whom = Whom::Email(super::email("ada"));
    subscribe(&cx, Subscribe { whom, audience, client: None, confirmed: true, act }).await.unwrap();
    world.tell("enter", "user.created", json!({})).await;
    assert_eq!(world.sequences("ada").await, ["a-news", "b-plain", "c-order"]);
    world.bed.advance(1).await;
}

async fn after(world: &World<'_>, id: &str, name: &str, data: Value) -> Vec<String> {
    world.tell_of_system(id, name, data).await;
    world.sequences("ada").await
}

async fn whoever_leaves_everything_leaves_marketing(bed: &Bed) {
    let world = World::new(bed).await;
    enter_three(&world).await;
    let all = json!({ "scope": "everything" });
    assert_eq!(after(&world, "s1", "subscriber.unsubscribed", all).await, ["c-order"]);
}

async fn whoever_leaves_an_audience_leaves_what_is_part_of_it(bed: &Bed) {
    let world = World::new(bed).await;
    enter_three(&world).await;
    let name = "subscriber.unsubscribed";
    let other = json!({ "scope": "audience", "audience": "other" });
    assert_eq!(after(&world, "s1", name, other).await.len(), 3);
    let client = json!({ "scope": "client", "audience": "news", "client": "other" });
    assert_eq!(after(&world, "s2", name, client).await.len(), 3);
    let news = json!({ "scope": "client", "audience": "news", "client": "shop" });
    assert_eq!(after(&world, "s3", name, news).await, ["b-plain", "c-order"]);
}

async fn whoever_is_suppressed_leaves_everything(bed: &Bed) {
    let world = World::new(bed).await;
    enter_three(&world).await;
    let data = json!({ "kind": "Permanent" });
    // What does not hold any more ends nothing.
    let told = after(&world, "s1", "subscriber.suppressed", data).await;
    assert_eq!(told.len(), 3);
    // It happened before he came in, and was told since.
    use tidings_people::suppression::{Kind, Reason, Suppress, suppress};
    let cx = world.cx().await;
    let bounced = Suppress {
        email: super::email("ada"),
        kind: Kind::Permanent,
        reason: Reason::clipped("General"),
        source: None,
        note: None,
        at: cx.now() - jiff::SignedDuration::from_hours(1),
    };
    suppress(&cx, bounced).await.unwrap();
    let worker = super::Worker::new(world.tools.clone());
    bed.work(&tidings_kernel::queues::SEQUENCE_EVENTS, worker.handler()).await;
    assert!(world.sequences("ada").await.is_empty());
}

async fn nobody_else_can_say_so(bed: &Bed) {
    let world = World::new(bed).await;
    enter_three(&world).await;
    world.tell("e1", "subscriber.suppressed", json!({ "kind": "Permanent" })).await;
    world.tell("e2", "subscriber.unsubscribed", json!({ "scope": "everything" })).await;
    assert_eq!(world.sequences("ada").await.len(), 3);
}

async fn what_is_waited_for_wakes_the_walk(bed: &Bed) {
    let world = World::new(bed).await;
    let filter = json!([{ "path": "$.plan", "equals": "pro" }]);
    world
        .put(json!({ "steps": [
        { "wait_for": "user.paid", "filter": filter, "timeout": "7 days",
          "then": [{ "send": "deal" }], "else": [{ "send": "bye" }] },
        { "wait": "7 days" },
    ] }))
        .await;
    world.tell("e1", "user.created", json!({})).await;
    world.walk().await;
    bed.advance(1).await;
    world.tell("e2", "user.paid", json!({ "plan": "free" })).await;
    world.walk().await;
    assert!(world.mails().await.is_empty());
    let paid = world.message("e3", "user.paid", json!({ "plan": "pro" })).await;
    for _ in 0..2 {
        assert_eq!(world.deliver(&paid).await, Outcome::Done);
        world.walk().await;
    }
    assert_eq!(world.mails().await, ["ada@example.org deal welcome walking sequence queued"]);
    assert_eq!(world.inside("ada").await.len(), 1);
}

async fn a_reply_ends_it(bed: &Bed) {
    let world = World::new(bed).await;
    let filter = json!([{ "path": "$.sequenceId", "equals": "welcome" }]);
    world
        .put(json!({
            "exitOn": [{ "event": "email.replied", "filter": filter }],
            "steps": wait_a_week(),
        }))
        .await;
    world.tell("e1", "user.created", json!({})).await;
    bed.advance(1).await;
    let other = json!({ "sequenceId": "other", "templateKey": "x", "subject": "Re: x" });
    assert_eq!(after(&world, "s1", "email.replied", other).await.len(), 1);
    let own = json!({ "sequenceId": "welcome", "templateKey": "hello", "subject": "Re: x" });
    assert!(after(&world, "s2", "email.replied", own).await.is_empty());
}

async fn an_event_that_restarts_does_not_end_what_it_began(bed: &Bed) {
    let world = World::new(bed).await;
    world.put(json!({ "exitOn": ["user.created"], "steps": wait_a_week() })).await;
    let created = world.message("e1", "user.created", json!({})).await;
    for _ in 0..3 {
        assert_eq!(world.deliver(&created).await, Outcome::Done);
        assert_eq!(world.inside("ada").await.len(), 1);
    }
}
