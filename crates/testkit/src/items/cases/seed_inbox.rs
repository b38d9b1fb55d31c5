//! Seed 001, the inbox: messages, receipts, counters, settings, and what happens when a message expires.

use tidings_kernel::{
    Change, ChangeKind, Condition, Expect, Item, Key, Query, Returns, Txn, Update, Value,
    tables::INBOX,
};

use super::{Case, cases};
use crate::items::Quirk;
use crate::items::ground::{Ground, cancelled, failed, item, sorts};

pub(super) const CASES: &[Case] = &cases![
    every_record_comes_back,
    tenant_settings_and_inbox_config,
    messages_of_a_user,
    public_messages,
    both_merge_by_their_ids,
    publishing_to_a_user_counts,
    publishing_to_everyone_counts,
    counts_of_a_user_a_category_and_the_public,
    a_message_is_read_once,
    a_public_message_is_read_once,
    a_read_receipt_keeps_its_first_time,
    expired_messages_are_not_shown,
    an_expired_message_takes_back_its_count,
    an_expired_receipt_takes_back_its_count,
];

const SETTINGS: &str = "t#acme";
const USER: &str = "t#acmeU#u1#main";
const PUBLIC: &str = "t#acmeG#$public#main";

/// In 30 days, as the seed's records carry seconds for the TTL.
fn expiry(ground: &Ground) -> i64 {
    ground.in_seconds(30 * 24 * 60 * 60)
}

fn user_message(ground: &Ground, id: &str) -> Item {
    item!({
        "PK": USER,
        "SK": format!("m#{id}"),
        "kind": "UM",
        "id": id,
        "host_system_id": null,
        "sender": "billing",
        "audiences": {"kind": "users", "label": "One user", "uids": ["u1"]},
        "received": 1751328000000_i64,
        "delivered": 1751328000123_i64,
        "taxonomy": {"category": "invoices"},
        "message": {"title": "Your invoice", "body": {"blocks": ["…"]}, "cta_uri": null},
        "tenant_key": "acme",
        "inbox_key": "main",
        "uid": "u1",
    })
    .with("expiredat", expiry(ground))
}

fn public_message(ground: &Ground, id: &str) -> Item {
    let everyone = item!({"kind": "everyone", "label": "Everyone", "uids": []});
    user_message(ground, id)
        .with("PK", PUBLIC)
        .with("uid", "$public")
        .with("audiences", Value::M(everyone.into_iter().collect()))
}

fn receipt(ground: &Ground, id: &str) -> Item {
    item!({"PK": USER, "SK": format!("m#{id}"), "taxonomy": {"category": "news"}, "readat": 1751328100})
        .with("expiredat", expiry(ground))
}

fn user_stats(published: i64, read: i64) -> Item {
    item!({
        "PK": USER, "SK": "c#*", "kind": "US", "published": published, "read": read,
        "tenant_key": "acme", "inbox_key": "main", "uid": "u1",
    })
}

fn public_stats(published: i64) -> Item {
    item!({
        "PK": PUBLIC, "SK": "c#*", "kind": "US", "published": published,
        "tenant_key": "acme", "inbox_key": "main", "uid": "$public",
    })
}

fn tenant_settings() -> Item {
    item!({
        "PK": SETTINGS, "SK": "st#tenant_settings", "kind": "TS", "title": "Acme", "ttl": "30d",
        "tenant_key": "acme", "uid": "admin",
    })
}

fn inbox_config() -> Item {
    item!({
        "PK": SETTINGS, "SK": "si#main", "kind": "IC", "title": "Main", "description": "The inbox",
        "ttl": {"default": "30d", "invoices": "365d"},
        "tenant_key": "acme", "inbox_key": "main", "uid": "admin",
    })
}

async fn every_record_comes_back(ground: Ground) {
    for item in [
        user_message(&ground, "lx1a"),
        public_message(&ground, "lx1b"),
        receipt(&ground, "lx1b"),
        user_stats(3, 1),
        public_stats(7),
        user_stats(2, 0).with("SK", "c#invoices"),
        tenant_settings(),
        inbox_config(),
    ] {
        ground.put(&INBOX, item.clone()).await;
        let key = INBOX.key_of(&item).unwrap();
        assert_eq!(ground.get(&INBOX, &key).await, Some(item));
    }
}

async fn tenant_settings_and_inbox_config(ground: Ground) {
    let other = inbox_config().with("SK", "si#alerts").with("inbox_key", "alerts");
    ground.put_all(&INBOX, &[tenant_settings(), inbox_config(), other]).await;
    let found = ground.get(&INBOX, &Key::new(SETTINGS, "st#tenant_settings")).await;
    assert_eq!(found, Some(tenant_settings()));
    let found = ground.get(&INBOX, &Key::new(SETTINGS, "si#main")).await;
    assert_eq!(found, Some(inbox_config()));
    let inboxes = ground.query(Query::new(&INBOX, SETTINGS).begins_with("si#")).await;
    assert_eq!(sorts(&inboxes), ["si#alerts", "si#main"]);
}

async fn messages_of_a_user(ground: Ground) {
    let messages = ["lx1a", "lx1b", "lx1c"].map(|id| user_message(&ground, id));
    ground.put_all(&INBOX, &messages).await;
    ground.put(&INBOX, user_stats(3, 0)).await;
    let query = Query::new(&INBOX, USER).begins_with("m#");
    assert_eq!(ground.query(query.clone()).await, messages);
    let newest = ground.store.query(query.backward().limit(2)).await.unwrap();
    assert_eq!(sorts(&newest.items), ["m#lx1c", "m#lx1b"]);
    assert!(newest.cursor.is_some());
}

async fn public_messages(ground: Ground) {
    let message = public_message(&ground, "lx1a");
    ground
        .put_all(&INBOX, &[message.clone(), public_stats(1), user_message(&ground, "lx1b")])
        .await;
    assert_eq!(ground.query(Query::new(&INBOX, PUBLIC).begins_with("m#")).await, [message]);
}

async fn both_merge_by_their_ids(ground: Ground) {
    for id in ["lx1a", "lx1d"] {
        ground.put(&INBOX, user_message(&ground, id)).await;
    }
    for id in ["lx1b", "lx1c"] {
        ground.put(&INBOX, public_message(&ground, id)).await;
    }
    let mut merged = Vec::new();
    for partition in [USER, PUBLIC] {
        merged
            .extend(ground.query(Query::new(&INBOX, partition).begins_with("m#").backward()).await);
    }
    merged.sort_by(|a, b| b.text("SK").cmp(&a.text("SK")));
    assert_eq!(sorts(&merged), ["m#lx1d", "m#lx1c", "m#lx1b", "m#lx1a"]);
}

/// Stores a message and counts it, in all and in its category.
fn publish(message: Item) -> Txn {
    let partition = message.text("PK").unwrap().to_owned();
    let count =
        |sort: &str| Update::new(&INBOX, Key::new(partition.as_str(), sort)).add("published", 1);
    let (all, category) = (count("c#*"), count("c#invoices"));
    Txn::new().put(&INBOX, message, Expect::Absent).update(all).update(category)
}

async fn published(ground: &Ground, partition: &str, sort: &str) -> Option<i64> {
    ground.get(&INBOX, &Key::new(partition, sort)).await?.integer("published")
}

async fn publishing_to_a_user_counts(ground: Ground) {
    for id in ["lx1a", "lx1b"] {
        ground.store.transact(publish(user_message(&ground, id))).await.unwrap();
    }
    cancelled(ground.store.transact(publish(user_message(&ground, "lx1a"))).await);
    assert_eq!(published(&ground, USER, "c#*").await, Some(2));
    assert_eq!(published(&ground, USER, "c#invoices").await, Some(2));
    assert_eq!(published(&ground, PUBLIC, "c#*").await, None);
}

async fn publishing_to_everyone_counts(ground: Ground) {
    ground.store.transact(publish(public_message(&ground, "lx1a"))).await.unwrap();
    assert_eq!(published(&ground, PUBLIC, "c#*").await, Some(1));
    assert_eq!(published(&ground, PUBLIC, "c#invoices").await, Some(1));
    assert_eq!(published(&ground, USER, "c#*").await, None);
}

async fn counts_of_a_user_a_category_and_the_public(ground: Ground) {
    let category = user_stats(2, 1).with("SK", "c#invoices");
    ground.put_all(&INBOX, &[user_stats(5, 2), category.clone(), public_stats(3)]).await;
    let keys = [Key::new(USER, "c#*"), Key::new(USER, "c#invoices"), Key::new(PUBLIC, "c#*")];
    let found = ground.store.batch_get(&INBOX, &keys).await.unwrap();
    assert_eq!(found, [Some(user_stats(5, 2)), Some(category), Some(public_stats(3))]);
    // '*' sorts before every letter, so the total comes first.
    let all = ground.query(Query::new(&INBOX, USER).begins_with("c#")).await;
    assert_eq!(sorts(&all), ["c#*", "c#invoices"]);
}

/// `SET readat = if_not_exists(readat, :now)`; the old image tells whether it was unread.
async fn a_message_is_read_once(ground: Ground) {
    ground.put(&INBOX, user_message(&ground, "lx1a")).await;
    let read = |at: i64| {
        Update::new(&INBOX, Key::new(USER, "m#lx1a"))
            .set_if_absent("readat", at)
            .expect(Expect::Present)
            .returning(Returns::Old)
    };
    let count =
        || Update::new(&INBOX, Key::new(USER, "c#*")).add("read", 1).returning(Returns::New);
    for at in [100, 200] {
        let before = ground.update(read(at)).await.unwrap();
        if before.get("readat").is_none() {
            ground.update(count()).await;
        }
    }
    let message = ground.get(&INBOX, &Key::new(USER, "m#lx1a")).await.unwrap();
    assert_eq!(message.integer("readat"), Some(100));
    assert_eq!(ground.update(count()).await.unwrap().integer("read"), Some(2));
    // A message that is not there cannot be read.
    let missing = Update::new(&INBOX, Key::new(USER, "m#none")).set_if_absent("readat", 1);
    assert_eq!(failed(ground.store.update(missing.expect(Expect::Present)).await), None);
}

/// The receipt lies under the user's own key, beside the public message, and counts in the same transaction.
async fn a_public_message_is_read_once(ground: Ground) {
    ground.put(&INBOX, public_message(&ground, "lx1a")).await;
    let read = || {
        Txn::new()
            .put(&INBOX, receipt(&ground, "lx1a"), Expect::That(Condition::not_exists("readat")))
            .update(Update::new(&INBOX, Key::new(USER, "c#*")).add("read", 1))
            .check(&INBOX, Key::new(PUBLIC, "m#lx1a"), Expect::Present)
    };
    ground.store.transact(read()).await.unwrap();
    cancelled(ground.store.transact(read()).await);
    let stats = ground.get(&INBOX, &Key::new(USER, "c#*")).await.unwrap();
    assert_eq!(stats.integer("read"), Some(1));
    let found = ground.query(Query::new(&INBOX, USER).begins_with("m#")).await;
    assert_eq!(found, [receipt(&ground, "lx1a")]);
}

async fn a_read_receipt_keeps_its_first_time(ground: Ground) {
    let mark = |at: i64| {
        Update::new(&INBOX, Key::new(USER, "m#lx1a"))
            .set_if_absent("readat", at)
            .set_if_absent("expiredat", at + 1000)
            .returning(Returns::New)
    };
    let (first, later) = (ground.in_seconds(1), ground.in_seconds(2));
    let made = ground.update(mark(first)).await.unwrap();
    assert_eq!(ground.update(mark(later)).await, Some(made.clone()));
    assert_eq!(made.integer("readat"), Some(first));
    assert_eq!(made.integer("expiredat"), Some(first + 1000));
}

async fn expired_messages_are_not_shown(ground: Ground) {
    let short = user_message(&ground, "lx1a").with("expiredat", ground.in_seconds(60));
    ground.put_all(&INBOX, &[short, user_message(&ground, "lx1b")]).await;
    ground.pass_seconds(60);
    let found = ground.query(Query::new(&INBOX, USER).begins_with("m#")).await;
    assert_eq!(sorts(&found), ["m#lx1b"]);
}

/// What the seed calls `onDocumentExpired`: the counters to lower for what the stream tells.
fn on_expired(ground: &Ground, change: &Change) -> Option<Txn> {
    let gone = match change.kind {
        ChangeKind::Expired => change.old.as_ref()?,
        ChangeKind::Deleted if ground.has(Quirk::ExpiryLooksLikeDelete) => change.old.as_ref()?,
        ChangeKind::Inserted | ChangeKind::Modified | ChangeKind::Deleted => return None,
    };
    let mut stats = Update::new(&INBOX, Key::new(change.key.partition.as_str(), "c#*"));
    if gone.get("audiences").is_some() {
        stats = stats.add("published", -1);
    }
    if gone.get("readat").is_some() && gone.text("uid") != Some("$public") {
        stats = stats.add("read", -1);
    }
    Some(Txn::new().update(stats))
}

async fn expire(ground: &Ground) {
    ground.pass_seconds(60);
    ground.subject.sweep().await;
    for change in ground.drain(&INBOX, "counters").await {
        if let Some(txn) = on_expired(ground, &change) {
            ground.store.transact(txn).await.unwrap();
        }
    }
}

async fn an_expired_message_takes_back_its_count(ground: Ground) {
    for id in ["lx1a", "lx1b"] {
        ground.store.transact(publish(user_message(&ground, id))).await.unwrap();
    }
    let soon = ground.in_seconds(60);
    let short = Update::new(&INBOX, Key::new(USER, "m#lx1a")).set("expiredat", soon);
    ground.update(short).await;
    ground
        .store
        .transact(publish(public_message(&ground, "lx1c").with("expiredat", soon)))
        .await
        .unwrap();
    expire(&ground).await;
    assert_eq!(published(&ground, USER, "c#*").await, Some(1));
    assert_eq!(published(&ground, PUBLIC, "c#*").await, Some(0));
}

async fn an_expired_receipt_takes_back_its_count(ground: Ground) {
    let short = receipt(&ground, "lx1a").with("expiredat", ground.in_seconds(60));
    ground.put_all(&INBOX, &[user_stats(0, 2), short]).await;
    expire(&ground).await;
    let stats = ground.get(&INBOX, &Key::new(USER, "c#*")).await.unwrap();
    assert_eq!(stats.integer("read"), Some(1));
}
