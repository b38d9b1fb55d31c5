//! No route lets a key of one workspace see or change another's. The routes are taken from the description, so
//! that a new one cannot be forgotten.

use serde_json::Value;
use tidings_access::clients::{self, Create};
use tidings_access::keys::Issued;
use tidings_access::{Scopes, authenticate};

use super::{World, slug};
use crate::openapi;

struct Route {
    method: String,
    template: String,
}

fn routes() -> Vec<Route> {
    let description: Value = serde_json::from_str(&openapi()).unwrap();
    let mut found = Vec::new();
    for (template, operations) in description["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            found.push(Route { method: method.to_uppercase(), template: template.clone() });
        }
    }
    assert!(found.len() >= 9, "the description has lost its routes");
    found
}

impl Route {
    /// The route on something of workspace `acme`.
    fn line(&self, victim: &Issued) -> String {
        let path = self
            .template
            .replace("{slug}", "hidden")
            .replace("{public_id}", victim.key.public_id.as_str());
        assert!(!path.contains('{'), "tell this test what to put into {}", self.template);
        format!("{} {path}", self.method)
    }

    /// Something that the route would take.
    fn body(&self) -> &'static str {
        match (self.method.as_str(), self.template.as_str()) {
            ("POST", "/v1/clients") => r#"{"slug":"hidden"}"#,
            ("POST", "/v1/clients/{slug}/keys") => r#"{"name":"new","scopes":["read"]}"#,
            ("POST", "/v1/clients/{slug}/disable" | "/v1/clients/{slug}/enable")
            | ("GET" | "DELETE", _) => "",
            _ => panic!("tell this test what to send to {} {}", self.method, self.template),
        }
    }

    fn needs_no_scope(&self) -> bool {
        self.template == "/v1/me"
    }
}

/// A client that only `acme` has, and a key of it.
async fn victim(world: &World) -> Issued {
    let create = Create { slug: slug("hidden"), name: "Top secret".parse().unwrap() };
    clients::create(&world.acme, create).await.unwrap();
    world.key(&world.acme, Scopes::all()).await
}

async fn state_of_acme(world: &World, key: &Issued) -> String {
    let mut state = String::new();
    for path in ["/v1/clients", "/v1/clients/hidden/keys", "/v1/clients/shop/keys"] {
        state.push_str(&world.get(key, path).await.body);
    }
    state
}

#[tokio::test]
async fn a_key_of_another_workspace_finds_nothing_and_changes_nothing() {
    let world = World::new().await;
    let victim = victim(&world).await;
    state_of_acme(&world, &victim).await;
    let before = state_of_acme(&world, &victim).await;
    let stranger = world.key(&world.other, Scopes::all()).await;
    // What needs an id comes first: afterwards `other` has a client of the same name.
    let (with_id, without): (Vec<_>, Vec<_>) =
        routes().into_iter().partition(|route| route.template.contains('{'));
    for route in with_id.iter().chain(&without) {
        let line = route.line(&victim);
        let key = stranger.api_key.expose();
        let answer = world.send(&line, Some(&key), route.body()).await;
        if route.template.contains('{') {
            assert_eq!(answer.status, 404, "{line}: {}", answer.body);
        } else {
            assert!((200..300).contains(&answer.status), "{line}: {}", answer.body);
        }
        for secret in ["acme", "Top secret", victim.key.public_id.as_str()] {
            let shown = answer.body.replace(&format!("there is no key {secret}"), "");
            assert!(!shown.contains(secret), "{line} shows {secret}: {shown}");
        }
    }
    assert_eq!(state_of_acme(&world, &victim).await, before);
    authenticate(&world.access, &victim.api_key.expose()).await.unwrap();
}

#[tokio::test]
async fn every_route_needs_a_key() {
    let world = World::new().await;
    let victim = victim(&world).await;
    let before = state_of_acme(&world, &victim).await;
    for route in routes() {
        let line = route.line(&victim);
        let answer = world.send(&line, None, route.body()).await;
        assert_eq!(answer.status, 401, "{line}: {}", answer.body);
        assert!(answer.headers.contains("www-authenticate: Bearer"), "{line}: {}", answer.headers);
    }
    assert_eq!(state_of_acme(&world, &victim).await.len(), before.len());
}

#[tokio::test]
async fn every_route_but_one_needs_a_scope() {
    let world = World::new().await;
    let victim = victim(&world).await;
    let before = state_of_acme(&world, &victim).await;
    let powerless = world.key(&world.acme, Scopes::default()).await;
    for route in routes() {
        let line = route.line(&victim);
        let answer = world.send(&line, Some(&powerless.api_key.expose()), route.body()).await;
        let expected = if route.needs_no_scope() { 200 } else { 403 };
        assert_eq!(answer.status, expected, "{line}: {}", answer.body);
        assert!(answer.headers.contains("ratelimit-remaining"), "{line}: {}", answer.headers);
    }
    clients::find(&world.acme, slug("hidden")).await.unwrap();
    assert!(before.contains("hidden"));
}

#[tokio::test]
async fn every_route_works_for_its_own_workspace() {
    let world = World::new().await;
    let victim = victim(&world).await;
    // The key revokes itself, so that comes last.
    let (last, first): (Vec<_>, Vec<_>) =
        routes().into_iter().partition(|route| route.method == "DELETE");
    for route in first.iter().chain(&last) {
        // A client of that name is there already; everything else is as it should be.
        let expected = match (route.method.as_str(), route.template.as_str()) {
            ("POST", "/v1/clients") => 409,
            ("POST", "/v1/clients/{slug}/keys") => 201,
            _ => 200,
        };
        let line = route.line(&victim);
        let answer = world.send(&line, Some(&victim.api_key.expose()), route.body()).await;
        assert_eq!(answer.status, expected, "{line}: {}", answer.body);
    }
}
