//! Seed 000, the events table: engagement events and their two indexes, with its own examples.

use tidings_kernel::{
    Cancellation, Condition, Expect, Item, Key, Query, Txn, Update,
    tables::{EVENTS, MAIN},
};

use super::{Case, cases};
use crate::items::ground::{Ground, cancelled, item, sorts};

pub(super) const CASES: &[Case] = &cases![
    events_of_a_subscriber,
    a_reply,
    events_of_a_template,
    opens_of_a_template_in_the_last_days,
    events_of_a_broadcast,
    events_of_a_sequence_across_subscribers,
    an_event_expires_in_every_index,
    an_event_is_counted_in_the_transaction_that_stores_it,
];

fn delivery() -> Item {
    item!({
        "PK": "SUB#user@example.com",
        "SK": "EVT#2026-03-17T10:30:00.000Z#delivery",
        "eventType": "delivery",
        "templateKey": "onboarding/welcome",
        "sequenceId": "onboarding",
        "subject": "Welcome!",
        "timestamp": "2026-03-17T10:30:00.000Z",
        "ttl": 1784246400,
    })
}

fn reply() -> Item {
    item!({
        "PK": "SUB#user@example.com",
        "SK": "EVT#2026-03-20T14:00:00.000Z#reply",
        "eventType": "reply",
        "subject": "Re: Welcome!",
        "body": "Thanks for reaching out!",
        "templateKey": "onboarding/welcome",
        "sequenceId": "onboarding",
        "sesMessageId": "original-ses-id",
        "timestamp": "2026-03-20T14:00:00.000Z",
        "ttl": 1784246400,
    })
}

fn event(email: &str, day: &str, kind: &str) -> Item {
    delivery()
        .with("PK", format!("SUB#{email}"))
        .with("SK", format!("EVT#2026-03-{day}T10:30:00.000Z#{kind}"))
        .with("eventType", kind)
}

fn of_template(template: &str) -> Query {
    Query::new(&EVENTS, template).index("TemplateIndex")
}

fn of_sequence(sequence: &str) -> Query {
    Query::new(&EVENTS, sequence).index("SequenceIndex")
}

async fn events_of_a_subscriber(ground: Ground) {
    ground.put_all(&EVENTS, &[reply(), delivery(), event("other@example.com", "18", "open")]).await;
    let query = Query::new(&EVENTS, "SUB#user@example.com").begins_with("EVT#");
    assert_eq!(ground.query(query).await, [delivery(), reply()]);
}

async fn a_reply(ground: Ground) {
    ground.put(&EVENTS, reply()).await;
    let key = Key::new("SUB#user@example.com", "EVT#2026-03-20T14:00:00.000Z#reply");
    assert_eq!(ground.get(&EVENTS, &key).await, Some(reply()));
    // Whom it answers is known only at best.
    let mut stray = reply().with("PK", "SUB#stray@example.com");
    stray.remove("templateKey");
    stray.remove("sequenceId");
    ground.put(&EVENTS, stray).await;
    assert_eq!(ground.query(of_template("onboarding/welcome")).await, [reply()]);
    assert_eq!(ground.query(of_sequence("onboarding")).await, [reply()]);
}

async fn events_of_a_template(ground: Ground) {
    let other = event("a@example.com", "18", "open").with("templateKey", "onboarding/tips");
    ground.put_all(&EVENTS, &[delivery(), other, event("a@example.com", "16", "open")]).await;
    let found = ground.query(of_template("onboarding/welcome").begins_with("EVT#")).await;
    assert_eq!(found, [event("a@example.com", "16", "open"), delivery()]);
}

/// "Show me all opens for the welcome email in the last 7 days."
async fn opens_of_a_template_in_the_last_days(ground: Ground) {
    for day in ["09", "10", "12", "17"] {
        for kind in ["delivery", "open"] {
            ground.put(&EVENTS, event(&format!("user{day}@example.com"), day, kind)).await;
        }
    }
    let one_day = of_template("onboarding/welcome").begins_with("EVT#2026-03-10");
    assert_eq!(ground.query(one_day).await.len(), 2);
    let opens = of_template("onboarding/welcome")
        .between("EVT#2026-03-10", "EVT#2026-03-18")
        .filter(Condition::eq("eventType", "open"))
        .backward();
    let found = ground.query(opens).await;
    let expected = ["17", "12", "10"].map(|day| format!("EVT#2026-03-{day}T10:30:00.000Z#open"));
    assert_eq!(sorts(&found), expected);
}

/// "Show me all engagement events for the April broadcast."
async fn events_of_a_broadcast(ground: Ground) {
    for number in 0..8 {
        let item = event(&format!("user{number}@example.com"), "17", "open")
            .with("sequenceId", "product-update-2026-04");
        ground.put(&EVENTS, item).await;
    }
    ground.put(&EVENTS, delivery()).await;
    // Eight people open in the same millisecond: one place in the index.
    let query = of_sequence("product-update-2026-04").begins_with("EVT#");
    let mut people: Vec<String> = ground
        .pages(query.clone().limit(3))
        .await
        .concat()
        .iter()
        .map(|item| item.text("PK").unwrap().to_owned())
        .collect();
    people.sort_unstable();
    people.dedup();
    assert_eq!(people.len(), 8);
    assert_eq!(ground.store.count(query).await.unwrap(), 8);
}

async fn events_of_a_sequence_across_subscribers(ground: Ground) {
    let events = [event("b@example.com", "16", "open"), delivery(), reply()];
    ground.put_all(&EVENTS, &events).await;
    assert_eq!(ground.query(of_sequence("onboarding")).await, events);
}

async fn an_event_expires_in_every_index(ground: Ground) {
    ground.put_all(&EVENTS, &[delivery(), reply()]).await;
    ground.subject.clock().set("2026-07-17T00:00:00Z".parse().unwrap());
    assert_eq!(ground.query(Query::new(&EVENTS, "SUB#user@example.com")).await, []);
    assert_eq!(ground.query(of_template("onboarding/welcome")).await, []);
    assert_eq!(ground.store.count(of_sequence("onboarding")).await.unwrap(), 0);
}

async fn an_event_is_counted_in_the_transaction_that_stores_it(ground: Ground) {
    let stats = || Key::new("STATS#onboarding", "COUNTERS");
    let store = || {
        Txn::new()
            .put(&EVENTS, delivery(), Expect::Absent)
            .update(Update::new(&MAIN, stats()).add("deliveryCount", 1))
    };
    ground.store.transact(store()).await.unwrap();
    let reasons = cancelled(ground.store.transact(store()).await);
    let there = Cancellation::ConditionFailed { current: Some(delivery()) };
    assert_eq!(reasons, [there, Cancellation::None]);
    let counters = ground.get(&MAIN, &stats()).await.unwrap();
    assert_eq!(counters.integer("deliveryCount"), Some(1));
}
