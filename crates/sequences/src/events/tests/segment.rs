//! The calls of Segment's libraries.

use serde_json::{Value, json};

use super::super::segment::{batch, identify, track};
use super::super::{Event, Wrong};
use super::object;

fn shown(event: &Event) -> Value {
    json!({
        "name": event.name,
        "email": event.email.as_ref().map(ToString::to_string),
        "user": event.user_id,
        "anonymous": event.anonymous_id,
        "id": event.message_id,
        "at": event.occurred_at.map(|at| at.to_string()),
        "data": event.data,
    })
}

fn told(wrong: &[Wrong]) -> Vec<String> {
    wrong.iter().map(|one| format!("{} {}: {}", one.event, one.field, one.message)).collect()
}

#[test]
fn a_track_is_an_event() {
    let call = json!({
        "type": "track",
        "event": "Order Completed",
        "userId": 42,
        "anonymousId": "anon-1",
        "messageId": "m-1",
        "timestamp": "2026-01-02T03:04:05.678Z",
        "properties": { "total": 5 },
        "context": { "ip": "::1", "library": { "name": "js" } },
        "integrations": {},
        "sentAt": "2026-01-02T03:04:05.678Z",
    });
    let expected = json!({
        "name": "Order Completed",
        "email": null,
        "user": "42",
        "anonymous": "anon-1",
        "id": "m-1",
        "at": "2026-01-02T03:04:05.678Z",
        "data": { "total": 5 },
    });
    assert_eq!(shown(&track(&object(call)).unwrap()), expected);
}

#[test]
fn an_address_is_found_wherever_there_is_one_first() {
    let check = |but: Value, expected: Option<&str>| {
        let mut call = object(json!({ "event": "x" }));
        call.extend(object(but));
        let found = track(&call).unwrap().email.map(|email| email.to_string());
        assert_eq!(found.as_deref(), expected);
    };
    let all = json!({
        "properties": { "email": "a@example.org" },
        "traits": { "email": "b@example.org" },
        "context": { "traits": { "email": "c@example.org" } },
        "userId": "d@example.org",
    });
    let without = |names: &[&str]| {
        let mut some = object(all.clone());
        names.iter().for_each(|name| drop(some.remove(*name)));
        Value::Object(some)
    };
    check(without(&[]), Some("a@example.org"));
    check(without(&["properties"]), Some("b@example.org"));
    check(without(&["properties", "traits"]), Some("c@example.org"));
    check(without(&["properties", "traits", "context"]), Some("d@example.org"));
    check(json!({ "userId": "user-1" }), None);
    check(
        json!({ "properties": { "email": "no" }, "userId": "d@example.org" }),
        Some("d@example.org"),
    );
    check(json!({ "context": 7, "traits": null }), None);
}

#[test]
fn an_identify_tells_what_is_known() {
    let traits = json!({ "email": "ada@example.org", "firstName": "Ada", "plan": "pro" });
    let call = json!({ "userId": "42", "traits": traits });
    let expected = json!({
        "name": "identify", "email": "ada@example.org", "user": "42", "anonymous": null, "id": null, "at": null, "data": traits,
    });
    assert_eq!(shown(&identify(&object(call)).unwrap()), expected);
}

#[test]
fn a_batch_is_several_of_them() {
    let call = json!({ "batch": [
        { "type": "track", "event": "a" },
        { "type": "page", "name": "Home" },
        { "type": "identify", "traits": {} },
    ], "sentAt": "now" });
    let events = batch(&object(call)).unwrap();
    let names: Vec<_> =
        events.iter().map(|event| event.as_ref().map(|event| event.name.as_str())).collect();
    assert_eq!(names, [Some("a"), None, Some("identify")]);
}

#[test]
fn all_that_is_wrong_is_told() {
    let call = json!({ "batch": [
        { "type": "track" },
        7,
        { "type": "sing" },
        { "type": "track", "event": 5, "properties": [], "userId": {}, "timestamp": "soon" },
        { "type": "identify", "traits": "many" },
    ]});
    let wrong = batch(&object(call)).unwrap_err();
    insta::assert_snapshot!(told(&wrong).join("\n"), @r"
    0 event: this is required
    1 : use an object
    2 type: use track or identify
    3 event: use a text
    3 properties: use an object
    3 userId: use a text
    3 timestamp: use a time such as 2030-01-31T12:00:00Z
    4 traits: use an object
    ");
    assert_eq!(told(&batch(&object(json!({}))).unwrap_err()), ["0 batch: use a list of calls"]);
    let none = batch(&object(json!({ "batch": [] }))).unwrap_err();
    assert_eq!(told(&none), ["0 batch: use 1 to 100 calls"]);
    let many = json!({ "batch": vec![json!({ "type": "page" }); 101] });
    assert_eq!(told(&batch(&object(many)).unwrap_err()), ["0 batch: use 1 to 100 calls"]);
    let other = json!({ "type": "identify", "event": "x" });
    assert_eq!(told(&track(&object(other)).unwrap_err()), ["0 type: use track, or leave it out"]);
}
