//! Templates as a caller meets them.

use insta::assert_snapshot;
use tidings_access::Scopes;

use super::World;

const WELCOME: &str = r#"{"name":"Welcome","subject":"Hi {{ firstName }}","html":"<p>{{ plan }}</p>","required_variables":["plan"]}"#;

#[tokio::test]
async fn a_template_is_put_shown_previewed_and_rolled_back() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let secret = key.api_key.expose();
    let mut told = Vec::new();
    for (line, body) in [
        ("PUT /v1/templates/onboarding%2Fwelcome", WELCOME),
        ("PUT /v1/templates/onboarding%2Fwelcome", WELCOME),
        (
            "PUT /v1/templates/onboarding%2Fwelcome",
            r#"{"subject":"Two","text":"two","status":"draft"}"#,
        ),
        ("GET /v1/templates", ""),
        ("GET /v1/templates/onboarding%2Fwelcome", ""),
        ("GET /v1/templates/onboarding%2Fwelcome?version=latest", ""),
        ("GET /v1/templates/onboarding%2Fwelcome/versions", ""),
        (
            "POST /v1/templates/onboarding%2Fwelcome/preview",
            r#"{"email":"ada@example.org","variables":{"plan":"<pro>"}}"#,
        ),
        ("POST /v1/templates/onboarding%2Fwelcome/preview", "{}"),
        ("POST /v1/templates/onboarding%2Fwelcome/activate", r#"{"version":2}"#),
        ("POST /v1/templates/onboarding%2Fwelcome/deactivate", ""),
        ("PUT /v1/settings/display-names", r#"{"names":{"planName":{"pro":"Professional"}}}"#),
        ("GET /v1/settings/display-names", ""),
    ] {
        let answer = world.send(line, Some(&secret), body).await;
        // Made by chance.
        let body = answer.body.replace(key.key.public_id.as_str(), "[id]");
        told.push(format!("{line}\n{} {body}", answer.status));
    }
    insta::assert_snapshot!(told.join("\n\n"));
}

#[tokio::test]
async fn everything_that_is_wrong_is_told_at_once() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let secret = key.api_key.expose();
    let mut told = Vec::new();
    for (line, body) in [
        ("PUT /v1/templates/a", r#"{"subject":"{{ x","html":"{{ a | nix }}","name":""}"#),
        ("PUT /v1/templates/a", r#"{"subject":"{{ x }}","text":"{{ y.z }}"}"#),
        (
            "PUT /v1/templates/a",
            r#"{"subject":1,"html":[],"status":"on","nix":1,"example_variables":1}"#,
        ),
        ("PUT /v1/templates/A", r#"{"subject":"s","text":"t"}"#),
        ("POST /v1/templates/validate", r#"{"subject":"s"}"#),
        ("GET /v1/templates/a", ""),
        ("GET /v1/templates/..%2Fa", ""),
        ("GET /v1/templates/a?version=x", ""),
        ("GET /v1/templates/a/versions", ""),
        ("POST /v1/templates/a/activate", r#"{"version":0}"#),
        ("POST /v1/templates/a/activate", r#"{"version":1}"#),
        ("POST /v1/templates/a/deactivate", ""),
        ("POST /v1/templates/a/preview", r#"{"email":"nix"}"#),
        ("PUT /v1/settings/display-names", r#"{"names":{"plan":{},"aName":{"x":1}}}"#),
        ("PUT /v1/settings/display-names", "{}"),
    ] {
        let answer = world.send(line, Some(&secret), body).await;
        told.push(format!("{line}\n{} {}", answer.status, answer.body));
    }
    insta::assert_snapshot!(told.join("\n\n"));
}

/// Each page is asked for with the cursor of the one before.
async fn pages(world: &World, secret: &str, path: &str, name: &str) -> Vec<String> {
    let (mut told, mut cursor) = (Vec::new(), String::new());
    loop {
        let answer = world.send(&format!("GET {path}{cursor}"), Some(secret), "").await;
        let page: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        let names = page["data"].as_array().unwrap().iter().map(|one| one[name].to_string());
        told.push(names.collect::<Vec<_>>().join(" "));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return told,
        }
    }
}

#[tokio::test]
async fn lists_go_on_page_by_page_and_can_be_narrowed() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let secret = key.api_key.expose();
    for version in 1..=5 {
        let body = format!(r#"{{"subject":"{version}","text":"t"}}"#);
        world.send("PUT /v1/templates/onboarding%2Fwelcome", Some(&secret), &body).await;
    }
    for other in ["onboarding%2Flater", "onboard", "order", "onboarding-2", "partials%2Fonboarding"]
    {
        let body = r#"{"subject":"s","text":"t"}"#;
        world.send(&format!("PUT /v1/templates/{other}"), Some(&secret), body).await;
    }
    let all = async |path: &str, name: &str| pages(&world, &secret, path, name).await;
    let versions = "/v1/templates/onboarding%2Fwelcome/versions?limit=";
    assert_eq!(all(&format!("{versions}2"), "version").await, ["5 4", "3 2", "1"]);
    assert_eq!(all(&format!("{versions}5"), "version").await, ["5 4 3 2 1"]);
    let below = all("/v1/templates?limit=1&prefix=onboarding/", "key").await;
    assert_eq!(below, [r#""onboarding/later""#, r#""onboarding/welcome""#]);
    let begins = all("/v1/templates?limit=3&prefix=onboarding", "key").await;
    assert_eq!(begins, [r#""onboarding-2" "onboarding/later" "onboarding/welcome""#]);
    assert_eq!(all("/v1/templates?limit=2&prefix=nix", "key").await, [""]);
    // A cursor is good for its own list, and a prefix is what a key can begin with.
    let templates = world.send("GET /v1/templates?limit=1", Some(&secret), "").await;
    let page: serde_json::Value = serde_json::from_str(&templates.body).unwrap();
    let cursor = page["next_cursor"].as_str().unwrap();
    for path in [format!("{versions}1&cursor={cursor}"), "/v1/templates?prefix=A*".to_owned()] {
        assert_eq!(world.send(&format!("GET {path}"), Some(&secret), "").await.status, 422);
    }
}

#[tokio::test]
async fn a_template_is_tried_on_a_few_people() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let new = r#"{"subject":"Hi {{ plan }}","text":"t","required_variables":["plan"],"example_variables":{"plan":"pro"}}"#;
    assert_eq!(world.put(&key, "/v1/templates/welcome", new).await.status, 201);
    let path = "/v1/templates/welcome/test-send";
    let to = r#"{"to":["Bob@Example.org","cyd@example.org","bob@example.org"]}"#;
    assert_snapshot!("test_sent", world.post(&key, path, to).await.shown());
    let message = world.get(&key, "/v1/messages/1").await.json();
    assert_eq!(message["metadata"], serde_json::json!({ "test": true }));
    let wrong = r#"{"to":["bob"],"version":0,"context":[],"sender":"No","colour":1}"#;
    assert_snapshot!("test_wrong", world.post(&key, path, wrong).await.shown());
    assert_eq!(world.post(&key, path, r#"{"to":[]}"#).await.status, 422);
    let none = r#"{"to":["bob@example.org"],"version":7}"#;
    assert_snapshot!("test_no_version", world.post(&key, path, none).await.shown());
    let reader = world.key(&world.acme, Scopes::from_iter([tidings_access::Scope::Read])).await;
    assert_eq!(world.post(&reader, path, to).await.status, 403);
}
