//! No route lets a key of one workspace see or change another's, or do what its scopes do not allow. The routes are
//! taken from the description, so that a new one cannot be forgotten.

use serde_json::Value;
use tidings_access::clients::{self, Create};
use tidings_access::keys::{self, Issued};
use tidings_access::{Cx, Scope, Scopes, authenticate};
use tidings_kernel::{EmailAddress, Item, Put, tables};
use tidings_people::{contacts, suppression};
use tidings_webhooks::{EventTypes, Targets, deliveries, endpoints};

use super::{World, slug};
use crate::openapi;

struct Route {
    method: String,
    template: String,
    /// What the description says of it.
    description: String,
}

fn routes() -> Vec<Route> {
    let description: Value = serde_json::from_str(&openapi()).unwrap();
    let mut found = Vec::new();
    for (template, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            found.push(Route {
                method: method.to_uppercase(),
                template: template.clone(),
                description: operation["description"].as_str().unwrap().to_owned(),
            });
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
            .replace("/messages/{id}", "/messages/1")
            .replace("{sequence_id}", "hidden")
            .replace("{public_id}", victim.key.public_id.as_str())
            // The first two of the database are acme's; what is deleted is not asked for again.
            .replace("{webhook_id}", if self.method == "DELETE" { "2" } else { "1" })
            .replace("{delivery_id}", "1")
            .replace("{email}", "hidden@example.org")
            .replace("{tag}", "vip");
        let path = match (self.method.as_str(), self.template.as_str()) {
            ("DELETE", "/v1/suppressions/{email}") => path + "?reason=back",
            _ => path,
        };
        assert!(!path.contains('{'), "tell this test what to put into {}", self.template);
        // What the route cannot do without.
        let query = match (self.method.as_str(), self.template.as_str()) {
            ("GET", "/v1/events") => "?sequence=hidden",
            ("GET", "/v1/stats/templates") => "?key=hidden",
            _ => "",
        };
        format!("{} {path}{query}", self.method)
    }

    /// Something that the route would take.
    fn body(&self) -> &'static str {
        match (self.method.as_str(), self.template.as_str()) {
            ("POST", "/v1/clients") => r#"{"slug":"hidden"}"#,
            ("POST", "/v1/messages" | "/v1/messages/dry-run") => super::messages::HELLO,
            ("POST", "/v1/messages/batch") => {
                r#"{"messages":[{"to":"eve@example.org","subject":"x","text":"x"}]}"#
            }
            ("POST", "/v1/messages/{id}/cancel") => "",
            ("POST", "/v1/messages/{id}/settle") => r#"{"outcome":"sent"}"#,
            ("POST", "/v1/clients/{slug}/keys") => r#"{"name":"new","scopes":["manage"]}"#,
            ("POST", "/v1/inbound") => r#"{"mime":"From: eve@example.org\r\n\r\nHello"}"#,
            ("POST", "/v1/webhooks") | ("PATCH", "/v1/webhooks/{webhook_id}") => {
                r#"{"url":"http://127.0.0.1:9/"}"#
            }
            ("POST", "/v1/webhooks/{webhook_id}/replay") => r#"{"since":"2026-01-01T00:00:00Z"}"#,
            ("POST", path) if path.starts_with("/v1/webhook") => "",
            ("POST", "/v1/contacts") => r#"{"email":"hidden@example.org"}"#,
            ("PATCH", "/v1/contacts/{email}") => r#"{"first_name":"Other"}"#,
            ("PUT" | "POST", "/v1/contacts/{email}/tags") => r#"{"tags":["other"]}"#,
            ("POST", "/v1/suppressions") => r#"{"email":"hidden@example.org","reason":"why not"}"#,
            ("POST", "/v1/clients/{slug}/disable" | "/v1/clients/{slug}/enable")
            | ("GET" | "DELETE", _) => "",
            _ => panic!("tell this test what to send to {} {}", self.method, self.template),
        }
    }

    /// Written down here once more: what the handlers ask for is what is tested.
    fn scope(&self) -> Option<Scope> {
        match (self.method.as_str(), self.template.as_str()) {
            ("GET", "/v1/me") => None,
            (
                "GET",
                "/v1/clients"
                | "/v1/clients/{slug}"
                | "/v1/clients/{slug}/keys"
                | "/v1/messages"
                | "/v1/messages/{id}"
                | "/v1/messages/{id}/events"
                | "/v1/events"
                | "/v1/stats/deliveries"
                | "/v1/stats/templates"
                | "/v1/stats/sequences/{sequence_id}",
            ) => Some(Scope::Read),
            (
                "POST",
                "/v1/messages"
                | "/v1/messages/batch"
                | "/v1/messages/dry-run"
                | "/v1/messages/{id}/cancel",
            ) => Some(Scope::Send),
            ("GET", path) if path.starts_with("/v1/webhook") => Some(Scope::Read),
            ("POST" | "PATCH" | "DELETE", path) if path.starts_with("/v1/webhook") => {
                Some(Scope::Manage)
            }
            (
                "GET",
                "/v1/contacts"
                | "/v1/contacts/{email}"
                | "/v1/suppressions"
                | "/v1/suppressions/{email}",
            ) => Some(Scope::Read),
            (
                "POST" | "PUT" | "PATCH" | "DELETE",
                "/v1/contacts"
                | "/v1/contacts/{email}"
                | "/v1/contacts/{email}/tags"
                | "/v1/contacts/{email}/tags/{tag}"
                | "/v1/suppressions"
                | "/v1/suppressions/{email}",
            ) => Some(Scope::Manage),
            (
                "POST",
                "/v1/clients"
                | "/v1/messages/{id}/settle"
                | "/v1/inbound"
                | "/v1/clients/{slug}/disable"
                | "/v1/clients/{slug}/enable"
                | "/v1/clients/{slug}/keys",
            )
            | ("DELETE", "/v1/keys/{public_id}") => Some(Scope::Manage),
            _ => panic!("tell this test which scope {} {} needs", self.method, self.template),
        }
    }
}

/// A client that only `acme` has, a key of it, and a contact.
async fn victim(world: &World) -> Issued {
    let create = Create { slug: slug("hidden"), name: "Top secret".parse().unwrap() };
    clients::create(&world.acme, create).await.unwrap();
    count_something(&world.acme).await;
    super::messages::hello(world, &world.acme).await;
    for _ in 0..2 {
        let create = endpoints::Create {
            url: "http://127.0.0.1:9/Top-secret".parse().unwrap(),
            description: Some("Top secret".parse().unwrap()),
            event_types: EventTypes::All,
        };
        let made = endpoints::create(&world.acme, &Targets::new(true), create).await.unwrap();
        deliveries::send_test(&world.acme, made.endpoint.id).await.unwrap();
    }
    put_contact(world).await;
    world.key(&world.acme, Scopes::all()).await
}

/// A sequence of `acme` has numbers.
async fn count_something(cx: &Cx) {
    let item = Item::new().with("PK", "STATS#hidden").with("SK", "COUNTERS").with("openCount", 7);
    cx.items().await.unwrap().put(Put::new(&tables::MAIN, item)).await.unwrap();
}

/// A contact that only `acme` has, who is suppressed.
async fn put_contact(world: &World) {
    let email: EmailAddress = "hidden@example.org".parse().unwrap();
    let contact = contacts::Upsert {
        email: email.clone(),
        first_name: Some("Top secret".parse().unwrap()),
        attributes: contacts::Attributes::default(),
        tags: Some(contacts::TagChange::Add(["vip".parse().unwrap()].into())),
    };
    contacts::upsert(&world.acme, contact).await.unwrap();
    let suppress = suppression::Suppress {
        email,
        kind: suppression::Kind::Manual,
        reason: "Top secret".parse().unwrap(),
        source: None,
        note: None,
        at: world.acme.now(),
    };
    suppression::suppress(&world.acme, suppress).await.unwrap();
}

/// Everything but when keys were last used, which a refused request may change.
async fn state_of_acme(world: &World, key: &Issued) -> Vec<Value> {
    let mut state = Vec::new();
    for path in [
        "/v1/clients",
        "/v1/clients/hidden/keys",
        "/v1/clients/shop/keys",
        "/v1/webhooks",
        "/v1/webhooks/1/deliveries",
        "/v1/contacts",
        "/v1/suppressions",
        "/v1/messages",
    ] {
        let answer = world.get(key, path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let mut page = answer.json();
        for one in page["data"].as_array_mut().unwrap() {
            one.as_object_mut().unwrap().remove("last_used_at");
        }
        state.push(page);
    }
    state
}

#[tokio::test]
async fn a_key_of_another_workspace_finds_nothing_and_changes_nothing() {
    let world = World::new().await;
    let victim = victim(&world).await;
    let before = state_of_acme(&world, &victim).await;
    let stranger = world.key(&world.other, Scopes::all()).await;
    // What needs an id comes first: afterwards `other` has a client of the same name.
    let (with_id, without): (Vec<_>, Vec<_>) =
        routes().into_iter().partition(|route| route.template.contains('{'));
    for route in with_id.iter().chain(&without) {
        let line = route.line(&victim);
        let key = stranger.api_key.expose();
        let answer = world.send(&line, Some(&key), route.body()).await;
        if (route.method.as_str(), route.template.as_str()) == ("DELETE", "/v1/contacts/{email}") {
            // Whoever is not there is erased already.
            assert_eq!(answer.body, r#"{"erased":false}"#);
        } else if route.template.contains('{') {
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
    assert_eq!(state_of_acme(&world, &victim).await, before);
}

#[tokio::test]
async fn without_its_scope_all_others_do_not_open_a_route() {
    let world = World::new().await;
    let victim = victim(&world).await;
    let mut all_but = Vec::new();
    for scope in Scope::ALL {
        let others = Scope::ALL.into_iter().filter(|other| *other != scope).collect();
        all_but.push((scope, world.key(&world.acme, others).await));
    }
    let before = state_of_acme(&world, &victim).await;
    for route in routes() {
        let Some(scope) = route.scope() else { continue };
        let (_, key) = all_but.iter().find(|(missing, _)| *missing == scope).unwrap();
        let line = route.line(&victim);
        let answer = world.send(&line, Some(&key.api_key.expose()), route.body()).await;
        assert_eq!(answer.status, 403, "{line}: {}", answer.body);
        let told = answer.json();
        assert_eq!(told["code"], "missing_scope", "{line}");
        assert_eq!(told["detail"], format!("this key lacks the scope {scope}"), "{line}");
        assert!(answer.headers.contains("ratelimit-remaining"), "{line}: {}", answer.headers);
    }
    assert_eq!(state_of_acme(&world, &victim).await, before);
}

#[tokio::test]
async fn its_scope_alone_opens_a_route() {
    let world = World::new().await;
    let victim = victim(&world).await;
    for route in routes() {
        let key = world.key(&world.acme, route.scope().into_iter().collect()).await;
        let line = route.line(&victim);
        // A client of that name is there already; everything else is as it should be.
        let expected = match (route.method.as_str(), route.template.as_str()) {
            ("POST", "/v1/clients") => 409,
            ("POST", "/v1/messages") => 202,
            // The message is not uncertain.
            ("POST", "/v1/messages/{id}/settle") => 409,
            ("POST", "/v1/inbound") => 202,
            ("POST", "/v1/clients/{slug}/keys" | "/v1/webhooks") => 201,
            ("DELETE", "/v1/webhooks/{webhook_id}") => 204,
            ("POST", "/v1/webhooks/{webhook_id}/test" | "/v1/webhooks/{webhook_id}/replay") => 202,
            // It is still being tried.
            ("POST", "/v1/webhook-deliveries/{delivery_id}/replay") => 409,
            _ => 200,
        };
        // One route takes away what the next one needs.
        put_contact(&world).await;
        let answer = world.send(&line, Some(&key.api_key.expose()), route.body()).await;
        assert_eq!(answer.status, expected, "{line}: {}", answer.body);
        // Two keys with the same scopes have the same name here.
        keys::revoke(&world.acme, key.key.public_id).await.unwrap();
    }
}

#[test]
fn the_description_says_which_scope_a_route_needs() {
    for route in routes() {
        let said = route
            .scope()
            .map_or("Any key may ask.".to_owned(), |scope| format!("Needs the scope `{scope}`."));
        let Route { method, template, description } = route;
        assert!(
            description.replace('\n', " ").ends_with(&said),
            "{method} {template}: {description}"
        );
    }
}
