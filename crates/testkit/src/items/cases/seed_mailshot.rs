//! Seed 000, the main table: its keys, its items and its access patterns, with its own examples.

use tidings_kernel::{
    Condition, Delete, Expect, Item, Key, Path, Put, Query, Returns, StoreError, Txn, Update,
    Value, tables::MAIN,
};

use super::{Case, cases};
use crate::items::ground::{Ground, cancelled, failed, item, sorts};

pub(super) const CASES: &[Case] = &cases![
    get_subscriber_profile,
    an_upsert_never_resubscribes,
    an_execution_is_two_rows_in_one_transaction,
    an_execution_starts_once,
    get_active_execution,
    list_all_executions_for_subscriber,
    list_all_subscribers_in_sequence,
    count_subscribers_in_sequence,
    get_send_history,
    check_if_sent,
    a_send_log_entry_expires,
    get_suppression,
    get_everything_for_subscriber,
    get_all_subscribers_for_a_tag,
    tags_and_profile_stay_in_step,
    get_broadcast_by_id,
    list_broadcasts_newest_first,
    list_broadcasts_in_date_range,
    counters_add_up,
    get_counters_for_a_broadcast,
];

const SUBSCRIBER: &str = "SUB#user@example.com";

fn profile() -> Item {
    item!({
        "PK": "SUB#user@example.com",
        "SK": "PROFILE",
        "email": "user@example.com",
        "firstName": "Jane",
        "platform": "kajabi",
        "country": "ZA",
        "tags": ["product-updates", "beta-users"],
        "unsubscribed": false,
        "suppressed": false,
        "createdAt": "2026-03-01T00:00:00.000Z",
        "updatedAt": "2026-03-17T10:00:00.000Z",
    })
}

fn execution_of_subscriber() -> Item {
    item!({
        "PK": "SUB#user@example.com",
        "SK": "EXEC#onboarding",
        "sequenceId": "onboarding",
        "executionArn": "arn:aws:states:...",
        "startedAt": "2026-03-01T00:00:00.000Z",
    })
}

fn execution_of_sequence() -> Item {
    item!({
        "PK": "EXEC#onboarding",
        "SK": "SUB#user@example.com",
        "email": "user@example.com",
        "executionArn": "arn:aws:states:...",
        "startedAt": "2026-03-01T00:00:00.000Z",
    })
}

fn sent() -> Item {
    item!({
        "PK": "SUB#user@example.com",
        "SK": "SENT#2026-03-17T10:30:00.000Z",
        "templateKey": "onboarding/welcome",
        "subject": "Welcome!",
        "sequenceId": "onboarding",
        "sentAt": "2026-03-17T10:30:00.000Z",
        "ttl": 1752710400,
    })
}

fn suppression() -> Item {
    item!({
        "PK": "SUB#user@example.com",
        "SK": "SUPPRESSION",
        "type": "Permanent",
        "reason": "General",
        "suppressedAt": "2026-03-17T10:30:00.000Z",
    })
}

fn tag() -> Item {
    item!({
        "PK": "TAG#product-updates",
        "SK": "SUB#user@example.com",
        "email": "user@example.com",
        "taggedAt": "2026-03-17T10:00:00.000Z",
    })
}

fn broadcast() -> Item {
    item!({
        "PK": "BROADCAST",
        "SK": "2026-04-02T10:00:00.000Z#product-update-2026-04",
        "broadcastId": "product-update-2026-04",
        "templateKey": "broadcasts/product-update-april",
        "subject": "What's new in April",
        "sender": {"fromEmail": "updates@example.com", "fromName": "My SaaS"},
        "filters": {"tags": ["product-updates"], "attributes": {"plan": "pro"}},
        "audienceSize": 342,
        "sentAt": "2026-04-02T10:00:00.000Z",
    })
}

fn counters() -> Item {
    item!({
        "PK": "STATS#product-update-2026-04",
        "SK": "COUNTERS",
        "sequenceId": "product-update-2026-04",
        "deliveryCount": 338,
        "openCount": 142,
        "clickCount": 27,
        "bounceCount": 4,
        "complaintCount": 0,
        "updatedAt": "2026-04-02T11:14:03.221Z",
    })
}

fn start_execution() -> Txn {
    Txn::new().put(&MAIN, execution_of_subscriber(), Expect::Absent).put(
        &MAIN,
        execution_of_sequence(),
        Expect::Absent,
    )
}

async fn whole_subscriber(ground: &Ground) {
    ground.put_all(&MAIN, &[profile(), sent(), suppression(), tag()]).await;
    ground.store.transact(start_execution()).await.unwrap();
}

async fn get_subscriber_profile(ground: Ground) {
    whole_subscriber(&ground).await;
    let found = ground.get(&MAIN, &Key::new(SUBSCRIBER, "PROFILE")).await;
    assert_eq!(found, Some(profile()));
}

async fn an_upsert_never_resubscribes(ground: Ground) {
    let upsert = |country: &str| {
        Update::new(&MAIN, Key::new(SUBSCRIBER, "PROFILE"))
            .set("email", "user@example.com")
            .set("firstName", "Jane")
            .set("country", country)
            .set_if_absent("unsubscribed", false)
            .set_if_absent("suppressed", false)
            .set_if_absent("createdAt", "2026-03-01T00:00:00.000Z")
            .returning(Returns::New)
    };
    let made = ground.update(upsert("ZA")).await.unwrap();
    assert_eq!(made.get("unsubscribed"), Some(&Value::Bool(false)));
    let unsubscribe = Update::new(&MAIN, Key::new(SUBSCRIBER, "PROFILE")).set("unsubscribed", true);
    ground.update(unsubscribe.expect(Expect::Present)).await;
    let again = ground.update(upsert("DE")).await.unwrap();
    assert_eq!(again.get("unsubscribed"), Some(&Value::Bool(true)));
    assert_eq!(again.text("country"), Some("DE"));
}

async fn an_execution_is_two_rows_in_one_transaction(ground: Ground) {
    ground.store.transact(start_execution()).await.unwrap();
    assert_eq!(ground.contents(&MAIN).await, [execution_of_sequence(), execution_of_subscriber()]);
    let complete = Txn::new()
        .delete(&MAIN, Key::new(SUBSCRIBER, "EXEC#onboarding"), Expect::Present)
        .delete(&MAIN, Key::new("EXEC#onboarding", SUBSCRIBER), Expect::Present);
    ground.store.transact(complete).await.unwrap();
    assert_eq!(ground.contents(&MAIN).await, []);
}

async fn an_execution_starts_once(ground: Ground) {
    ground.store.transact(start_execution()).await.unwrap();
    let reasons = cancelled(ground.store.transact(start_execution()).await);
    assert_eq!(reasons.len(), 2);
    assert!(StoreError::Cancelled(reasons).is_condition_failed());
}

async fn get_active_execution(ground: Ground) {
    whole_subscriber(&ground).await;
    let found = ground.get(&MAIN, &Key::new(SUBSCRIBER, "EXEC#onboarding")).await;
    assert_eq!(found, Some(execution_of_subscriber()));
    assert_eq!(ground.get(&MAIN, &Key::new(SUBSCRIBER, "EXEC#other")).await, None);
}

async fn list_all_executions_for_subscriber(ground: Ground) {
    whole_subscriber(&ground).await;
    let second = execution_of_subscriber().with("SK", "EXEC#reactivation");
    ground.put(&MAIN, second.clone()).await;
    let found = ground.query(Query::new(&MAIN, SUBSCRIBER).begins_with("EXEC#")).await;
    assert_eq!(found, [execution_of_subscriber(), second]);
}

async fn in_sequence(ground: &Ground, count: usize) {
    for number in 0..count {
        let item = execution_of_sequence().with("SK", format!("SUB#user{number:02}@example.com"));
        ground.put(&MAIN, item).await;
    }
    ground.put(&MAIN, execution_of_sequence().with("PK", "EXEC#onboarding-2")).await;
}

async fn list_all_subscribers_in_sequence(ground: Ground) {
    in_sequence(&ground, 12).await;
    let pages = ground.pages(Query::new(&MAIN, "EXEC#onboarding").limit(5)).await;
    let found = pages.concat();
    assert_eq!(found.len(), 12);
    assert_eq!(found[11].text("SK"), Some("SUB#user11@example.com"));
}

async fn count_subscribers_in_sequence(ground: Ground) {
    in_sequence(&ground, 12).await;
    assert_eq!(ground.store.count(Query::new(&MAIN, "EXEC#onboarding")).await.unwrap(), 12);
    assert_eq!(ground.store.count(Query::new(&MAIN, "EXEC#none")).await.unwrap(), 0);
}

async fn get_send_history(ground: Ground) {
    whole_subscriber(&ground).await;
    let later = sent().with("SK", "SENT#2026-03-20T10:30:00.000Z");
    ground.put(&MAIN, later.clone()).await;
    let history = || Query::new(&MAIN, SUBSCRIBER).begins_with("SENT#");
    assert_eq!(ground.query(history()).await, [sent(), later.clone()]);
    let page = ground.store.query(history().backward().limit(1)).await.unwrap();
    assert_eq!(page.items, [later]);
}

/// The original asks with a limit of 1, which DynamoDB applies before the filter, and so sees the oldest mail only.
async fn check_if_sent(ground: Ground) {
    whole_subscriber(&ground).await;
    let other =
        sent().with("SK", "SENT#2026-03-20T00:00:00.000Z").with("templateKey", "onboarding/tips");
    ground.put(&MAIN, other).await;
    let was_sent = |template: &str| {
        let filter = Condition::eq("templateKey", template);
        Query::new(&MAIN, SUBSCRIBER).begins_with("SENT#").filter(filter).limit(1)
    };
    for (template, expected) in [("onboarding/welcome", 1), ("onboarding/tips", 1), ("no/such", 0)]
    {
        let page = ground.store.query(was_sent(template)).await.unwrap();
        assert_eq!(page.items.len(), expected, "{template}");
    }
}

async fn a_send_log_entry_expires(ground: Ground) {
    whole_subscriber(&ground).await;
    ground.subject.clock().set("2025-07-17T00:00:00Z".parse().unwrap());
    assert_eq!(ground.query(Query::new(&MAIN, SUBSCRIBER).begins_with("SENT#")).await, []);
    ground.subject.sweep().await;
    let rest = ground.query(Query::new(&MAIN, SUBSCRIBER)).await;
    assert_eq!(sorts(&rest), ["EXEC#onboarding", "PROFILE", "SUPPRESSION"]);
}

async fn get_suppression(ground: Ground) {
    whole_subscriber(&ground).await;
    let key = Key::new(SUBSCRIBER, "SUPPRESSION");
    assert_eq!(ground.get(&MAIN, &key).await, Some(suppression()));
    // The first one stands, whatever bounces later.
    let complaint = suppression().with("type", "Complaint");
    let put = Put::new(&MAIN, complaint).expect(Expect::Absent);
    assert_eq!(failed(ground.store.put(put).await), Some(suppression()));
}

async fn get_everything_for_subscriber(ground: Ground) {
    whole_subscriber(&ground).await;
    let found = ground.query(Query::new(&MAIN, SUBSCRIBER)).await;
    assert_eq!(found, [execution_of_subscriber(), profile(), sent(), suppression()]);
}

async fn get_all_subscribers_for_a_tag(ground: Ground) {
    whole_subscriber(&ground).await;
    let other = tag().with("SK", "SUB#a@example.com").with("email", "a@example.com");
    ground.put_all(&MAIN, &[other.clone(), tag().with("PK", "TAG#beta-users")]).await;
    assert_eq!(ground.query(Query::new(&MAIN, "TAG#product-updates")).await, [other, tag()]);
}

async fn tags_and_profile_stay_in_step(ground: Ground) {
    whole_subscriber(&ground).await;
    let retag = Txn::new()
        .update(
            Update::new(&MAIN, Key::new(SUBSCRIBER, "PROFILE"))
                .set(Path::of("tags").index(0), "churned")
                .expect(Expect::That(Condition::Contains("tags".into(), "product-updates".into()))),
        )
        .delete(&MAIN, Key::new("TAG#product-updates", SUBSCRIBER), Expect::Present)
        .put(&MAIN, tag().with("PK", "TAG#churned"), Expect::Absent);
    ground.store.transact(retag.clone()).await.unwrap();
    cancelled(ground.store.transact(retag).await);
    let found = ground.get(&MAIN, &Key::new(SUBSCRIBER, "PROFILE")).await.unwrap();
    assert_eq!(found.get("tags"), Some(&Value::L(vec!["churned".into(), "beta-users".into()])));
    assert_eq!(ground.query(Query::new(&MAIN, "TAG#product-updates")).await, []);
    assert_eq!(ground.query(Query::new(&MAIN, "TAG#churned")).await.len(), 1);
}

async fn broadcasts(ground: &Ground) {
    for month in 1..=6 {
        let item = broadcast()
            .with("SK", format!("2026-{month:02}-02T10:00:00.000Z#product-update-2026-{month:02}"))
            .with("broadcastId", format!("product-update-2026-{month:02}"));
        ground.put(&MAIN, item).await;
    }
    ground.put(&MAIN, broadcast()).await;
}

async fn get_broadcast_by_id(ground: Ground) {
    broadcasts(&ground).await;
    let filter = Condition::eq("broadcastId", "product-update-2026-04");
    let found = ground.query(Query::new(&MAIN, "BROADCAST").filter(filter)).await;
    assert_eq!(found, [broadcast()]);
}

async fn list_broadcasts_newest_first(ground: Ground) {
    broadcasts(&ground).await;
    let pages = ground.pages(Query::new(&MAIN, "BROADCAST").backward().limit(2)).await;
    let months: Vec<String> =
        sorts(&pages.concat()).iter().map(|sort| sort[5..7].to_owned()).collect();
    assert_eq!(months, ["06", "05", "04", "03", "02", "01"]);
}

async fn list_broadcasts_in_date_range(ground: Ground) {
    broadcasts(&ground).await;
    let query = Query::new(&MAIN, "BROADCAST").between("2026-03-01", "2026-05-01");
    let found = ground.query(query).await;
    assert_eq!(found.len(), 2);
    assert_eq!(found[1], broadcast());
}

async fn counters_add_up(ground: Ground) {
    let key = Key::new("STATS#product-update-2026-04", "COUNTERS");
    let names = ["deliveryCount", "openCount", "clickCount", "bounceCount", "complaintCount"];
    for (name, by) in names.into_iter().zip([338, 142, 27, 4, 0]) {
        for part in [by / 2, by - by / 2] {
            let update = Update::new(&MAIN, key.clone())
                .add(name, part)
                .set("sequenceId", "product-update-2026-04")
                .set("updatedAt", "2026-04-02T11:14:03.221Z");
            ground.update(update).await;
        }
    }
    assert_eq!(ground.get(&MAIN, &key).await, Some(counters()));
}

async fn get_counters_for_a_broadcast(ground: Ground) {
    ground.put_all(&MAIN, &[broadcast(), counters()]).await;
    let key = Key::new("STATS#product-update-2026-04", "COUNTERS");
    assert_eq!(ground.get(&MAIN, &key).await, Some(counters()));
    ground.store.delete(Delete::new(&MAIN, key.clone())).await.unwrap();
    assert_eq!(ground.get(&MAIN, &key).await, None);
}
