//! An event comes in: it counts once, and changes what it touches and nothing else.

use std::collections::BTreeMap;

use serde_json::json;
use tidings_jobs::Outcome;
use tidings_jobs::contracts::Contract as _;
use tidings_kernel::{Clock as _, Delivery, Receipt, Value};
use tidings_testbed::{Bed, dying, each_store};

use super::world::{What, World, what};
use crate::features::{ALL, Taken, by_time, take};

each_store!(
    a_purchase_changes_what_it_touches,
    an_event_reads_itself_and_the_features_and_nothing_else,
    an_event_that_comes_again_counts_once,
    money_is_exact_and_kept_apart_by_currency,
    a_refund_is_less_whatever_its_sign,
    whatever_has_a_mood_counts,
    what_an_operator_did_is_nothing_that_he_did,
    invoices_are_kept_apart_by_their_own_currency,
    a_mail_that_came_back_was_not_ignored,
    everything_that_is_built_in_is_computed,
    two_nodes_count_at_once,
    a_burst_for_one_person_is_counted_at_once,
    unread_messages_are_counted,
    what_is_erased_counts_no_more,
);

fn bought(id: i32, at: &str, amount: &str) -> What {
    what(id, "purchase_completed", at, json!({"amount": amount, "currency": "EUR"}))
}

async fn a_purchase_changes_what_it_touches(bed: &Bed) {
    let world = World::new(bed);
    let wrote = json!({"sentiment": 0.5});
    world.happens("ada@x.org", &what(1, "message_received", "2026-06-30T10:00:00Z", wrote)).await;
    world.work().await;
    assert_eq!(world.told("ada@x.org", "sentiment_avg_30d").await, "0.5");
    assert_eq!(world.told("ada@x.org", "has_purchased").await, "false");

    // Days go by, and nobody computes what changes with them.
    bed.clock.set("2026-08-15T12:00:00Z".parse().unwrap());
    let before = world.features("ada@x.org").await.values;
    world.happens("ada@x.org", &bought(2, "2026-08-15T11:00:00Z", "19.90")).await;
    world.work().await;
    let after = world.features("ada@x.org").await.values;
    let changed: Vec<&str> = ALL
        .iter()
        .map(|feature| feature.name)
        .filter(|name| before.get(*name) != after.get(*name))
        .collect();
    assert_eq!(
        changed,
        [
            "days_since_last_purchase",
            "engagement_score",
            "frequency_purchases_90d",
            "has_purchased",
            "monetary_total",
            "monetary_total_by_currency",
            "recency_days",
        ]
    );
    assert_eq!(after["monetary_total"], Value::N("19.9".parse().unwrap()));
    // The window of 30 days is long over, but no event has touched it.
    assert_eq!(after["sentiment_avg_30d"], Value::N("0.5".parse().unwrap()));
    assert!(by_time().any(|feature| feature.name == "sentiment_avg_30d"));
}

/// Calls of the store are counted by dying at the next one.
async fn an_event_reads_itself_and_the_features_and_nothing_else(bed: &Bed) {
    let world = World::new(bed);
    for id in 0..300 {
        let opened = what(id, "email.opened", "2026-06-20T10:00:00Z", json!({}));
        world.happens("ada@x.org", &opened).await;
    }
    world.work().await;
    assert_eq!(world.told("ada@x.org", "opens_30d").await, "300");
    for (id, allowed) in [(1000, 2), (1001, 3)] {
        let message = world
            .store("ada@x.org", &what(id, "email.opened", "2026-06-21T10:00:00Z", json!({})))
            .await;
        let cx = dying(bed, &world.cx().await, allowed, false).await;
        let taken = take(&cx, &message).await;
        // The event, the features, and the transaction that writes both.
        assert_eq!(taken.is_ok(), allowed == 3, "{taken:?}");
    }
    assert_eq!(world.told("ada@x.org", "opens_30d").await, "301");
}

async fn an_event_that_comes_again_counts_once(bed: &Bed) {
    let world = World::new(bed);
    let message = world.store("ada@x.org", &bought(1, "2026-06-30T10:00:00Z", "10")).await;
    let cx = world.cx().await;
    assert_eq!(take(&cx, &message).await.unwrap(), Taken::Counted);
    let first = world.item("ada@x.org").await;
    for _ in 0..3 {
        assert_eq!(take(&cx, &message).await.unwrap(), Taken::Before);
        world.tell(&message).await;
    }
    world.work().await;
    assert_eq!(world.item("ada@x.org").await, first);
    assert_eq!(world.told("ada@x.org", "monetary_total").await, "10");
}

async fn whatever_has_a_mood_counts(bed: &Bed) {
    let world = World::new(bed);
    let at = "2026-06-30T10:00:00Z";
    let bought = json!({"amount": 3, "currency": "EUR", "sentiment": "positive"});
    world.happens("ada@x.org", &what(1, "purchase_completed", at, bought)).await;
    world.happens("ada@x.org", &what(2, "call_ended", at, json!({"sentiment": -0.5}))).await;
    world.work().await;
    assert_eq!(world.told("ada@x.org", "sentiment_avg_30d").await, "0.25");
    assert_eq!(world.told("ada@x.org", "frequency_purchases_90d").await, "1");
}

async fn what_an_operator_did_is_nothing_that_he_did(bed: &Bed) {
    let world = World::new(bed);
    let at = "2026-06-30T10:00:00Z";
    for (id, by, days) in [(1, json!({"by": "operator"}), "-"), (2, json!({"by": "person"}), "1")] {
        world.happens("ada@x.org", &what(id, "email.subscribed", at, by)).await;
        world.work().await;
        assert_eq!(world.told("ada@x.org", "recency_days").await, days);
    }
}

async fn money_is_exact_and_kept_apart_by_currency(bed: &Bed) {
    let world = World::new(bed);
    for id in 0..10 {
        world.happens("ada@x.org", &bought(id, "2026-06-30T10:00:00Z", "0.1")).await;
    }
    let dollars = json!({"amount": 5, "currency": "usd"});
    // Earlier than all others, and later heard of: his main currency is this.
    world.happens("ada@x.org", &what(20, "order.completed", "2026-06-01T10:00:00Z", dollars)).await;
    let back = json!({"amount": "0.25", "currency": "EUR"});
    world.happens("ada@x.org", &what(21, "order.refunded", "2026-06-30T11:00:00Z", back)).await;
    world.work().await;
    assert_eq!(world.told("ada@x.org", "monetary_total").await, "5");
    let sums = world.told("ada@x.org", "monetary_total_by_currency").await;
    assert_eq!(sums, r#"{"EUR":0.75,"USD":5}"#);
}

async fn a_refund_is_less_whatever_its_sign(bed: &Bed) {
    let world = World::new(bed);
    world.happens("ada@x.org", &bought(1, "2026-06-30T10:00:00Z", "10")).await;
    for (id, amount) in [(2, json!(-2)), (3, json!("1.5")), (4, json!("-0.5")), (5, json!(0))] {
        let back = json!({"amount": amount, "currency": "EUR"});
        world.happens("ada@x.org", &what(id, "order.refunded", "2026-06-30T11:00:00Z", back)).await;
    }
    world.work().await;
    assert_eq!(world.told("ada@x.org", "monetary_total").await, "6");
}

async fn invoices_are_kept_apart_by_their_own_currency(bed: &Bed) {
    let world = World::new(bed);
    let several = json!({"currency": "EUR", "invoices": [
        {"invoice": "i1", "amount": 10},
        {"invoice": "i2", "amount": 5, "currency": "usd"},
        {"invoice": "i3", "amount": 1, "currency": "dollars"},
    ]});
    let at = "2026-06-30T10:00:00Z";
    world.happens("ada@x.org", &what(1, "invoice.overdue", at, several)).await;
    world.work().await;
    let sums = world.told("ada@x.org", "overdue_amount_by_currency").await;
    assert_eq!(sums, r#"{"EUR":11,"USD":5}"#);
    let paid = json!({"invoices": [{"invoice": "i1"}, {"invoice": "i3"}]});
    world.happens("ada@x.org", &what(2, "invoice.paid", "2026-06-30T11:00:00Z", paid)).await;
    world.work().await;
    assert_eq!(world.told("ada@x.org", "overdue_amount_by_currency").await, r#"{"USD":5}"#);
    assert_eq!(world.told("ada@x.org", "overdue_amount").await, "5");
    let paid = json!({"invoice": "i2"});
    world.happens("ada@x.org", &what(3, "invoice.paid", "2026-06-30T12:00:00Z", paid)).await;
    world.work().await;
    assert_eq!(world.told("ada@x.org", "overdue_amount_by_currency").await, "-");
}

/// The score rests on it, too, and is computed with it.
async fn a_mail_that_came_back_was_not_ignored(bed: &Bed) {
    let world = World::new(bed);
    let campaign = json!({"kind": "campaign"});
    let bought_before = bought(1, "2026-06-01T10:00:00Z", "10");
    world.happens("ada@x.org", &bought_before).await;
    world.work().await;
    let before = world.told("ada@x.org", "engagement_score").await;
    let sent = what(2, "email.sent", "2026-06-10T10:00:00Z", campaign);
    world.happens("ada@x.org", &sent).await;
    world.work().await;
    assert_eq!(world.told("ada@x.org", "campaign_ignored").await, "true");
    assert_ne!(world.told("ada@x.org", "engagement_score").await, before);
    let back = what(3, "email.bounced", "2026-06-10T10:01:00Z", json!({}));
    world.happens("ada@x.org", &back).await;
    world.work().await;
    assert_eq!(world.told("ada@x.org", "campaign_ignored").await, "false");
    assert_eq!(world.told("ada@x.org", "engagement_score").await, before);
}

async fn everything_that_is_built_in_is_computed(bed: &Bed) {
    let world = World::new(bed);
    let at = "2026-06-30T10:00:00Z";
    let overdue = |id, amount: &str| {
        what(
            id,
            "invoice.overdue",
            at,
            json!({"invoice": format!("i{id}"), "amount": amount, "currency": "EUR"}),
        )
    };
    let campaign = json!({"kind": "campaign"});
    for happening in [
        what(1, "email.delivered", "2026-06-20T10:00:00Z", campaign),
        what(2, "email.opened", "2026-06-10T10:00:00Z", json!({})),
        what(3, "email.clicked", "2026-06-10T10:01:00Z", json!({})),
        bought(4, "2026-06-11T10:00:00Z", "12.50"),
        what(5, "inbox.published", at, json!({"message": "m1"})),
        what(6, "inbox.published", at, json!({"message": "m2"})),
        overdue(7, "99.95"),
        overdue(8, "0.05"),
        overdue(9, "1000"),
        what(10, "invoice.paid", "2026-06-30T11:00:00Z", json!({"invoice": "i9"})),
        // Sent after the payment, and it happened before.
        what(
            11,
            "invoice.overdue",
            at,
            json!({"invoice": "i9", "amount": "1000", "currency": "EUR"}),
        ),
        what(12, "message_received", "2026-06-12T10:00:00Z", json!({"sentiment": "negative"})),
        what(13, "message_received", "2026-06-12T11:00:00Z", json!({"sentiment": 0.4})),
    ] {
        world.happens("ada@x.org", &happening).await;
    }
    world.work().await;
    let features = world.features("ada@x.org").await;
    let told: BTreeMap<_, _> = features.values.into_iter().collect();
    let told = serde_json::to_string_pretty(&told).unwrap();
    insta::assert_snapshot!("everything_that_is_built_in", told);
    let score = serde_json::to_string_pretty(&features.score).unwrap();
    insta::assert_snapshot!("how_the_score_came_about", score);
}

/// Whatever of it is heard first.
async fn unread_messages_are_counted(bed: &Bed) {
    let world = World::new(bed);
    let about = |id, kind: &str, minute: i32, message: &str| {
        let payload = json!({"inbox": "app", "message": message});
        what(id, &format!("inbox.{kind}"), &format!("2026-06-30T10:{minute:02}:00Z"), payload)
    };
    for (happening, unread) in [
        (about(1, "read", 5, "a"), "0"),
        (about(2, "published", 1, "a"), "0"),
        (about(3, "published", 2, "b"), "1"),
        (about(4, "published", 9, "c"), "2"),
        (about(5, "unread", 6, "a"), "3"),
        (about(6, "archived", 7, "b"), "2"),
        (what(7, "inbox.read_all", "2026-06-30T10:08:00Z", json!({"inbox": "app"})), "1"),
        (what(8, "inbox.read_all", "2026-06-30T11:00:00Z", json!({"inbox": "web"})), "1"),
        (about(9, "published", 3, "d"), "1"),
    ] {
        world.happens("ada@x.org", &happening).await;
        world.work().await;
        assert_eq!(world.told("ada@x.org", "unread_inbox").await, unread, "{happening:?}");
    }
}

async fn two_nodes_count_at_once(bed: &Bed) {
    let world = World::new(bed);
    let mut messages = Vec::new();
    for id in 0..6 {
        messages.push(world.store("ada@x.org", &bought(id, "2026-06-30T10:00:00Z", "1")).await);
    }
    let cx = world.cx().await;
    let both = messages.iter().chain(&messages).map(|message| take(&cx, message));
    let answers = futures_util::future::join_all(both).await;
    // Whoever was too slow too often comes again.
    let counted = answers.iter().filter(|answer| matches!(answer, Ok(Taken::Counted))).count();
    for message in &messages {
        world.tell(message).await;
    }
    world.work().await;
    assert!(counted <= 6);
    assert_eq!(world.told("ada@x.org", "monetary_total").await, "6");
    assert_eq!(world.told("ada@x.org", "frequency_purchases_90d").await, "6");
}

/// Eight at once, as the workers of one process: nobody is too slow, and nothing waits.
async fn a_burst_for_one_person_is_counted_at_once(bed: &Bed) {
    let world = World::new(bed);
    let mut messages = Vec::new();
    for id in 0..200 {
        messages.push(world.store("ada@x.org", &bought(id, "2026-06-30T10:00:00Z", "1")).await);
    }
    // Some come twice.
    messages.extend_from_within(90..100);
    let bodies: Vec<String> = messages.iter().map(|message| message.to_body().unwrap()).collect();
    let access = &bed.access;
    for handler in
        [crate::features::handler(access.clone()), crate::memory::handler(access.clone())]
    {
        let work = |number: usize| {
            let (bodies, handler) = (&bodies, &handler);
            async move {
                for body in bodies.iter().skip(number).step_by(8) {
                    let delivery = Delivery {
                        id: String::new(),
                        body: body.clone(),
                        receives: 1,
                        enqueued_at: bed.clock.now(),
                        receipt: Receipt(String::new()),
                    };
                    let outcome = handler.handle(&delivery).await;
                    assert!(matches!(outcome, Outcome::Done), "{outcome:?}");
                }
            }
        };
        futures_util::future::join_all((0..8).map(work)).await;
    }
    assert_eq!(world.told("ada@x.org", "monetary_total").await, "200");
    assert_eq!(world.told("ada@x.org", "frequency_purchases_90d").await, "200");
}

async fn what_is_erased_counts_no_more(bed: &Bed) {
    let world = World::new(bed);
    world.happens("ada@x.org", &bought(1, "2026-06-30T10:00:00Z", "1")).await;
    world.work().await;
    let (cx, id) = (world.cx().await, world.own("ada@x.org").await);
    crate::features::erase(&cx, &id).await.unwrap();
    crate::memory::erase(&cx, &id).await.unwrap();
    assert_eq!(world.item("ada@x.org").await, None);
    assert_eq!(world.memory("ada@x.org").await, []);
}
