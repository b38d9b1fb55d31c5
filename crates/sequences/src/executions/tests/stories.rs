//! What somebody who is in a sequence gets, and when.

use serde_json::json;
use tidings_kernel::tables;
use tidings_people::contacts;
use tidings_sql::Param;
use tidings_testbed::{Bed, each_store};

use crate::executions::{Doing, Entered, keys, list_failed, retry, skip_wait, stop, within};
use crate::world::World;

each_store!(
    mails_go_out_one_after_the_other,
    the_rows_are_those_of_the_seed_and_go_together,
    a_choice_is_made_by_the_data_of_the_event,
    conditions_ask_what_is_known_now,
    variants_stay_with_a_person,
    what_was_wrong_is_tried_again_and_then_kept_as_failed,
    a_walk_that_takes_too_long_fails_and_leaves_no_row,
    whoever_is_taken_out_gets_nothing_more,
    a_running_walk_stays_with_its_version,
    a_mail_waits_for_its_window,
    a_wait_can_be_skipped,
    a_message_goes_into_the_inbox_of_whoever_has_one,
    an_inbox_message_that_cannot_be_is_tried_again_and_then_failed,
    a_click_of_a_person_ends_the_wait_for_it,
    months_pass,
);

const WELCOME: &str = "
id: welcome
steps:
  - send: a
  - wait: 2 days
  - send: b
";

async fn mails_go_out_one_after_the_other(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(WELCOME).await;
    assert!(matches!(
        world.enrol("ada@example.org", "welcome", json!({})).await,
        Entered::Began(_)
    ));
    world.run().await;
    assert_eq!(world.outbox(), ["ada@example.org a"]);
    world.hours(47).await;
    assert_eq!(world.outbox().len(), 1);
    world.hours(2).await;
    assert_eq!(world.outbox(), ["ada@example.org a", "ada@example.org b"]);
    assert_eq!(world.inside("ada@example.org").await, []);
    let funnel = world.funnel("welcome").await;
    assert_eq!((funnel.entered, funnel.active, funnel.completed), (1, 0, 1));
    for step in &funnel.steps {
        assert_eq!((step.entered, step.passed, step.waiting), (1, 1, 0), "{}", step.step);
    }
}

async fn the_rows_are_those_of_the_seed_and_go_together(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(WELCOME).await;
    world.enrol("ada@example.org", "welcome", json!({})).await;
    world.run().await;
    let inside = world.inside("ada@example.org").await;
    let execution = &inside[0];
    let items = world.cx().await.items().await.unwrap();
    let email = "ada@example.org".parse().unwrap();
    let row = items.get(&tables::MAIN, &keys::of_subscriber(&email, "welcome")).await.unwrap();
    let row = row.unwrap();
    assert_eq!(row.text("PK"), Some("SUB#ada@example.org"));
    assert_eq!(row.text("SK"), Some("EXEC#welcome"));
    assert_eq!(row.text("sequenceId"), Some("welcome"));
    assert_eq!(row.text("executionArn"), Some(execution.arn().as_str()));
    assert_eq!(row.text("startedAt"), Some("2026-07-01T12:00:00.000Z"));
    assert_eq!(row.get("transactional"), Some(&false.into()));
    let partner = items.get(&tables::MAIN, &keys::of_sequence(&email, "welcome")).await.unwrap();
    let partner = partner.unwrap();
    assert_eq!(partner.text("PK"), Some("EXEC#welcome"));
    assert_eq!(partner.text("SK"), Some("SUB#ada@example.org"));
    assert_eq!(partner.text("email"), Some("ada@example.org"));
    assert_eq!(partner.text("executionArn"), row.text("executionArn"));
    assert_eq!(partner.text("startedAt"), row.text("startedAt"));
    assert_eq!(partner.get("transactional"), row.get("transactional"));
    world.define("id: order\ntransactional: true\nsteps: [ { wait: 1 day } ]").await;
    world.enrol("ada@example.org", "order", json!({})).await;
    for key in [keys::of_subscriber(&email, "order"), keys::of_sequence(&email, "order")] {
        let row = items.get(&tables::MAIN, &key).await.unwrap().unwrap();
        assert_eq!(row.get("transactional"), Some(&true.into()), "{key}");
    }
    world.days(3).await;
    for partition in ["EXEC#welcome", "STARTED#welcome"] {
        assert_eq!(world.keys(partition).await, [] as [&str; 0], "{partition}");
    }
    assert_eq!(world.keys(&format!("EXECUTION#{}", execution.id)).await, [] as [&str; 0]);
    let left = world.keys("SUB#ada@example.org").await;
    assert!(left.iter().all(|key| !key.starts_with("EXEC#")), "{left:?}");
}

async fn a_choice_is_made_by_the_data_of_the_event(bed: &Bed) {
    let world = World::new(bed).await;
    world
        .define(
            "
id: plans
steps:
  - choice: $.plan
    branches:
      - { value: pro, steps: [ { send: a } ] }
      - { value: free, steps: [] }
    default: [ { send: b } ]
  - send: c
",
        )
        .await;
    for (email, data) in [
        ("pro@example.org", json!({ "plan": "pro" })),
        ("free@example.org", json!({ "plan": "free" })),
        ("none@example.org", json!({})),
    ] {
        world.enrol(email, "plans", data).await;
        world.run().await;
    }
    assert_eq!(
        world.outbox(),
        [
            "pro@example.org a",
            "pro@example.org c",
            "free@example.org c",
            "none@example.org b",
            "none@example.org c",
        ]
    );
}

async fn conditions_ask_what_is_known_now(bed: &Bed) {
    let world = World::new(bed).await;
    world
        .define(
            "
id: checks
steps:
  - send: a
  - condition: { has_been_sent: a }
    then: [ { tag: { add: [welcomed] } } ]
    else: [ { send: d } ]
  - condition: { has_been_sent: d }
    then: [ { exit: never } ]
  - set: { plan: $.plan, source: web }
  - condition: { subscriber_field_equals: { field: plan, value: pro } }
    then: [ { send: b } ]
  - condition: { matches: { tag: welcomed } }
    then: [ { send: c } ]
",
        )
        .await;
    world.enrol("ada@example.org", "checks", json!({ "plan": "pro" })).await;
    // The mail is on its way when it is asked about, and the walk waits for it.
    world.run().await;
    assert_eq!(world.outbox(), ["ada@example.org a"]);
    world.hours(1).await;
    let mut sent = world.outbox();
    sent.sort();
    assert_eq!(sent, ["ada@example.org a", "ada@example.org b", "ada@example.org c"]);
    let found = contacts::get(&world.cx().await, &"ada@example.org".parse().unwrap()).await;
    let contact = found.unwrap().unwrap().contact;
    assert!(contact.tags.contains("welcomed"));
    assert_eq!(contact.attributes["source"], "web".into());
}

async fn variants_stay_with_a_person(bed: &Bed) {
    let world = World::new(bed).await;
    world
        .define(
            "
id: tried
steps:
  - send: { variants: [ { template: a }, { template: b } ] }
  - send: { variants: [ { template: c }, { template: d } ] }
",
        )
        .await;
    for number in 0..12 {
        world.enrol(&format!("p{number}@example.org"), "tried", json!({})).await;
    }
    world.run().await;
    let sent = world.outbox();
    for number in 0..12 {
        let of = |subject: &str| sent.contains(&format!("p{number}@example.org {subject}"));
        assert_eq!((of("a"), of("b")), (of("c"), of("d")));
        assert_ne!(of("a"), of("b"));
    }
    assert!(sent.iter().any(|line| line.ends_with(" a")));
    assert!(sent.iter().any(|line| line.ends_with(" b")));
}

async fn what_was_wrong_is_tried_again_and_then_kept_as_failed(bed: &Bed) {
    let world = World::new(bed).await;
    require(&world, "needy", &["order"]).await;
    world.define("id: needy\nsteps: [ { send: needy }, { send: a } ]").await;
    let cx = world.cx().await;
    world.enrol("ada@example.org", "needy", json!({})).await;
    world.run().await;
    let waiting = world.inside("ada@example.org").await;
    assert_eq!(waiting[0].tries, 1);
    assert!(matches!(waiting[0].doing, Doing::Waiting { .. }));
    // Three times, and each later than the one before.
    world.hours(3).await;
    assert_eq!(world.inside("ada@example.org").await, []);
    let failed = list_failed(&cx, "needy", None, 10).await.unwrap().failed;
    assert_eq!(failed.len(), 1);
    assert!(failed[0].reason.contains("order"), "{}", failed[0].reason);
    let funnel = world.funnel("needy").await;
    assert_eq!((funnel.entered, funnel.active, funnel.failed), (1, 0, 1));
    assert_eq!(world.outbox(), [] as [&str; 0]);

    require(&world, "needy", &[]).await;
    let id = failed[0].execution.id.clone();
    retry(&world.cx().await, &world.versions, "needy", &id).await.unwrap();
    world.run().await;
    assert_eq!(world.outbox().len(), 2);
    let funnel = world.funnel("needy").await;
    assert_eq!((funnel.entered, funnel.completed, funnel.failed), (1, 1, 0));
    assert_eq!(list_failed(&cx, "needy", None, 10).await.unwrap().failed, []);
    assert!(retry(&world.cx().await, &world.versions, "needy", &id).await.is_err());
}

pub(super) async fn require(world: &World<'_>, key: &str, names: &[&str]) {
    use tidings_delivery::templates::{self, Content, Put, Then};

    let mut content = Content::default();
    content.source.subject = format!("{key} {}", names.len());
    content.source.html = Some("<p>Hello</p>".to_owned());
    content.required = names.iter().map(ToString::to_string).collect();
    let put = Put { key: key.parse().unwrap(), content, then: Then::Activate };
    templates::put(&world.cx().await, put).await.unwrap();
}

async fn a_walk_that_takes_too_long_fails_and_leaves_no_row(bed: &Bed) {
    let world = World::new(bed).await;
    world.define("id: slow\ntimeout: 3 days\nsteps: [ { wait: 10 days }, { send: a } ]").await;
    world.enrol("ada@example.org", "slow", json!({})).await;
    world.days(4).await;
    assert_eq!(world.inside("ada@example.org").await, []);
    assert_eq!(world.keys("EXEC#slow").await, [] as [&str; 0]);
    let failed = list_failed(&world.cx().await, "slow", None, 10).await.unwrap().failed;
    assert_eq!(failed[0].reason, "timed_out");
    assert_eq!(failed[0].failed_at.to_string(), "2026-07-04T12:00:00Z");
    world.days(10).await;
    assert_eq!(world.outbox(), [] as [&str; 0]);
}

async fn whoever_is_taken_out_gets_nothing_more(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(WELCOME).await;
    let ada = "ada@example.org".parse().unwrap();
    world.enrol("ada@example.org", "welcome", json!({})).await;
    // Its first mail is written down, and not sent.
    world.bed.work(&tidings_kernel::queues::SEQUENCE_STEPS, world.steps()).await;
    assert!(stop(&world.cx().await, &world.versions, &ada, "welcome").await.unwrap());
    assert!(!stop(&world.cx().await, &world.versions, &ada, "welcome").await.unwrap());
    world.bed.work(&tidings_kernel::queues::SEQUENCE_STEPS, world.steps()).await;
    world.days(3).await;
    assert_eq!(world.outbox(), [] as [&str; 0]);
    let funnel = world.funnel("welcome").await;
    assert_eq!((funnel.entered, funnel.active, funnel.left), (1, 0, 1));
    assert_eq!((funnel.steps[1].entered, funnel.steps[1].left), (1, 1));
}

async fn a_running_walk_stays_with_its_version(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(WELCOME).await;
    world.enrol("ada@example.org", "welcome", json!({})).await;
    world.run().await;
    world.define("id: welcome\nsteps: [ { send: c } ]").await;
    world.enrol("eve@example.org", "welcome", json!({})).await;
    world.days(3).await;
    assert_eq!(world.outbox(), ["ada@example.org a", "eve@example.org c", "ada@example.org b"]);
}

async fn a_mail_waits_for_its_window(bed: &Bed) {
    let world = World::new(bed).await;
    let window = "window: { from: \"09:00\", until: \"11:00\", zone: UTC }";
    world.define(&format!("id: office\n{window}\nsteps: [ {{ send: a }} ]")).await;
    // It is noon.
    world.enrol("ada@example.org", "office", json!({})).await;
    world.hours(20).await;
    assert_eq!(world.outbox(), [] as [&str; 0]);
    world.hours(1).await;
    assert_eq!(world.outbox(), ["ada@example.org a"]);
}

async fn a_wait_can_be_skipped(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(WELCOME).await;
    world.enrol("ada@example.org", "welcome", json!({})).await;
    let id = world.inside("ada@example.org").await[0].id.clone();
    assert!(skip_wait(&world.cx().await, &world.versions, &id).await.is_err());
    world.run().await;
    skip_wait(&world.cx().await, &world.versions, &id).await.unwrap();
    world.run().await;
    assert_eq!(world.outbox(), ["ada@example.org a", "ada@example.org b"]);
    world.days(3).await;
    assert_eq!(world.outbox().len(), 2);
    assert_eq!(world.funnel("welcome").await.completed, 1);
}

async fn months_pass(bed: &Bed) {
    let world = World::new(bed).await;
    world.define("id: long\nsteps: [ { send: a }, { wait: 180 days }, { send: b } ]").await;
    world.enrol("ada@example.org", "long", json!({})).await;
    world.run().await;
    bed.advance(60 * 24 * 179).await;
    world.run().await;
    assert_eq!(world.outbox(), ["ada@example.org a"]);
    let page = within(&world.cx().await, "long", None, 10).await.unwrap();
    assert_eq!(page.inside[0].email.as_str(), "ada@example.org");
    bed.advance(60 * 24 * 2).await;
    world.run().await;
    assert_eq!(world.outbox(), ["ada@example.org a", "ada@example.org b"]);
}

async fn a_click_of_a_person_ends_the_wait_for_it(bed: &Bed) {
    let world = World::new(bed).await;
    world
        .define(
            "
id: click
steps:
  - send: a
  - wait_for: email.clicked
    filter: [ { path: $.templateKey, equals: a } ]
    timeout: 2 days
    then: [ { send: b } ]
    else: [ { send: c } ]
",
        )
        .await;
    for email in ["ada@example.org", "bot@example.org", "eve@example.org"] {
        world.enrol(email, "click", json!({})).await;
    }
    world.run().await;
    bed.advance(60).await;
    for (email, human) in [("ada@example.org", true), ("bot@example.org", false)] {
        click(&world, email, human).await;
        click(&world, email, human).await;
    }
    world.run().await;
    assert_eq!(world.outbox()[3..], ["ada@example.org b"]);
    world.days(3).await;
    let mut late = world.outbox()[4..].to_vec();
    late.sort();
    assert_eq!(late, ["bot@example.org c", "eve@example.org c"]);
}

/// In the first mail that somebody got.
async fn click(world: &World<'_>, email: &str, human: bool) {
    use tidings_delivery::links::Source;
    use tidings_signals::events::{Event, EventKind, record};
    use tidings_sql::{DatabaseError, Param};

    let cx = world.cx().await;
    let address = email.to_owned();
    let find = cx.database().read(move |tx| {
        let sql = "SELECT MIN(id) FROM transactional_messages WHERE email = $1";
        tx.query(sql, &[Param::Text(&address)])?[0].int(0)
    });
    let message: Result<i64, DatabaseError> = find.await;
    let id = format!("click-{email}");
    let mut event = Event::new(id, EventKind::Click, email.parse().unwrap(), cx.now());
    event.source = Some(Source::Transactional(message.unwrap()));
    event.verdict = Some(json!({ "human": human }));
    record(&cx, event).await.unwrap();
}

/// The titles of what a user finds in the inbox `app`.
async fn found(world: &World<'_>, uid: &str) -> Vec<(String, serde_json::Value)> {
    use tidings_inbox::read::{Listing, list};
    let reader = tidings_inbox::Reader {
        inbox: "app".parse().unwrap(),
        uid: uid.parse().unwrap(),
        let_in: None,
    };
    let listing = Listing { limit: 100, ..Listing::default() };
    let page = list(&world.cx().await, &world.tools.inbox, &reader, listing).await.unwrap();
    let content = |shown: &tidings_inbox::read::Shown| shown.message.content.clone().unwrap();
    page.messages.iter().map(content).map(|content| (content.title, content.body)).collect()
}

const IN_APP: &str = "
id: inapp
steps:
  - id: note
    inbox: { inbox: app, title: $.title, body: { plan: $.plan, text: Welcome }, category: tips, cta_uri: /start, expires_in: 7d }
  - send: a
";

async fn a_message_goes_into_the_inbox_of_whoever_has_one(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(IN_APP).await;
    let input = json!({"title": "Hello", "plan": "pro"});
    for email in ["ada@example.org", "bob@example.org"] {
        world.enrol(email, "inapp", input.clone()).await;
    }
    let cx = world.cx().await;
    let ada = "ada@example.org".parse().unwrap();
    contacts::learn_user_id(&cx, &ada, "u-1", cx.now()).await.unwrap();
    // Not every id can be that of an inbox. Who was two contacts once can have several.
    let later = cx.now() + jiff::SignedDuration::from_secs(1);
    let add = cx.database().write(move |tx| {
        let sql = "INSERT INTO channel_identities
                       (workspace_id, lead_id, channel, value, typed_value, created_at, updated_at)
                   SELECT workspace_id, lead_id, channel, 'u#2', 'u#2', $1, $1
                   FROM channel_identities WHERE channel = 'user_id'";
        tx.execute(sql, &[Param::from(later)])
    });
    assert_eq!(add.await.unwrap(), 1);
    world.run().await;
    let wanted = ("Hello".to_owned(), json!({"plan": "pro", "text": "Welcome"}));
    assert_eq!(found(&world, "u-1").await, [wanted]);
    assert_eq!(world.outbox().len(), 2, "both go on");
    let funnel = world.funnel("inapp").await;
    let note = funnel.steps.iter().find(|step| step.step == "note").unwrap();
    assert_eq!((note.entered, note.passed, note.skipped), (2, 2, 1));
    assert_eq!(funnel.completed, 2);
}

async fn an_inbox_message_that_cannot_be_is_tried_again_and_then_failed(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(IN_APP).await;
    world.enrol("ada@example.org", "inapp", json!({"plan": "pro"})).await;
    let cx = world.cx().await;
    let ada = "ada@example.org".parse().unwrap();
    contacts::learn_user_id(&cx, &ada, "u-1", cx.now()).await.unwrap();
    world.hours(6).await;
    assert_eq!(found(&world, "u-1").await, []);
    let failed = list_failed(&cx, "inapp", None, 10).await.unwrap();
    assert_eq!(failed.failed.len(), 1, "the event had no title");
}
