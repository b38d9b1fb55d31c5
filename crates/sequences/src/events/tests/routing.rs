//! What an event begins: executions, and mails of its own.

use serde_json::json;
use tidings_jobs::Outcome;
use tidings_jobs::contracts::SequenceEvent;
use tidings_kernel::queues;
use tidings_people::consent::subscriptions::{self, Unsubscribe};
use tidings_people::consent::{Act, By, Proof, Scope, Whom};
use tidings_testbed::{Bed, each_store};

use super::super::{Worker, accept};
use super::{World, email, event, wait_a_week};
use crate::versions::{Status, set_status};

each_store!(
    an_event_that_was_taken_in_lets_somebody_in,
    a_mapping_says_who_it_is_and_what_is_known,
    an_event_that_comes_again_begins_nothing_again,
    only_what_meets_the_filter_counts,
    what_has_no_address_is_let_go,
    nobody_comes_into_what_is_paused,
    a_mail_of_its_own_is_the_sequences_wherever_the_person_is,
    a_mail_of_its_own_is_sent_once,
    a_mail_that_cannot_be_sent_stops_nothing,
    what_one_sequence_meets_does_not_stop_the_others,
    one_event_can_mean_several_things,
);

async fn an_event_that_was_taken_in_lets_somebody_in(bed: &Bed) {
    let world = World::new(bed).await;
    world.put(json!({ "steps": wait_a_week() })).await;
    accept(&world.cx().await, vec![event("user.created", json!({ "plan": "pro" }))]).await.unwrap();
    let worker = Worker::new(world.tools.clone());
    bed.work(&queues::SEQUENCE_EVENTS, worker.handler()).await;
    let inside = world.inside("ada").await;
    assert_eq!(inside.len(), 1);
    assert_eq!(inside[0].input, json!({ "plan": "pro" }));
    assert!(world.queued().await.is_empty());
}

async fn a_mapping_says_who_it_is_and_what_is_known(bed: &Bed) {
    let world = World::new(bed).await;
    let map = json!({ "email": "$.user.mail", "firstName": "$.user.name", "attributes": { "plan": "$.plan" } });
    world
        .put(json!({ "trigger": { "event": "user.created", "map": map }, "steps": wait_a_week() }))
        .await;
    let data =
        json!({ "user": { "mail": "Bob@Example.org", "name": "Bob" }, "plan": "pro", "other": 1 });
    world.tell("e1", "user.created", data).await;
    assert_eq!(world.sequences("bob").await, ["welcome"]);
    assert!(world.sequences("ada").await.is_empty());
    let bob = world.contact("bob").await.unwrap();
    assert_eq!((bob.first_name.as_deref(), bob.attributes.len()), (Some("Bob"), 1));
    // Where the mapping finds nobody it is whom the event is about.
    world.tell("e2", "user.created", json!({})).await;
    assert_eq!(world.sequences("ada").await, ["welcome"]);
}

async fn an_event_that_comes_again_begins_nothing_again(bed: &Bed) {
    let world = World::new(bed).await;
    world.put(json!({ "steps": wait_a_week() })).await;
    let message = world.message("e1", "user.created", json!({})).await;
    assert_eq!(world.deliver(&message).await, Outcome::Done);
    let first = world.inside("ada").await[0].id.clone();
    bed.advance(60).await;
    assert_eq!(world.deliver(&message).await, Outcome::Done);
    assert_eq!(world.inside("ada").await[0].id, first);
    world.tell("e2", "user.created", json!({})).await;
    assert_ne!(world.inside("ada").await[0].id, first, "another event begins anew");
}

async fn only_what_meets_the_filter_counts(bed: &Bed) {
    let world = World::new(bed).await;
    let filter = json!([{ "path": "$.plan", "equals": "pro" }]);
    world
        .put(json!({
            "trigger": { "event": "user.created", "filter": filter },
            "events": [{ "event": "user.paid", "send": "bye", "filter": filter }],
            "exitOn": [{ "event": "user.left", "filter": filter }],
            "steps": wait_a_week(),
        }))
        .await;
    let (free, pro) = (json!({ "plan": "free" }), json!({ "plan": "pro" }));
    world.tell("e1", "user.created", free.clone()).await;
    world.tell("e2", "user.paid", free.clone()).await;
    assert_eq!((world.inside("ada").await.len(), world.mails().await.len()), (0, 0));
    world.tell("e3", "user.created", pro.clone()).await;
    world.tell("e4", "user.paid", pro.clone()).await;
    assert_eq!((world.inside("ada").await.len(), world.mails().await.len()), (1, 1));
    world.tell("e5", "user.left", free).await;
    assert_eq!(world.inside("ada").await.len(), 1);
    world.tell("e6", "user.left", pro).await;
    assert_eq!(world.inside("ada").await.len(), 0);
}

async fn what_has_no_address_is_let_go(bed: &Bed) {
    let world = World::new(bed).await;
    let map = json!({ "email": "$.mail" });
    world
        .put(json!({
            "trigger": { "event": "user.created", "map": map },
            "events": [{ "event": "user.created", "send": "bye", "map": map }],
            "exitOn": [{ "event": "user.created", "map": map }],
        }))
        .await;
    for (id, mail) in [("e1", json!("not an address")), ("e2", json!(7)), ("e3", json!({}))] {
        world.tell(id, "user.created", json!({ "mail": mail })).await;
    }
    // It is not taken for somebody else's.
    assert_eq!((world.inside("ada").await.len(), world.mails().await.len()), (0, 0));
}

async fn nobody_comes_into_what_is_paused(bed: &Bed) {
    let world = World::new(bed).await;
    world
        .put(json!({
            "events": [{ "event": "user.paid", "send": "bye" }],
            "exitOn": ["user.left"],
            "steps": wait_a_week(),
        }))
        .await;
    world.tell("e1", "user.created", json!({})).await;
    for status in [Status::Paused, Status::Archived] {
        set_status(&world.cx().await, "welcome", status).await.unwrap();
        let message = world.message(status.as_str(), "user.created", json!({})).await;
        let bob = SequenceEvent { email: Some("bob@example.org".to_owned()), ..message };
        assert_eq!(world.deliver(&bob).await, Outcome::Done);
        world.tell(&format!("paid {status}"), "user.paid", json!({})).await;
        assert!(world.inside("bob").await.is_empty());
        assert!(world.mails().await.is_empty());
        assert_eq!(world.inside("ada").await.len(), 1, "who is in it goes on");
    }
    world.tell("e9", "user.left", json!({})).await;
    assert!(world.inside("ada").await.is_empty());
}

async fn unsubscribe(world: &World<'_>, name: &str) {
    let act = Act {
        by: By::Person,
        source: "a page".parse().unwrap(),
        reason: None,
        proof: Proof::default(),
    };
    let cmd = Unsubscribe { whom: Whom::Email(email(name)), scope: Scope::Global, act };
    subscriptions::unsubscribe(&world.cx().await, cmd).await.unwrap();
}

async fn a_mail_of_its_own_is_the_sequences_wherever_the_person_is(bed: &Bed) {
    let world = World::new(bed).await;
    let events = json!([{ "event": "user.paid", "send": "bye", "map": { "firstName": "$.name" } }]);
    world.put(json!({ "events": events, "steps": wait_a_week() })).await;
    world
        .put(json!({ "id": "orders", "transactional": true, "trigger": null, "events": events }))
        .await;
    // He is in neither.
    world.tell("e1", "user.paid", json!({ "name": "Ada" })).await;
    assert_eq!(world.contact("ada").await.unwrap().first_name.as_deref(), Some("Ada"));
    assert!(world.inside("ada").await.is_empty());
    // And in one of them.
    world.tell("e2", "user.created", json!({})).await;
    world.tell("e3", "user.paid", json!({})).await;
    assert_eq!(world.inside("ada").await.len(), 1);
    unsubscribe(&world, "ada").await;
    world.tell("e4", "user.paid", json!({})).await;
    let sent = |sequence: &str, kind: &str, status: &str| {
        format!("ada@example.org bye {sequence} alone {kind} {status}")
    };
    let (orders, welcome) =
        (sent("orders", "transactional", "queued"), sent("welcome", "sequence", "queued"));
    assert_eq!(
        world.mails().await,
        [
            orders.clone(),
            welcome.clone(),
            orders.clone(),
            welcome,
            orders,
            sent("welcome", "sequence", "skipped"),
        ]
    );
}

async fn a_mail_of_its_own_is_sent_once(bed: &Bed) {
    let world = World::new(bed).await;
    let events =
        json!([{ "event": "user.paid", "send": "bye" }, { "event": "user.paid", "send": "deal" }]);
    world.put(json!({ "events": events })).await;
    let message = world.message("e1", "user.paid", json!({})).await;
    for _ in 0..2 {
        assert_eq!(world.deliver(&message).await, Outcome::Done);
    }
    assert_eq!(world.mails().await.len(), 2);
    // What it says may be another by then.
    let events = json!([{ "event": "user.paid", "send": "hello" }]);
    world.put(json!({ "events": events })).await;
    assert_eq!(world.deliver(&message).await, Outcome::Done);
    assert_eq!(world.mails().await.len(), 2);
}

async fn a_mail_that_cannot_be_sent_stops_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    let events = json!([{ "event": "user.created", "send": "bye" }, { "event": "user.created", "send": "deal" }]);
    world.put(json!({ "events": events, "steps": wait_a_week() })).await;
    let key = "bye".parse().unwrap();
    tidings_delivery::templates::deactivate(&world.cx().await, key).await.unwrap();
    world.tell("e1", "user.created", json!({})).await;
    assert_eq!((world.inside("ada").await.len(), world.mails().await.len()), (1, 1));
}

async fn what_one_sequence_meets_does_not_stop_the_others(bed: &Bed) {
    let world = World::new(bed).await;
    for id in ["a", "b", "c"] {
        world.put(json!({ "id": id, "steps": wait_a_week() })).await;
    }
    // Nobody can read what one of them is.
    world.run("UPDATE sequences SET active_version = 9 WHERE slug = 'b'").await;
    let message = world.message("e1", "user.created", json!({})).await;
    assert!(matches!(world.deliver(&message).await, Outcome::Retry { .. }));
    assert_eq!(world.sequences("ada").await, ["a", "c"]);
    let before: Vec<_> = world.inside("ada").await.into_iter().map(|one| one.id).collect();
    world.run("UPDATE sequences SET active_version = 1 WHERE slug = 'b'").await;
    assert_eq!(world.deliver(&message).await, Outcome::Done);
    let after = world.inside("ada").await;
    let sequences: Vec<_> = after.iter().map(|one| one.sequence.as_str()).collect();
    assert_eq!(sequences, ["a", "b", "c"]);
    assert_eq!([&after[0].id, &after[2].id], [&before[0], &before[1]]);
}

async fn one_event_can_mean_several_things(bed: &Bed) {
    let world = World::new(bed).await;
    world.put(json!({ "id": "trial", "exitOn": ["user.paid"], "steps": wait_a_week() })).await;
    world
        .put(json!({
            "id": "customer",
            "trigger": { "event": "user.paid" },
            "events": [{ "event": "user.paid", "send": "bye" }],
            "steps": wait_a_week(),
        }))
        .await;
    world.tell("e1", "user.created", json!({})).await;
    assert_eq!(world.sequences("ada").await, ["trial"]);
    bed.advance(1).await;
    world.tell("e2", "user.paid", json!({})).await;
    assert_eq!(world.sequences("ada").await, ["customer"]);
    assert_eq!(world.mails().await.len(), 1);
}
