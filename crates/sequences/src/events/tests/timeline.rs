//! What is told here is on timelines, under everything that the person is called.

use serde_json::{Value, json};
use tidings_kernel::queues;
use tidings_leads::identity::{Identity, Whom};
use tidings_leads::memory as remembered;
use tidings_leads::timeline::{Listing, Page, timeline};
use tidings_leads::{features, ingestion};
use tidings_testbed::{Bed, each_store};

use super::super::segment::{identify, track};
use super::super::{Event, accept};
use super::{World, object};

each_store!(a_visitor_becomes_somebody, what_shops_tell_as_segment_does_counts);

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

async fn what_shops_tell_as_segment_does_counts(bed: &Bed) {
    let world = World::new(bed).await;
    for (name, properties) in [
        ("Product Viewed", json!({ "productId": "tea", "category": "drinks" })),
        ("Product Added", json!({ "product_id": "cup" })),
        (
            "Order Completed",
            json!({
                "order_id": "7", "total": 30, "currency": "EUR",
                "products": [{ "productId": "tea", "quantity": 2 }, { "product_id": "cup" }],
            }),
        ),
        ("Order Refunded", json!({ "order_id": "7", "total": "12.50", "currency": "EUR" })),
        ("Invoice Overdue", json!({ "invoiceNumber": "i1", "totalAmount": 5, "currency": "EUR" })),
        ("Invoice Overdue", json!({ "invoiceId": "i2", "amount": 8, "currency": "EUR" })),
        ("Invoice Paid", json!({ "invoiceId": "i2" })),
    ] {
        let call = json!({ "event": name, "userId": "ada@example.org", "properties": properties });
        accept(&world.cx().await, vec![track(&object(call)).unwrap()]).await.unwrap();
        bed.advance(1).await;
    }
    let page = told_of(bed, "email", "ada@example.org").await.unwrap();
    assert_eq!(page.events[4].event_type, "Order Completed", "it is kept as it was told");
    bed.work(&queues::FEATURE_PROCESSING, features::handler(bed.access.clone())).await;
    bed.work(&queues::MEMORY_PROCESSING, remembered::handler(bed.access.clone())).await;
    let (cx, id) = (bed.cx().await, page.owner.lead_organization_id);
    let features = features::get(&cx, &id).await.unwrap().unwrap();
    for (name, value) in [
        ("has_purchased", "true"),
        ("frequency_purchases_90d", "1"),
        ("monetary_total", "17.5"),
        ("overdue_amount", "5"),
    ] {
        let told = features.values.get(name).map(|value| serde_json::to_string(value).unwrap());
        assert_eq!(told.as_deref(), Some(value), "{name}");
    }
    let memories =
        remembered::list(&cx, &id, remembered::Listing::default()).await.unwrap().unwrap();
    let known: Vec<String> =
        memories.memories.iter().map(|one| format!("{}/{}", one.memory_type, one.key)).collect();
    let expected = [
        "interest/category:drinks",
        "interest/product:cup",
        "interest/product:tea",
        "purchase/product:cup",
        "purchase/product:tea",
    ];
    assert_eq!(known, expected);
}
