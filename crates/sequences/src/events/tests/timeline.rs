//! What is told here is on timelines, under everything that the person is called.

use serde_json::{Value, json};
use tidings_kernel::queues;
use tidings_leads::identity::{Identity, Whom};
use tidings_leads::ingestion;
use tidings_leads::timeline::{Listing, Page, timeline};
use tidings_testbed::{Bed, each_store};

use super::super::segment::{identify, track};
use super::super::{Event, accept};
use super::{World, object};

each_store!(a_visitor_becomes_somebody);

/// His events, the newest first, after all that was told.
async fn told_of(bed: &Bed, channel: &str, value: &str) -> Option<Page> {
    let access = bed.access.clone();
    bed.work(&queues::LEAD_INGESTION, ingestion::handler(access)).await;
    let whom = Whom::Identity(Identity::new(channel, value).unwrap());
    timeline(&bed.cx().await, whom, &Listing { limit: 10, ..Listing::default() }).await.unwrap()
}

fn types(page: Option<Page>) -> Vec<String> {
    let events = page.into_iter().flat_map(|page| page.events);
    events.map(|event| event.event_type).collect()
}

async fn a_visitor_becomes_somebody(bed: &Bed) {
    let world = World::new(bed).await;
    let tell = async |event: Event| {
        accept(&world.cx().await, vec![event]).await.unwrap();
        bed.advance(1).await;
    };
    let visit = |page: &str| -> Value { json!({ "event": page, "anonymousId": "browser-1" }) };
    tell(track(&object(visit("Product Viewed"))).unwrap()).await;
    assert_eq!(types(told_of(bed, "anonymous_id", "browser-1").await), ["Product Viewed"]);
    let known = json!({
        "anonymousId": "browser-1", "userId": "42", "traits": { "email": "ada@example.org" },
    });
    tell(identify(&object(known)).unwrap()).await;
    tell(track(&object(visit("Cart Opened"))).unwrap()).await;
    let all = ["Cart Opened", "identify", "Product Viewed"];
    for (channel, value) in
        [("anonymous_id", "browser-1"), ("user_id", "42"), ("email", "ada@example.org")]
    {
        assert_eq!(types(told_of(bed, channel, value).await), all, "{channel}");
    }
    let bad = json!({ "event": "x", "anonymousId": "a\nb" });
    let wrong = track(&object(bad)).unwrap_err();
    assert_eq!(wrong[0].field, "anonymousId");
}
