//! Double opt-in from the call to the click.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use insta::assert_snapshot;
use jiff::ToSpan as _;
use serde_json::{Value, json};
use tidings_access::Scopes;
use tidings_delivery::links::Links;
use tidings_signals::tracking::Tracking;
use tidings_sql::DatabaseError;
use tower::ServiceExt as _;

use super::World;
use crate::{Limits, public};

const AUDIENCE: &str = r#"{"slug":"news","name":"The news","double_opt_in":true,"confirm_template_key":"confirm/news"}"#;
const TEMPLATE: &str = r#"{"subject":"Confirm {{ audience }}","html":"<a href=\"{{ confirm_url }}\">Yes</a>",
    "required_variables":["confirm_url","audience"]}"#;
const ADA: &str = r#"{"email":"ada@example.org","audience":"news","by":"person","source":"form"}"#;

/// The path of the link in the newest message, which must be queued and not be led past us.
async fn link(world: &World) -> String {
    let read = world.acme.database().read(|tx| {
        let sql = "SELECT email, status, CAST(context AS TEXT), CAST(envelope AS TEXT)
                   FROM transactional_messages ORDER BY id DESC LIMIT 1";
        let rows = tx.query(sql, &[])?;
        Ok::<_, DatabaseError>([0, 1, 2, 3].map(|column| rows[0].text(column).unwrap().to_owned()))
    });
    let [email, status, context, envelope] = read.await.unwrap();
    assert_eq!((email.as_str(), status.as_str()), ("ada@example.org", "queued"));
    let envelope: Value = serde_json::from_str(&envelope).unwrap();
    assert_eq!(envelope["tracking"], "off");
    let context: Value = serde_json::from_str(&context).unwrap();
    let url = context["confirm_url"].as_str().unwrap();
    url.strip_prefix("https://m.example.org").unwrap().to_owned()
}

async fn at_the_link(world: &World, method: &str, path: &str) -> (u16, String) {
    let links = Links::load(world.acme.database(), "https://m.example.org", world.acme.now());
    let tracking = Tracking { access: world.access.clone(), links: links.await.unwrap() };
    let limits = Limits::uniform(4096, Duration::from_secs(5));
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let response = public(tracking, limits).oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn standing(world: &World, key: &tidings_access::keys::Issued) -> Value {
    let all = world.get(key, "/v1/contacts/ada@example.org/subscriptions").await.json();
    all["data"][0]["status"].clone()
}

#[tokio::test]
async fn whoever_subscribes_gets_a_link_and_only_pressing_the_button_confirms() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let put = world.put(&key, "/v1/templates/confirm%2Fnews", TEMPLATE).await;
    assert!(put.status < 300, "{}", put.body);
    assert_eq!(world.post(&key, "/v1/audiences", AUDIENCE).await.status, 201);
    let asked = world.post(&key, "/v1/subscriptions", ADA).await;
    assert_snapshot!("confirmation_queued", asked.shown());
    let path = link(&world).await;

    let (status, page) = at_the_link(&world, "GET", &path).await;
    assert_eq!(status, 200);
    assert!(page.contains("<form") && page.contains("The news"), "{page}");
    assert_eq!(standing(&world, &key).await, "pending", "looking at it changes nothing");

    let (status, page) = at_the_link(&world, "POST", &path).await;
    assert_eq!(status, 200, "{page}");
    assert_eq!(standing(&world, &key).await, "subscribed");

    // Nobody is asked twice who has confirmed.
    let again = world.post(&key, "/v1/subscriptions", ADA).await.json();
    assert_eq!((&again["to_confirm"], &again["confirmation"]), (&json!(false), &Value::Null));
}

#[tokio::test]
async fn three_mails_a_day_ask_and_no_more() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    world.put(&key, "/v1/templates/confirm%2Fnews", TEMPLATE).await;
    world.post(&key, "/v1/audiences", AUDIENCE).await;
    let ask =
        async || world.post(&key, "/v1/subscriptions", ADA).await.json()["confirmation"].clone();
    for message in 1..=3 {
        let asked = ask().await;
        assert_eq!((&asked["outcome"], &asked["message_id"]), (&json!("queued"), &json!(message)));
    }
    let limited = ask().await;
    assert_eq!(limited["outcome"], "limited");
    assert_eq!(limited["next_at"], "2026-07-02T12:00:00Z");
    world.clock.advance(25.hours());
    assert_eq!(ask().await["outcome"], "queued");
}

#[tokio::test]
async fn a_mail_that_cannot_be_made_is_told_and_the_subscription_waits() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    world.put(&key, "/v1/templates/confirm%2Fnews", TEMPLATE).await;
    world.post(&key, "/v1/audiences", AUDIENCE).await;
    world.post(&key, "/v1/templates/confirm%2Fnews/deactivate", "").await;
    let told = world.post(&key, "/v1/subscriptions", ADA).await.json();
    assert_eq!(told["confirmation"]["outcome"], "refused");
    assert_eq!(told["confirmation"]["reason"], "there is no active template confirm/news");
    assert_eq!(standing(&world, &key).await, "pending");
    // The client asks by itself.
    world.post(&key, "/v1/audiences", r#"{"slug":"own","double_opt_in":true}"#).await;
    let own = ADA.replace("news", "own");
    let told = world.post(&key, "/v1/subscriptions", &own).await.json();
    assert_eq!(told["confirmation"]["outcome"], "by_client");
    // What is confirmed already needs no mail.
    let done = ADA.replacen('{', r#"{"confirmed":true,"#, 1);
    let told = world.post(&key, "/v1/subscriptions", &done).await.json();
    assert_eq!((&told["to_confirm"], &told["confirmation"]), (&json!(false), &Value::Null));
}

#[tokio::test]
async fn a_file_asks_whoever_is_new_unless_it_was_confirmed_elsewhere() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    assert_eq!(world.put(&key, "/v1/templates/confirm%2Fnews", TEMPLATE).await.status, 201);
    assert_eq!(world.post(&key, "/v1/audiences", AUDIENCE).await.status, 201);
    let import = async |query: &str, file: &str| {
        let path = format!("/v1/contacts/import?audience=news&source=fair{query}");
        world.post(&key, &path, file).await
    };
    let counts = |told: Value| (told["subscribed"].clone(), told["asked"].clone());
    let ada = "email\nada@example.org\n";
    let looked = import("&dry_run=true", ada).await.json();
    assert_eq!(counts(looked), (json!(1), json!(1)));
    assert_eq!(counts(import("", ada).await.json()), (json!(1), json!(1)));
    assert_eq!(standing(&world, &key).await, "pending");
    let bob = import("&confirmed=true", "email\nbob@example.org\n").await.json();
    assert_eq!(counts(bob), (json!(1), json!(0)));
    let all = world.get(&key, "/v1/contacts/bob@example.org/subscriptions").await.json();
    assert_eq!(all["data"][0]["status"], "subscribed");
    // A template that cannot ask is told before anybody waits for it.
    let gone = world.post(&key, "/v1/templates/confirm%2Fnews/deactivate", "");
    assert!(gone.await.status < 300);
    let refused = import("", "email\ncy@example.org\n").await;
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert!(refused.body.contains("there is no active template confirm/news"), "{}", refused.body);
    assert_eq!(world.get(&key, "/v1/contacts/cy@example.org").await.status, 404);
}
