//! Taking events in: once each, within bounds, or not at all.

use serde_json::{Value, json};
use tidings_testbed::{Bed, each_store};

use super::super::{AcceptError, Event, MAX_DATA_BYTES, accept};
use super::{World, email, event, object};

each_store!(
    an_event_is_told_once,
    an_event_told_by_two_at_once_counts_once,
    events_without_an_id_are_all_different,
    many_are_written_down_at_once,
    what_is_written_down_says_when_we_heard_of_it,
    nothing_is_written_down_if_anything_is_wrong,
    what_is_told_can_be_carried,
);

fn named(id: &str) -> Event {
    Event { message_id: Some(id.to_owned()), ..event("user.created", json!({})) }
}

async fn an_event_is_told_once(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let told = accept(&cx, vec![named("a"), named("b"), named("a")]).await.unwrap();
    let replayed: Vec<_> = told.iter().map(|one| one.replayed).collect();
    assert_eq!(replayed, [false, false, true]);
    assert_eq!((told[0].message_id.as_str(), &told[0].id), ("a", &told[2].id));
    assert_eq!(world.queued().await.len(), 2);
    let again = accept(&cx, vec![named("b"), named("c")]).await.unwrap();
    assert_eq!((again[0].replayed, again[1].replayed), (true, false));
    assert_eq!(again[0].id, told[1].id);
    let queued = world.queued().await;
    let ids: Vec<_> = queued.iter().map(|one| one["event_id"].as_str().unwrap()).collect();
    assert_eq!(ids, [&told[0].id, &told[1].id, &again[1].id]);
    // Another workspace has ids of its own.
    let other = bed.make_workspace("other").await;
    assert!(!accept(&other, vec![named("a")]).await.unwrap()[0].replayed);
}

async fn an_event_told_by_two_at_once_counts_once(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let one = || accept(&cx, vec![named("a"), named("b")]);
    let (first, second, third) = tokio::join!(one(), one(), one());
    let all = [first.unwrap(), second.unwrap(), third.unwrap()];
    let fresh = all.iter().flatten().filter(|one| !one.replayed).count();
    assert_eq!((fresh, world.queued().await.len()), (2, 2));
}

async fn events_without_an_id_are_all_different(bed: &Bed) {
    let world = World::new(bed).await;
    let event = || event("user.created", json!({}));
    let told = accept(&world.cx().await, vec![event(), event()]).await.unwrap();
    assert_ne!(told[0].message_id, told[1].message_id);
    assert_ne!(told[0].id, told[1].id);
    assert_eq!(world.queued().await.len(), 2);
}

async fn many_are_written_down_at_once(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let large = |number: usize| {
        let data = object(json!({ "text": "x".repeat(MAX_DATA_BYTES - 20), "n": number % 10 }));
        Event { data, ..named(&number.to_string()) }
    };
    assert!(!accept(&cx, vec![large(50)]).await.unwrap()[0].replayed);
    let told = accept(&cx, (0..100).map(large).collect()).await.unwrap();
    let replayed: Vec<_> = (0..100).filter(|place| told[*place].replayed).collect();
    assert_eq!(replayed, [50]);
    assert_eq!(world.queued().await.len(), 100);
    assert!(matches!(accept(&cx, (0..101).map(large).collect()).await, Err(AcceptError::Count)));
    assert!(matches!(accept(&cx, Vec::new()).await, Err(AcceptError::Count)));
}

async fn what_is_written_down_says_when_we_heard_of_it(bed: &Bed) {
    let world = World::new(bed).await;
    let at = Some("2020-01-01T00:00:00Z".parse().unwrap());
    let one = Event {
        occurred_at: at,
        user_id: Some("42".to_owned()),
        ..event("order.paid", json!({ "total": 5 }))
    };
    let two = Event { occurred_at: at, ..event("order.paid", json!({ "timestamp": "mine" })) };
    accept(&world.cx().await, vec![one, two]).await.unwrap();
    let mut queued = world.queued().await;
    queued[0].as_object_mut().unwrap().remove("event_id");
    let expected = json!({
        "contract": "sequence-event",
        "version": 1,
        "workspace": "acme",
        "name": "order.paid",
        "origin": "api",
        "email": "ada@example.org",
        "user_id": "42",
        "occurred_at": "2026-07-01T12:00:00Z",
        "data": { "total": 5, "timestamp": "2020-01-01T00:00:00Z" },
    });
    assert_eq!(queued[0], expected);
    assert_eq!(queued[1]["data"]["timestamp"], "mine");
}

fn nested(depth: usize) -> Value {
    (1..depth).fold(json!({}), |inner, _| json!({ "a": inner }))
}

async fn nothing_is_written_down_if_anything_is_wrong(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let long = Event { message_id: Some("x".repeat(256)), ..named("a") };
    let blank =
        Event { message_id: Some(" ".to_owned()), user_id: Some("a\nb".to_owned()), ..named("a") };
    let events = vec![
        named("fine"),
        event("subscriber.unsubscribed", json!({})),
        event("subscriber.suppressed.now", json!({})),
        event("email.replied", json!({})),
        event("contact.revised", json!({})),
        event("what?", json!({})),
        long,
        blank,
        event("big", json!({ "text": "x".repeat(MAX_DATA_BYTES) })),
        event("deep", nested(9)),
        event("nul", json!({ "a": { "b": ["\u{0}"] } })),
        event("nul", json!({ "\u{0}": 1 })),
        event("subscriber.subscribed", nested(8)),
    ];
    let Err(AcceptError::Invalid(wrong)) = accept(&cx, events).await else { panic!("refused") };
    let told = wrong.iter().map(|one| format!("{} {}: {}", one.event, one.field, one.message));
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @r"
    1 name: subscriber.unsubscribed is told by Tidings itself; use another name
    2 name: subscriber.suppressed.now is told by Tidings itself; use another name
    3 name: email.replied is told by Tidings itself; use another name
    4 name: contact.revised is told by Tidings itself; use another name
    5 name: use 1 to 100 letters, digits, spaces inside, and . _ : - /, such as user.signed_up
    6 message_id: use 1 to 255 characters on one line
    7 message_id: use 1 to 255 characters on one line
    7 user_id: use 1 to 255 characters on one line
    8 data: use at most 32 KB
    9 data: lists and objects can be nested at most 8 deep
    10 data: a text cannot have the character U+0000
    11 data: a text cannot have the character U+0000
    ");
    assert!(world.queued().await.is_empty());
    assert!(!accept(&cx, vec![named("fine")]).await.unwrap()[0].replayed);
    let built_in = event("subscriber.subscribed", nested(8));
    accept(&cx, vec![built_in]).await.unwrap();
}

async fn what_is_told_can_be_carried(bed: &Bed) {
    let world = World::new(bed).await;
    let odd = "\u{ffff}\u{fffe}\u{1}\u{7f}\u{10ffff}\"\\";
    let data = object(json!({ "text": odd, odd: [odd] }));
    let one = Event { data, message_id: Some("\u{ffff}".to_owned()), ..named("a") };
    let user =
        Event { user_id: Some("\u{fffe}".to_owned()), email: Some(email("ada")), ..named("b") };
    accept(&world.cx().await, vec![one, user]).await.unwrap();
    assert_eq!(world.queued().await.len(), 2);
}
