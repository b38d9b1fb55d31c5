//! How contacts behave, on every SQL engine.

mod erasing;
mod failing;
mod listing;
mod racing;

use std::collections::BTreeSet;

use jiff::ToSpan as _;
use serde_json::{Value as Json, json};
use tidings_access::Cx;
use tidings_kernel::{EmailAddress, Item, Query, Table, tables};
use tidings_sql::{Param, Row};
use tidings_testbed::{Bed, each_store};

use super::{
    Attributes, Change, Contact, Edit, TagChange, TooMuch, Update, UpdateError, Upsert,
    UpsertError, ensure, get, put, tag, timezone, update, upsert,
};
use crate::keys;
use crate::suppression::{self, Kind, Suppress};

each_store!(
    an_address_is_one_person_however_it_is_written,
    items_are_those_of_the_seed,
    an_upsert_leaves_alone_what_it_does_not_name,
    a_repeated_upsert_changes_nothing,
    an_empty_list_clears_the_tags,
    tags_are_added_removed_and_replaced,
    a_null_removes_an_attribute,
    an_upsert_takes_back_neither_unsubscription_nor_suppression,
    who_is_suppressed_before_he_is_known_is_so_afterwards,
    what_is_too_much_is_refused_and_nothing_written,
    only_who_is_there_can_be_changed,
    everything_about_a_contact_comes_at_once,
    a_contact_of_another_workspace_is_somebody_else,
    a_name_can_be_cleared,
    a_time_zone_is_set_kept_and_cleared,
);

pub(super) fn address(text: &str) -> EmailAddress {
    text.parse().unwrap()
}

pub(super) fn tags(names: &[&str]) -> BTreeSet<super::Tag> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

pub(super) fn attributes(json: Json) -> Attributes {
    let Json::Object(object) = json else { panic!("an object") };
    Attributes::parse(object).unwrap()
}

pub(super) fn with_tags(email: &str, names: &[&str]) -> Upsert {
    let tags = Some(TagChange::Replace(tags(names)));
    Upsert { email: address(email), first_name: None, attributes: Attributes::default(), tags }
}

pub(super) fn bare(email: &str) -> Upsert {
    Upsert { tags: None, ..with_tags(email, &[]) }
}

pub(super) async fn item(cx: &Cx, partition: &str, sort: &str) -> Option<Item> {
    let key = tidings_kernel::Key::new(partition, sort);
    cx.items().await.unwrap().get(&tables::MAIN, &key).await.unwrap()
}

pub(super) async fn partition(cx: &Cx, table: &'static Table, name: &str) -> Vec<Item> {
    let query = Query::new(table, name).limit(1000);
    cx.items().await.unwrap().query(query).await.unwrap().items
}

pub(super) async fn rows(cx: &Cx, sql: &'static str) -> Vec<Row> {
    let workspace = cx.workspace_id().get();
    let read = cx.database().read(move |tx| tx.query(sql, &[Param::Int(workspace)]));
    let rows: Result<_, tidings_sql::DatabaseError> = read.await;
    rows.unwrap()
}

/// With the workspace as the first parameter.
pub(super) async fn execute(cx: &Cx, sql: &'static str) {
    let workspace = cx.workspace_id().get();
    let write = cx.database().write(move |tx| tx.execute(sql, &[Param::Int(workspace)]).map(drop));
    let done: Result<(), tidings_sql::DatabaseError> = write.await;
    done.unwrap();
}

pub(super) async fn suppress(cx: &Cx, email: &str) {
    let cmd = Suppress {
        email: address(email),
        kind: Kind::Permanent,
        reason: "General".parse().unwrap(),
        source: Some("event-1".to_owned()),
        note: None,
        at: cx.now(),
    };
    suppression::suppress(cx, cmd).await.unwrap();
}

/// As consent does it.
pub(super) async fn unsubscribe(cx: &Cx, email: &str) {
    let change = tidings_kernel::Update::new(&tables::MAIN, keys::profile(&address(email)))
        .set("unsubscribed", true);
    cx.items().await.unwrap().update(change).await.unwrap();
}

/// The tags of a profile, which are those that the indexes have: that is checked for each of `known`.
pub(super) async fn tags_in_step(cx: &Cx, email: &str, known: &[&str]) -> Vec<String> {
    let email = address(email);
    let profile = item(cx, &keys::subscriber(&email), keys::PROFILE).await;
    let profile = profile.map(super::profile::Profile::from).unwrap_or_default();
    let mut indexed = Vec::new();
    for tag in known {
        if item(cx, &keys::tag_partition(tag), &keys::subscriber(&email)).await.is_some() {
            indexed.push((*tag).to_owned());
        }
    }
    indexed.sort();
    let tags: Vec<_> = profile.tags().into_iter().collect();
    assert_eq!(tags, indexed, "the profile and the indexes of {email}");
    tags
}

async fn found(cx: &Cx, email: &str) -> Contact {
    get(cx, &address(email)).await.unwrap().unwrap().contact
}

async fn an_address_is_one_person_however_it_is_written(bed: &Bed) {
    let cx = bed.cx().await;
    let first = upsert(&cx, bare(" Ada@Example.ORG ")).await.unwrap();
    let second = upsert(&cx, bare("ada@example.org")).await.unwrap();
    assert!(first.created && !second.created);
    assert_eq!(first.contact.id, second.contact.id);
    assert_eq!(second.contact.email.as_str(), "ada@example.org");
    assert_eq!(second.contact.email.typed(), "Ada@Example.ORG");
    assert_eq!(rows(&cx, "SELECT id FROM leads WHERE workspace_id = $1").await.len(), 1);
    let organizations = "SELECT id FROM lead_organizations WHERE workspace_id = $1";
    assert_eq!(rows(&cx, organizations).await.len(), 1);
}

async fn items_are_those_of_the_seed(bed: &Bed) {
    let cx = bed.cx().await;
    let cmd = Upsert {
        first_name: Some("Jane".parse().unwrap()),
        attributes: attributes(json!({"platform": "kajabi", "seats": 3, "langs": ["en", "af"]})),
        ..with_tags("user@example.com", &["product-updates", "beta-users"])
    };
    upsert(&cx, cmd).await.unwrap();
    let profile = item(&cx, "SUB#user@example.com", "PROFILE").await.unwrap();
    assert_eq!(
        serde_json::to_value(&profile).unwrap(),
        json!({
            "PK": "SUB#user@example.com", "SK": "PROFILE", "email": "user@example.com",
            "firstName": "Jane", "platform": "kajabi", "seats": 3, "langs": ["en", "af"],
            "tags": ["beta-users", "product-updates"], "unsubscribed": false, "suppressed": false,
            "createdAt": "2026-07-01T12:00:00.000Z", "updatedAt": "2026-07-01T12:00:00.000Z",
        })
    );
    let entry = item(&cx, "TAG#product-updates", "SUB#user@example.com").await.unwrap();
    assert_eq!(
        serde_json::to_value(&entry).unwrap(),
        json!({
            "PK": "TAG#product-updates", "SK": "SUB#user@example.com", "email": "user@example.com",
            "taggedAt": "2026-07-01T12:00:00.000Z",
        })
    );
}

async fn an_upsert_leaves_alone_what_it_does_not_name(bed: &Bed) {
    let cx = bed.cx().await;
    let cmd = Upsert {
        first_name: Some("Ada".parse().unwrap()),
        attributes: attributes(json!({"plan": "pro", "city": "London"})),
        ..with_tags("ada@example.org", &["beta"])
    };
    upsert(&cx, cmd).await.unwrap();
    bed.clock.advance(1.hour());
    let cx = bed.cx().await;
    let more =
        Upsert { attributes: attributes(json!({"plan": "free"})), ..bare("ada@example.org") };
    let after = upsert(&cx, more).await.unwrap().contact;
    assert_eq!(after, found(&cx, "ada@example.org").await);
    assert_eq!(after.first_name.as_deref(), Some("Ada"));
    assert_eq!(after.attributes["plan"], "free".into());
    assert_eq!(after.attributes["city"], "London".into());
    assert_eq!(after.tags, BTreeSet::from(["beta".to_owned()]));
    assert_eq!(after.updated_at, cx.now());
    assert_eq!(after.created_at, cx.now() - 1.hour());
}

async fn a_repeated_upsert_changes_nothing(bed: &Bed) {
    let cx = bed.cx().await;
    let cmd = Upsert {
        first_name: Some("Ada".parse().unwrap()),
        attributes: attributes(json!({"plan": "pro"})),
        ..with_tags("ada@example.org", &["beta"])
    };
    let first = upsert(&cx, cmd.clone()).await.unwrap();
    bed.clock.advance(1.hour());
    let second = upsert(&bed.cx().await, cmd).await.unwrap();
    assert_eq!(first.contact, second.contact);
}

async fn an_empty_list_clears_the_tags(bed: &Bed) {
    let cx = bed.cx().await;
    upsert(&cx, with_tags("ada@example.org", &["a", "b"])).await.unwrap();
    upsert(&cx, with_tags("ada@example.org", &[])).await.unwrap();
    assert!(tags_in_step(&cx, "ada@example.org", &["a", "b"]).await.is_empty());
    assert!(found(&cx, "ada@example.org").await.tags.is_empty());
}

async fn tags_are_added_removed_and_replaced(bed: &Bed) {
    let cx = bed.cx().await;
    let known = ["a", "b", "c", "d"];
    upsert(&cx, with_tags("ada@example.org", &["a", "b"])).await.unwrap();
    for (change, after) in [
        (TagChange::Add(tags(&["b", "c"])), vec!["a", "b", "c"]),
        (TagChange::Remove(tags(&["a", "d"])), vec!["b", "c"]),
        (TagChange::Replace(tags(&["d", "b"])), vec!["b", "d"]),
        (TagChange::Replace(tags(&[])), vec![]),
    ] {
        tag(&cx, address("ada@example.org"), change).await.unwrap();
        assert_eq!(tags_in_step(&cx, "ada@example.org", &known).await, after);
    }
}

async fn a_null_removes_an_attribute(bed: &Bed) {
    let cx = bed.cx().await;
    let with = |json| Upsert { attributes: attributes(json), ..bare("ada@example.org") };
    upsert(&cx, with(json!({"plan": "pro", "city": "London"}))).await.unwrap();
    upsert(&cx, with(json!({"plan": null, "never": null}))).await.unwrap();
    let names: Vec<_> = found(&cx, "ada@example.org").await.attributes.into_keys().collect();
    assert_eq!(names, ["city"]);
}

async fn an_upsert_takes_back_neither_unsubscription_nor_suppression(bed: &Bed) {
    let cx = bed.cx().await;
    upsert(&cx, bare("ada@example.org")).await.unwrap();
    unsubscribe(&cx, "ada@example.org").await;
    suppress(&cx, "ada@example.org").await;
    let again = upsert(&cx, with_tags("ada@example.org", &["a"])).await.unwrap().contact;
    assert!(again.unsubscribed && again.suppressed);
    let stored = found(&cx, "ada@example.org").await;
    assert!(stored.unsubscribed && stored.suppressed);
}

async fn who_is_suppressed_before_he_is_known_is_so_afterwards(bed: &Bed) {
    let cx = bed.cx().await;
    suppress(&cx, "ada@example.org").await;
    assert!(item(&cx, "SUB#ada@example.org", "PROFILE").await.is_none());
    let made = upsert(&cx, bare("Ada@Example.org")).await.unwrap();
    assert!(made.created && made.contact.suppressed);
    assert!(found(&cx, "ada@example.org").await.suppressed);
}

async fn what_is_too_much_is_refused_and_nothing_written(bed: &Bed) {
    let cx = bed.cx().await;
    let names: Vec<String> = (0..91).map(|number| format!("t{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    upsert(&cx, with_tags("ada@example.org", &names[..45])).await.unwrap();
    let refused = upsert(&cx, with_tags("ada@example.org", &names[..46])).await;
    assert!(matches!(refused, Err(UpsertError::TooMuch(TooMuch::Tags))), "{refused:?}");
    let one_more = tag(&cx, address("ada@example.org"), TagChange::Add(tags(&["t50"]))).await;
    assert!(matches!(one_more, Err(UpdateError::TooMuch(TooMuch::Tags))), "{one_more:?}");
    assert_eq!(tags_in_step(&cx, "ada@example.org", &names).await, names[..45]);
    // All of them for as many others is one transaction still.
    upsert(&cx, with_tags("ada@example.org", &names[45..90])).await.unwrap();
    assert_eq!(tags_in_step(&cx, "ada@example.org", &names).await, names[45..90]);

    let text = "x".repeat(30 * 1024);
    let with = |json| Upsert { attributes: attributes(json), ..bare("ada@example.org") };
    upsert(&cx, with(json!({"a": text}))).await.unwrap();
    let refused = upsert(&cx, with(json!({"b": text}))).await;
    assert!(matches!(refused, Err(UpsertError::TooMuch(TooMuch::Bytes))), "{refused:?}");
    let hundred: serde_json::Map<_, _> = (0..100).map(|n| (format!("n{n}"), json!(n))).collect();
    let refused = upsert(&cx, with(Json::Object(hundred))).await;
    assert!(matches!(refused, Err(UpsertError::TooMuch(TooMuch::Attributes))), "{refused:?}");
    let names: Vec<_> = found(&cx, "ada@example.org").await.attributes.into_keys().collect();
    assert_eq!(names, ["a"]);
}

async fn only_who_is_there_can_be_changed(bed: &Bed) {
    let cx = bed.cx().await;
    let email = address("ada@example.org");
    let missing = tag(&cx, email.clone(), TagChange::Add(tags(&["a"]))).await;
    assert!(matches!(missing, Err(UpdateError::Missing)), "{missing:?}");
    assert!(get(&cx, &email).await.unwrap().is_none());
    assert!(item(&cx, "TAG#a", "SUB#ada@example.org").await.is_none());
}

async fn a_name_can_be_cleared(bed: &Bed) {
    let cx = bed.cx().await;
    let named = Upsert { first_name: Some("Ada".parse().unwrap()), ..bare("ada@example.org") };
    upsert(&cx, named).await.unwrap();
    let edit = Edit { first_name: Change::Clear, ..Edit::default() };
    let after = update(&cx, Update { email: address("ada@example.org"), edit }).await.unwrap();
    assert_eq!(after.first_name, None);
    assert_eq!(found(&cx, "ada@example.org").await.first_name, None);
}

async fn everything_about_a_contact_comes_at_once(bed: &Bed) {
    let cx = bed.cx().await;
    upsert(&cx, with_tags("ada@example.org", &["beta"])).await.unwrap();
    suppress(&cx, "ada@example.org").await;
    execute(
        &cx,
        "INSERT INTO audiences (workspace_id, slug, name, created_at, updated_at) VALUES ($1, 'news', 'News', 1, 1)",
    )
    .await;
    execute(
        &cx,
        "INSERT INTO subscriptions (workspace_id, lead_id, audience_id, status, created_at, updated_at)
         SELECT $1, l.id, a.id, 'subscribed', 1, 1 FROM leads l CROSS JOIN audiences a",
    )
    .await;
    execute(
        &cx,
        "INSERT INTO topics (workspace_id, slug, name, created_at, updated_at) VALUES ($1, 'offers', 'Offers', 1, 1)",
    )
    .await;
    execute(
        &cx,
        "INSERT INTO topic_preferences (workspace_id, lead_id, topic_id, status, created_at, updated_at)
         SELECT $1, l.id, t.id, 'off', 1, 1 FROM leads l CROSS JOIN topics t",
    )
    .await;
    let items = cx.items().await.unwrap();
    for number in 10..35 {
        let at = format!("2026-06-01T00:00:{number}.000Z");
        let line = Item::new()
            .with("PK", "SUB#ada@example.org")
            .with("SK", format!("SENT#{at}"))
            .with("templateKey", "welcome")
            .with("message", format!("t-{number}"))
            .with("sesMessageId", format!("ses-{number}"))
            .with("sentAt", at);
        items.put(tidings_kernel::Put::new(&tables::MAIN, line)).await.unwrap();
    }
    let execution = Item::new()
        .with("PK", "SUB#ada@example.org")
        .with("SK", "EXEC#onboarding")
        .with("sequenceId", "onboarding")
        .with("executionArn", "tidings:execution:onboarding:x1")
        .with("startedAt", "2026-06-01T00:00:00.000Z");
    items.put(tidings_kernel::Put::new(&tables::MAIN, execution)).await.unwrap();

    let all = get(&cx, &address("ADA@example.org")).await.unwrap().unwrap();
    assert!(all.contact.suppressed && all.contact.tags.contains("beta"));
    assert_eq!(all.suppression.unwrap().kind, Kind::Permanent);
    assert_eq!(all.identities.len(), 1);
    assert_eq!(all.identities[0].bounced_at, Some(cx.now()));
    assert_eq!(all.subscriptions[0].audience, "news");
    assert_eq!((all.topics[0].topic.as_str(), all.topics[0].is_on), ("offers", false));
    assert_eq!(all.executions[0].sequence, "onboarding");
    let arn = all.executions[0].execution_arn.as_deref();
    assert_eq!(arn, Some("tidings:execution:onboarding:x1"));
    assert_eq!(all.sent.len(), 20);
    assert_eq!(all.sent[0].sent_at, Some("2026-06-01T00:00:34Z".parse().unwrap()));
    assert_eq!(all.sent[0].message.as_deref(), Some("t-34"));
    assert_eq!(all.sent[0].provider_message_id.as_deref(), Some("ses-34"));
}

async fn a_contact_of_another_workspace_is_somebody_else(bed: &Bed) {
    let (cx, other) = (bed.cx().await, bed.make_workspace("other").await);
    let mine = upsert(&cx, with_tags("ada@example.org", &["a"])).await.unwrap();
    assert!(get(&other, &address("ada@example.org")).await.unwrap().is_none());
    let theirs = upsert(&other, bare("ada@example.org")).await.unwrap();
    assert!(theirs.created && theirs.contact.id != mine.contact.id);
    assert!(theirs.contact.tags.is_empty());
    super::erase(&other, &address("ada@example.org")).await.unwrap();
    assert_eq!(tags_in_step(&cx, "ada@example.org", &["a"]).await, ["a"]);
}

pub(super) async fn ensured(cx: &Cx, email: &str) -> super::ContactId {
    let (within, email) = (cx.clone(), address(email));
    let work = cx.database().write(move |tx| ensure(tx, &within, &email));
    work.await.unwrap()
}

async fn a_time_zone_is_set_kept_and_cleared(bed: &Bed) {
    let cx = bed.cx().await;
    let ada = address("ada@example.org");
    let to = |timezone| Update { email: ada.clone(), edit: Edit { timezone, ..Edit::default() } };
    let berlin = || Change::Set("europe/berlin".parse().unwrap());
    let done = put(&cx, to(berlin())).await.unwrap();
    assert_eq!((done.created, done.contact.timezone.as_deref()), (true, Some("Europe/Berlin")));
    // What does not name it leaves it.
    let again = upsert(&cx, with_tags("ada@example.org", &["a"])).await.unwrap();
    assert_eq!(again.contact.timezone.as_deref(), Some("Europe/Berlin"));
    let shown = get(&cx, &ada).await.unwrap().unwrap();
    assert_eq!(shown.contact.timezone.as_deref(), Some("Europe/Berlin"));
    assert_eq!(timezone(&cx, &ada).await.unwrap().as_deref(), Some("Europe/Berlin"));
    put(&cx, to(berlin())).await.unwrap();
    let entries = "SELECT 1 FROM audit_log WHERE workspace_id = $1 AND action = 'contact.update'";
    assert_eq!(rows(&cx, entries).await.len(), 1, "the second time nothing changes");
    assert_eq!(update(&cx, to(Change::Clear)).await.unwrap().timezone, None);
    assert_eq!(timezone(&cx, &ada).await.unwrap(), None);
}
