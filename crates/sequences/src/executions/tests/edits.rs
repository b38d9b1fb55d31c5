//! What a step changes of a person, it changes once: what somebody else changes after it stays.

use serde_json::{Value, json};
use tidings_kernel::queues;
use tidings_people::contacts::{self, Attributes, Contact, Edit, TagChange, Update};
use tidings_testbed::{Bed, dying_access, each_store, until_turn};

use super::crash::message;
use crate::executions::{Tools, Worker};
use crate::world::World;

each_store!(
    wherever_a_worker_ends_what_somebody_changed_since_stays,
    two_nodes_change_a_person_once,
    a_step_that_makes_a_person_too_large_fails_and_changes_nothing,
);

const EDITS: &str = "
id: edits
steps:
  - set: { plan: pro }
  - tag: { add: [vip], remove: [new] }
  - wait: 1 day
";

async fn edit(
    world: &World<'_>,
    email: &str,
    plan: Option<&str>,
    tags: Option<TagChange>,
) -> Contact {
    let Value::Object(set) = plan.map_or(json!({}), |plan| json!({ "plan": plan })) else {
        unreachable!()
    };
    let attributes = Attributes::parse(set).unwrap();
    let update = Update {
        email: email.parse().unwrap(),
        edit: Edit { attributes, tags, ..Edit::default() },
    };
    contacts::update(&world.cx().await, update).await.unwrap()
}

/// His plan, and his tags.
async fn look(world: &World<'_>, email: &str) -> (String, Vec<String>) {
    let contact = edit(world, email, None, None).await;
    let plan = contact.attributes.get("plan").map_or("none".to_owned(), |plan| match plan {
        tidings_kernel::Value::S(plan) => plan.clone(),
        other => format!("{other:?}"),
    });
    (plan, contact.tags.into_iter().collect())
}

fn tags(names: &[&str]) -> TagChange {
    TagChange::Replace(names.iter().map(|name| name.parse().unwrap()).collect())
}

/// How the first worker ends.
enum Cut {
    /// When it has waited so often.
    Turns(usize),
    /// At this call of the store, before or after it.
    Call(isize, bool),
}

async fn wherever_a_worker_ends_what_somebody_changed_since_stays(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(EDITS).await;
    let calls = (0..12).flat_map(|place| [Cut::Call(place, false), Cut::Call(place, true)]);
    let cuts: Vec<_> = calls.chain((0..20).map(Cut::Turns)).collect();
    let mut met = std::collections::BTreeSet::new();
    for (cut, number) in cuts.iter().zip(0..) {
        let email = format!("p{number}@example.org");
        world.enrol(&email, "edits", json!({})).await;
        edit(&world, &email, None, Some(tags(&["new"]))).await;
        let first = message(&world.inside(&email).await[0].id, 1);
        match cut {
            Cut::Turns(turns) => {
                until_turn(world.steps().handle(&first), *turns).await;
            }
            Cut::Call(place, after) => {
                let access = dying_access(bed, &world.cx().await, *place, *after);
                let dies = Worker::new(Tools { access, ..world.tools.clone() }).handler();
                dies.handle(&first).await;
            }
        }
        bed.settle().await;
        let (plan, had) = look(&world, &email).await;
        let (is_set, is_tagged) = (plan == "pro", had == ["vip"]);
        met.insert((is_set, is_tagged));
        edit(&world, &email, Some("free"), Some(tags(&["new"]))).await;
        bed.work(&queues::SEQUENCE_STEPS, world.steps()).await;
        let plan = if is_set { "free" } else { "pro" };
        let tag = if is_tagged { "new" } else { "vip" };
        let expected = (plan.to_owned(), vec![tag.to_owned()]);
        assert_eq!(look(&world, &email).await, expected, "{number}");
    }
    let all = [(false, false), (true, false), (true, true)];
    assert_eq!(met.into_iter().collect::<Vec<_>>(), all, "it ended at every place");
    let funnel = world.funnel("edits").await;
    let numbers: Vec<_> = funnel.steps.iter().map(|step| (step.passed, step.waiting)).collect();
    let all = cuts.len() as i64;
    assert_eq!(numbers, [(all, 0), (all, 0), (0, all)]);
}

async fn two_nodes_change_a_person_once(bed: &Bed) {
    let world = World::new(bed).await;
    world.define(EDITS).await;
    for number in 0..10 {
        let email = format!("p{number}@example.org");
        world.enrol(&email, "edits", json!({})).await;
        edit(&world, &email, None, Some(tags(&["new"]))).await;
        let both = message(&world.inside(&email).await[0].id, 1);
        let (one, other) = (world.steps(), world.steps());
        tokio::join!(one.handle(&both), other.handle(&both));
        assert_eq!(look(&world, &email).await, ("pro".to_owned(), vec!["vip".to_owned()]));
    }
    let funnel = world.funnel("edits").await;
    let passed: Vec<_> = funnel.steps.iter().map(|step| step.passed).collect();
    assert_eq!(passed, [10, 10, 0]);
}

async fn a_step_that_makes_a_person_too_large_fails_and_changes_nothing(bed: &Bed) {
    let world = World::new(bed).await;
    world.define("id: more\nsteps: [ { tag: { add: [vip] } } ]").await;
    world.enrol("ada@example.org", "more", json!({})).await;
    let many: Vec<_> = (0..contacts::MAX_TAGS).map(|number| format!("t{number:02}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    edit(&world, "ada@example.org", None, Some(tags(&many))).await;
    world.hours(5).await;
    let funnel = world.funnel("more").await;
    assert_eq!((funnel.failed, funnel.active, funnel.completed), (1, 0, 0));
    assert_eq!(look(&world, "ada@example.org").await.1, many);
}
