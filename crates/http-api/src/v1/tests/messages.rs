//! Transactional mail.

use axum::body::Body;
use axum::http::Request;
use insta::assert_snapshot;
use tidings_access::keys::Issued;
use tidings_access::{ClientId, Cx, Scopes};
use tidings_delivery::senders::{self, Add, NewSender};

use super::{Answer, World, slug};

pub(super) const HELLO: &str =
    r#"{"to":"eve@example.org","subject":"Hello {{ name }}","text":"Hi","context":{"name":"Eve"}}"#;

pub(super) async fn give_sender(cx: &Cx, client: ClientId) {
    let sender = NewSender {
        slug: slug("hello"),
        from_email: "hello@example.org".parse().unwrap(),
        from_name: None,
        reply_to: None,
        is_default: true,
    };
    senders::add(cx, Add { client, sender }).await.unwrap();
}

/// A message of the shop.
pub(super) async fn hello(world: &World, cx: &Cx) -> i64 {
    let key = world.key(cx, Scopes::from_iter([tidings_access::Scope::Send])).await;
    let answer = world.post(&key, "/v1/messages", HELLO).await;
    tidings_access::keys::revoke(cx, key.key.public_id).await.unwrap();
    answer.json()["id"].as_i64().unwrap()
}

async fn send_with(world: &World, key: &Issued, idempotency: &str, body: &str) -> Answer {
    send_to(world, "/v1/messages", (key, idempotency), body).await
}

pub(super) async fn send_to(
    world: &World,
    path: &str,
    (key, idempotency): (&Issued, &str),
    body: &str,
) -> Answer {
    let request = Request::builder()
        .method("POST")
        .uri(path)
        .header("x-request-id", "r-1")
        .header("authorization", format!("Bearer {}", key.api_key.expose()))
        .header("content-type", "application/json")
        .header("idempotency-key", idempotency);
    world.ask(request.body(Body::from(body.to_owned())).unwrap()).await
}

#[tokio::test]
async fn a_message_is_accepted_once_for_each_key() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    assert_snapshot!("accepted", send_with(&world, &key, "k-1", HELLO).await.shown());
    let again = send_with(&world, &key, "k-1", HELLO).await;
    assert_eq!(again.status, 202);
    assert!(again.headers.contains("idempotency-replayed: true"), "{}", again.headers);
    assert_eq!(again.json()["id"], 1);
    let other = HELLO.replace("Hello", "Goodbye");
    assert_snapshot!("key_reused", send_with(&world, &key, "k-1", &other).await.shown());
    let both = HELLO.replacen('{', r#"{"idempotency_key":"k-2","#, 1);
    assert_eq!(send_with(&world, &key, "k-1", &both).await.status, 422);
    assert_eq!(world.post(&key, "/v1/messages", &both).await.json()["id"], 2);
    assert_eq!(send_with(&world, &key, "k-2", &both).await.json()["id"], 2);
    let long = "k".repeat(256);
    assert_eq!(send_with(&world, &key, &long, HELLO).await.status, 422);
}

#[tokio::test]
async fn a_message_is_shown_listed_and_cancelled() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    world.post(&key, "/v1/messages", HELLO).await;
    world.post(&key, "/v1/messages", HELLO).await;
    assert_snapshot!("message", world.get(&key, "/v1/messages/1").await.shown());
    let page = world.get(&key, "/v1/messages?limit=1&status=queued").await.json();
    assert_eq!(page["data"][0]["id"], 2);
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = world.get(&key, &format!("/v1/messages?limit=1&cursor={cursor}")).await.json();
    assert_eq!((&page["data"][0]["id"], &page["next_cursor"]), (&1.into(), &().into()));
    assert_eq!(world.get(&key, "/v1/messages?status=lost").await.status, 422);
    let cancelled = world.post(&key, "/v1/messages/1/cancel", "").await;
    assert_eq!((cancelled.status, &cancelled.json()["status"]), (200, &"cancelled".into()));
    assert_snapshot!("message_events", world.get(&key, "/v1/messages/1/events").await.shown());
    let settled = world.post(&key, "/v1/messages/1/settle", r#"{"outcome":"sent"}"#).await;
    assert_snapshot!("not_uncertain", settled.shown());
    for wrong in [r#"{"outcome":"lost"}"#, "{}", r#"{"outcome":"sent","extra":1}"#] {
        assert_eq!(world.post(&key, "/v1/messages/1/settle", wrong).await.status, 422, "{wrong}");
    }
    for missing in ["/v1/messages/99", "/v1/messages/x", "/v1/messages/0/events"] {
        assert_eq!(world.get(&key, missing).await.status, 404, "{missing}");
    }
}

#[tokio::test]
async fn everything_that_is_wrong_with_a_message_is_told() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let wrong = r#"{"to":"nobody","template":7,"cc":["x"],"headers":{"A":1},"parts":[{"content_type":"text/plain"}],
                    "scheduled_at":"soon","tracking":"maybe","unknown":true}"#;
    assert_snapshot!("message_unreadable", world.post(&key, "/v1/messages", wrong).await.shown());
    let wrong =
        r#"{"to":"ada@example.org","subject":"{{ broken","sender":"nobody","topic":"none"}"#;
    assert_snapshot!("message_invalid", world.post(&key, "/v1/messages", wrong).await.shown());
    let wrong = r#"{"to":"ada@example.org","template":"nothing"}"#;
    assert_snapshot!("no_template", world.post(&key, "/v1/messages", wrong).await.shown());
    let both = r#"{"to":"ada@example.org","template":"nothing","subject":"x"}"#;
    assert_eq!(world.post(&key, "/v1/messages", both).await.status, 422);
    assert!(world.get(&key, "/v1/messages").await.json()["data"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn a_batch_answers_for_each_message() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let batch = format!(r#"{{"messages":[{HELLO},{{"to":"x"}},7,{HELLO}]}}"#);
    assert_snapshot!("batch", world.post(&key, "/v1/messages/batch", &batch).await.shown());
    for wrong in ["{}", r#"{"messages":[]}"#, r#"{"messages":{}}"#] {
        assert_eq!(world.post(&key, "/v1/messages/batch", wrong).await.status, 422, "{wrong}");
    }
}

#[tokio::test]
async fn keys_that_are_ours_or_too_long_for_a_batch_are_refused() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    for own in ["confirm:1:1", "auto:1", "erased:1", "forward:1:1"] {
        assert_eq!(send_with(&world, &key, own, HELLO).await.status, 422, "{own}");
        let with_key = HELLO.replacen('{', &format!(r#"{{"idempotency_key":"{own}","#), 1);
        assert_eq!(world.post(&key, "/v1/messages", &with_key).await.status, 422, "{own}");
        let batch = format!(r#"{{"messages":[{with_key},{HELLO}]}}"#);
        let answer = world.post(&key, "/v1/messages/batch", &batch).await.json();
        assert_eq!(answer["data"][0]["problem"]["status"], 422, "{own}");
        assert_eq!(answer["data"][1]["message"]["status"], "queued");
        let batch = format!(r#"{{"messages":[{HELLO}]}}"#);
        assert_eq!(send_to(&world, "/v1/messages/batch", (&key, own), &batch).await.status, 422);
    }
    let batch = format!(r#"{{"messages":[{}]}}"#, [HELLO; 11].join(","));
    let (long, longest) = ("k".repeat(253), "k".repeat(252));
    assert_eq!(send_to(&world, "/v1/messages/batch", (&key, &long), &batch).await.status, 422);
    let answer = send_to(&world, "/v1/messages/batch", (&key, &longest), &batch).await.json();
    assert_eq!(answer["data"][10]["message"]["status"], "queued", "{}", answer["data"][10]);
}

#[tokio::test]
async fn what_the_reader_did_is_told_with_the_message() {
    use tidings_signals::events::{Event, EventKind, record};

    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    for _ in 0..2 {
        world.post(&key, "/v1/messages", HELLO).await;
    }
    let later = |seconds: i64| world.acme.now() + jiff::SignedDuration::from_secs(seconds);
    for (id, kind, message, at) in [
        ("e-1", EventKind::Open, 1, 60),
        ("e-2", EventKind::Click, 1, 61),
        ("e-3", EventKind::Click, 1, 62),
        ("e-4", EventKind::Click, 2, 63),
    ] {
        let mut event = Event::new(id, kind, "eve@example.org".parse().unwrap(), later(at));
        event.source = Some(tidings_delivery::ledger::Source::Transactional(message));
        event.url = (at > 60).then(|| "https://example.org/".to_owned());
        record(&world.acme, event).await.unwrap();
    }
    let events = world.get(&key, "/v1/messages/1/events").await.json();
    let events = events["data"].as_array().unwrap();
    let types: Vec<_> = events.iter().map(|one| one["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["queued", "opened", "open", "clicked", "click", "click"]);
    assert_eq!(events[4]["url"], "https://example.org/");
}

#[tokio::test]
async fn a_dry_run_shows_the_message_and_keeps_nothing() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    assert_snapshot!("dry_run", world.post(&key, "/v1/messages/dry-run", HELLO).await.shown());
    assert!(world.get(&key, "/v1/messages").await.json()["data"].as_array().unwrap().is_empty());
}

/// A client's key sees no other client's messages.
#[tokio::test]
async fn messages_belong_to_their_client() {
    let world = World::new().await;
    let shop = world.key(&world.acme, Scopes::all()).await;
    world.post(&shop, "/v1/messages", HELLO).await;
    let create =
        tidings_access::clients::Create { slug: slug("blog"), name: "The blog".parse().unwrap() };
    tidings_access::clients::create(&world.acme, create).await.unwrap();
    let blog = world.key_of(&world.acme, "blog").await;
    assert_eq!(world.get(&shop, "/v1/messages/1").await.status, 200);
    assert_eq!(world.get(&blog, "/v1/messages/1").await.status, 404);
    assert_eq!(world.post(&blog, "/v1/messages/1/cancel", "").await.status, 404);
    assert!(world.get(&blog, "/v1/messages").await.json()["data"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn messages_of_a_sequence_are_shown_as_such() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    for _ in 0..2 {
        assert_eq!(world.post(&key, "/v1/messages", HELLO).await.status, 202);
    }
    let mark = "UPDATE transactional_messages SET sequence_id = 'onboarding', execution_id = 'x1'
                WHERE id = (SELECT max(id) FROM transactional_messages)";
    let run = world.acme.database().write(move |tx| tx.execute(mark, &[])).await;
    run.map_err(|error: tidings_sql::DatabaseError| error).unwrap();
    let listed = world.get(&key, "/v1/messages?sequence=onboarding").await.json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    assert_eq!(listed["data"][0]["sequence_id"], "onboarding");
    let other = world.get(&key, "/v1/messages?sequence=elsewhere").await.json();
    assert!(other["data"].as_array().unwrap().is_empty());
    assert_eq!(world.get(&key, "/v1/messages?sequence=No%20Slug").await.status, 422);
    // Such keys are ours.
    for own in ["sequence/x1/2", "reminder/d1/1", "confirm:1:1", "forward:1:x"] {
        let taken = HELLO.replacen('{', &format!(r#"{{"idempotency_key":"{own}","#), 1);
        assert_eq!(world.post(&key, "/v1/messages", &taken).await.status, 422, "{own}");
    }
}
