//! Webhooks and their deliveries over HTTP.

use insta::assert_snapshot;
use jiff::ToSpan;
use tidings_access::Scopes;

use super::World;

/// A secret is another one every time.
fn shown(answer: &super::Answer) -> String {
    let text = answer.shown();
    let Some((before, rest)) = text.split_once("whsec_") else { return text };
    let end = rest.find('"').unwrap();
    assert!(end >= 32, "{text}");
    format!("{before}whsec_…{}", &rest[end..])
}

fn without_event_id(text: &str) -> String {
    let Some((before, rest)) = text.split_once("evt_") else { return text.to_owned() };
    format!("{before}evt_…{}", &rest[32..])
}

#[tokio::test]
async fn a_webhook_is_made_changed_switched_and_deleted() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let new = r#"{"url":"http://127.0.0.1:9/hooks","description":"The CRM","event_types":["email.sent"]}"#;
    let made = world.post(&key, "/v1/webhooks", new).await;
    assert_snapshot!("webhook_made", shown(&made));
    let secret = made.json()["secret"].as_str().unwrap().to_owned();
    let found = world.get(&key, "/v1/webhooks/1").await;
    assert_snapshot!("webhook", found.shown());
    assert!(!found.body.contains(&secret));

    world.clock.advance(1.hour());
    let change = r#"{"url":"http://127.0.0.1:9/b","event_types":["*"]}"#;
    let changed = world.send("PATCH /v1/webhooks/1", Some(&key.api_key.expose()), change).await;
    assert_snapshot!("webhook_changed", changed.shown());
    let bare = r#"{"description":null}"#;
    let bare = world.send("PATCH /v1/webhooks/1", Some(&key.api_key.expose()), bare).await.json();
    assert!(bare["description"].is_null(), "{bare}");
    let again = r#"{"description":"The CRM"}"#;
    world.send("PATCH /v1/webhooks/1", Some(&key.api_key.expose()), again).await;
    let rotated = world.post(&key, "/v1/webhooks/1/rotate-secret", "").await;
    assert_snapshot!("webhook_rotated", shown(&rotated));
    assert_ne!(rotated.json()["secret"].as_str().unwrap(), secret);

    let off = world.post(&key, "/v1/webhooks/1/disable", "").await.json();
    assert_eq!(off["disabled_reason"], "manual");
    assert_snapshot!("webhook_disabled", world.post(&key, "/v1/webhooks/1/test", "").await.shown());
    let on = world.post(&key, "/v1/webhooks/1/enable", "").await.json();
    assert!(on["disabled_at"].is_null());
    assert_eq!(world.get(&key, "/v1/webhooks").await.json()["data"].as_array().unwrap().len(), 1);
    assert_eq!(world.delete(&key, "/v1/webhooks/1").await.status, 204);
    assert_snapshot!("webhook_missing", world.get(&key, "/v1/webhooks/1").await.shown());
    for id in ["0", "-1", "x", "99999999999999999999"] {
        assert_eq!(world.get(&key, &format!("/v1/webhooks/{id}")).await.status, 404, "{id}");
    }
}

#[tokio::test]
async fn all_that_is_wrong_with_a_webhook_is_told_at_once() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let long = "x".repeat(201);
    let wrong = format!(
        r#"{{"url":"ftp://example.org","description":"{long}","event_types":["email.sent","email.lost"],"secret":"mine"}}"#
    );
    assert_snapshot!("webhook_wrong", world.post(&key, "/v1/webhooks", &wrong).await.shown());
    let none = world.post(&key, "/v1/webhooks", r#"{"url":"http://a@b/","event_types":[]}"#).await;
    assert_snapshot!("webhook_wrong_url", none.shown());
}

#[tokio::test]
async fn deliveries_are_listed_shown_and_replayed() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let new = r#"{"url":"http://127.0.0.1:9/hooks"}"#;
    assert_eq!(world.post(&key, "/v1/webhooks", new).await.status, 201);
    let test = world.post(&key, "/v1/webhooks/1/test", "").await;
    assert_snapshot!("webhook_test", without_event_id(&test.shown()));
    let found = world.get(&key, "/v1/webhook-deliveries/1").await;
    assert_snapshot!("webhook_delivery", without_event_id(&found.shown()));
    world.post(&key, "/v1/webhooks/1/test", "").await;
    let first = world.get(&key, "/v1/webhooks/1/deliveries?limit=1&status=pending").await.json();
    assert_eq!(first["data"][0]["id"], 2);
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = world.get(&key, &format!("/v1/webhooks/1/deliveries?cursor={cursor}")).await.json();
    assert_eq!(
        (rest["data"][0]["id"].as_i64(), &rest["next_cursor"]),
        (Some(1), &serde_json::Value::Null)
    );
    let wrong = world.get(&key, "/v1/webhooks/1/deliveries?status=lost&limit=0&page=2").await;
    assert_snapshot!("webhook_deliveries_wrong", wrong.shown());

    let busy = world.post(&key, "/v1/webhook-deliveries/1/replay", "").await;
    assert_snapshot!("webhook_delivery_pending", busy.shown());
    let since = r#"{"since":"2026-01-01T00:00:00Z"}"#;
    let replayed = world.post(&key, "/v1/webhooks/1/replay", since).await;
    assert_snapshot!("webhook_replayed", replayed.shown());
    let wrong = world.post(&key, "/v1/webhooks/1/replay", "{}").await;
    assert_snapshot!("webhook_replay_wrong", wrong.shown());
}
