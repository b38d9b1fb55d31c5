//! Who may come in, and what takes people out again.

use serde_json::json;
use tidings_kernel::EmailAddress;
use tidings_people::contacts;
use tidings_testbed::{Bed, each_store};

use crate::executions::{Cause, Entered, Which, enrol, list_failed, stop_all};
use crate::executions::{Enrol, Person, Refusal};
use crate::world::World;

each_store!(
    the_gate_is_that_of_every_message,
    coming_again_begins_anew,
    coming_again_can_be_ignored,
    coming_again_can_need_a_pause,
    a_cause_lets_somebody_in_once,
    what_is_told_late_does_not_end_what_began_since,
    a_stop_ends_what_it_means,
    whoever_is_erased_leaves_no_walk,
);

fn with(reentry: &str) -> String {
    format!(
        "id: welcome\nreentry: {reentry}\nsteps: [ {{ send: a }}, {{ wait: 2 days }}, {{ send: b }} ]"
    )
}

async fn the_gate_is_that_of_every_message(bed: &Bed) {
    use tidings_delivery::eligibility::Reason;
    use tidings_people::consent::subscriptions::{Unsubscribe, unsubscribe};
    use tidings_people::consent::{Act, By, Proof, Scope, Whom};
    use tidings_people::suppression::{self, Kind, Suppress, suppress};

    let world = World::new(bed).await;
    world.define("id: news\nsteps: [ { wait: 1 day } ]").await;
    world.define("id: order\ntransactional: true\nsteps: [ { wait: 1 day } ]").await;
    let cx = world.cx().await;
    for (name, kind) in
        [("bounced", Kind::Permanent), ("complained", Kind::Complaint), ("blocked", Kind::Manual)]
    {
        let email = format!("{name}@example.org").parse().unwrap();
        let reason = suppression::Reason::clipped("test");
        let at = cx.now();
        let cmd = Suppress { email, kind, reason, source: None, note: None, at };
        suppress(&cx, cmd).await.unwrap();
    }
    let act = Act {
        by: By::Person,
        source: "test".parse().unwrap(),
        reason: None,
        proof: Proof::default(),
    };
    let whom = Whom::Email("gone@example.org".parse().unwrap());
    contacts::upsert(&cx, known("gone@example.org")).await.unwrap();
    unsubscribe(&cx, Unsubscribe { whom, scope: Scope::Global, act }).await.unwrap();
    for (name, news, order) in [
        ("bounced", Some(Reason::HardBounce), Some(Reason::HardBounce)),
        ("complained", Some(Reason::Complaint), Some(Reason::Complaint)),
        ("blocked", Some(Reason::Manual), Some(Reason::Manual)),
        ("gone", Some(Reason::GlobalUnsubscribe), None),
        ("new", None, None),
    ] {
        for (sequence, refused) in [("news", news), ("order", order)] {
            let entered = world.enrol(&format!("{name}@example.org"), sequence, json!({})).await;
            match refused {
                Some(reason) => {
                    assert_eq!(entered, Entered::Refused(Refusal::Person(reason)), "{name}")
                }
                None => assert!(matches!(entered, Entered::Began(_)), "{name} {entered:?}"),
            }
        }
    }
}

fn known(email: &str) -> contacts::Upsert {
    contacts::Upsert {
        email: email.parse().unwrap(),
        first_name: None,
        attributes: contacts::Attributes::default(),
        tags: None,
    }
}

async fn coming_again_begins_anew(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(&with("restart")).await;
    world.enrol("ada@example.org", "welcome", json!({})).await;
    world.days(1).await;
    assert!(matches!(
        world.enrol("ada@example.org", "welcome", json!({})).await,
        Entered::Restarted(_)
    ));
    world.days(3).await;
    assert_eq!(world.outbox(), ["ada@example.org a", "ada@example.org a", "ada@example.org b"]);
    let funnel = world.funnel("welcome").await;
    assert_eq!((funnel.entered, funnel.active, funnel.completed, funnel.left), (2, 0, 1, 1));
}

async fn coming_again_can_be_ignored(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(&with("ignore")).await;
    world.enrol("ada@example.org", "welcome", json!({})).await;
    world.run().await;
    let id = world.inside("ada@example.org").await[0].id.clone();
    let again = world.enrol("ada@example.org", "welcome", json!({})).await;
    assert_eq!(again, Entered::AlreadyIn(id));
    world.days(3).await;
    assert_eq!(world.outbox().len(), 2);
    // Who has left may come again.
    assert!(matches!(
        world.enrol("ada@example.org", "welcome", json!({})).await,
        Entered::Began(_)
    ));
}

async fn coming_again_can_need_a_pause(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(&with("{ after: 30 days }")).await;
    world.enrol("ada@example.org", "welcome", json!({})).await;
    world.days(5).await;
    let again = world.enrol("ada@example.org", "welcome", json!({})).await;
    assert_eq!(again, Entered::TooSoon { again_at: "2026-07-31T12:00:00Z".parse().unwrap() });
    bed.advance(60 * 24 * 26).await;
    assert!(matches!(
        world.enrol("ada@example.org", "welcome", json!({})).await,
        Entered::Began(_)
    ));
}

async fn a_cause_lets_somebody_in_once(bed: &Bed) {
    let world = World::new(bed).await;
    world.define("id: short\nsteps: [ { send: a } ]").await;
    let cmd = Enrol {
        sequence: "short".to_owned(),
        email: "ada@example.org".parse().unwrap(),
        person: Person::default(),
        input: json!({}),
        cause: Some("event-1".to_owned()),
        told_at: None,
    };
    for round in 0..3 {
        let entered = enrol(&world.cx().await, &world.versions, cmd.clone()).await.unwrap();
        assert_eq!(entered == Entered::Before, round > 0);
        world.run().await;
    }
    assert_eq!(world.outbox(), ["ada@example.org a"]);
}

async fn what_is_told_late_does_not_end_what_began_since(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(&with("restart")).await;
    let told = world.cx().await.now();
    bed.advance(1).await;
    world.enrol("ada@example.org", "welcome", json!({})).await;
    let ada: EmailAddress = "ada@example.org".parse().unwrap();
    let all = (&Which::All, Cause::Suppressed);
    let cx = world.cx().await;
    assert_eq!(stop_all(&cx, &world.versions, &ada, all, told).await.unwrap(), 0);
    assert_eq!(stop_all(&cx, &world.versions, &ada, all, cx.now()).await.unwrap(), 1);

    // What let him in was told before that, and only worked on since.
    let cmd = Enrol {
        sequence: "welcome".to_owned(),
        email: ada.clone(),
        person: Person::default(),
        input: json!({}),
        cause: None,
        told_at: Some(told),
    };
    enrol(&cx, &world.versions, cmd).await.unwrap();
    assert_eq!(stop_all(&cx, &world.versions, &ada, all, told).await.unwrap(), 1);
}

async fn a_stop_ends_what_it_means(bed: &Bed) {
    let world = World::new(bed).await;
    let steps = "steps: [ { wait: 2 days }, { send: a } ]";
    world.define(&format!("id: news\n{steps}")).await;
    world.define(&format!("id: receipt\ntransactional: true\n{steps}")).await;
    let ada: EmailAddress = "ada@example.org".parse().unwrap();
    for sequence in ["news", "receipt"] {
        world.enrol("ada@example.org", sequence, json!({})).await;
    }
    world.run().await;
    let cx = world.cx().await;
    let marketing = (&Which::Marketing, Cause::Unsubscribed);
    assert_eq!(stop_all(&cx, &world.versions, &ada, marketing, cx.now()).await.unwrap(), 1);
    assert_eq!(world.inside("ada@example.org").await[0].sequence, "receipt");
    let all = (&Which::All, Cause::Suppressed);
    assert_eq!(stop_all(&cx, &world.versions, &ada, all, cx.now()).await.unwrap(), 1);
    assert_eq!(world.inside("ada@example.org").await, []);
}

async fn whoever_is_erased_leaves_no_walk(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(&with("{ after: 30 days }")).await;
    world.define("id: slow\ntimeout: 1 day\nsteps: [ { wait: 9 days } ]").await;
    for sequence in ["welcome", "slow"] {
        world.enrol("ada@example.org", sequence, json!({})).await;
    }
    world.hours(25).await;
    let failed = list_failed(&world.cx().await, "slow", None, 10).await.unwrap().failed;
    let id = world.inside("ada@example.org").await[0].id.clone();
    let ada: EmailAddress = "ada@example.org".parse().unwrap();
    contacts::erase(&world.cx().await, &ada).await.unwrap();
    for partition in [
        "SUB#ada@example.org".to_owned(),
        "EXEC#welcome".to_owned(),
        "STARTED#welcome".to_owned(),
        "STARTED#slow".to_owned(),
        "FAILED#slow".to_owned(),
        format!("EXECUTION#{}", failed[0].execution.id),
    ] {
        assert_eq!(world.keys(&partition).await, [] as [&str; 0], "{partition}");
    }
    // Which names nobody, for a worker who has it in hand.
    assert_eq!(world.keys(&format!("EXECUTION#{id}")).await, ["STOPPED"]);
    world.days(3).await;
    assert_eq!(world.outbox(), ["ada@example.org a"]);
}
