//! Events, numbers, and mail that comes in.

use axum::body::Body;
use axum::http::Request;
use insta::assert_snapshot;
use tidings_access::{Cx, Scopes};
use tidings_kernel::EmailAddress;
use tidings_people::contacts::{self, Attributes, Upsert};
use tidings_signals::events::{Bounce, Event, EventKind, record};

use super::World;

async fn events(cx: &Cx) {
    let ada: EmailAddress = "ada@example.org".parse().unwrap();
    let bounce = Bounce {
        kind: "Permanent".into(),
        subkind: "General".into(),
        status: Some("5.1.1".into()),
        diagnostic: Some("smtp; 550 5.1.1 user unknown".into()),
    };
    for (id, kind, at) in [
        ("e-1", EventKind::Delivery, "2026-06-30T10:00:00Z"),
        ("e-2", EventKind::Click, "2026-06-30T11:00:00Z"),
        ("e-3", EventKind::Bounce(bounce), "2026-07-01T10:00:00Z"),
    ] {
        let mut event = Event::new(id, kind, ada.clone(), at.parse().unwrap());
        event.provider_message_id = Some("ses-1".into());
        record(cx, event).await.unwrap();
    }
}

#[tokio::test]
async fn events_are_listed_with_the_newest_first() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    events(&world.acme).await;
    let path = "/v1/events?contact=ADA%40example.org";
    assert_snapshot!("events", world.get(&key, &format!("{path}&limit=2")).await.shown());
    let first = world.get(&key, &format!("{path}&limit=2")).await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = world.get(&key, &format!("{path}&limit=2&cursor={cursor}")).await.json();
    assert_eq!(rest["data"][0]["id"], "e-1");
    assert!(rest["next_cursor"].is_null());
    let since = world.get(&key, &format!("{path}&from=2026-07-01T00:00:00Z")).await.json();
    assert_eq!(since["data"].as_array().unwrap().len(), 1);
    let clicks =
        world.get(&key, &format!("{path}&type=click&to=2026-07-01T00:00:00Z")).await.json();
    assert_eq!(clicks["data"][0]["id"], "e-2");
    // A cursor of one list is none of another.
    let other = format!("/v1/events?contact=bob%40example.org&cursor={cursor}");
    assert_eq!(world.get(&key, &other).await.status, 422);
}

#[tokio::test]
async fn what_is_wrong_with_a_question_is_said() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let mut told = Vec::new();
    for path in [
        "/v1/events",
        "/v1/events?contact=ada&template=&from=now&limit=1000&kind=open",
        "/v1/events?contact=a%40example.org&sequence=x",
        "/v1/events?sequence=x&type=smile",
        "/v1/events?sequence=x&from=2026-07-02T00:00:00Z&to=2026-07-01T00:00:00Z",
        "/v1/stats/deliveries?from=yesterday&to=2026",
        "/v1/stats/deliveries?from=2026-07-02&to=2026-07-01",
        "/v1/stats/deliveries?from=2024-07-02&to=2026-07-01",
        "/v1/stats/templates",
        "/v1/stats/sequences/none",
    ] {
        let answer = world.get(&key, path).await;
        let told_of = answer.json();
        let errors =
            if told_of["errors"].is_null() { &told_of["detail"] } else { &told_of["errors"] };
        told.push(format!("{} {path}\n  {errors}", answer.status));
    }
    assert_snapshot!(told.join("\n"));
}

#[tokio::test]
async fn numbers_are_told_by_day_and_in_all() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    events(&world.acme).await;
    let path = "/v1/stats/deliveries?from=2026-06-30&to=2026-07-01";
    assert_snapshot!("stats_deliveries", world.get(&key, path).await.shown());
    let month = world.get(&key, "/v1/stats/deliveries").await.json();
    assert_eq!(month["days"].as_array().unwrap().len(), 30);
    assert_eq!(month["total"]["bounces"], 1);
    let template = world.get(&key, "/v1/stats/templates?key=a%2Fb").await.json();
    assert_eq!(template["counts"]["opens"], 0);
}

#[tokio::test]
async fn mail_that_comes_in_is_a_reply_once() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let upsert = Upsert {
        email: "ada@example.org".parse().unwrap(),
        first_name: None,
        attributes: Attributes::default(),
        tags: None,
    };
    contacts::upsert(&world.acme, upsert).await.unwrap();
    let mime =
        "From: ada@example.org\r\nMessage-ID: <1@x.example>\r\nSubject: Hello\r\n\r\nThanks!";
    let json = serde_json::json!({ "mime": mime }).to_string();
    let answer = world.post(&key, "/v1/inbound", &json).await;
    assert_eq!((answer.status, answer.body.as_str()), (202, r#"{"status":"reply","reason":null}"#));
    let raw = Request::post("/v1/inbound")
        .header("authorization", format!("Bearer {}", key.api_key.expose()))
        .header("content-type", "message/rfc822")
        .body(Body::from(mime))
        .unwrap();
    let again = world.ask(raw).await;
    assert_eq!((again.status, again.json()["status"].as_str()), (202, Some("duplicate")));
    let stranger = world.post(&key, "/v1/inbound", &json.replace("ada@", "eve@")).await;
    assert_eq!(stranger.json()["reason"], "unknown_sender");
    for (body, status) in [("{}", 422), (r#"{"mime":"no mail"}"#, 422), ("{", 400)] {
        assert_eq!(world.post(&key, "/v1/inbound", body).await.status, status, "{body}");
    }
    let listed = world.get(&key, "/v1/events?contact=ada%40example.org").await.json();
    assert_eq!(listed["data"][0]["body"], "Thanks!");
}
