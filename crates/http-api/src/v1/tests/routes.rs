//! Each route's answers, and what it says to those who send something wrong.

use insta::assert_snapshot;
use jiff::ToSpan;
use serde_json::json;
use tidings_access::keys::{self, Granter, Rate};
use tidings_access::{Scope, Scopes, authenticate};

use super::{World, slug};
use crate::openapi;

#[tokio::test]
async fn a_key_can_ask_whose_it_is() {
    let world = World::new().await;
    let key = world.key(&world.acme, [Scope::Send, Scope::Read].into_iter().collect()).await;
    assert_snapshot!(world.get(&key, "/v1/me").await.shown());
}

#[tokio::test]
async fn clients_are_made_shown_and_switched_off_and_on() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let new = r#"{"slug":"app","name":"The app"}"#;
    assert_snapshot!("client_made", world.post(&key, "/v1/clients", new).await.shown());
    assert_snapshot!("client_taken", world.post(&key, "/v1/clients", new).await.shown());
    let unnamed = world.post(&key, "/v1/clients", r#"{"slug":"blog"}"#).await;
    assert_eq!(unnamed.json()["name"], "blog");
    assert_snapshot!("client", world.get(&key, "/v1/clients/app").await.shown());
    assert_snapshot!("client_missing", world.get(&key, "/v1/clients/none").await.shown());
    assert_eq!(world.get(&key, "/v1/clients/No%20Slug").await.status, 404);

    let off = world.post(&key, "/v1/clients/app/disable", "").await;
    assert_eq!(off.json()["disabled_at"], "2026-07-01T12:00:00Z");
    world.clock.advance(1.hour());
    let again = world.post(&key, "/v1/clients/app/disable", "").await;
    assert_eq!(again.body, off.body);
    let on = world.post(&key, "/v1/clients/app/enable", "").await;
    assert_eq!((on.status, on.json()["disabled_at"].is_null()), (200, true));
    assert_eq!(world.post(&key, "/v1/clients/none/disable", "").await.status, 404);
}

#[tokio::test]
async fn lists_are_walked_by_cursor() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    for slug in ["app", "blog", "zoo"] {
        let made = world.post(&key, "/v1/clients", &format!(r#"{{"slug":"{slug}"}}"#)).await;
        assert_eq!(made.status, 201);
    }
    assert_snapshot!("clients", world.get(&key, "/v1/clients?limit=2").await.shown());
    let first = world.get(&key, "/v1/clients?limit=3").await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = world.get(&key, &format!("/v1/clients?limit=3&cursor={cursor}")).await.json();
    assert_eq!(rest["data"][0]["slug"], "zoo");
    assert!(rest["next_cursor"].is_null());

    let wrong = format!("/v1/clients/shop/keys?cursor={cursor}&limit=0&page=2");
    assert_snapshot!("list_wrong", world.get(&key, &wrong).await.shown());
}

#[tokio::test]
async fn keys_are_made_listed_and_revoked() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let new = r#"{"name":"live","scopes":["send","read"],"requests_per_second":5,"burst":10,
                  "expires_at":"2027-01-01T00:00:00Z"}"#;
    let made = world.post(&key, "/v1/clients/shop/keys", new).await;
    assert_snapshot!("key_made", made.shown());
    let text = made.json()["key"].as_str().unwrap().to_owned();
    assert_eq!(authenticate(&world.access, &text).await.unwrap().rate.burst(), 10);
    let listed = world.get(&key, "/v1/clients/shop/keys").await;
    assert_snapshot!("keys", listed.shown());
    assert!(!listed.body.contains(text.rsplit('_').next().unwrap()));
    assert_snapshot!("key_taken", world.post(&key, "/v1/clients/shop/keys", new).await.shown());
    assert_eq!(world.post(&key, "/v1/clients/none/keys", new).await.status, 404);

    let path = format!("/v1/keys/{}", made.json()["public_id"].as_str().unwrap());
    let revoked = world.delete(&key, &path).await;
    assert_snapshot!("key_revoked", revoked.shown());
    world.clock.advance(1.hour());
    assert_eq!(world.delete(&key, &path).await.body, revoked.body);
    assert_eq!(world.delete(&key, "/v1/keys/000000000000").await.status, 404);
    assert_eq!(world.delete(&key, "/v1/keys/short").await.status, 404);
    assert_eq!(world.send("GET /v1/me", Some(&text), "").await.status, 401);
}

#[tokio::test]
async fn a_wrong_body_is_told_all_that_is_wrong_and_changes_nothing() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let before = world.get(&key, "/v1/clients/shop/keys").await.body;
    for (name, body) in [
        ("nothing", "{}"),
        ("types", r#"{"name":7,"scopes":"send","requests_per_second":"fast","burst":1.5}"#),
        (
            "values",
            r#"{"name":"","scopes":["send","root",1],"requests_per_second":0,"burst":-1,"expires_at":"soon"}"#,
        ),
        ("unknown", r#"{"name":"a","scopes":["send"],"scope":"send","admin":true}"#),
        ("past", r#"{"name":"a","scopes":["send"],"expires_at":"2020-01-01T00:00:00Z"}"#),
        ("array", "[]"),
        ("no_json", r#"{"name":"#),
    ] {
        let answer = world.post(&key, "/v1/clients/shop/keys", body).await;
        assert_snapshot!(format!("body_{name}"), answer.shown());
    }
    let unmarked = "POST /v1/clients/shop/keys";
    let answer = world.send(unmarked, Some(&key.api_key.expose()), "").await;
    assert_snapshot!("body_unmarked", answer.shown());
    let large = format!(r#"{{"name":"{}"}}"#, "a".repeat(5000));
    assert_eq!(world.post(&key, "/v1/clients/shop/keys", &large).await.status, 413);
    assert_eq!(world.get(&key, "/v1/clients/shop/keys").await.body, before);
}

#[tokio::test]
async fn a_body_full_of_mistakes_gets_a_short_answer() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let fields: Vec<_> = (0..300).map(|number| format!(r#""f{number}":1"#)).collect();
    let body = format!(r#"{{"name":"a","scopes":["send"],{}}}"#, fields.join(","));
    let answer = world.post(&key, "/v1/clients/shop/keys", &body).await;
    assert_eq!(answer.status, 422);
    assert_eq!(answer.json()["errors"].as_array().unwrap().len(), 50);
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.ends_with("; 250 more mistakes are not listed"), "{detail}");

    let scopes = vec![r#""x""#; 101].join(",");
    let body = format!(r#"{{"name":"a","scopes":[{scopes}]}}"#);
    let answer = world.post(&key, "/v1/clients/shop/keys", &body).await;
    assert_eq!(
        answer.json()["errors"],
        json!([{"field": "scopes", "message": "use a list of at most 100 texts"}])
    );

    let long = "x".repeat(3000);
    let body = format!(r#"{{"name":"a","scopes":["{long}"]}}"#);
    let answer = world.post(&key, "/v1/clients/shop/keys", &body).await;
    assert!(answer.body.len() < 500, "{}", answer.body);
}

#[tokio::test]
async fn a_key_makes_none_that_is_faster_or_works_longer() {
    let world = World::new().await;
    let create = keys::Create {
        client: slug("shop"),
        name: "manager".parse().unwrap(),
        scopes: Scopes::from_iter([Scope::Manage, Scope::Read]),
        rate: Rate::new(5, 10).unwrap(),
        expires_at: Some(world.access.now() + 24.hours()),
        granted_by: Granter::Operator,
    };
    let key = keys::create(&world.acme, create).await.unwrap();
    let more = r#"{"name":"more","scopes":["read"],"requests_per_second":6,"burst":11}"#;
    assert_snapshot!(world.post(&key, "/v1/clients/shop/keys", more).await.shown());
    let same = r#"{"name":"same","scopes":["read"],"expires_at":"2026-07-02T12:00:00Z"}"#;
    let made = world.post(&key, "/v1/clients/shop/keys", same).await;
    assert_eq!(made.status, 201, "{}", made.body);
    // The usual rate would be more than it has.
    assert_eq!(made.json()["requests_per_second"], 5);
    assert_eq!(made.json()["burst"], 10);
}

#[tokio::test]
async fn nobody_gets_more_than_whoever_gives_has() {
    let world = World::new().await;
    let key = world.key(&world.acme, [Scope::Manage, Scope::Read].into_iter().collect()).await;
    let more = r#"{"name":"more","scopes":["read","send","events"]}"#;
    assert_snapshot!(world.post(&key, "/v1/clients/shop/keys", more).await.shown());
    let listed = world.get(&key, "/v1/clients/shop/keys").await.json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    let less = r#"{"name":"less","scopes":["read"]}"#;
    assert_eq!(world.post(&key, "/v1/clients/shop/keys", less).await.status, 201);
}

#[tokio::test]
async fn the_description_is_served_to_everybody_and_is_the_one_checked_in() {
    let world = World::new().await;
    let served = world.send("GET /v1/openapi.json", None, "").await;
    assert_eq!(served.status, 200);
    assert_eq!(served.body, openapi());
    assert_eq!(served.json()["openapi"], "3.1.0");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let checked_in = std::fs::read_to_string(path).unwrap();
    assert!(
        checked_in == served.body,
        "run `cargo run -p tidings-http-api --example openapi > docs/openapi.json`"
    );
}
