//! Events of people, timelines, and who is who, as a caller meets them.

use insta::assert_snapshot;
use jiff::ToSpan as _;
use serde_json::json;
use tidings_access::Scopes;
use tidings_access::keys::Issued;
use tidings_jobs::contracts::{Contract as _, LeadIngestion};
use tidings_kernel::{QueueEngine as _, Receive, queues};
use tidings_leads::ingestion::ingest;

use super::World;

async fn begun() -> (World, Issued) {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    (world, key)
}

/// Lets a worker put what was taken on the timelines.
async fn work(world: &World) -> usize {
    let engine = tidings_sql::SqlQueues::new(world.acme.database().clone(), world.clock.clone());
    let queue = &queues::LEAD_INGESTION;
    let ask = Receive { max: 10, lease: queue.lease, wait: std::time::Duration::ZERO };
    let taken = engine.receive(queue, ask).await.unwrap();
    for delivery in &taken {
        ingest(&world.acme, LeadIngestion::parse(&delivery.body).unwrap()).await.unwrap();
    }
    taken.len()
}

#[tokio::test]
async fn what_people_did_is_told_and_shown() {
    let (world, key) = begun().await;
    let one = r#"{"event_type":"purchase_completed","source":"shop","external_event_id":"o-1",
        "identities":[{"channel":"email","value":"Ada@Example.org"}],
        "occurred_at":"2026-06-30T10:00:00Z","payload":{"amount":12.5,"currency":"EUR"}}"#;
    let taken = world.post(&key, "/v1/lead-events", one).await;
    assert_snapshot!("lead_event_taken", taken.shown());
    let many = r#"{"events":[
        {"event_type":"page_viewed","external_event_id":"v-1","occurred_at":"2026-06-30T11:00:00Z",
         "identities":[{"channel":"anonymous_id","value":"browser"}]},
        {"event_type":"login","external_event_id":"v-2","occurred_at":"2026-06-30T12:00:00Z",
         "identities":[{"channel":"email","value":"ada@example.org"},{"channel":"anonymous_id","value":"browser"}]}]}"#;
    assert_eq!(world.post(&key, "/v1/lead-events", many).await.status, 202);
    assert_eq!(
        world.post(&key, "/v1/lead-events", one).await.body,
        taken.body,
        "again is the same"
    );
    assert_eq!(work(&world).await, 4);
    let path = "/v1/contacts/ada@example.org/timeline";
    assert_snapshot!("timeline", world.get(&key, &format!("{path}?limit=2")).await.shown());
    let first = world.get(&key, &format!("{path}?limit=2")).await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = world.get(&key, &format!("{path}?limit=2&cursor={cursor}")).await.json();
    assert_eq!(second["data"][0]["event_type"], "purchase_completed");
    assert_eq!(
        (second["data"].as_array().unwrap().len(), &second["next_cursor"]),
        (1, &json!(null))
    );
    let some =
        world.get(&key, &format!("{path}?type=login,other&after=2026-06-30T12:00:00Z")).await;
    assert_eq!(some.json()["data"].as_array().unwrap().len(), 1);
    let found = world.get(&key, "/v1/lead-events?source=shop&external_event_id=o-1").await.json();
    assert_eq!(found, json!({ "data": [second["data"][0]], "next_cursor": null }));
    let none = world.get(&key, "/v1/lead-events?source=shop&external_event_id=o-2").await;
    assert_eq!(none.json()["data"], json!([]));
    let unnamed = world.get(&key, "/v1/lead-events?source=shop").await;
    assert_eq!(unnamed.status, 422, "{}", unnamed.body);
    for wrong in ["limit=0", "limit=201", "cursor=x", "before=now", "type=,", "other=1"] {
        assert_eq!(world.get(&key, &format!("{path}?{wrong}")).await.status, 422, "{wrong}");
    }
    assert_eq!(world.get(&key, "/v1/contacts/bob@example.org/timeline").await.status, 404);
}

#[tokio::test]
async fn everything_that_is_wrong_with_events_is_told() {
    let (world, key) = begun().await;
    let wrong = r#"{"events":[{"event_type":"a#b","source":"tidings","occurred_at":"2031-01-01T00:00:00Z",
            "identities":[{"channel":"phone","value":"1"},{"channel":"fax","value":"1"}]},
        {"identities":[],"other":1}]}"#;
    assert_snapshot!("lead_events_wrong", world.post(&key, "/v1/lead-events", wrong).await.shown());
    let wrong = r#"{"event_type":"a#b","source":"tidings","occurred_at":"2031-01-01T00:00:00Z",
            "identities":[{"channel":"user_id","value":"1"}]}"#;
    assert_snapshot!("lead_event_wrong", world.post(&key, "/v1/lead-events", wrong).await.shown());
    let none = world.post(&key, "/v1/lead-events", r#"{"events":[]}"#).await;
    assert_eq!(none.status, 422);
    assert_eq!(work(&world).await, 0);
}

#[tokio::test]
async fn people_are_joined_taken_apart_and_flagged() {
    let (world, key) = begun().await;
    for email in ["ada@example.org", "ada@example.com"] {
        world.post(&key, "/v1/contacts", &format!(r#"{{"email":"{email}"}}"#)).await;
    }
    world.clock.advance(1.hour());
    let with = r#"{"with":"ada@example.com"}"#;
    let path = "/v1/contacts/ada@example.org";
    let merged = world.post(&key, &format!("{path}/merge"), with).await;
    assert_snapshot!("contacts_merged", merged.shown());
    assert_eq!(world.post(&key, &format!("{path}/merge"), with).await.status, 409);
    assert_snapshot!("identities", world.get(&key, &format!("{path}/identities")).await.shown());
    let same = world.get(&key, "/v1/contacts/2/identities").await;
    assert_eq!(same.json()["contact_id"], 1, "who went is who stayed");
    let undo = world.post(&key, "/v1/contact-merges/1/undo", "").await;
    assert!(undo.json()["undone_at"].is_string());
    assert_eq!(world.get(&key, "/v1/contact-merges").await.json()["data"][0], undo.json());
    assert_eq!(world.get(&key, "/v1/contacts/2/identities").await.json()["contact_id"], 2);

    let set = world.put(&key, "/v1/settings/identity", r#"{"shared_identities":"flag"}"#).await;
    assert_eq!(set.body, r#"{"shared_identities":"flag"}"#);
    assert_eq!(
        world.put(&key, "/v1/settings/identity", r#"{"shared_identities":"x"}"#).await.status,
        422
    );
    let both = r#"{"event_type":"login","identities":[{"channel":"phone","value":"+493012345"}]}"#;
    world.post(&key, "/v1/lead-events", both).await;
    let both = r#"{"event_type":"login","identities":[{"channel":"phone","value":"+493012345"},
        {"channel":"email","value":"ada@example.org"}]}"#;
    world.post(&key, "/v1/lead-events", both).await;
    work(&world).await;
    let flags = world.get(&key, "/v1/contact-flags").await.json();
    assert_eq!(flags["data"][0]["cause"], "setting");
    assert_eq!(
        world.post(&key, "/v1/contact-flags/1/dismiss", "").await.body,
        r#"{"dismissed":true}"#
    );
    assert_eq!(world.post(&key, "/v1/contact-flags/1/dismiss", "").await.status, 404);
}

#[tokio::test]
async fn what_somebody_is_not_known_by_after_all_is_detached() {
    let (world, key) = begun().await;
    let event = r#"{"event_type":"login","identities":[{"channel":"email","value":"ada@example.org"},
        {"channel":"phone","value":"+49 30 12345"},{"channel":"custom:crm","value":"a/b"}]}"#;
    world.post(&key, "/v1/lead-events", event).await;
    work(&world).await;
    let path = "/v1/contacts/ada@example.org/identities";
    let detach = async |what: &str| {
        let answer = world.delete(&key, &format!("{path}/{what}")).await;
        (answer.status, answer.body)
    };
    assert_eq!(detach("phone/+49%2030%2012345").await, (200, r#"{"detached":true}"#.to_owned()));
    assert_eq!(detach("phone/+493012345").await, (200, r#"{"detached":false}"#.to_owned()));
    assert_eq!(detach("custom:crm/a%2Fb").await, (200, r#"{"detached":true}"#.to_owned()));
    let (status, told) = detach("email/ada@example.org").await;
    assert!(status == 409 && told.contains("an address stays"), "{told}");
    let known = world.get(&key, path).await.json();
    assert_eq!(known["identities"].as_array().unwrap().len(), 1);
    for (wrong, field) in [("fax/1", "channel"), ("phone/1", "value")] {
        let (status, told) = detach(wrong).await;
        assert!(status == 422 && told.contains(field), "{wrong}: {told}");
    }
    let event = r#"{"event_type":"login","identities":[{"channel":"phone","value":"+493012345"}]}"#;
    world.post(&key, "/v1/lead-events", event).await;
    work(&world).await;
    let path = "/v1/contacts/phone=+493012345/identities";
    assert_eq!(world.get(&key, path).await.json()["contact_id"], 2);
    let last = world.delete(&key, &format!("{path}/phone/+493012345")).await;
    assert!(last.status == 409 && last.body.contains("known by nothing else"), "{}", last.body);
    let path = "/v1/contacts/nobody@example.org/identities/phone/+493012345";
    assert_eq!(world.delete(&key, path).await.status, 404);
}

#[tokio::test]
async fn whoever_has_no_address_is_named_by_what_he_is_known_by() {
    let (world, key) = begun().await;
    let event = r#"{"event_type":"login","external_event_id":"1",
        "identities":[{"channel":"phone","value":"+49 30 12345"}]}"#;
    world.post(&key, "/v1/lead-events", event).await;
    work(&world).await;
    for name in ["1", "phone=+493012345", "phone=+49%2030%2012345"] {
        for what in ["memory", "features", "timeline", "identities"] {
            let answer = world.get(&key, &format!("/v1/contacts/{name}/{what}")).await;
            assert_eq!(answer.status, 200, "{name} {what}: {}", answer.body);
        }
        let path = format!("/v1/contacts/{name}/memory/preference/colour");
        assert_eq!(world.put(&key, &path, r#"{"value":"red"}"#).await.status, 200, "{name}");
        assert_eq!(world.get(&key, &path).await.json()["value"], "red", "{name}");
        let rebuild = world.post(&key, &format!("/v1/contacts/{name}/rebuild"), "").await;
        assert_eq!(rebuild.status, 202, "{name}");
    }
    let erased = world.delete(&key, "/v1/contacts/phone=+493012345").await;
    assert_eq!((erased.status, erased.body.as_str()), (200, r#"{"erased":true}"#));
    assert_eq!(world.delete(&key, "/v1/contacts/1").await.body, r#"{"erased":false}"#);
    assert_eq!(world.delete(&key, "/v1/contacts/2").await.status, 404);
    for name in
        ["1", "2", "phone=+493012345", "phone=+493099999", "fax=1", "a=b@example.org", "nobody"]
    {
        let answer = world.get(&key, &format!("/v1/contacts/{name}/features")).await;
        assert_eq!(answer.status, 404, "{name}: {}", answer.body);
    }
}
