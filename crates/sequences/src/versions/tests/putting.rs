//! Putting definitions: once each, in order, and only if all that they name is there.

use std::collections::BTreeSet;

use serde_json::json;
use tidings_access::{ClientId, Cx, clients};
use tidings_delivery::templates::{TemplateKey, Then};
use tidings_outreach::campaigns;
use tidings_outreach::campaigns::draft::{self, Draft};
use tidings_testbed::{Bed, each_store};

use super::super::{
    Change, Compared, Put, PutError, Status, compare, definition_of, put, put_of, set_status, show,
    versions,
};
use super::{
    faults, make_audience, make_template, make_topic, prepare, put_welcome, rows, welcome,
};
use crate::definition::to_json;

each_store!(
    the_same_again_changes_nothing,
    a_sequence_that_was_put_away_is_active_again,
    all_that_is_not_there_is_told_at_once,
    a_comparison_writes_nothing,
    what_matters_is_what_the_active_version_says_and_what_older_ones_wait_for,
    nodes_that_put_at_once_make_versions_in_order,
    nodes_that_put_the_same_at_once_make_one_version,
    who_did_it_is_written_down,
    a_client_leaves_what_another_has_as_it_is,
    of_two_clients_that_put_at_once_one_has_it,
    no_id_is_the_key_of_a_campaign,
);

fn done(change: Change, version: i64, status: Status) -> Put {
    Put { change, version, status }
}

async fn the_same_again_changes_nothing(bed: &Bed) {
    let cx = prepare(bed).await;
    let put = async |but| put_welcome(&cx, but).await;
    assert_eq!(put(json!({})).await, done(Change::Created, 1, Status::Active));
    assert_eq!(put(json!({})).await, done(Change::Unchanged, 1, Status::Active));
    let other = json!({ "name": "Welcome" });
    assert_eq!(put(other.clone()).await, done(Change::Changed, 2, Status::Active));
    assert_eq!(put(other).await, done(Change::Unchanged, 2, Status::Active));
    // Back to what it was is a version of its own, so that they are in order.
    assert_eq!(put(json!({})).await, done(Change::Changed, 3, Status::Active));
    let all = versions(&cx, "welcome", None, Default::default()).await.unwrap();
    let numbers: Vec<_> = all.items.iter().map(|version| version.version).collect();
    assert_eq!(numbers, [3, 2, 1]);
    assert_eq!(all.items[0].hash, all.items[2].hash);
    assert_ne!(all.items[0].hash, all.items[1].hash);
    let second = definition_of(&cx, "welcome", 2).await.unwrap().unwrap();
    assert_eq!(second["name"], "Welcome");
    assert_eq!(definition_of(&cx, "welcome", 4).await.unwrap(), None);
}

async fn a_sequence_that_was_put_away_is_active_again(bed: &Bed) {
    let cx = prepare(bed).await;
    put_welcome(&cx, json!({})).await;
    set_status(&cx, "welcome", Status::Paused).await.unwrap();
    // Whoever paused it wants it paused, whatever it is.
    let change = json!({ "name": "Welcome" });
    assert_eq!(put_welcome(&cx, change.clone()).await, done(Change::Changed, 2, Status::Paused));
    set_status(&cx, "welcome", Status::Archived).await.unwrap();
    let compared = compare(&cx, &welcome(change.clone()), &BTreeSet::new()).await.unwrap();
    assert_eq!((compared.change, compared.version), (Change::Changed, 2));
    assert_eq!(put_welcome(&cx, change).await, done(Change::Changed, 2, Status::Active));
    set_status(&cx, "welcome", Status::Archived).await.unwrap();
    assert_eq!(put_welcome(&cx, json!({})).await, done(Change::Changed, 3, Status::Active));
}

async fn all_that_is_not_there_is_told_at_once(bed: &Bed) {
    let cx = prepare(bed).await;
    make_template(&cx, "draft", Then::KeepAsDraft).await;
    let steps = json!([
        { "send": "hello" },
        { "send": "nothing" },
        { "condition": { "in_audience": "nobody" }, "then": [{ "send": "draft" }] },
        { "send": { "variants": [{ "template": "hello" }, { "template": "nothing" }] } },
    ]);
    let wrong = welcome(json!({
        "sender": "nobody",
        "audience": "nowhere",
        "topic": "nothing",
        "events": [{ "event": "paid", "send": "receipt" }],
        "steps": steps,
    }));
    let told = faults(put(&cx, wrong.clone()).await);
    insta::assert_snapshot!(told.join("\n"), @r"
    sender: client shop has no sender nobody; make it first, or name another
    audience: there is no audience nowhere; make it first, or name another
    topic: there is no topic nothing; make it first, or name another
    steps[2].condition: there is no audience nobody; make it first, or name another
    events[0].send: there is no template receipt; put it first, or name another
    steps[1].send: there is no template nothing; put it first, or name another
    steps[2].then[0].send: no version of template draft is active; activate one
    steps[3].send.variants[1].template: there is no template nothing; put it first, or name another
    ");
    let nobody = welcome(json!({ "client": "nobody", "sender": "team" }));
    let told = faults(put(&cx, nobody).await);
    assert_eq!(told, ["client: there is no client nobody; make it first, or name another"]);
    assert_eq!(show(&cx, "welcome").await.unwrap(), None);
    // Another workspace's are no help.
    let other = bed.make_workspace("other").await;
    make_audience(&other, "nowhere").await;
    make_topic(&other, "nothing").await;
    assert!(faults(put(&cx, wrong).await).len() > 5);
    make_audience(&cx, "news").await;
    make_topic(&cx, "tips").await;
    let right = json!({ "sender": "team", "audience": "news", "topic": "tips" });
    assert_eq!(put_welcome(&cx, right).await.version, 1);
}

async fn a_comparison_writes_nothing(bed: &Bed) {
    let cx = prepare(bed).await;
    let new = welcome(json!({ "steps": [{ "send": "coming" }] }));
    let coming: BTreeSet<TemplateKey> = ["coming".parse().unwrap()].into();
    assert!(matches!(compare(&cx, &new, &BTreeSet::new()).await, Err(PutError::Faults(_))));
    let compared = compare(&cx, &new, &coming).await.unwrap();
    assert_eq!(compared, Compared { change: Change::Created, version: 1, before: None });
    assert_eq!(show(&cx, "welcome").await.unwrap(), None);
    put_welcome(&cx, json!({})).await;
    let before = Some(to_json(&welcome(json!({}))));
    let compared = compare(&cx, &new, &coming).await.unwrap();
    assert_eq!(compared, Compared { change: Change::Changed, version: 2, before: before.clone() });
    let compared = compare(&cx, &welcome(json!({})), &coming).await.unwrap();
    assert_eq!(compared, Compared { change: Change::Unchanged, version: 1, before });
    let all = versions(&cx, "welcome", None, Default::default()).await.unwrap();
    assert_eq!(all.items.len(), 1);
}

async fn what_matters_is_what_the_active_version_says_and_what_older_ones_wait_for(bed: &Bed) {
    let cx = prepare(bed).await;
    let listens = async || {
        let sql =
            "SELECT role || ' ' || event_name FROM sequence_listens ORDER BY role, event_name";
        rows(&cx, sql).await
    };
    let first = json!({
        "exitOn": ["user.paid"],
        "events": [{ "event": "user.paid", "send": "bye" }],
        "steps": [{ "wait_for": "user.back", "timeout": "1 day", "then": [{ "send": "hello" }] }],
    });
    put_welcome(&cx, first).await;
    let all = ["event user.paid", "exit user.paid", "trigger user.created", "wait user.back"];
    assert_eq!(listens().await, all);
    put_welcome(&cx, json!({ "trigger": { "event": "user.signed_up" } })).await;
    assert_eq!(listens().await, ["exit user.paid", "trigger user.signed_up", "wait user.back"]);
}

async fn nodes_that_put_at_once_make_versions_in_order(bed: &Bed) {
    let cx = prepare(bed).await;
    let one = |number: usize| {
        let cx = cx.clone();
        async move { put_welcome(&cx, json!({ "name": format!("number {number}") })).await }
    };
    let all = tokio::join!(one(0), one(1), one(2), one(3), one(4));
    let all = [all.0, all.1, all.2, all.3, all.4];
    let mut numbers: Vec<_> = all.iter().map(|put| put.version).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    let created = all.iter().filter(|put| put.change == Change::Created).count();
    assert_eq!(created, 1);
    let shown = show(&cx, "welcome").await.unwrap().unwrap();
    assert_eq!(shown.sequence.version, 5);
    let last = all.iter().position(|put| put.version == 5).unwrap();
    assert_eq!(shown.definition["name"], format!("number {last}"));
    assert_eq!(shown.sequence.name, Some(format!("number {last}")));
}

async fn nodes_that_put_the_same_at_once_make_one_version(bed: &Bed) {
    let cx = prepare(bed).await;
    let one = || put_welcome(&cx, json!({}));
    let all = tokio::join!(one(), one(), one());
    let changes = [all.0, all.1, all.2].map(|put| (put.version, put.change == Change::Created));
    assert_eq!(changes.iter().filter(|(_, created)| *created).count(), 1, "{changes:?}");
    assert!(changes.iter().all(|(version, _)| *version == 1), "{changes:?}");
}

async fn who_did_it_is_written_down(bed: &Bed) {
    let cx = prepare(bed).await;
    put_welcome(&cx, json!({})).await;
    put_welcome(&cx, json!({})).await;
    put_welcome(&cx, json!({ "name": "Welcome" })).await;
    for status in [Status::Paused, Status::Paused, Status::Active, Status::Archived] {
        let changed = set_status(&cx, "welcome", status).await.unwrap();
        assert_eq!(changed.status, status);
    }
    let sql = "SELECT action FROM audit_log WHERE target_type = 'sequence' AND target_id = 'welcome' ORDER BY id";
    let wanted = ["create", "update", "pause", "resume", "archive"];
    assert_eq!(rows(&cx, sql).await, wanted.map(|action| format!("sequence.{action}")));
    let error = set_status(&cx, "nothing", Status::Active).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no sequence nothing");
}

/// Another client of the workspace.
async fn make_app(cx: &Cx) -> ClientId {
    let (slug, name) = ("app".parse().unwrap(), "App".parse().unwrap());
    clients::create(cx, clients::Create { slug, name }).await.unwrap().id
}

async fn a_client_leaves_what_another_has_as_it_is(bed: &Bed) {
    let cx = prepare(bed).await;
    let (shop, app) = (bed.shop(&cx).await.id, make_app(&cx).await);
    let put = async |client, but| put_of(&cx, client, &welcome(but)).await.unwrap();
    let created = Some(done(Change::Created, 1, Status::Active));
    assert_eq!(put(shop, json!({})).await, created);
    set_status(&cx, "welcome", Status::Archived).await.unwrap();
    let before = show(&cx, "welcome").await.unwrap();
    let of_app = json!({ "client": "app" });
    assert_eq!(put(app, of_app.clone()).await, None);
    // Not even what would change nothing tells that it is there.
    assert_eq!(put(app, json!({})).await, None);
    assert_eq!(show(&cx, "welcome").await.unwrap(), before);
    let again = Some(done(Change::Changed, 1, Status::Active));
    assert_eq!(put(shop, json!({})).await, again);
    // An operator may give it to another.
    assert_eq!(put_welcome(&cx, of_app).await, done(Change::Changed, 2, Status::Active));
    assert_eq!(put(shop, json!({})).await, None);
}

async fn of_two_clients_that_put_at_once_one_has_it(bed: &Bed) {
    let cx = prepare(bed).await;
    let (shop, app) = (bed.shop(&cx).await.id, make_app(&cx).await);
    let (of_shop, of_app) = (welcome(json!({})), welcome(json!({ "client": "app" })));
    let (one, other) = tokio::join!(put_of(&cx, shop, &of_shop), put_of(&cx, app, &of_app));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert!(one.is_some() != other.is_some(), "{one:?} {other:?}");
    let owner = if one.is_some() { shop } else { app };
    assert_eq!(show(&cx, "welcome").await.unwrap().unwrap().sequence.client, owner);
}

async fn no_id_is_the_key_of_a_campaign(bed: &Bed) {
    let cx = prepare(bed).await;
    let content = campaigns::Content {
        subject: Some("Hello".to_owned()),
        text: Some("Text".to_owned()),
        ..campaigns::Content::default()
    };
    let client = bed.shop(&cx).await.id;
    let draft = |key: &str| Draft {
        key: Some(key.to_owned()),
        ..Draft::of(client, "Spring", content.clone())
    };
    draft::create(&cx, draft("welcome")).await.unwrap();
    // A campaign without a key of its own is known by such a one.
    for id in ["welcome", "campaign-7"] {
        let found = faults(put(&cx, welcome(json!({ "id": id }))).await);
        assert!(found[0].contains("a campaign has this as its key"), "{found:?}");
    }
    // Whoever of two is first has it.
    for number in 0..5 {
        let id = format!("both-{number}");
        let sequence = put(&cx, welcome(json!({ "id": id })));
        let (sequence, campaign) = tokio::join!(sequence, draft::create(&cx, draft(&id)));
        assert!(sequence.is_ok() != campaign.is_ok(), "{sequence:?} {campaign:?}");
    }
}
