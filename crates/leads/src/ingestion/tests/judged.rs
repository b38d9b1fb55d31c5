//! What was a person's, is a machine's, or a person's after all: whatever comes first, the last judgment counts, and everything
//! that rests on the event is as if it had been known from the beginning.

use jiff::ToSpan as _;
use serde_json::json;
use tidings_access::Cx;
use tidings_jobs::contracts::{Contract as _, LeadIngestion};
use tidings_jobs::happened::{Happened, MACHINE, REVISION, by_email};
use tidings_testbed::{Bed, dying, each_store};

use super::{ada, object, told};
use crate::features::tests::world::World;
use crate::features::{as_of, get};
use crate::identity::{Whom, find};
use crate::ingestion::{accept, ingest};
use crate::memory::rebuild;
use crate::timeline::{Listing, sentence, timeline};

each_store!(
    the_last_judgment_counts_whatever_comes_first,
    a_judgment_finds_whoever_the_person_has_become,
    a_judgment_that_died_and_came_again_counts,
    nobody_outside_judges,
);

const ADA: &str = "ada@x.org";

/// What a machine turned out to do once, and a person after all, and so on.
fn judged(cx: &Cx, (cause, revision): (&str, i64)) -> LeadIngestion {
    let mut payload = object(json!({"kind": "campaign", "product": "tea"}));
    if revision > 0 {
        payload.insert(REVISION.to_owned(), revision.into());
    }
    if revision % 2 == 1 {
        payload.insert(MACHINE.to_owned(), true.into());
    }
    let happened = Happened {
        event_type: "email.clicked",
        cause: cause.to_owned(),
        who: by_email(ADA),
        at: cx.now() - 1.hour(),
        object_id: None,
        payload,
    };
    LeadIngestion::parse(&happened.to_message(cx.workspace(), cx.now()).body).unwrap()
}

/// Somebody who bought something yesterday, and what is derived of him, whom a machine did nothing for.
async fn ground(world: &World<'_>) {
    let cx = world.cx().await;
    let bought = told(&cx, "1", cx.now() - 24.hours(), &[&format!("email={ADA}")]);
    ingest(&cx, bought).await.unwrap();
    world.work().await;
}

/// What is kept is what would be counted and derived anew, and so many clicks are his.
async fn check(world: &World<'_>, clicks: i64) {
    let cx = world.cx().await;
    assert_eq!(world.told(ADA, "clicks_30d").await, clicks.to_string());
    let id = world.own(ADA).await;
    let kept = get(&cx, &id).await.unwrap().unwrap();
    let scratch = as_of(&cx, &id, cx.now()).await.unwrap().unwrap();
    assert_eq!((&kept.values, &kept.score), (&scratch.values, &scratch.score));
    let known = world.remembers(ADA, "interest#product:tea").await;
    assert_eq!(known != "-", clicks > 0, "{known}");
    assert_eq!(rebuild(&cx, &id).await.unwrap(), 0, "memory is as a rebuild makes it");
}

async fn the_last_judgment_counts_whatever_comes_first(bed: &Bed) {
    let world = World::new(bed);
    ground(&world).await;
    let cx = world.cx().await;
    let orders: [&[i64]; 9] = [
        &[0, 1],
        &[1, 0],
        &[1, 1, 0, 1],
        &[0, 1, 2],
        &[2, 1, 0],
        &[1, 2, 0],
        &[0, 2, 1, 2],
        &[2, 3, 1, 0],
        &[3, 0, 2],
    ];
    let mut expected = 0;
    for workers_wait in [false, true] {
        for order in orders {
            let cause = format!("{workers_wait} {order:?}");
            for revision in order {
                ingest(&cx, judged(&cx, (&cause, *revision))).await.unwrap();
                if !workers_wait {
                    world.work().await;
                }
            }
            world.work().await;
            let last = order.iter().max().unwrap();
            expected += i64::from(last % 2 == 0);
            check(&world, expected).await;
        }
    }
    let whom = Whom::Email(ADA.parse().unwrap());
    let listing = Listing { limit: 100, ..Listing::default() };
    let events = timeline(&cx, whom, &listing).await.unwrap().unwrap().events;
    assert_eq!(events.len(), 1 + 2 * orders.len(), "all of them are still told");
    let machines: Vec<_> = events.iter().filter(|event| event.is_by_machine()).collect();
    assert_eq!(machines.len(), 10);
    assert!(sentence(machines[0]).ends_with("[a machine]"), "{}", sentence(machines[0]));
}

async fn a_judgment_finds_whoever_the_person_has_become(bed: &Bed) {
    let world = World::new(bed);
    ground(&world).await;
    let cx = world.cx().await;
    bed.clock.advance(1.second());
    let cx_later = world.cx().await;
    // Younger than who he turns out to be, so that his timeline is another one's from then on.
    let other = told(&cx, "2", cx.now(), &["email=ada@example.org"]);
    ingest(&cx_later, other).await.unwrap();
    let clicked = LeadIngestion {
        identities: vec![by_email("ada@example.org")],
        ..judged(&cx, ("click", 0))
    };
    ingest(&cx_later, clicked).await.unwrap();
    world.work().await;
    let both = told(&cx, "3", cx.now(), &[&format!("email={ADA}"), "email=ada@example.org"]);
    ingest(&cx_later, both).await.unwrap();
    world.work().await;
    let owner = find(&cx, ada()).await.unwrap().unwrap();
    assert_eq!(owner.partitions.len(), 2, "they are one");
    check(&world, 1).await;
    ingest(&cx_later, judged(&cx, ("click", 1))).await.unwrap();
    world.work().await;
    check(&world, 0).await;
}

async fn a_judgment_that_died_and_came_again_counts(bed: &Bed) {
    let world = World::new(bed);
    ground(&world).await;
    let cx = world.cx().await;
    for after in [false, true] {
        for place in 0.. {
            assert!(place < 20, "it must end");
            let cause = format!("{after} {place}");
            ingest(&cx, judged(&cx, (&cause, 0))).await.unwrap();
            world.work().await;
            check(&world, 1).await;
            let dead = dying(bed, &cx, place, after).await;
            let died = ingest(&dead, judged(&cx, (&cause, 1))).await.is_err();
            ingest(&cx, judged(&cx, (&cause, 1))).await.unwrap();
            world.work().await;
            check(&world, 0).await;
            if !died {
                break;
            }
        }
    }
}

/// What others have in a payload is theirs, whatever it is called.
async fn nobody_outside_judges(bed: &Bed) {
    let world = World::new(bed);
    ground(&world).await;
    let cx = world.cx().await;
    let ours = judged(&cx, ("click", 1));
    assert!(accept(&cx, vec![ours.clone()]).await.is_err());
    let theirs = LeadIngestion { source: "shop".into(), source_type: "shop".into(), ..ours };
    accept(&cx, vec![theirs.clone()]).await.unwrap();
    ingest(&cx, theirs).await.unwrap();
    world.work().await;
    check(&world, 1).await;
}
