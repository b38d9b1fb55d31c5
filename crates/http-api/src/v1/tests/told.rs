//! What callers tell of people.

use insta::assert_snapshot;
use serde_json::{Value, json};
use tidings_access::{Cx, Scope, Scopes};
use tidings_sql::DatabaseError;

use super::World;

/// What waits for the worker, as `name address user`.
async fn queued(cx: &Cx) -> Vec<String> {
    let sql = "SELECT body FROM queue_messages WHERE queue = 'sequence-events' ORDER BY id";
    let rows = cx.database().read(move |tx| tx.query(sql, &[])).await;
    let rows = rows.map_err(|error: DatabaseError| error).unwrap();
    let shown = |row: &tidings_sql::Row| {
        let body: Value = serde_json::from_str(row.text(0).unwrap()).unwrap();
        let text = |name: &str| body[name].as_str().unwrap_or("-").to_owned();
        format!("{} {} {}", text("name"), text("email"), text("user_id"))
    };
    rows.iter().map(shown).collect()
}

#[tokio::test]
async fn one_event_or_several_are_told_and_each_id_counts_once() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::from_iter([Scope::Send])).await;
    let one = json!({
        "name": "user.signed_up", "message_id": "m-1", "email": "Ada@example.org",
        "occurred_at": "2026-06-30T10:00:00Z", "data": { "plan": "pro" },
    });
    let answer = world.post(&key, "/v1/events", &one.to_string()).await;
    assert_snapshot!("told", answer.shown());
    let many =
        json!({ "events": [one, { "name": "user.paid", "message_id": "m-2", "user_id": "42" }] });
    let answer = world.post(&key, "/v1/events", &many.to_string()).await;
    assert_eq!(answer.status, 202);
    let replayed: Vec<_> = answer.json()["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["replayed"].clone())
        .collect();
    assert_eq!(replayed, [json!(true), json!(false)]);
    let expected = ["user.signed_up ada@example.org -", "user.paid - 42"];
    assert_eq!(queued(&world.acme).await, expected);
}

#[tokio::test]
async fn all_that_is_wrong_with_events_is_told() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let mut told = Vec::new();
    for (path, body) in [
        ("/v1/events", json!({})),
        ("/v1/events", json!({ "name": "email.replied", "email": "nobody", "extra": 1 })),
        ("/v1/events", json!({ "name": "email.replied", "message_id": "" })),
        ("/v1/events", json!({ "events": [] })),
        (
            "/v1/events",
            json!({ "events": [{ "name": "fine" }, { "name": "?", "data": 7 }], "name": "x" }),
        ),
        (
            "/v1/events",
            json!({ "events": [{ "name": "fine" }, { "name": "subscriber.suppressed" }] }),
        ),
        ("/v1/track", json!({ "userId": "7" })),
        ("/v1/track", json!({ "event": "email.sent", "messageId": "\n" })),
        ("/v1/identify", json!({ "type": "track", "traits": [] })),
        ("/v1/batch", json!({ "batch": 7 })),
        (
            "/v1/batch",
            json!({ "batch": [{ "type": "page" }, { "type": "track", "event": "email.x" }, { "type": "?" }] }),
        ),
        (
            "/v1/batch",
            json!({ "batch": [{ "type": "page" }, { "type": "track", "event": "email.x" }] }),
        ),
    ] {
        let answer = world.post(&key, path, &body.to_string()).await;
        let errors = answer.json()["errors"].clone();
        told.push(format!("{path} {body}\n{} {errors:#}", answer.status));
    }
    assert_snapshot!("told_wrong", told.join("\n\n"));
    assert!(queued(&world.acme).await.is_empty());
}

#[tokio::test]
async fn the_calls_of_segment_are_events() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let track = json!({
        "event": "Order Completed", "userId": "42", "messageId": "m-1", "context": { "ip": "::1" },
        "properties": { "email": "ada@example.org" }, "integrations": {}, "writeKey": "x",
    });
    assert_eq!(world.post(&key, "/v1/track", &track.to_string()).await.status, 202);
    let identify =
        json!({ "userId": "42", "traits": { "email": "ada@example.org", "plan": "pro" } });
    assert_eq!(world.post(&key, "/v1/identify", &identify.to_string()).await.status, 202);
    let mut again = track;
    again["type"] = json!("track");
    let batch = json!({ "batch": [again, { "type": "page" }, { "type": "track", "event": "Seen", "messageId": "m-3" }] });
    let answer = world.post(&key, "/v1/batch", &batch.to_string()).await;
    assert_snapshot!("told_batch", answer.shown());
    let pages = world.post(&key, "/v1/batch", r#"{"batch":[{"type":"page"}]}"#).await;
    assert_eq!((pages.status, pages.json()["data"][0]["id"].is_null()), (202, true));
    let expected =
        ["Order Completed ada@example.org 42", "identify ada@example.org 42", "Seen - -"];
    assert_eq!(queued(&world.acme).await, expected);
}

#[tokio::test]
async fn only_whoever_may_send_tells_events() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::from_iter([Scope::Read])).await;
    for path in ["/v1/events", "/v1/track", "/v1/identify", "/v1/batch"] {
        assert_eq!(world.post(&key, path, "{}").await.status, 403, "{path}");
    }
}
