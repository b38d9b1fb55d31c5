//! Segments as a caller meets them.

use insta::assert_snapshot;
use jiff::ToSpan as _;
use serde_json::json;
use tidings_access::Scopes;
use tidings_access::keys::Issued;
use tidings_kernel::queues;
use tidings_outreach::segments;

use super::World;

const VIP: &str = r#"{"name":"Important","condition":{"all":[{"tag":"vip"},{"attribute":"plan","equals":"pro"}]}}"#;

async fn begun() -> (World, Issued) {
    let world = World::new().await;
    let key = world.key(&world.acme, Scopes::all()).await;
    for (name, plan) in [("ada", "pro"), ("bob", "free"), ("cleo", "pro")] {
        let body = json!({"email": format!("{name}@example.org"), "tags": ["vip"], "attributes": {"plan": plan}});
        let made = world.post(&key, "/v1/contacts", &body.to_string()).await;
        assert!((200..300).contains(&made.status), "{}", made.body);
    }
    (world, key)
}

async fn work(world: &World) {
    world.clock.advance(3.seconds());
    world.bed.work(&queues::SEGMENT_PROCESSING, segments::handler(world.access.clone())).await;
}

#[tokio::test]
async fn a_segment_is_put_shown_listed_and_deleted() {
    let (world, key) = begun().await;
    let made = world.put(&key, "/v1/segments/vip", VIP).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(made.json()["state"], "building");
    work(&world).await;
    assert_snapshot!("segment", world.get(&key, "/v1/segments/vip").await.shown());
    assert_eq!(world.put(&key, "/v1/segments/vip", VIP).await.status, 200);
    let all = world.get(&key, "/v1/segments").await.json();
    assert_eq!(all["data"].as_array().unwrap().len(), 1);

    let page = world.get(&key, "/v1/segments/vip/members?limit=1").await;
    assert_snapshot!("segment_members", page.shown());
    let next = page.json()["next_cursor"].as_str().unwrap().to_owned();
    let rest = world.get(&key, &format!("/v1/segments/vip/members?cursor={next}")).await.json();
    assert_eq!(rest["data"][0]["email"], "cleo@example.org");
    assert_eq!(rest["next_cursor"], json!(null));

    let out = world.get(&key, "/v1/segments/vip/contacts/bob@example.org").await;
    assert_snapshot!("segment_why", out.shown());
    let inside = world.get(&key, "/v1/segments/vip/contacts/ada@example.org").await.json();
    assert_eq!(inside["in"], true);

    let secret = key.api_key.expose();
    let rebuilt = world.send("POST /v1/segments/vip/rebuild", Some(&secret), "").await;
    assert_eq!(rebuilt.status, 202);
    work(&world).await;
    assert_eq!(world.get(&key, "/v1/segments/vip").await.json()["members"], 2);
    let gone = world.send("DELETE /v1/segments/vip", Some(&key.api_key.expose()), "").await;
    assert_eq!(gone.status, 204);
    for path in ["vip", "vip/members", "vip/contacts/ada@example.org", "No%20slug"] {
        assert_eq!(world.get(&key, &format!("/v1/segments/{path}")).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_segment_is_told_all_at_once() {
    let (world, key) = begun().await;
    let wrong = r#"{"name":"","trigger_on_build":1,"more":2}"#;
    assert_snapshot!("segment_wrong", world.put(&key, "/v1/segments/vip", wrong).await.shown());
    let wrong = r#"{"condition":{"any":[{"segment":"other"},{"audience":"nowhere"}]}}"#;
    let refused = world.put(&key, "/v1/segments/vip", wrong).await;
    assert_snapshot!("segment_names_nothing", refused.shown());
    assert_eq!(world.get(&key, "/v1/segments/vip").await.status, 404);
    for query in ["limit=0", "cursor=x"] {
        world.put(&key, "/v1/segments/vip", VIP).await;
        let answer = world.get(&key, &format!("/v1/segments/vip/members?{query}")).await;
        assert_eq!(answer.status, 422, "{query}");
    }
}
