//! Memory, features and memory rules as a caller meets them.

use insta::assert_snapshot;
use jiff::ToSpan as _;
use serde_json::json;
use tidings_access::Scopes;
use tidings_access::keys::Issued;
use tidings_jobs::contracts::{Contract as _, LeadEvent};
use tidings_kernel::{Expect, Outgoing, Txn, queues, tables, topics};
use tidings_leads::event::{StoredEvent, id_of};
use tidings_leads::identity::{Whom, find};
use tidings_leads::{features, memory};

use super::World;

const ADA: &str = "/v1/contacts/ada@example.org";

async fn begun() -> (World, Issued) {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    world.post(&key, "/v1/contacts", r#"{"email":"ada@example.org"}"#).await;
    (world, key)
}

/// Something happens to Ada, and the workers hear of it.
async fn happens(world: &World, kind: &str, at: &str, payload: serde_json::Value) {
    let cx = &world.acme;
    let whom = Whom::Email("ada@example.org".parse().unwrap());
    let partition = find(cx, whom).await.unwrap().unwrap().lead_organization_id;
    let event = StoredEvent {
        lead_organization_id: partition.clone(),
        id: id_of("test", &format!("{kind} {at}")),
        event_type: kind.to_owned(),
        occurred_at: at.parse().unwrap(),
        received_at: at.parse().unwrap(),
        source_type: "test".to_owned(),
        source: "test".to_owned(),
        external_event_id: at.to_owned(),
        object_id: None,
        object_id_ref: None,
        payload: payload.as_object().unwrap().clone(),
        raw_payload: None,
    };
    let told = LeadEvent {
        workspace: cx.workspace().clone(),
        lead_organization_id: partition,
        event_id: event.id.clone(),
        event_type: event.event_type.clone(),
        occurred_at: event.occurred_at,
        source: None,
        metadata: None,
    };
    let txn = Txn::new()
        .put(&tables::EVENT, event.to_item(), Expect::Absent)
        .enqueue(Outgoing::publish(&topics::LEAD_EVENTS, told.to_body().unwrap()));
    cx.items().await.unwrap().transact(txn).await.unwrap();
    work(world).await;
}

async fn work(world: &World) {
    let access = || world.access.clone();
    world.bed.work(&queues::FEATURE_PROCESSING, features::handler(access())).await;
    world.bed.work(&queues::MEMORY_PROCESSING, memory::handler(access())).await;
}

#[tokio::test]
async fn memory_is_listed_shown_and_written() {
    let (world, key) = begun().await;
    happens(
        &world,
        "preference_set",
        "2026-06-30T10:00:00Z",
        json!({"preferences": {"colour": "red", "size": 42}}),
    )
    .await;
    happens(
        &world,
        "purchase_completed",
        "2026-06-30T11:00:00Z",
        json!({"product": "whey_1kg", "amount": "19.90"}),
    )
    .await;
    assert_snapshot!("memory", world.get(&key, &format!("{ADA}/memory")).await.shown());
    let one = world.get(&key, &format!("{ADA}/memory/purchase/product:whey_1kg")).await;
    assert_snapshot!("memory_one", one.shown());
    let page = world.get(&key, &format!("{ADA}/memory?type=preference&limit=1")).await.json();
    let next = page["next_cursor"].as_str().unwrap();
    let rest = world.get(&key, &format!("{ADA}/memory?type=preference&cursor={next}")).await.json();
    assert_eq!((&rest["data"][0]["key"], &rest["next_cursor"]), (&json!("size"), &json!(null)));

    let said = r#"{"value":{"name":"blue"},"confidence":0.9,"source":"agent:support","expires_at":"2026-12-24T00:00:00Z"}"#;
    let kept = world.put(&key, &format!("{ADA}/memory/preference/colour"), said).await;
    assert_snapshot!("memory_written", kept.shown());
    let wrong = r#"{"confidence":2,"source":"","expires_at":"soon","more":1}"#;
    let refused = world.put(&key, &format!("{ADA}/memory/preference/colour"), wrong).await;
    assert_snapshot!("memory_wrong", refused.shown());
    for (path, body, field) in [
        ("memory/Bad/colour", r#"{"value":1}"#, "type"),
        ("memory/preference/%20x", r#"{"value":1}"#, "key"),
        ("memory/preference/x", r#"{"value":1,"expires_at":"2020-01-01T00:00:00Z"}"#, "expires_at"),
    ] {
        let answer = world.put(&key, &format!("{ADA}/{path}"), body).await;
        assert_eq!(answer.status, 422, "{path}: {}", answer.body);
        assert!(answer.body.contains(&format!("\"field\":\"{field}\"")), "{}", answer.body);
    }
    for path in [
        "memory?cursor=nonsense",
        "memory?type=NO",
        "memory?limit=0",
        "features?as_of=x",
        "features?as_of=2027-01-01T00:00:00Z",
    ] {
        assert_eq!(world.get(&key, &format!("{ADA}/{path}")).await.status, 422, "{path}");
    }
    assert_eq!(world.get(&key, &format!("{ADA}/memory/preference/none")).await.status, 404);
    assert_eq!(world.get(&key, "/v1/contacts/bob@example.org/memory").await.status, 404);
    let blue = format!("{ADA}/memory/preference/colour");
    assert_eq!(world.delete(&key, &blue).await.status, 204);
    let red = world.get(&key, &blue).await.json();
    assert_eq!((&red["value"], &red["source"]), (&json!("red"), &json!("preference")));
    assert_eq!(world.delete(&key, &blue).await.status, 404, "nothing is stated any more");
}

#[tokio::test]
async fn features_are_shown_as_they_are_and_were() {
    let (world, key) = begun().await;
    let path = format!("{ADA}/features");
    let nothing = world.get(&key, &path).await.json();
    assert_eq!(nothing["computed_at"], json!(null));
    assert_eq!(nothing["features"]["has_purchased"], json!(false), "he has done nothing yet");
    assert!(nothing["features"].get("recency_days").is_none());
    happens(
        &world,
        "purchase_completed",
        "2026-06-01T10:00:00Z",
        json!({"amount": "19.90", "currency": "EUR"}),
    )
    .await;
    happens(
        &world,
        "purchase_completed",
        "2026-06-20T10:00:00Z",
        json!({"amount": "0.10", "currency": "EUR"}),
    )
    .await;
    assert_snapshot!("features", world.get(&key, &path).await.shown());
    let then = world.get(&key, &format!("{path}?as_of=2026-06-11T00:00:00Z")).await.json();
    assert_eq!(then["features"]["monetary_total"], json!(19.9));
    assert_eq!(then["features"]["days_since_last_purchase"], json!(10));
    let before = world.get(&key, &format!("{path}?as_of=2026-05-01T00:00:00Z")).await.json();
    assert_eq!(before["features"]["has_purchased"], json!(false));
}

#[tokio::test]
async fn one_and_all_are_rebuilt() {
    let (world, key) = begun().await;
    happens(
        &world,
        "purchase_completed",
        "2026-06-01T10:00:00Z",
        json!({"amount": 5, "product": "tea"}),
    )
    .await;
    let path = format!("{ADA}/features");
    let computed = world.get(&key, &path).await.json()["computed_at"].clone();
    for line in [format!("{ADA}/rebuild"), "/v1/rebuild".to_owned()] {
        world.clock.advance(1.hour());
        assert_eq!(world.post(&key, &line, "").await.status, 202);
        work(&world).await;
        let now = world.get(&key, &path).await.json();
        assert_ne!(now["computed_at"], computed);
        assert_eq!(now["features"]["monetary_total"], json!(5));
    }
    assert_snapshot!("rebuild", world.get(&key, "/v1/rebuild").await.shown());
}

#[tokio::test]
async fn memory_rules_are_put_shown_and_deleted() {
    let (world, key) = begun().await;
    let rules = r#"{"description":"Shop","rules":[{"name":"plan","on":"plan_changed","type":"plan","key":"current","value":"$.plan","expires_after":"30d"}]}"#;
    let path = "/v1/memory-rules/shop";
    let made = world.put(&key, path, rules).await;
    assert_eq!(made.status, 201);
    assert_snapshot!("memory_rules", made.shown());
    assert_eq!(world.put(&key, path, rules).await.status, 200);
    happens(&world, "plan_changed", "2026-06-30T10:00:00Z", json!({"plan": "pro"})).await;
    let known = world.get(&key, &format!("{ADA}/memory/plan/current")).await.json();
    assert_eq!((&known["value"], &known["source"]), (&json!("pro"), &json!("rule:plan")));
    let wrong = r#"{"rules":[{"name":"a","on":"x","type":"T","key":"","value":"$","confidence":0}],"more":1}"#;
    assert_snapshot!("memory_rules_wrong", world.put(&key, path, wrong).await.shown());
    let all = world.get(&key, "/v1/memory-rules").await.json();
    assert_eq!(all["data"].as_array().unwrap().len(), 1);
    assert_eq!(world.delete(&key, path).await.status, 204);
    assert_eq!(world.delete(&key, path).await.status, 404);
    assert_eq!(world.get(&key, path).await.status, 404);
    assert_eq!(world.put(&key, "/v1/memory-rules/No%20name", rules).await.status, 404);
}

/// Audiences, sequences and mails use what was really computed and derived.
#[tokio::test]
async fn what_was_learned_decides_who_is_meant_and_what_is_written() {
    let (world, key) = begun().await;
    world.post(&key, "/v1/contacts", r#"{"email":"bob@example.org"}"#).await;
    let bought = json!({"amount": "129.90", "currency": "EUR", "product": "tea"});
    happens(&world, "purchase_completed", "2026-06-01T10:00:00Z", bought).await;
    let likes = json!({"preference": "colour", "value": "red"});
    happens(&world, "preference_set", "2026-06-02T10:00:00Z", likes).await;
    for (filter, meant) in [
        (json!({"feature": "monetary_total", "at_least": 129.9}), 1),
        (json!({"feature": "monetary_total", "greater_than": 129.9}), 0),
        (json!({"feature": "has_purchased", "equals": true}), 1),
        (json!({"feature": "days_since_last_purchase", "at_least": 30}), 1),
        (json!({"memory": "preference/colour", "equals": "red"}), 1),
        (json!({"memory": "preference/colour", "not_equals": "red"}), 1),
        (json!({"memory": "purchase/product:tea", "exists": true}), 1),
        (json!({"not": {"memory": "purchase/product:tea", "exists": true}}), 1),
    ] {
        let campaign = json!({"name": "x", "subject": "x", "text": "x", "filter": filter});
        let preview = world.post(&key, "/v1/campaigns/preview", &campaign.to_string()).await;
        assert_eq!(preview.json()["count"], json!(meant), "{filter}: {}", preview.body);
    }
    let definition = json!({"steps": [{
        "condition": {"matches": {"all": [
            {"feature": "engagement_score", "at_least": 20},
            {"memory": "preference/colour", "equals": "red"},
        ]}},
        "then": [{"exit": "engaged"}],
        "else": [{"exit": "cold"}],
    }]});
    let made = world.put(&key, "/v1/sequences/learned", &definition.to_string()).await;
    assert_eq!(made.status, 201, "{}", made.body);
    for (email, said) in [("ada@example.org", "yes"), ("bob@example.org", "no")] {
        let body = json!({"email": email}).to_string();
        let walk = world.post(&key, "/v1/sequences/learned/simulate", &body).await.json();
        assert_eq!(walk["steps"][0]["told"], json!(said), "{email}: {walk}");
    }
    let message = json!({
        "to": "ada@example.org",
        "subject": "{{ features.monetary_total }} so far",
        "text": "In {{ memory.preference.colour }}, and {{ memory.purchase['product:tea'].amount }} for tea",
    });
    let letter = world.post(&key, "/v1/messages/dry-run", &message.to_string()).await.json();
    assert_eq!(letter["subject"], json!("129.9 so far"), "{letter}");
    assert_eq!(letter["text"], json!("In red, and 129.9 for tea"), "{letter}");
    // Of whom nothing is known the same mail says that he has paid nothing.
    let to_bob = message.to_string().replace("ada@", "bob@");
    let letter = world.post(&key, "/v1/messages/dry-run", &to_bob).await.json();
    assert_eq!(letter["subject"], json!("0 so far"), "{letter}");
}
