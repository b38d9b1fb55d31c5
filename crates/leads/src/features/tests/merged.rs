//! Two who turn out to be one, and two again.

use serde_json::json;
use tidings_people::contacts;
use tidings_testbed::{Bed, each_store, until_turn};

use super::world::{World, what};
use crate::features::take;
use crate::identity::{Whom, find, merge, unmerge};
use crate::memory::{CERTAIN, Remember, remember, take as learn};

each_store!(
    memory_and_features_follow_a_merge_and_its_end,
    what_is_counted_while_they_are_taken_apart_counts_for_its_own,
    who_is_erased_takes_nothing_from_whom_he_was_one_with,
);

/// They are taken apart, and the one whose event it is is erased, after so many turns of those who work on it.
async fn who_is_erased_takes_nothing_from_whom_he_was_one_with(bed: &Bed) {
    let world = World::new(bed);
    let bought = |id, product: &str| {
        let payload = json!({"amount": 1, "product": product});
        what(id, "purchase_completed", "2026-06-01T10:00:00Z", payload)
    };
    for turns in 0..14 {
        let (ada, eve) = (format!("ada{turns}@x.org"), format!("eve{turns}@x.org"));
        world.happens(&ada, &bought(1, "whey")).await;
        world.happens(&eve, &bought(2, "oats")).await;
        let cx = world.cx().await;
        let lead = async |email: &str| {
            let whom = Whom::Email(email.parse().unwrap());
            find(&cx, whom).await.unwrap().unwrap().lead_id
        };
        let merged = merge(&cx, lead(&ada).await, lead(&eve).await).await.unwrap();
        world.work().await;
        let message = world.store(&eve, &bought(3, "tea")).await;
        let mut counting = Box::pin(take(&cx, &message));
        let mut learning = Box::pin(learn(&cx, &message));
        let counted = until_turn(&mut counting, turns).await.is_some();
        let learnt = until_turn(&mut learning, turns).await.is_some();
        unmerge(&cx, merged.id).await.unwrap();
        world.work().await;
        contacts::erase(&cx, &eve.parse().unwrap()).await.unwrap();
        if !counted {
            counting.await.unwrap();
        }
        if !learnt {
            learning.await.unwrap();
        }
        // Nor for a while, until the workers have derived it again.
        assert!(world.item(&ada).await.is_some(), "after {turns}");
        assert_ne!(world.remembers(&ada, "purchase#product:whey").await, "-", "after {turns}");
        world.work().await;
        assert_eq!(world.told(&ada, "monetary_total").await, "1", "after {turns}");
        assert_ne!(world.remembers(&ada, "purchase#product:whey").await, "-", "after {turns}");
        assert_eq!(world.remembers(&ada, "purchase#product:tea").await, "-", "after {turns}");
    }
}

/// They are taken apart, and everything is derived anew, after so many turns of those who work on an event of one of them.
async fn what_is_counted_while_they_are_taken_apart_counts_for_its_own(bed: &Bed) {
    let world = World::new(bed);
    let bought = |id, product: &str| {
        let payload = json!({"amount": 1, "product": product});
        what(id, "purchase_completed", "2026-06-01T10:00:00Z", payload)
    };
    for turns in 0..14 {
        let (ada, eve) = (format!("ada{turns}@x.org"), format!("eve{turns}@x.org"));
        world.happens(&ada, &bought(1, "whey")).await;
        world.happens(&eve, &bought(2, "oats")).await;
        let cx = world.cx().await;
        let lead = async |email: &str| {
            let whom = Whom::Email(email.parse().unwrap());
            find(&cx, whom).await.unwrap().unwrap().lead_id
        };
        let merged = merge(&cx, lead(&ada).await, lead(&eve).await).await.unwrap();
        world.work().await;
        let message = world.store(&eve, &bought(3, "tea")).await;
        let mut counting = Box::pin(take(&cx, &message));
        let mut learning = Box::pin(learn(&cx, &message));
        let counted = until_turn(&mut counting, turns).await.is_some();
        let learnt = until_turn(&mut learning, turns).await.is_some();
        unmerge(&cx, merged.id).await.unwrap();
        world.work().await;
        if !counted {
            counting.await.unwrap();
        }
        if !learnt {
            learning.await.unwrap();
        }
        world.tell(&message).await;
        world.work().await;
        assert_eq!(world.told(&ada, "monetary_total").await, "1", "after {turns}");
        assert_eq!(world.told(&eve, "monetary_total").await, "2", "after {turns}");
        assert_eq!(world.remembers(&ada, "purchase#product:tea").await, "-", "after {turns}");
        assert_ne!(world.remembers(&eve, "purchase#product:tea").await, "-", "after {turns}");
    }
}

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
