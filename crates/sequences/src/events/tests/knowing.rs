//! What events say of people: the names that mean so, and mappings.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidings_jobs::Outcome;
use tidings_jobs::contracts::SequenceEvent;
use tidings_kernel::Value as Known;
use tidings_people::contacts::{self, Attributes, TagChange, Upsert};
use tidings_testbed::{Bed, each_store};

use super::{World, email};

each_store!(
    a_subscriber_is_written_down_with_what_is_told,
    an_empty_list_of_tags_clears_them,
    what_is_known_of_a_user_is_written_down,
    a_user_is_found_by_his_id,
    an_id_goes_from_nobody_to_somebody_else_because_an_event_says_so,
    what_cannot_be_written_down_is_left_out,
    an_event_of_nobody_is_let_go,
);

fn text(contact: &contacts::Contact, name: &str) -> Option<String> {
    contact.attributes.get(name).and_then(Known::as_text).map(str::to_owned)
}

fn tags(contact: &contacts::Contact) -> Vec<&str> {
    contact.tags.iter().map(String::as_str).collect()
}

async fn a_subscriber_is_written_down_with_what_is_told(bed: &Bed) {
    let world = World::new(bed).await;
    world.put(json!({ "trigger": { "event": "subscriber.subscribed" } })).await;
    let data =
        json!({ "firstName": "Ada", "attributes": { "plan": "pro" }, "tags": ["Beta", "vip"] });
    world.tell("e1", "subscriber.subscribed", data).await;
    let ada = world.contact("ada").await.unwrap();
    assert_eq!(
        (ada.first_name.as_deref(), text(&ada, "plan").as_deref()),
        (Some("Ada"), Some("pro"))
    );
    assert_eq!(tags(&ada), ["beta", "vip"]);
    assert_eq!(world.sequences("ada").await, ["welcome"]);
    // What is not told stays as it is.
    world.tell("e2", "subscriber.subscribed", json!({ "attributes": { "size": "L" } })).await;
    let ada = world.contact("ada").await.unwrap();
    assert_eq!((ada.first_name.as_deref(), tags(&ada)), (Some("Ada"), vec!["beta", "vip"]));
    assert_eq!(text(&ada, "plan").as_deref(), Some("pro"));
}

async fn an_empty_list_of_tags_clears_them(bed: &Bed) {
    let world = World::new(bed).await;
    let upsert = Upsert {
        email: email("ada"),
        first_name: None,
        attributes: Attributes::default(),
        tags: Some(TagChange::Add(BTreeSet::from(["beta".parse().unwrap()]))),
    };
    contacts::upsert(&world.cx().await, upsert).await.unwrap();
    world.tell("e1", "subscriber.subscribed", json!({})).await;
    assert_eq!(tags(&world.contact("ada").await.unwrap()), ["beta"]);
    // The system tells of somebody who came in another way, and says nothing of tags.
    world.tell_of_system("e2", "subscriber.subscribed", json!({ "tags": [] })).await;
    assert_eq!(tags(&world.contact("ada").await.unwrap()), ["beta"]);
    world.tell("e3", "subscriber.subscribed", json!({ "tags": [] })).await;
    assert!(world.contact("ada").await.unwrap().tags.is_empty());
}

async fn what_is_known_of_a_user_is_written_down(bed: &Bed) {
    let world = World::new(bed).await;
    let traits = json!({
        "email": "ada@example.org", "name": "Ada Lovelace", "plan": "pro", "createdAt": "2020-01-01", "a b": 1,
        "timezone": "Europe/Berlin",
    });
    world.tell("e1", "identify", traits).await;
    let ada = world.contact("ada").await.unwrap();
    assert_eq!(ada.first_name.as_deref(), Some("Ada"));
    let names: Vec<_> = ada.attributes.keys().map(String::as_str).collect();
    assert_eq!(names, ["name", "plan"]);
    assert_eq!(ada.timezone.as_deref(), Some("Europe/Berlin"));
    world
        .tell(
            "e2",
            "identify",
            json!({ "first_name": "Augusta", "name": "X", "plan": null, "timezone": "there" }),
        )
        .await;
    let ada = world.contact("ada").await.unwrap();
    assert_eq!((ada.first_name.as_deref(), text(&ada, "plan")), (Some("Augusta"), None));
    // What is no time zone is a trait like any other.
    assert_eq!(
        (ada.timezone.as_deref(), text(&ada, "timezone").as_deref()),
        (Some("Europe/Berlin"), Some("there"))
    );
}

/// Told of a user by his id, with or without an address.
async fn of_user(world: &World<'_>, id: &str, name: &str, data: Value) -> SequenceEvent {
    let message = world.message(id, name, data).await;
    SequenceEvent { user_id: Some("42".to_owned()), email: None, ..message }
}

async fn a_user_is_found_by_his_id(bed: &Bed) {
    let world = World::new(bed).await;
    world.put(json!({ "steps": super::wait_a_week() })).await;
    // Nobody has told who that is.
    let early = of_user(&world, "e1", "user.created", json!({})).await;
    assert_eq!(world.deliver(&early).await, Outcome::Done);
    assert!(world.inside("ada").await.is_empty());
    let known = of_user(&world, "e2", "identify", json!({ "email": "ada@example.org" })).await;
    assert_eq!(world.deliver(&known).await, Outcome::Done);
    let later = of_user(&world, "e3", "user.created", json!({})).await;
    assert_eq!(world.deliver(&later).await, Outcome::Done);
    assert_eq!(world.sequences("ada").await, ["welcome"]);
    // Who is erased is not known by his id any more.
    contacts::erase(&world.cx().await, &email("ada")).await.unwrap();
    assert_eq!(contacts::of_user_id(&world.cx().await, "42").await.unwrap(), None);
}

async fn an_id_goes_from_nobody_to_somebody_else_because_an_event_says_so(bed: &Bed) {
    let world = World::new(bed).await;
    let tell = async |id: &str, who: &str| {
        let data = json!({ "email": format!("{who}@example.org") });
        of_user(&world, id, "identify", data).await
    };
    let first = tell("e1", "ada").await;
    assert_eq!(world.deliver(&first).await, Outcome::Done);
    bed.advance(1).await;
    let second = tell("e2", "bob").await;
    assert_eq!(world.deliver(&second).await, Outcome::Done);
    let found = contacts::of_user_id(&world.cx().await, "42").await.unwrap();
    assert_eq!(found, Some(email("ada")), "whether they are one person, identities decide");
    // And who is called something already is not called something else besides.
    let third = SequenceEvent { user_id: Some("43".to_owned()), ..tell("e3", "ada").await };
    assert_eq!(world.deliver(&third).await, Outcome::Done);
    assert_eq!(contacts::of_user_id(&world.cx().await, "43").await.unwrap(), None);
    let other = bed.make_workspace("other").await;
    assert_eq!(contacts::of_user_id(&other, "42").await.unwrap(), None);
}

async fn what_cannot_be_written_down_is_left_out(bed: &Bed) {
    let world = World::new(bed).await;
    let map = json!({ "firstName": "$.name", "attributes": "$.all" });
    world.put(json!({ "trigger": { "event": "user.created", "map": map }, "steps": super::wait_a_week() })).await;
    let data = json!({ "name": 7, "all": { "plan": "pro", "SK": "x", "deep": [[[[[1]]]]] } });
    world.tell("e1", "user.created", data).await;
    let ada = world.contact("ada").await.unwrap();
    assert_eq!((ada.first_name.as_deref(), text(&ada, "plan").as_deref()), (None, Some("pro")));
    assert_eq!(ada.attributes.len(), 1);
    assert_eq!(world.sequences("ada").await, ["welcome"]);
    // More than a contact can have: he is not let in, and the event does not come for ever.
    let many: serde_json::Map<_, _> = (0..100).map(|n| (format!("a{n}"), json!(n))).collect();
    let bob = world.message("e2", "user.created", json!({ "all": { "b": 1 } })).await;
    let bob = SequenceEvent { email: Some("bob@example.org".to_owned()), ..bob };
    assert_eq!(world.deliver(&bob).await, Outcome::Done);
    let begun = world.inside("bob").await;
    let data = Some(super::object(json!({ "all": many })));
    let more = SequenceEvent { event_id: "e3".to_owned(), data, ..bob };
    assert_eq!(world.deliver(&more).await, Outcome::Done);
    assert_eq!((begun.len(), world.inside("bob").await), (1, begun));
    assert_eq!(world.contact("bob").await.unwrap().attributes.len(), 1);
}

async fn an_event_of_nobody_is_let_go(bed: &Bed) {
    let world = World::new(bed).await;
    world
        .put(json!({
            "exitOn": ["user.created"],
            "events": [{ "event": "user.created", "send": "bye" }],
        }))
        .await;
    let nobody =
        SequenceEvent { email: None, ..world.message("e1", "user.created", json!({})).await };
    assert_eq!(world.deliver(&nobody).await, Outcome::Done);
    // The address may be where everybody has it.
    let data = json!({ "email": "ada@example.org" });
    let ada = SequenceEvent { email: None, ..world.message("e2", "user.created", data).await };
    assert_eq!(world.deliver(&ada).await, Outcome::Done);
    assert_eq!(world.sequences("ada").await, ["welcome"]);
    assert_eq!(world.mails().await.len(), 1);
    let elsewhere = SequenceEvent { workspace: "nowhere".parse().unwrap(), ..ada };
    assert!(matches!(world.deliver(&elsewhere).await, Outcome::Dead { .. }));
}
