//! No route lets a key of one workspace see or change another's, or do what its scopes do not allow. The routes are
//! taken from the description, so that a new one cannot be forgotten.

mod audited;
mod routes;
mod victim;

use std::collections::BTreeSet;

use jiff::ToSpan as _;
use serde_json::Value;
use tidings_access::keys::{self, Issued};
use tidings_access::{Scope, Scopes, authenticate};

use super::World;
use crate::openapi;
use routes::{Known, ROUTES};
use victim::{KNOWN_ID, put_contact, state_of_acme, victim};

impl Known {
    /// The route on something of workspace `acme`.
    fn line(&self, world: &World, victim: &Issued) -> String {
        let path = self
            .template
            .replace("{slug}", "hidden")
            .replace("{public_id}", victim.key.public_id.as_str())
            .replace("{email}", "hidden@example.org")
            .replace("{merge}", "1")
            .replace("{flag}", "1")
            .replace("{tag}", "vip")
            .replace("{channel}/{value}", "custom:hidden/1")
            .replace("{key}", "hidden")
            .replace("{type}", "hidden")
            .replace("{rules}", "hidden")
            .replace("{segment}", "hidden")
            .replace("{sequence_id}", "hidden")
            .replace("{captured_id}", "1")
            .replace("/messages/{id}", "/messages/1")
            // The first two of the database are acme's; what is deleted is not asked for again.
            .replace("{webhook_id}", if self.method == "DELETE" { "2" } else { "1" })
            .replace("{delivery_id}", "1")
            .replace("{campaign}", "hidden-mailing")
            .replace("{recipient_id}", "1")
            .replace("{broadcast}", "hidden-broadcast")
            .replace("{sequence}", "hidden")
            .replace("{reminder}", "20260701_120000_hidden")
            .replace("{customer}", "hidden")
            .replace("{template}", "hidden-too")
            .replace("{version}", "1")
            .replace("{execution}", KNOWN_ID)
            .replace("{enrolment}", KNOWN_ID)
            .replace("{inbox}", "hidden")
            .replace("{message_id}", world.hidden_message.get().map_or("", String::as_str));
        assert!(!path.contains('{'), "tell this test what to put into {}", self.template);
        format!("{} {path}{}", self.method, self.query)
    }

    /// Whether it is about something that a stranger does not have.
    fn is_about_something(&self) -> bool {
        self.template.contains('{') && !self.makes
    }
}

#[test]
fn every_route_is_known_with_the_scope_that_the_description_names() {
    let description: Value = serde_json::from_str(&openapi()).unwrap();
    let mut described = BTreeSet::new();
    for (template, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let line = format!("{} {template}", method.to_uppercase());
            let known =
                ROUTES.iter().find(|known| format!("{} {}", known.method, known.template) == line);
            let known = known.unwrap_or_else(|| panic!("tell this test of {line}"));
            let said = operation["description"].as_str().unwrap().replace('\n', " ");
            let needs = match known.scope {
                Some(scope) => format!("Needs the scope `{scope}`."),
                None if known.keyless => "Needs no key: the refresh token is the proof.".to_owned(),
                None => "Any key may ask.".to_owned(),
            };
            assert!(said.ends_with(&needs), "{line}: {said}");
            described.insert(line);
        }
    }
    for known in ROUTES {
        let line = format!("{} {}", known.method, known.template);
        assert!(described.contains(&line), "there is no {line}");
    }
}

#[tokio::test]
async fn a_key_of_another_workspace_finds_nothing_and_changes_nothing() {
    let world = World::new().await;
    let victim = victim(&world).await;
    let before = state_of_acme(&world, &victim).await;
    let stranger = world.key(&world.other, Scopes::all()).await;
    // What needs an id comes first: afterwards `other` has things of the same name.
    let (with_id, without): (Vec<_>, Vec<_>) =
        ROUTES.iter().partition(|route| route.is_about_something());
    for route in with_id.iter().chain(&without).filter(|route| !route.keyless) {
        // There are more routes than a key may ask at once.
        world.clock.advance(20.milliseconds());
        let line = route.line(&world, &victim);
        let key = stranger.api_key.expose();
        let answer = world.send(&line, Some(&key), route.body).await;
        match (route.method, route.template) {
            // Whoever is not there is erased already.
            ("DELETE", "/v1/contacts/{email}") => assert_eq!(answer.body, r#"{"erased":false}"#),
            // What it names is in its body, and not there.
            ("POST", "/v1/reminders/approve") => assert_eq!(answer.status, 409, "{}", answer.body),
            _ if route.is_about_something() => {
                assert_eq!(answer.status, 404, "{line}: {}", answer.body);
            }
            _ => assert!((200..300).contains(&answer.status), "{line}: {}", answer.body),
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
    for route in ROUTES {
        let line = route.line(&world, &victim);
        let answer = world.send(&line, None, route.body).await;
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
        // Whoever manages decides about reminders, and whoever decides drafts.
        let implies: &[Scope] = match scope {
            Scope::RemindersDraft => &[Scope::RemindersApprove, Scope::Manage],
            Scope::RemindersApprove => &[Scope::Manage],
            _ => &[],
        };
        let others = Scope::ALL.into_iter().filter(|other| *other != scope);
        let others = others.filter(|other| !implies.contains(other)).collect();
        all_but.push((scope, world.key(&world.acme, others).await));
    }
    let before = state_of_acme(&world, &victim).await;
    for route in ROUTES {
        let Some(scope) = route.scope else { continue };
        let (_, key) = all_but.iter().find(|(missing, _)| *missing == scope).unwrap();
        let line = route.line(&world, &victim);
        let answer = world.send(&line, Some(&key.api_key.expose()), route.body).await;
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
    // What is deleted is gone for those that come after.
    let (last, first): (Vec<_>, Vec<_>) = ROUTES.iter().partition(|route| route.method == "DELETE");
    for route in first.iter().chain(&last).filter(|route| !route.keyless) {
        let key = world.key(&world.acme, route.scope.into_iter().collect()).await;
        let line = route.line(&world, &victim);
        // One route takes away what the next one needs.
        put_contact(&world).await;
        let answer = world.send(&line, Some(&key.api_key.expose()), route.body).await;
        assert_eq!(answer.status, route.status, "{line}: {}", answer.body);
        // Two keys with the same scopes have the same name here.
        keys::revoke(&world.acme, key.key.public_id).await.unwrap();
    }
}
