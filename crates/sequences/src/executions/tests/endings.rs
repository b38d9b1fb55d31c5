//! However somebody goes out of a sequence, he is counted once, gets nothing more, and does not come back by mistake.

use std::pin::pin;

use jiff::ToSpan as _;
use serde_json::{Value, json};
use tidings_delivery::eligibility::Reason;
use tidings_jobs::Outcome;
use tidings_kernel::{EmailAddress, TimerEngine as _, queues};
use tidings_people::consent::subscriptions::{Unsubscribe, unsubscribe};
use tidings_people::consent::{Act, By, Proof, Scope, Whom};
use tidings_people::contacts::{self, Attributes, TagChange};
use tidings_sql::{DatabaseError, Param};
use tidings_testbed::{Bed, dying_access, each_store, until_turn};

use super::crash::message;
use crate::executions::{
    Cause, Doing, Enrol, Entered, ExecutionId, Person, RetryError, Tools, Which, Worker, active,
    drop_failed, enrol, list_failed, remember_exit, retry, skip_wait, stop, stop_all, within,
};
use crate::versions::Versions;
use crate::world::World;

each_store!(
    the_funnel_is_what_counting_gives_however_people_leave,
    whoever_is_taken_out_at_his_last_step_is_counted_once,
    a_mail_that_is_given_away_while_somebody_leaves_is_taken_back,
    a_mail_that_a_dead_worker_gave_away_while_somebody_left_is_taken_back,
    a_message_that_comes_again_after_the_end_takes_nothing_back,
    a_walk_that_no_worker_comes_to_an_end_with_has_failed,
    a_walk_whose_definition_cannot_be_read_has_failed_with_its_last_try,
    a_message_that_comes_before_its_time_is_not_lost,
    a_cause_that_is_told_again_changes_nothing,
    whoever_may_not_come_in_is_not_retried,
    whoever_is_cut_off_repeats_one_step_at_most,
);

fn email(name: &str) -> EmailAddress {
    format!("{name}@example.org").parse().unwrap()
}

async fn id_of(world: &World<'_>, name: &str) -> ExecutionId {
    world.inside(email(name).as_str()).await[0].id.clone()
}

async fn leave_everything(world: &World<'_>, name: &str) {
    let act = Act {
        by: By::Person,
        source: "test".parse().unwrap(),
        reason: None,
        proof: Proof::default(),
    };
    let cmd = Unsubscribe { whom: Whom::Email(email(name)), scope: Scope::Global, act };
    unsubscribe(&world.cx().await, cmd).await.unwrap();
}

/// Whoever is counted as waiting somewhere is there, nobody is counted twice, and nobody is lost.
async fn check_funnel(world: &World<'_>, sequence: &str, when: &str) {
    let cx = world.cx().await;
    let funnel = world.funnel(sequence).await;
    let inside = within(&cx, sequence, None, 100).await.unwrap().inside;
    let walks: Vec<_> = inside.into_iter().filter_map(|one| one.execution).collect();
    let counted = i64::try_from(active(&cx, sequence).await.unwrap()).unwrap();
    assert_eq!((funnel.active, walks.len() as i64), (counted, counted), "{when}");
    for step in &funnel.steps {
        let there = walks.iter().filter(|walk| walk.step == step.step).count() as i64;
        assert_eq!(step.waiting, there, "{} {when}", step.step);
        assert!(step.skipped <= step.passed, "{} {when}", step.step);
    }
    let failed = list_failed(&cx, sequence, None, 100).await.unwrap().failed.len() as i64;
    assert!(funnel.failed >= failed, "{when}");
}

const ENDS: &str = "
id: ends
timeout: 10 days
steps:
  - id: first
    wait: 1 hour
  - id: how
    choice: $.how
    branches:
      - { value: exit, steps: [ { exit: enough } ] }
      - { value: fail, steps: [ { send: needy } ] }
      - { value: long, steps: [ { wait: 30 days } ] }
    default: []
  - id: last
    wait_for: paid
    timeout: 5 days
    then: []
";

async fn the_funnel_is_what_counting_gives_however_people_leave(bed: &Bed) {
    let world = World::new(bed).await;
    super::stories::require(&world, "needy", &["order"]).await;
    world.define(ENDS).await;
    for (name, how) in [
        ("ends", "end"),
        ("exits", "exit"),
        ("fails", "fail"),
        ("drops", "fail"),
        ("forgets", "fail"),
        ("retries", "fail"),
        ("is-late", "long"),
        ("is-stopped", "end"),
        ("restarts", "end"),
        ("is-erased", "end"),
        ("is-erased-at-the-end", "end"),
        ("is-suppressed", "end"),
    ] {
        world.enrol(email(name).as_str(), "ends", json!({ "how": how })).await;
    }
    check_funnel(&world, "ends", "when they have come in").await;
    world.run().await;
    world.hours(5).await;
    check_funnel(&world, "ends", "after some hours").await;
    let (cx, versions) = (world.cx().await, &world.versions);

    assert!(stop(&cx, versions, &email("is-stopped"), "ends").await.unwrap());
    let all = (&Which::All, Cause::Suppressed);
    stop_all(&cx, versions, &email("is-suppressed"), all, cx.now()).await.unwrap();
    let again = world.enrol("restarts@example.org", "ends", json!({ "how": "exit" })).await;
    assert!(matches!(again, Entered::Restarted(_)));
    contacts::erase(&cx, &email("is-erased")).await.unwrap();
    let id = id_of(&world, "is-erased-at-the-end").await;
    skip_wait(&cx, versions, &id).await.unwrap();
    contacts::erase(&cx, &email("is-erased-at-the-end")).await.unwrap();
    check_funnel(&world, "ends", "after some were taken out").await;

    let failed = list_failed(&cx, "ends", None, 10).await.unwrap().failed;
    assert_eq!(failed.len(), 4);
    let of = |name: &str| {
        let one = failed.iter().find(|one| one.execution.email == email(name)).unwrap();
        one.execution.id.clone()
    };
    drop_failed(&cx, "ends", &of("drops")).await.unwrap();
    contacts::erase(&cx, &email("forgets")).await.unwrap();
    retry(&cx, versions, "ends", &of("retries")).await.unwrap();
    check_funnel(&world, "ends", "after what failed was seen to").await;

    world.days(11).await;
    check_funnel(&world, "ends", "at last").await;
    let funnel = world.funnel("ends").await;
    assert_eq!((funnel.entered, funnel.active, funnel.completed), (13, 0, 1));
    // Who failed, was dropped, was erased since, failed again, or was late.
    assert_eq!((funnel.failed, funnel.left), (5, 7));
    let sums = |of: fn(&crate::executions::StepNumbers) -> i64| funnel.steps.iter().map(of).sum();
    assert_eq!(
        (sums(|step| step.failed), sums(|step| step.left)),
        (5, 4),
        "one was at the end, and two exited"
    );
}

async fn whoever_is_taken_out_at_his_last_step_is_counted_once(bed: &Bed) {
    let world = World::new(bed).await;
    world.define("id: last\nsteps: [ { wait: 2 days } ]").await;
    world.enrol("ada@example.org", "last", json!({})).await;
    world.run().await;
    skip_wait(&world.cx().await, &world.versions, &id_of(&world, "ada").await).await.unwrap();
    // Nobody has looked at it yet.
    assert!(stop(&world.cx().await, &world.versions, &email("ada"), "last").await.unwrap());
    world.run().await;
    let funnel = world.funnel("last").await;
    assert_eq!((funnel.entered, funnel.active, funnel.completed, funnel.left), (1, 0, 0, 1));
    check_funnel(&world, "last", "at the end").await;
}

async fn mails(world: &World<'_>) -> Vec<String> {
    let read = world.cx().await.database().clone();
    let read = read.read(|tx| {
        let sql = "SELECT status FROM transactional_messages ORDER BY id";
        let rows = tx.query(sql, &[])?;
        rows.iter().map(|row| row.text(0).map(str::to_owned)).collect::<Result<Vec<_>, _>>()
    });
    let found: Result<Vec<String>, DatabaseError> = read.await;
    found.unwrap()
}

/// Somebody leaves when a worker that has his first step in its hands has taken some turns, and what he leaves is taken back.
/// Then the worker goes on, or takes some more turns and dies, and another comes.
async fn leave_meanwhile(world: &World<'_>, name: &str, turns: usize, dies_after: Option<usize>) {
    world.enrol(email(name).as_str(), "welcome", json!({})).await;
    let (handler, delivery) = (world.steps(), message(&id_of(world, name).await, 1));
    {
        let mut held = pin!(handler.handle(&delivery));
        let done = until_turn(held.as_mut(), turns).await;
        stop(&world.cx().await, &world.versions, &email(name), "welcome").await.unwrap();
        world.bed.work(&queues::SEQUENCE_STEPS, world.steps()).await;
        match (done, dies_after) {
            (Some(_), _) => {}
            (None, None) => assert_eq!(held.await, Outcome::Done),
            (None, Some(more)) => drop(until_turn(held, more).await),
        }
    }
    world.bed.settle().await;
    assert_eq!(world.steps().handle(&delivery).await, Outcome::Done);
    assert!(mails(world).await.iter().all(|status| status == "cancelled"), "{name}");
}

const WELCOME: &str = "id: welcome\nsteps: [ { send: a }, { wait: 2 days }, { send: b } ]";

async fn nobody_got_anything(world: &World<'_>) {
    assert!(!mails(world).await.is_empty(), "some of them were to get a mail");
    world.days(3).await;
    assert_eq!(world.outbox(), [] as [&str; 0]);
    check_funnel(world, "welcome", "in the end").await;
}

async fn a_mail_that_is_given_away_while_somebody_leaves_is_taken_back(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(WELCOME).await;
    for turns in 0..16 {
        leave_meanwhile(&world, &format!("p{turns}"), turns, None).await;
    }
    nobody_got_anything(&world).await;
}

async fn a_mail_that_a_dead_worker_gave_away_while_somebody_left_is_taken_back(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(WELCOME).await;
    for turns in [2, 4, 6] {
        for more in 0..10 {
            leave_meanwhile(&world, &format!("p{turns}-{more}"), turns, Some(more)).await;
        }
    }
    nobody_got_anything(&world).await;
}

async fn a_message_that_comes_again_after_the_end_takes_nothing_back(bed: &Bed) {
    let world = World::new(bed).await;
    world.define("id: short\nsteps: [ { send: a } ]").await;
    world.enrol("ada@example.org", "short", json!({})).await;
    let delivery = message(&id_of(&world, "ada").await, 1);
    for _ in 0..2 {
        assert_eq!(world.steps().handle(&delivery).await, Outcome::Done);
    }
    assert_eq!(world.inside("ada@example.org").await, []);
    world.run().await;
    assert_eq!(world.outbox(), ["ada@example.org a"]);
}

async fn a_walk_that_no_worker_comes_to_an_end_with_has_failed(bed: &Bed) {
    let world = World::new(bed).await;
    world.define("id: short\nsteps: [ { send: a }, { wait: 2 days } ]").await;
    world.enrol("ada@example.org", "short", json!({})).await;
    let id = id_of(&world, "ada").await;
    let last = queues::SEQUENCE_STEPS.max_receives;
    assert_eq!(world.steps().handle(&message(&id, last)).await, Outcome::Done);
    assert_eq!(world.inside("ada@example.org").await, []);
    let cx = world.cx().await;
    let failed = list_failed(&cx, "short", None, 10).await.unwrap().failed;
    assert_eq!(failed[0].reason, "whoever took it further came to no end, again and again");
    retry(&cx, &world.versions, "short", &id).await.unwrap();
    world.run().await;
    assert_eq!(world.outbox(), ["ada@example.org a"]);
    // One that waits is woken by something else.
    assert_eq!(world.steps().handle(&message(&id, last)).await, Outcome::Done);
    assert!(matches!(world.inside("ada@example.org").await[0].doing, Doing::Waiting { .. }));
}

async fn a_walk_whose_definition_cannot_be_read_has_failed_with_its_last_try(bed: &Bed) {
    let world = World::new(bed).await;
    world.define("id: short\nsteps: [ { send: a } ]").await;
    world.enrol("ada@example.org", "short", json!({})).await;
    let id = id_of(&world, "ada").await;
    let damage = world.cx().await.database().clone();
    let damage = damage.write(|tx| {
        tx.execute("UPDATE sequence_versions SET definition = $1", &[Param::Text("{}")])
    });
    let damaged: Result<_, DatabaseError> = damage.await;
    damaged.unwrap();
    // One that has not read it before.
    let tools = Tools { versions: Versions::default(), ..world.tools.clone() };
    let worker = Worker::new(tools).handler();
    let last = queues::SEQUENCE_STEPS.max_receives;
    let tried = worker.handle(&message(&id, last - 2)).await;
    assert!(matches!(tried, Outcome::Retry { .. }), "{tried:?}");
    assert_eq!(worker.handle(&message(&id, last - 1)).await, Outcome::Done);
    let failed = list_failed(&world.cx().await, "short", None, 10).await.unwrap().failed;
    assert!(failed[0].reason.contains("other JSON"), "{}", failed[0].reason);
}

async fn a_message_that_comes_before_its_time_is_not_lost(bed: &Bed) {
    let world = World::new(bed).await;
    world.define("id: welcome\nsteps: [ { wait: 2 days }, { send: a } ]").await;
    for (name, behind) in [("ada", 10.minutes()), ("eve", 10.hours())] {
        world.enrol(email(name).as_str(), "welcome", json!({})).await;
        world.run().await;
        // A node whose clock is ahead sets the timer off.
        bed.clock.advance(48.hours());
        assert_eq!(bed.queues.fire(100).await.unwrap().count, 1);
        bed.clock.advance(-behind);
        world.run().await;
        assert_eq!(world.inside(email(name).as_str()).await.len(), 1, "{name} waits");
        bed.clock.advance(behind);
        bed.advance(1).await;
        world.run().await;
        assert_eq!(world.outbox().last(), Some(&format!("{name}@example.org a")));
    }
}

async fn a_cause_that_is_told_again_changes_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    world.define("id: welcome\nsteps: [ { wait: 2 days }, { send: a } ]").await;
    let attributes = |plan: &str| {
        let Value::Object(fields) = json!({ "plan": plan }) else { unreachable!() };
        Attributes::parse(fields).unwrap()
    };
    let cmd = Enrol {
        sequence: "welcome".to_owned(),
        email: email("ada"),
        person: Person { attributes: attributes("free"), ..Person::default() },
        input: json!({}),
        cause: Some("order-1".to_owned()),
        told_at: None,
    };
    let entered = enrol(&world.cx().await, &world.versions, cmd.clone()).await.unwrap();
    assert!(matches!(entered, Entered::Began(_)));
    // Since then he has paid, and has had enough of mails.
    let paid = contacts::Edit { attributes: attributes("pro"), ..contacts::Edit::default() };
    let paid = contacts::Update { email: email("ada"), edit: paid };
    contacts::update(&world.cx().await, paid).await.unwrap();
    leave_everything(&world, "ada").await;
    let again = enrol(&world.cx().await, &world.versions, cmd).await.unwrap();
    assert_eq!(again, Entered::Before);
    let found = contacts::get(&world.cx().await, &email("ada")).await.unwrap().unwrap();
    assert_eq!(found.contact.attributes["plan"], "pro".into());
}

async fn whoever_may_not_come_in_is_not_retried(bed: &Bed) {
    let world = World::new(bed).await;
    let steps = "timeout: 1 day\nsteps: [ { wait: 9 days }, { send: a } ]";
    world.define(&format!("id: news\n{steps}")).await;
    world.define(&format!("id: order\ntransactional: true\n{steps}")).await;
    for (name, sequence) in [("ada", "news"), ("eve", "news"), ("ada", "order"), ("kim", "news")] {
        world.enrol(email(name).as_str(), sequence, json!({})).await;
    }
    world.hours(25).await;
    let (cx, versions) = (world.cx().await, &world.versions);
    let failed = list_failed(&cx, "news", None, 10).await.unwrap().failed;
    let of = |name: &str| {
        let one = failed.iter().find(|one| one.execution.email == email(name)).unwrap();
        one.execution.id.clone()
    };
    leave_everything(&world, "ada").await;
    remember_exit(&cx, &email("eve"), "news", cx.now()).await.unwrap();
    // Long after every exit that nothing had failed for is forgotten.
    bed.advance(60 * 24 * 100).await;
    let cx = world.cx().await;
    let refused = retry(&cx, versions, "news", &of("ada")).await.unwrap_err();
    assert!(matches!(refused, RetryError::Refused(Reason::GlobalUnsubscribe)), "{refused:?}");
    let refused = retry(&cx, versions, "news", &of("eve")).await.unwrap_err();
    assert!(matches!(refused, RetryError::Left), "{refused:?}");
    retry(&cx, versions, "news", &of("kim")).await.unwrap();
    let order = list_failed(&cx, "order", None, 10).await.unwrap().failed[0].execution.id.clone();
    retry(&cx, versions, "order", &order).await.unwrap();
    assert_eq!(list_failed(&cx, "news", None, 10).await.unwrap().failed.len(), 2, "they stay");
}

async fn whoever_is_cut_off_repeats_one_step_at_most(bed: &Bed) {
    let world = World::new(bed).await;
    world
        .define(
            "
id: tags
steps:
  - tag: { add: [red] }
  - set: { plan: pro }
  - tag: { add: [blue] }
  - wait: 1 hour
",
        )
        .await;
    let has = async |name: &str, tag: &str| {
        let found = contacts::get(&world.cx().await, &email(name)).await.unwrap();
        found.is_some_and(|found| found.contact.tags.contains(tag))
    };
    let mut met = 0;
    for (place, after) in (0..16).flat_map(|place| [(place, false), (place, true)]) {
        let name = format!("p{place}-{after}");
        world.enrol(email(&name).as_str(), "tags", json!({})).await;
        let access = dying_access(bed, &world.cx().await, place, after);
        let dies = Worker::new(Tools { access, ..world.tools.clone() }).handler();
        dies.handle(&message(&id_of(&world, &name).await, 1)).await;
        // What was done two steps ago is somebody else's to change by now.
        let was_undone = has(&name, "blue").await;
        if was_undone {
            met += 1;
            let none = TagChange::Remove(["red".parse().unwrap()].into());
            contacts::tag(&world.cx().await, email(&name), none).await.unwrap();
        }
        world.run().await;
        assert_eq!(has(&name, "red").await, !was_undone, "{name}");
        assert!(has(&name, "blue").await, "{name}");
    }
    assert!((1..32).contains(&met), "some died before and some behind the last tag: {met}");
}
