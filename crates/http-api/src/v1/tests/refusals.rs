//! Who is not let in, and what he is told.

use axum::body::Body;
use axum::http::Request;
use insta::assert_snapshot;
use jiff::ToSpan;
use tidings_access::keys::{self, Granter, Rate};
use tidings_access::{Scope, Scopes, clients, workspaces};

use super::{World, slug};

#[tokio::test]
async fn without_a_key_nobody_comes_in() {
    let world = World::new().await;
    assert_snapshot!(world.send("GET /v1/me", None, "").await.shown());
    for header in ["Basic YTpi", "Bearer", "tdg_x_y", "\u{7f}"] {
        let Ok(request) =
            Request::get("/v1/me").header("authorization", header).body(Body::empty())
        else {
            continue;
        };
        assert_eq!(world.ask(request).await.status, 401, "{header}");
    }
}

#[tokio::test]
async fn a_key_can_be_the_name_of_basic_authentication() {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await.api_key.expose();
    let ask = async |pair: String| {
        let header = format!("Basic {}", BASE64_STANDARD.encode(pair));
        let request = Request::get("/v1/me").header("authorization", header).body(Body::empty());
        world.ask(request.unwrap()).await.status
    };
    assert_eq!(ask(format!("{key}:")).await, 200);
    assert_eq!(ask(format!("x{key}:")).await, 401);
    assert_eq!(ask(key).await, 401);
}

#[tokio::test]
async fn whatever_is_wrong_with_a_key_the_answer_is_the_same() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let text = key.api_key.expose();
    let refusal = world.send("GET /v1/me", Some("nonsense"), "").await.shown();
    assert_snapshot!(refusal);
    let same = async |text: &str, why: &str| {
        let answer = world.send("GET /v1/me", Some(text), "").await;
        assert_eq!(answer.shown(), refusal, "{why}");
    };
    let swap = |text: &str| if text.ends_with('a') { "b" } else { "a" };
    same(&format!("{}{}", &text[..text.len() - 1], swap(&text)), "a wrong secret").await;
    same(&text.replace(key.key.public_id.as_str(), "000000000000"), "an unknown id").await;

    clients::disable(&world.acme, slug("shop")).await.unwrap();
    same(&text, "the client is disabled").await;
    clients::enable(&world.acme, slug("shop")).await.unwrap();
    workspaces::disable(&world.access, "acme".parse().unwrap()).await.unwrap();
    same(&text, "the workspace is disabled").await;
    workspaces::enable(&world.access, "acme".parse().unwrap()).await.unwrap();
    assert_eq!(world.get(&key, "/v1/me").await.status, 200);
    keys::revoke(&world.acme, key.key.public_id.clone()).await.unwrap();
    same(&text, "it is revoked").await;

    let create = keys::Create {
        client: slug("shop"),
        name: "short".parse().unwrap(),
        scopes: Scopes::all(),
        rate: Rate::default(),
        expires_at: Some(world.access.now() + 1.minute()),
        granted_by: Granter::Operator,
    };
    let short = keys::create(&world.acme, create).await.unwrap();
    assert_eq!(world.get(&short, "/v1/me").await.status, 200);
    world.clock.advance(1.minute());
    same(&short.api_key.expose(), "it has expired").await;
}

#[tokio::test]
async fn a_key_without_the_scope_is_told_which_one() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::from_iter([Scope::Read])).await;
    let answer = world.post(&key, "/v1/clients", r#"{"slug":"app"}"#).await;
    assert_snapshot!(answer.shown());
    assert_eq!(world.get(&key, "/v1/clients/app").await.status, 404);
}

#[tokio::test]
async fn whoever_comes_too_often_is_told_when_to_come_again() {
    let world = World::new().await;
    let rate = Rate::new(1, 2).unwrap();
    let key = world.key_with(&world.acme, Scopes::all(), rate).await;
    assert_eq!(world.get(&key, "/v1/me").await.status, 200);
    // Problems say what is left, too.
    assert_snapshot!("quota_left", world.get(&key, "/v1/clients/none").await.shown());
    assert_snapshot!("quota_used", world.get(&key, "/v1/me").await.shown());
    // Others are not held back by it.
    let other = world.key(&world.other, Scopes::all()).await;
    assert_eq!(world.get(&other, "/v1/me").await.status, 200);
    world.clock.advance(1.second());
    assert_eq!(world.get(&key, "/v1/me").await.status, 200);
    assert_eq!(world.get(&key, "/v1/me").await.status, 429);
}
