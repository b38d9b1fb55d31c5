//! Why somebody got it, or did not.

use jiff::Timestamp;
use serde_json::json;
use tidings_delivery::ledger::Source;
use tidings_people::contacts::{self, TagChange};
use tidings_people::suppression;
use tidings_signals::events::{Event, EventKind, record};
use tidings_testbed::{Bed, each_store};

use super::{World, find};
use crate::campaigns::CampaignId;
use crate::campaigns::draft::Draft;
use crate::campaigns::why::{Answer, StepKind, Why, why};

each_store!(
    who_got_it_is_told_all_that_happened,
    who_did_not_get_it_is_told_why,
    who_was_not_meant_is_told_which_clause_left_him_out,
    before_it_starts_nobody_gets_it,
);

async fn asked(world: &World<'_>, id: CampaignId, email: &str) -> Why {
    why(&world.bed.cx().await, find(id), email.parse().unwrap()).await.unwrap()
}

fn told(why: &Why, kind: StepKind) -> Vec<&str> {
    why.steps.iter().filter(|step| step.kind == kind).map(|step| step.told.as_str()).collect()
}

fn kinds(why: &Why) -> Vec<&'static str> {
    why.steps.iter().map(|step| step.kind.as_str()).collect()
}

async fn who_got_it_is_told_all_that_happened(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(5).await;
    let id = world.started(world.draft()).await;
    world.run().await;
    let (cx, email) = (bed.cx().await, "p3@example.org");
    let recipient = asked(&world, id, email).await.recipient.unwrap();
    for (number, (kind, at)) in [
        (EventKind::Open, "2026-07-01T13:00:00Z"),
        (EventKind::Open, "2026-07-01T13:05:00Z"),
        (EventKind::Delivery, "2026-07-01T12:00:09Z"),
    ]
    .into_iter()
    .enumerate()
    {
        let at: Timestamp = at.parse().unwrap();
        let mut event = Event::new(format!("e-{number}"), kind, email.parse().unwrap(), at);
        event.source = Some(Source::Recipient(recipient.id.get()));
        record(&cx, event).await.unwrap();
    }
    let why = asked(&world, id, email).await;
    assert_eq!(why.answer, Answer::Sent);
    let expected = [
        "campaign",
        "snapshot",
        "snapshot",
        "contact",
        "recipient",
        "batch",
        "sent",
        "delivered",
        "opened",
        "eligibility",
    ];
    assert_eq!(kinds(&why), expected);
    assert_eq!(told(&why, StepKind::Opened), ["it was opened 2 times"]);
    let batch = told(&why, StepKind::Batch)[0];
    assert!(batch.starts_with(&format!("batch campaign-{id}-batch-000")), "{batch}");
    assert!(batch.ends_with("is done"), "{batch}");
    // Of one that came before it, it is told as well.
    assert!(why.steps.iter().all(|step| step.kind == StepKind::Eligibility || step.at.is_some()));
}

async fn who_did_not_get_it_is_told_why(bed: &Bed) {
    let world = World::new(bed).await;
    let people = ["ada@example.org", "fail@example.org", "lost@example.org", "gone@example.org"];
    world.people(people.map(ToOwned::to_owned)).await;
    let cx = bed.cx().await;
    let suppress = suppression::Suppress {
        email: "gone@example.org".parse().unwrap(),
        kind: suppression::Kind::Complaint,
        reason: suppression::Reason::clipped("abuse"),
        source: None,
        note: None,
        at: cx.now(),
    };
    suppression::suppress(&cx, suppress).await.unwrap();
    let id = world.started(world.draft()).await;
    world.step().await;
    assert_eq!(asked(&world, id, "ada@example.org").await.answer, Answer::Waiting);
    world.run().await;
    for (email, answer, kind, words) in [
        ("fail@example.org", Answer::Failed, StepKind::Failed, "failed: refused: no reason"),
        (
            "lost@example.org",
            Answer::Uncertain,
            StepKind::Uncertain,
            "nobody knows whether it was taken: no reason",
        ),
        ("gone@example.org", Answer::Skipped, StepKind::Skipped, "skipped: complaint"),
    ] {
        let why = asked(&world, id, email).await;
        assert_eq!(why.answer, answer, "{email}");
        assert_eq!(told(&why, kind), [words], "{email}");
        let now = told(&why, StepKind::Eligibility);
        let blocked = email.starts_with("gone");
        assert_eq!(now[0].contains("could not be written to now: complaint"), blocked, "{now:?}");
    }
}

async fn who_was_not_meant_is_told_which_clause_left_him_out(bed: &Bed) {
    let world = World::new(bed).await;
    let people = ["ada@example.org", "bob@example.org", "eve@example.org"];
    world.people(people.map(ToOwned::to_owned)).await;
    let tag = async |email: &str, tag: &str| {
        let change = TagChange::Add([tag.parse().unwrap()].into());
        contacts::tag(&bed.cx().await, email.parse().unwrap(), change).await.unwrap();
    };
    tag("ada@example.org", "vip").await;
    tag("bob@example.org", "vip").await;
    tag("bob@example.org", "tired").await;
    let filter = json!({ "tags": { "all": ["vip"], "none": ["tired"] } });
    let id = world.started(Draft { filter, ..world.draft() }).await;
    world.run().await;

    let ada = asked(&world, id, "ada@example.org").await;
    assert_eq!((ada.answer, told(&ada, StepKind::Condition).len()), (Answer::Sent, 0));
    let bob = asked(&world, id, "bob@example.org").await;
    assert_eq!(bob.answer, Answer::NotMeant);
    let words = "he does not meet its filter: not tag tired (it is met)";
    assert_eq!(told(&bob, StepKind::Condition), [words]);
    assert!(bob.steps.iter().any(|step| step.condition.as_ref().is_some_and(|told| !told.met)));
    let nobody = asked(&world, id, "nobody@example.org").await;
    assert_eq!(nobody.answer, Answer::NoContact);
    assert_eq!(told(&nobody, StepKind::Contact), ["no contact has this address"]);

    // What is known of him now is not what was known then.
    bed.advance(10).await;
    tag("eve@example.org", "vip").await;
    assert_eq!(asked(&world, id, "eve@example.org").await.answer, Answer::MeantSince);
    world.people(["new@example.org".to_owned()]).await;
    tag("new@example.org", "vip").await;
    let new = asked(&world, id, "new@example.org").await;
    assert_eq!(new.answer, Answer::AddedLater);
    assert_eq!(told(&new, StepKind::Eligibility), ["he could be written to now"]);
}

async fn before_it_starts_nobody_gets_it(bed: &Bed) {
    let world = World::new(bed).await;
    world.crowd(9).await;
    let id = world.drafted(world.draft()).await;
    assert_eq!(asked(&world, id, "p1@example.org").await.answer, Answer::NotStarted);
    world.start(id).await;
    assert_eq!(asked(&world, id, "p1@example.org").await.answer, Answer::NotYet);
    world.run().await;
    assert_eq!(asked(&world, id, "p1@example.org").await.answer, Answer::Sent);
}
