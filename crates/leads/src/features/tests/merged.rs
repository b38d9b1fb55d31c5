//! Two who turn out to be one, and two again.

use serde_json::json;
use tidings_testbed::{Bed, each_store};

use super::world::{World, what};
use crate::identity::{Whom, find, merge, unmerge};
use crate::memory::{CERTAIN, Remember, remember};

each_store!(memory_and_features_follow_a_merge_and_its_end);

async fn memory_and_features_follow_a_merge_and_its_end(bed: &Bed) {
    let world = World::new(bed);
    let bought = |id, at: &str, amount, product: &str| {
        what(id, "purchase_completed", at, json!({"amount": amount, "product": product}))
    };
    world.happens("ada@x.org", &bought(1, "2026-06-01T10:00:00Z", 10, "whey")).await;
    world.happens("eve@x.org", &bought(2, "2026-06-02T10:00:00Z", 5, "oats")).await;
    world.work().await;
    let cx = world.cx().await;
    let said = Remember {
        memory_type: "preference".parse().unwrap(),
        key: "colour".parse().unwrap(),
        value: json!("red"),
        confidence: CERTAIN,
        source: "api".to_owned(),
        expires_at: None,
    };
    let eve = world.own("eve@x.org").await;
    remember(&cx, &eve, said).await.unwrap();
    let before = (world.memory("ada@x.org").await, world.memory("eve@x.org").await);
    let numbers =
        (world.features("ada@x.org").await.values, world.features("eve@x.org").await.values);

    let lead = async |email: &str| {
        let whom = Whom::Email(email.parse().unwrap());
        find(&cx, whom).await.unwrap().unwrap().lead_id
    };
    let merged = merge(&cx, lead("ada@x.org").await, lead("eve@x.org").await).await.unwrap();
    // One that was on its way when they were merged.
    world.happens("eve@x.org", &bought(3, "2026-06-03T10:00:00Z", 1, "tea")).await;
    world.work().await;
    assert_eq!(world.own("eve@x.org").await, world.own("ada@x.org").await);
    assert_eq!(world.told("eve@x.org", "monetary_total").await, "16");
    for sort in ["purchase#product:whey", "purchase#product:oats", "purchase#product:tea"] {
        assert_ne!(world.remembers("ada@x.org", sort).await, "-", "{sort}");
    }
    assert_eq!(world.remembers("ada@x.org", "preference#colour").await, r#""red" 1"#);

    unmerge(&cx, merged.id).await.unwrap();
    world.work().await;
    assert_eq!(world.told("ada@x.org", "monetary_total").await, "10");
    assert_eq!(world.told("eve@x.org", "monetary_total").await, "6");
    assert_eq!(world.memory("ada@x.org").await, before.0);
    assert_eq!(world.memory("eve@x.org").await.len(), before.1.len() + 1);
    assert_eq!(world.features("ada@x.org").await.values, numbers.0);
    assert_ne!(world.features("eve@x.org").await.values, numbers.1);
}
