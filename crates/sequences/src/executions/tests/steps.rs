//! What single steps do in a walk: conditions, the clock where somebody is, webhooks, and what is not sent.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use tidings_access::Cx;
use tidings_delivery::eligibility::settings::{self, Sending};
use tidings_kernel::{Item, Put, Value, tables};
use tidings_leads::identity;
use tidings_people::consent::preferences::{self, Switch};
use tidings_people::consent::subscriptions::{Subscribe, subscribe};
use tidings_people::consent::topics;
use tidings_people::consent::{Act, By, Proof, Whom, audiences};
use tidings_people::contacts::{self, Attributes, Change, Edit, TagChange, Upsert};
use tidings_people::keys;
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, each_store};
use tidings_webhooks::{EventType, Targets, endpoints};

use crate::executions::{Cause, Simulate, Which, of_contact, simulate, stop_all};
use crate::versions::tests::{make_audience, rows};
use crate::world::World;

each_store!(
    a_condition_is_met_by_what_it_asks_for,
    a_field_is_what_any_address_of_the_person_says,
    a_time_of_day_is_that_where_the_person_is,
    a_mail_that_has_to_wait_goes_within_its_window,
    a_topic_that_is_off_is_skipped_and_the_walk_goes_on,
    a_webhook_is_told_once,
    a_simulated_walk_knows_what_it_has_changed,
);

pub(super) fn act() -> Act {
    Act { by: By::Person, source: "test".parse().unwrap(), reason: None, proof: Proof::default() }
}

async fn know(cx: &Cx, name: &str, attributes: Json, tags: &[&str]) {
    let upsert = Upsert {
        email: format!("{name}@example.org").parse().unwrap(),
        first_name: None,
        attributes: Attributes::parse(attributes.as_object().unwrap().clone()).unwrap(),
        tags: Some(TagChange::Replace(tags.iter().map(|tag| tag.parse().unwrap()).collect())),
    };
    contacts::upsert(cx, upsert).await.unwrap();
}

/// What was derived from a timeline.
async fn derive(cx: &Cx, name: &str) {
    let (workspace, email) = (cx.workspace_id().get(), format!("{name}@example.org"));
    let add = cx.database().write(move |tx| {
        let params = [Param::Int(workspace), Param::Text(&email)];
        let known = "SELECT o.id FROM lead_organizations o JOIN channel_identities i ON i.lead_id = o.lead_id
                     WHERE i.workspace_id = $1 AND i.value = $2";
        if let Some(row) = tx.query(known, &params)?.first() {
            return row.int(0);
        }
        let sql = "INSERT INTO lead_organizations (workspace_id, lead_id, created_at, updated_at)
                   SELECT $1, lead_id, 1, 1 FROM channel_identities WHERE workspace_id = $1 AND value = $2
                   RETURNING id";
        tx.query(sql, &params)?[0].int(0)
    });
    let organization: Result<i64, DatabaseError> = add.await;
    let bare =
        || Item::new().with("lead_organization_id", organization.as_ref().unwrap().to_string());
    let features = BTreeMap::from([("opens_30d".to_owned(), Value::from(7))]);
    let memory = bare().with("memory_type#key", "purchase#product:a").with("value", 3);
    let items = cx.items().await.unwrap();
    items.put(Put::new(&tables::FEATURE, bare().with("features", features))).await.unwrap();
    items.put(Put::new(&tables::MEMORY, memory)).await.unwrap();
}

async fn did(cx: &Cx, name: &str, kind: &str) {
    let human = BTreeMap::from([("human".to_owned(), Value::from(true))]);
    let item = Item::new()
        .with("PK", keys::subscriber(&format!("{name}@example.org").parse().unwrap()))
        .with("SK", format!("EVT#2026-07-01T10:00:00.000Z#{kind}"))
        .with("eventType", kind)
        .with("templateKey", "b")
        .with("verdict", human);
    cx.items().await.unwrap().put(Put::new(&tables::EVENTS, item)).await.unwrap();
}

/// Ada is everything that is asked for, and Eve is nothing of it.
async fn a_condition_is_met_by_what_it_asks_for(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    know(&cx, "ada", json!({ "company": "Acme", "empty": "" }), &["beta"]).await;
    know(&cx, "eve", json!({ "company": "" }), &[]).await;
    derive(&cx, "ada").await;
    did(&cx, "ada", "open").await;
    did(&cx, "ada", "click").await;
    make_audience(&cx, "news").await;
    let audience = audiences::find(&cx, "news".parse().unwrap()).await.unwrap().id;
    let whom = Whom::Email("ada@example.org".parse().unwrap());
    let cmd = Subscribe { whom, audience, client: None, confirmed: true, act: act() };
    subscribe(&cx, cmd).await.unwrap();
    for (number, (check, is_ada)) in [
        (json!({ "subscriber_field_exists": "company" }), true),
        (json!({ "subscriber_field_exists": "empty" }), false),
        (json!({ "subscriber_field_equals": { "field": "company", "value": "Acme" } }), true),
        (json!({ "has_opened": "b" }), true),
        (json!({ "has_opened": "a" }), false),
        (json!({ "has_clicked": "b" }), true),
        (json!({ "in_audience": "news" }), true),
        (json!({ "matches": { "tag": "beta" } }), true),
        (json!({ "matches": { "feature": "opens_30d", "at_least": 7 } }), true),
        (json!({ "matches": { "feature": "opens_30d", "at_least": 8 } }), false),
        (json!({ "matches": { "memory": "purchase/product:a", "equals": 3 } }), true),
        (json!({ "matches": { "memory": "purchase/product:b", "exists": true } }), false),
    ]
    .into_iter()
    .enumerate()
    {
        let steps = json!([{ "condition": check, "then": [{ "wait": "1 day" }] }]);
        world.define(&format!("id: check-{number}\nsteps: {steps}")).await;
        for name in ["ada", "eve"] {
            world
                .enrol(&format!("{name}@example.org"), &format!("check-{number}"), json!({}))
                .await;
        }
        world.run().await;
        for (name, expected) in [("ada", is_ada), ("eve", false)] {
            let inside = of_contact(&cx, &format!("{name}@example.org").parse().unwrap()).await;
            assert_eq!(!inside.unwrap().is_empty(), expected, "{name}: {check}");
        }
        let ada = "ada@example.org".parse().unwrap();
        let all = (&Which::All, Cause::Operator);
        stop_all(&cx, &world.versions, &ada, all, cx.now()).await.unwrap();
    }
}

/// As conditions see it after a merge, whichever of his addresses he walks with.
async fn a_field_is_what_any_address_of_the_person_says(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    know(&cx, "ada", json!({ "company": "Acme" }), &[]).await;
    know(&cx, "bob", json!({ "company": "", "plan": "pro", "note": null }), &[]).await;
    let mut ids = Vec::new();
    for name in ["ada", "bob"] {
        let whom = identity::Whom::Email(format!("{name}@example.org").parse().unwrap());
        ids.push(identity::find(&cx, whom).await.unwrap().unwrap().lead_id);
    }
    let merged = identity::merge(&cx, ids[0], ids[1]).await.unwrap();
    let holds = async |number: usize, name: &str, check: &Json| {
        let id = format!("field-{number}-{name}");
        let steps = json!([{ "condition": check, "then": [{ "wait": "1 day" }] }]);
        world.define(&format!("id: {id}\nsteps: {steps}")).await;
        let email = format!("{name}@example.org");
        world.enrol(&email, &id, json!({})).await;
        world.run().await;
        world.inside(&email).await.iter().any(|execution| execution.sequence == id)
    };
    let equals = |field: &str, value: &str| json!({ "subscriber_field_equals": { "field": field, "value": value } });
    let exists = |field: &str| json!({ "subscriber_field_exists": field });
    let checks = [
        (exists("company"), true),
        (exists("plan"), true),
        (exists("note"), false),
        (exists("email"), true),
        (equals("plan", "pro"), true),
        (equals("plan", "free"), false),
        (equals("company", "Acme"), true),
        (equals("email", "bob@example.org"), true),
        (equals("email", "eve@example.org"), false),
    ];
    for (number, (check, expected)) in checks.iter().enumerate() {
        for name in ["ada", "bob"] {
            assert_eq!(holds(number, name, check).await, *expected, "{name}: {check}");
        }
    }
    identity::unmerge(&cx, merged.id).await.unwrap();
    assert!(!holds(10, "ada", &exists("plan")).await);
    assert!(holds(10, "bob", &exists("plan")).await);
}

async fn a_time_of_day_is_that_where_the_person_is(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    // It is eight in the morning in New York, and two in the afternoon in Berlin.
    know(&cx, "ada", json!({}), &[]).await;
    let timezone = Change::Set("America/New_York".parse().unwrap());
    let (email, edit) = ("ada@example.org".parse().unwrap(), Edit { timezone, ..Edit::default() });
    contacts::update(&cx, contacts::Update { email, edit }).await.unwrap();
    know(&cx, "eve", json!({}), &[]).await;
    world
        .define(
            "id: morning\nsteps: [ { wait: { until: \"09:30\", zone: Europe/Berlin } }, { wait: 9 days } ]",
        )
        .await;
    let window = "window: { from: \"09:00\", until: \"11:00\", zone: Europe/Berlin }";
    world.define(&format!("id: office\n{window}\nsteps: [ {{ send: a }} ]")).await;
    let next = async |name: &str, sequence: &str| {
        let email = format!("{name}@example.org");
        world.enrol(&email, sequence, json!({})).await;
        world.run().await;
        let inside = world.inside(&email).await;
        inside.iter().find(|one| one.sequence == sequence).map(|one| one.next_at().to_string())
    };
    assert_eq!(next("ada", "morning").await.as_deref(), Some("2026-07-01T13:30:00Z"));
    assert_eq!(next("eve", "morning").await.as_deref(), Some("2026-07-02T07:30:00Z"));
    assert_eq!(next("ada", "office").await.as_deref(), Some("2026-07-01T13:00:00Z"));
    assert_eq!(next("eve", "office").await.as_deref(), Some("2026-07-02T07:00:00Z"));
}

async fn a_mail_that_has_to_wait_goes_within_its_window(bed: &Bed) {
    let world = World::new(bed).await;
    // Quiet until after the window of today is closed, and until the one of tomorrow is open.
    let quiet = Some(("11:00".parse().unwrap(), "15:00".parse().unwrap()));
    let sending = Sending { quiet, ..Sending::default() };
    settings::put(&world.cx().await, sending).await.unwrap();
    let window = "window: { from: \"10:00\", until: \"14:00\", zone: UTC }";
    world.define(&format!("id: office\n{window}\nsteps: [ {{ send: a }} ]")).await;
    world.enrol("ada@example.org", "office", json!({})).await;
    world.hours(21).await;
    assert_eq!(world.outbox(), [] as [&str; 0], "it is nine");
    world.hours(1).await;
    assert_eq!(world.outbox(), ["ada@example.org a"]);
}

async fn a_topic_that_is_off_is_skipped_and_the_walk_goes_on(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let (slug, name) = ("tips".parse().unwrap(), "tips".parse().unwrap());
    topics::create(&cx, topics::Create { slug, name, description: None }).await.unwrap();
    world
        .define("id: tips\ntopic: tips\nsteps: [ { send: a }, { wait: 1 hour }, { send: b }, { tag: { add: [done] } } ]")
        .await;
    world.enrol("ada@example.org", "tips", json!({})).await;
    world.run().await;
    let whom = Whom::Email("ada@example.org".parse().unwrap());
    let topics = vec![("tips".parse().unwrap(), false)];
    preferences::switch(&cx, Switch { whom, topics, act: act() }).await.unwrap();
    world.hours(2).await;
    assert_eq!(world.outbox(), ["ada@example.org a"]);
    let funnel = world.funnel("tips").await;
    assert_eq!((funnel.completed, funnel.active), (1, 0));
    let skipped: Vec<_> = funnel.steps.iter().map(|step| (step.passed, step.skipped)).collect();
    assert_eq!(skipped, [(1, 0), (1, 0), (1, 1), (1, 0)]);
    let reasons = "SELECT skip_reason FROM transactional_messages WHERE status = 'skipped'";
    assert_eq!(rows(&cx, reasons).await, ["topic_off"]);
}

async fn a_webhook_is_told_once(bed: &Bed) {
    let world = World::new(bed).await;
    let cx = world.cx().await;
    let event_types = [EventType::SequenceStep].into_iter().collect();
    let url = "https://127.0.0.1/hook".parse().unwrap();
    let create = endpoints::Create { url, description: None, event_types };
    endpoints::create(&cx, &Targets::new(true), create).await.unwrap();
    world
        .define(
            "
id: hooks
steps:
  - id: tell
    webhook: { event: trial.interested, data: { account: $.account.id, source: sequence } }
  - wait: 1 day
",
        )
        .await;
    world.enrol("ada@example.org", "hooks", json!({ "account": { "id": 7 } })).await;
    let id = world.inside("ada@example.org").await[0].id.clone();
    world.run().await;
    let told = rows(&cx, "SELECT body FROM queue_messages WHERE queue = 'webhook-fanout'").await;
    let told: Vec<Json> = told.iter().map(|body| serde_json::from_str(body).unwrap()).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["event_type"], "sequence.step");
    assert_eq!(
        told[0]["data"],
        json!({
            "email": "ada@example.org",
            "sequence_id": "hooks",
            "execution_id": id.as_str(),
            "step": "tell",
            "event": "trial.interested",
            "data": { "account": 7, "source": "sequence" },
        })
    );
    assert_eq!(world.inside("ada@example.org").await[0].step, "2", "it goes on");
}

async fn a_simulated_walk_knows_what_it_has_changed(bed: &Bed) {
    let world = World::new(bed).await;
    world
        .define(
            "
id: dry
steps:
  - tag: { add: [red], remove: [blue] }
  - set: { plan: $.plan, note: \"\" }
  - condition: { matches: { all: [ { tag: red }, { not: { tag: blue } }, { attribute: plan, equals: pro } ] } }
    then: [ { send: a } ]
  - condition: { subscriber_field_equals: { field: plan, value: pro } }
    then: [ { send: b } ]
  - condition: { subscriber_field_exists: note }
    else: [ { send: c } ]
  - condition: { matches: { any: [ { tag: blue }, { tag: green } ] } }
    then: [ { send: d } ]
",
        )
        .await;
    know(&world.cx().await, "ada", json!({ "plan": "free", "note": "x" }), &["blue"]).await;
    for name in ["ada", "nobody"] {
        let cmd = Simulate {
            sequence: "dry".to_owned(),
            email: format!("{name}@example.org").parse().unwrap(),
            input: json!({ "plan": "pro" }),
            at: world.cx().await.now(),
            assumed: Vec::new(),
        };
        let walked = simulate(&world.cx().await, &world.versions, &cmd).await.unwrap().walked;
        let sent = walked.iter().filter(|step| step.kind == "send");
        let sent: Vec<_> = sent.map(|step| step.told.as_str()).collect();
        assert_eq!(sent, ["a", "b", "c"], "{name}");
    }
}

#[tokio::test]
async fn whoever_is_in_many_sequences_leaves_all_of_them() {
    let bed = Bed::memory().await;
    let world = World::new(&bed).await;
    for number in 0..105 {
        world.define(&format!("id: s{number}\nsteps: [ {{ wait: 1 day }} ]")).await;
        world.enrol("ada@example.org", &format!("s{number}"), json!({})).await;
    }
    let (cx, ada) = (world.cx().await, "ada@example.org".parse().unwrap());
    assert_eq!(of_contact(&cx, &ada).await.unwrap().len(), 105);
    let all = (&Which::All, Cause::Suppressed);
    assert_eq!(stop_all(&cx, &world.versions, &ada, all, cx.now()).await.unwrap(), 105);
}
