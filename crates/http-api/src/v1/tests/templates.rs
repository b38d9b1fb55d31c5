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
