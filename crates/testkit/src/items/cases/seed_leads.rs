//! Seed 004: the tables event, memory and feature, with its own keys and example values.

use tidings_kernel::{
    Cancellation, Condition, Expect, Item, Key, Path, Query, Returns, Txn, Update, Value,
    tables::{EVENT, FEATURE, MEMORY},
};

use super::{Case, cases};
use crate::items::ground::{Ground, cancelled, item};

pub(super) const CASES: &[Case] = &cases![
    the_timeline_of_a_lead,
    the_timeline_in_a_window,
    an_event_by_its_external_id,
    an_event_is_taken_once,
    events_of_a_type,
    events_of_a_type_in_a_window,
    memory_get_all,
    memory_by_type,
    memory_single_item,
    memory_upsert,
    memory_expires,
    a_feature_is_a_single_item,
    one_feature_is_recomputed_alone,
];

const LEAD: &str = "4711";

fn event(at: &str, id: &str, kind: &str) -> Item {
    item!({
        "lead_organization_id": LEAD,
        "source_type": "integration",
        "source": "shopify",
        "event_type": kind,
        "object_id": 42,
        "object_id_ref": "gid://shopify/Order/42",
        "payload": {"total": 129.90, "items": [{"sku": "whey_1kg", "quantity": 2}]},
        "raw_payload": "{\"total\":\"129.90\"}",
        "external_event_id": format!("ext-{id}"),
        "received_at": "2026-01-15T14:00:05Z",
    })
    .with("occurred_at#id", format!("{at}#{id}"))
    .with("event_type#occurred_at", format!("{kind}#{at}"))
}

/// The seed's sort key: "2026-01-15T14:00:00Z#uuid".
fn purchase() -> Item {
    event("2026-01-15T14:00:00Z", "uuid", "purchase_completed")
}

fn open() -> Item {
    event("2026-01-10T08:00:00Z", "b0", "email_opened")
}

fn second_purchase() -> Item {
    event("2026-02-01T09:30:00Z", "c0", "purchase_completed")
}

async fn timeline(ground: &Ground) {
    let other = purchase().with("lead_organization_id", "4712").with("external_event_id", "other");
    ground.put_all(&EVENT, &[second_purchase(), open(), purchase(), other]).await;
}

fn by_type() -> Query {
    Query::new(&EVENT, LEAD).index("event-type-index")
}

async fn the_timeline_of_a_lead(ground: Ground) {
    timeline(&ground).await;
    let found = ground.query(Query::new(&EVENT, LEAD)).await;
    assert_eq!(found, [open(), purchase(), second_purchase()]);
    let newest = ground.store.query(Query::new(&EVENT, LEAD).backward().limit(1)).await.unwrap();
    assert_eq!(newest.items, [second_purchase()]);
}

async fn the_timeline_in_a_window(ground: Ground) {
    timeline(&ground).await;
    let january = Query::new(&EVENT, LEAD).begins_with("2026-01-");
    assert_eq!(ground.query(january).await, [open(), purchase()]);
    let window = Query::new(&EVENT, LEAD).between("2026-01-15T14:00:00Z", "2026-02-02");
    assert_eq!(ground.query(window).await, [purchase(), second_purchase()]);
    let key = Key::new(LEAD, "2026-01-15T14:00:00Z#uuid");
    assert_eq!(ground.get(&EVENT, &key).await, Some(purchase()));
}

async fn an_event_by_its_external_id(ground: Ground) {
    timeline(&ground).await;
    let by_id = |id: &str| {
        Query::new(&EVENT, "shopify")
            .index("idempotency-index")
            .range(tidings_kernel::SortRange::Eq(id.to_owned()))
    };
    assert_eq!(ground.query(by_id("ext-uuid")).await, [purchase()]);
    assert_eq!(ground.query(by_id("ext-none")).await, []);
    assert_eq!(ground.store.count(by_id("ext-c0")).await.unwrap(), 1);
}

/// An index may lag, so what must happen once has an item of its own.
async fn an_event_is_taken_once(ground: Ground) {
    let dedupe = Item::new()
        .with("lead_organization_id", "dedupe#shopify")
        .with("occurred_at#id", "ext-uuid");
    let take = || {
        Txn::new().put(&EVENT, dedupe.clone(), Expect::Absent).put(
            &EVENT,
            purchase(),
            Expect::Absent,
        )
    };
    ground.store.transact(take()).await.unwrap();
    let reasons = cancelled(ground.store.transact(take()).await);
    assert!(matches!(reasons[0], Cancellation::ConditionFailed { current: Some(_) }));
    assert_eq!(ground.contents(&EVENT).await.len(), 2);
    let indexed = Query::new(&EVENT, "shopify").index("idempotency-index");
    assert_eq!(ground.query(indexed).await, [purchase()]);
}

async fn events_of_a_type(ground: Ground) {
    timeline(&ground).await;
    let found = ground.query(by_type().begins_with("purchase_completed#")).await;
    assert_eq!(found, [purchase(), second_purchase()]);
    assert_eq!(ground.query(by_type()).await, [open(), purchase(), second_purchase()]);
}

async fn events_of_a_type_in_a_window(ground: Ground) {
    timeline(&ground).await;
    let range = by_type().between("purchase_completed#2026-01-16", "purchase_completed#2026-12-31");
    assert_eq!(ground.query(range.clone()).await, [second_purchase()]);
    assert_eq!(ground.store.count(range.backward()).await.unwrap(), 1);
}

/// The seed's sort key: "purchase#product:whey_1kg".
fn memory() -> Item {
    item!({
        "lead_organization_id": LEAD,
        "memory_type#key": "purchase#product:whey_1kg",
        "value": {"times": 2, "last": "2026-01-15"},
        "confidence": 0.95,
        "source": "shopify",
        "source_event_ids": ["uuid", "c0"],
        "created_at": "2026-01-15T14:00:10Z",
        "updated_at": "2026-02-01T09:30:10Z",
    })
}

fn preference() -> Item {
    memory().with("memory_type#key", "preference#channel").with("value", "email")
}

async fn memory_get_all(ground: Ground) {
    ground.put_all(&MEMORY, &[memory(), preference()]).await;
    assert_eq!(ground.query(Query::new(&MEMORY, LEAD)).await, [preference(), memory()]);
}

async fn memory_by_type(ground: Ground) {
    let other = memory().with("memory_type#key", "purchase#product:bar");
    ground.put_all(&MEMORY, &[memory(), preference(), other.clone()]).await;
    let query = Query::new(&MEMORY, LEAD).begins_with("purchase#");
    assert_eq!(ground.query(query).await, [other, memory()]);
}

async fn memory_single_item(ground: Ground) {
    ground.put(&MEMORY, memory()).await;
    let key = Key::new(LEAD, "purchase#product:whey_1kg");
    assert_eq!(ground.get(&MEMORY, &key).await, Some(memory()));
}

async fn memory_upsert(ground: Ground) {
    let newer = memory().with("confidence", 1);
    assert_eq!(ground.put(&MEMORY, memory()).await, None);
    assert_eq!(ground.put(&MEMORY, newer.clone()).await, Some(memory()));
    assert_eq!(ground.contents(&MEMORY).await, [newer]);
    let key = Key::new(LEAD, "purchase#product:whey_1kg");
    let learn = Update::new(&MEMORY, key)
        .append("source_event_ids", vec!["d0".into()])
        .set(Path::of("value").key("times"), 3)
        .returning(Returns::New);
    let learned = ground.update(learn).await.unwrap();
    let ids = Value::L(vec!["uuid".into(), "c0".into(), "d0".into()]);
    assert_eq!(learned.get("source_event_ids"), Some(&ids));
}

async fn memory_expires(ground: Ground) {
    let short = preference().with("expires_at", ground.in_seconds(60));
    ground.put_all(&MEMORY, &[memory(), short]).await;
    assert_eq!(ground.query(Query::new(&MEMORY, LEAD)).await.len(), 2);
    ground.pass_seconds(60);
    assert_eq!(ground.query(Query::new(&MEMORY, LEAD)).await, [memory()]);
    ground.subject.sweep().await;
    assert_eq!(ground.contents(&MEMORY).await, [memory()]);
}

fn features() -> Item {
    item!({
        "lead_organization_id": LEAD,
        "features": {
            "monetary_total": 259.80, "frequency_purchases_90d": 2, "days_since_last_purchase": 5,
            "has_purchased": true, "recency_days": 5, "sentiment_avg_30d": null,
        },
        "computed_at": "2026-02-06T06:00:00Z",
    })
}

async fn a_feature_is_a_single_item(ground: Ground) {
    ground.put(&FEATURE, features()).await;
    assert_eq!(ground.get(&FEATURE, &Key::single(LEAD)).await, Some(features()));
    assert_eq!(ground.query(Query::new(&FEATURE, LEAD)).await, [features()]);
    assert_eq!(ground.get(&FEATURE, &Key::single("4712")).await, None);
}

async fn one_feature_is_recomputed_alone(ground: Ground) {
    ground.put(&FEATURE, features()).await;
    let recency = || Path::of("features").key("recency_days");
    let daily = Update::new(&FEATURE, Key::single(LEAD))
        .set(recency(), 6)
        .set("computed_at", "2026-02-07T06:00:00Z")
        .expect(Expect::That(Condition::Lt(recency(), 6.into())))
        .returning(Returns::New);
    let after = ground.update(daily.clone()).await.unwrap();
    assert_eq!(recency().find(&after), Some(&Value::from(6)));
    assert_eq!(Path::of("features").key("has_purchased").find(&after), Some(&Value::Bool(true)));
    assert!(ground.store.update(daily).await.unwrap_err().is_condition_failed());
}
