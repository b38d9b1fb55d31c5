//! Senders and captured mail, as a caller meets them.

use insta::assert_snapshot;
use tidings_access::{Scope, Scopes};

use super::World;

#[tokio::test]
async fn senders_are_replaced_and_listed() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let put = async |path: &str, body: &str| {
        world.send(&format!("PUT {path}"), Some(&key.api_key.expose()), body).await
    };
    let body = r#"{"senders":[
        {"slug":"news","from_email":"News@Example.org","from_name":"Käse, \"Söhne\""},
        {"slug":"team","from_email":"team@example.org","reply_to":"help@example.org","default":true}]}"#;
    assert_snapshot!("senders", put("/v1/senders", body).await.shown());
    let listed = world.get(&key, "/v1/senders").await;
    assert_eq!(listed.body, put("/v1/senders", body).await.body);
    // Each client has its own.
    world.post(&key, "/v1/clients", r#"{"slug":"blog"}"#).await;
    assert_eq!(world.get(&key, "/v1/senders?client=blog").await.body, r#"{"data":[]}"#);
    assert_eq!(put("/v1/senders?client=blog", r#"{"senders":[]}"#).await.status, 200);
    assert_eq!(world.get(&key, "/v1/senders").await.body, listed.body);
    assert_eq!(world.get(&key, "/v1/senders?client=none").await.status, 404);
    assert_eq!(world.get(&key, "/v1/senders?client=No%20Slug").await.status, 422);
}

#[tokio::test]
async fn all_that_is_wrong_with_senders_is_told() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let before = world.get(&key, "/v1/senders").await.body;
    let put =
        async |body: &str| world.send("PUT /v1/senders", Some(&key.api_key.expose()), body).await;
    let wrong = r#"{"senders":[7,
        {"slug":"a@b","from_email":"Eve <eve@example.org>","from_name":"two\nlines","default":"yes","more":1},
        {}],"other":1}"#;
    assert_snapshot!("senders_wrong", put(wrong).await.shown());
    let twice = r#"{"senders":[{"slug":"a","from_email":"a@example.org"},{"slug":"a","from_email":"b@example.org"}]}"#;
    assert_snapshot!("senders_twice", put(twice).await.shown());
    for body in [r#"{}"#, r#"{"senders":{}}"#, &format!(r#"{{"senders":[{}1]}}"#, "1,".repeat(100))]
    {
        assert_eq!(put(body).await.status, 422, "{body}");
    }
    assert_eq!(world.get(&key, "/v1/senders").await.body, before);
}

#[tokio::test]
async fn captured_mail_is_listed_shown_and_forgotten() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    for subject in ["one", "two", "three"] {
        world.capture(&world.acme, subject).await;
    }
    let page = world.get(&key, "/v1/captured?limit=2").await;
    assert_snapshot!("captured", page.shown());
    let cursor = page.json()["next_cursor"].as_str().unwrap().to_owned();
    let rest = world.get(&key, &format!("/v1/captured?cursor={cursor}")).await.json();
    assert_eq!(rest["data"][0]["subject"], "one");
    let path = format!("/v1/captured/{}", rest["data"][0]["id"]);
    assert_snapshot!("captured_one", world.get(&key, &path).await.shown());
    let raw = world.get(&key, &format!("{path}/raw")).await;
    assert!(raw.body.starts_with("From: shop@example.org\r\nSubject: one\r\n"), "{}", raw.body);
    assert!(raw.headers.contains("content-type: message/rfc822"), "{}", raw.headers);
    assert!(raw.headers.contains("nosniff"), "{}", raw.headers);
    for path in ["/v1/captured/999", "/v1/captured/x", "/v1/captured/-1/raw"] {
        assert_eq!(world.get(&key, path).await.status, 404, "{path}");
    }
    let reader = world.key(&world.acme, [Scope::Read].into_iter().collect()).await;
    assert_eq!(world.delete(&reader, "/v1/captured").await.status, 403);
    assert_eq!(world.delete(&key, "/v1/captured").await.body, r#"{"cleared":3}"#);
    assert_eq!(world.get(&key, &path).await.status, 404);
}
