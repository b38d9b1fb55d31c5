//! Audiences, topics, subscriptions, preferences, proof and eligibility, as a caller meets them.

use insta::assert_snapshot;
use jiff::ToSpan as _;
use serde_json::json;
use tidings_access::{Scope, Scopes};
use tidings_people::suppression::{self, Kind, Suppress};

use super::World;

const ADA: &str = "/v1/contacts/ada@example.org";

#[tokio::test]
async fn audiences_and_topics_are_made_shown_and_changed() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let new = r#"{"slug":"news","name":"The news","double_opt_in":true,"confirm_template_key":"confirm/news"}"#;
    let other = world.key(&world.acme, [Scope::Manage].into_iter().collect()).await;
    let none = world.post(&other, "/v1/audiences", new).await;
    assert_eq!(
        (none.status, &none.json()["errors"][0]["field"]),
        (422, &json!("confirm_template_key"))
    );
    let template = r#"{"subject":"Confirm","text":"Please do."}"#;
    assert_eq!(world.put(&other, "/v1/templates/confirm%2Fnews", template).await.status, 201);
    assert_snapshot!("audience_made", world.post(&key, "/v1/audiences", new).await.shown());
    assert_snapshot!("audience_taken", world.post(&key, "/v1/audiences", new).await.shown());
    let new = r#"{"slug":"tips","description":"Once a week"}"#;
    assert_snapshot!("topic_made", world.post(&key, "/v1/topics", new).await.shown());
    let wrong = r#"{"slug":"No","double_opt_in":"yes","confirm_template_key":"","colour":1}"#;
    assert_snapshot!("audience_wrong", world.post(&key, "/v1/audiences", wrong).await.shown());

    world.clock.advance(1.hour());
    let change = r#"{"name":"Our news","confirm_template_key":null}"#;
    let changed = world.patch(&key, "/v1/audiences/news", change).await;
    assert_snapshot!("audience_changed", changed.shown());
    assert_eq!(world.get(&key, "/v1/audiences/news").await.body, changed.body);
    let changed = world.patch(&key, "/v1/topics/tips", r#"{"description":null}"#).await;
    assert!(changed.json()["description"].is_null(), "{}", changed.body);
    for path in ["/v1/audiences/none", "/v1/topics/none", "/v1/audiences/No%20Slug"] {
        assert_eq!(world.get(&key, path).await.status, 404, "{path}");
        assert_eq!(world.patch(&key, path, "{}").await.status, 404, "{path}");
    }
    let listed = world.get(&key, "/v1/audiences?limit=1").await.json();
    assert_eq!(listed["data"][0]["slug"], "news");
    // A cursor of one list is none of another.
    world.post(&key, "/v1/audiences", r#"{"slug":"zoo"}"#).await;
    let listed = world.get(&key, "/v1/audiences?limit=1").await.json();
    let cursor = listed["next_cursor"].as_str().unwrap();
    assert_eq!(world.get(&key, &format!("/v1/audiences?cursor={cursor}")).await.status, 200);
    for list in ["/v1/topics", "/v1/clients"] {
        let answer = world.get(&key, &format!("{list}?cursor={cursor}")).await;
        assert_eq!(answer.status, 422, "{list}");
    }
}

#[tokio::test]
async fn somebody_subscribes_leaves_and_comes_back() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    world.post(&key, "/v1/audiences", r#"{"slug":"news"}"#).await;
    let new = r#"{"email":"Ada@Example.org","audience":"news","client":"shop","by":"person","source":"form",
                  "ip":"203.0.113.7","user_agent":"Browser","text_version":"2026-06"}"#;
    assert_snapshot!("subscribed", world.post(&key, "/v1/subscriptions", new).await.shown());
    let again = world.post(&key, "/v1/subscriptions", new).await.json();
    assert_eq!(again["changed"], false);

    world.clock.advance(1.hour());
    let leave = r#"{"email":"ada@example.org","scope":"client","audience":"news","client":"shop","reason":"enough"}"#;
    let left = world.post(&key, "/v1/subscriptions/unsubscribe", leave).await;
    assert_snapshot!("unsubscribed", left.shown());
    let import = r#"{"email":"ada@example.org","audience":"news","client":"shop"}"#;
    let kept = world.post(&key, "/v1/subscriptions", import).await.json();
    assert_eq!(kept["subscription"]["status"], "unsubscribed");
    let operator =
        r#"{"email":"ada@example.org","audience":"news","client":"shop","by":"operator"}"#;
    let refused = world.post(&key, "/v1/subscriptions", operator).await;
    assert_snapshot!("needs_reason", refused.shown());
    world.clock.advance(1.hour());
    let back = r#"{"email":"ada@example.org","scope":"client","audience":"news","client":"shop"}"#;
    let whose = world.post(&key, "/v1/subscriptions/resubscribe", back).await;
    assert_eq!((whose.status, &whose.json()["errors"][0]["field"]), (422, &json!("by")));
    let back = r#"{"email":"ada@example.org","scope":"client","audience":"news","client":"shop","by":"person"}"#;
    let back = world.post(&key, "/v1/subscriptions/resubscribe", back).await.json();
    assert_eq!(
        (&back["subscription"]["status"], &back["changed"]),
        (&json!("subscribed"), &json!(true))
    );

    let all = world.get(&key, &format!("{ADA}/subscriptions")).await.json();
    assert_eq!(all["data"].as_array().unwrap().len(), 1);
    assert_snapshot!("consent", world.get(&key, &format!("{ADA}/consent?limit=2")).await.shown());
    let first = world.get(&key, &format!("{ADA}/consent?limit=2")).await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = world.get(&key, &format!("{ADA}/consent?limit=2&cursor={cursor}")).await.json();
    assert_eq!(rest["data"][0]["ip"], "203.0.113.7");
    let everything = r#"{"email":"ada@example.org","scope":"global"}"#;
    let left = world.post(&key, "/v1/subscriptions/unsubscribe", everything).await.json();
    assert_eq!(left["unsubscribed_from_everything"], true);
    let import = r#"{"email":"ada@example.org","scope":"global","by":"import"}"#;
    assert_eq!(world.post(&key, "/v1/subscriptions/resubscribe", import).await.status, 409);
}

#[tokio::test]
async fn what_is_wrong_with_a_subscription_is_told_at_once() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let wrong =
        r#"{"email":"ada","audience":"No","confirmed":1,"by":"me","ip":"here","source":""}"#;
    assert_snapshot!(
        "subscription_wrong",
        world.post(&key, "/v1/subscriptions", wrong).await.shown()
    );
    let unknown = r#"{"email":"ada@example.org","audience":"none"}"#;
    assert_snapshot!("no_audience", world.post(&key, "/v1/subscriptions", unknown).await.shown());
    let scope = r#"{"email":"ada@example.org","scope":"audience"}"#;
    let told = world.post(&key, "/v1/subscriptions/unsubscribe", scope).await;
    assert_eq!((told.status, &told.json()["errors"][0]["field"]), (422, &json!("audience")));
    let nobody = r#"{"email":"eve@example.org","scope":"global","by":"person"}"#;
    assert_eq!(world.post(&key, "/v1/subscriptions/resubscribe", nobody).await.status, 404);
    for path in ["subscriptions", "preferences", "consent"] {
        assert_eq!(world.get(&key, &format!("{ADA}/{path}")).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn topics_are_switched_but_not_on_for_somebody_suppressed() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    world.post(&key, "/v1/audiences", r#"{"slug":"news"}"#).await;
    world.post(&key, "/v1/topics", r#"{"slug":"tips","name":"Tips"}"#).await;
    world.post(&key, "/v1/subscriptions", r#"{"email":"ada@example.org","audience":"news"}"#).await;
    let path = format!("{ADA}/preferences");
    assert_snapshot!("preferences", world.get(&key, &path).await.shown());
    let off = world.put(&key, &path, r#"{"topics":{"tips":false},"reason":"enough"}"#).await.json();
    assert_eq!(off["topics"][0]["on"], false);
    // A program that repeats what it knows switches nothing on.
    let kept = world.put(&key, &path, r#"{"topics":{"tips":true}}"#).await;
    assert_eq!((kept.status, &kept.json()["topics"][0]["on"]), (200, &json!(false)));
    let wrong = r#"{"topics":{"No":true,"tips":"on"}}"#;
    assert_snapshot!("preferences_wrong", world.put(&key, &path, wrong).await.shown());
    let unknown = world.put(&key, &path, r#"{"topics":{"none":false}}"#).await;
    assert_eq!(unknown.json()["errors"][0]["field"], "topics.none");
    let suppress = Suppress {
        email: "ada@example.org".parse().unwrap(),
        kind: Kind::Complaint,
        reason: "abuse".parse().unwrap(),
        source: None,
        note: None,
        at: world.acme.now(),
    };
    suppression::suppress(&world.acme, suppress).await.unwrap();
    let on = world.put(&key, &path, r#"{"topics":{"tips":true},"by":"person"}"#).await;
    assert_snapshot!("suppressed_cannot_be_enabled", on.shown());
}

#[tokio::test]
async fn it_is_explained_why_somebody_is_not_written_to() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    world.post(&key, "/v1/audiences", r#"{"slug":"news"}"#).await;
    world.post(&key, "/v1/topics", r#"{"slug":"tips"}"#).await;
    world.post(&key, "/v1/subscriptions", r#"{"email":"ada@example.org","audience":"news"}"#).await;
    let path = format!("{ADA}/eligibility?kind=campaign&audience=news&topic=tips&client=shop");
    assert_eq!(world.get(&key, &path).await.json()["verdict"], "send");
    let leave = r#"{"email":"ada@example.org","scope":"audience","audience":"news"}"#;
    world.post(&key, "/v1/subscriptions/unsubscribe", leave).await;
    assert_snapshot!("eligibility", world.get(&key, &path).await.shown());
    let message = world.get(&key, &format!("{ADA}/eligibility?kind=transactional")).await.json();
    assert_eq!(message["verdict"], "send");
    let wrong = world.get(&key, &format!("{ADA}/eligibility?kind=spam&page=1")).await;
    assert_snapshot!("eligibility_wrong", wrong.shown());
    let none = world.get(&key, &format!("{ADA}/eligibility?kind=campaign&topic=none")).await;
    assert_eq!(none.json()["errors"][0]["field"], "topic");
    // Also of an address that is nobody's.
    let eve = "/v1/contacts/eve@example.org/eligibility?kind=transactional";
    assert_eq!(world.get(&key, eve).await.json()["verdict"], "send");
    let suppress = r#"{"email":"eve@example.org","reason":"asked us to"}"#;
    world.post(&key, "/v1/suppressions", suppress).await;
    assert_eq!(world.get(&key, eve).await.json()["reason"], "manual");
    assert_eq!(world.get(&key, "/v1/contacts/eve/eligibility?kind=campaign").await.status, 404);
}

#[tokio::test]
async fn sending_settings_are_set_as_a_whole() {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    let path = "/v1/settings/sending";
    assert_snapshot!("settings_none", world.get(&key, path).await.shown());
    let new = r#"{"frequency_cap_count":3,"frequency_cap_hours":168,"quiet_from":"21:00","quiet_until":"08:00",
                  "quiet_zone":"Europe/Berlin"}"#;
    let set = world.put(&key, path, new).await;
    assert_snapshot!("settings_set", set.shown());
    assert_eq!(world.get(&key, path).await.body, set.body);
    let wrong = r#"{"frequency_cap_count":3,"quiet_from":"25:00","quiet_until":"08:00","quiet_zone":"Mars/Base"}"#;
    assert_snapshot!("settings_wrong", world.put(&key, path, wrong).await.shown());
    assert_eq!(world.get(&key, path).await.body, set.body);
    let cleared = world.put(&key, path, "{}").await.json();
    assert!(cleared["frequency_cap_count"].is_null() && cleared["quiet_from"].is_null());
}
