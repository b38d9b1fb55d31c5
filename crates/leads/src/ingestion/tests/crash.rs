//! Whoever dies while an event comes in, before or after any call of the store: a repeat stores it once and tells it once.

use tidings_jobs::contracts::Contract as _;
use tidings_jobs::contracts::LeadEvent;
use tidings_kernel::queues;
use tidings_testbed::{Bed, dying, each_store, until_turn};

use super::{ada, ids, messages, told};
use crate::ingestion::{IngestError, ingest};

each_store!(
    a_death_at_any_call_of_the_items_leaves_one_event,
    a_death_at_any_turn_leaves_one_event,
);

const NAMES: [&str; 2] = ["email=ada@example.org", "phone=+493012345"];

async fn a_death_at_any_call_of_the_items_leaves_one_event(bed: &Bed) {
    let cx = bed.cx().await;
    // One who is to be merged, so that a death can fall between the merge and the event.
    ingest(&cx, told(&cx, "first", cx.now(), &NAMES[1..])).await.unwrap();
    let mut expected = vec!["first".to_owned()];
    for after in [false, true] {
        for place in 0.. {
            let id = format!("{after}-{place}");
            let dead = dying(bed, &cx, place, after).await;
            let event = told(&cx, &id, cx.now(), &NAMES);
            let died = ingest(&dead, event.clone()).await;
            ingest(&cx, event).await.unwrap();
            expected.push(id);
            match died {
                Err(IngestError::Store(_)) => {}
                Ok(_) => break,
                Err(error) => panic!("{error:?}"),
            }
            assert!(place < 20, "it must end");
        }
    }
    check(bed, expected).await;
}

async fn a_death_at_any_turn_leaves_one_event(bed: &Bed) {
    let cx = bed.cx().await;
    let mut expected = Vec::new();
    for turns in 0.. {
        let id = format!("turn-{turns}");
        let event = told(&cx, &id, cx.now(), &NAMES);
        let done = until_turn(ingest(&cx, event.clone()), turns).await;
        ingest(&cx, event).await.unwrap();
        expected.push(id);
        if done.is_some() {
            break;
        }
        assert!(turns < 40, "it must end");
    }
    check(bed, expected).await;
}

async fn check(bed: &Bed, mut expected: Vec<String>) {
    let cx = bed.cx().await;
    let mut found = ids(&cx, ada()).await;
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let mut told = Vec::new();
    loop {
        let page = messages(bed, &queues::FEATURE_PROCESSING).await;
        if page.is_empty() {
            break;
        }
        told.extend(page.iter().map(|body| LeadEvent::parse(body).unwrap()));
    }
    let mut events: Vec<_> = told
        .into_iter()
        .filter(|told| told.event_type == "purchase_completed")
        .map(|told| told.event_id)
        .collect();
    events.sort();
    let mut wanted: Vec<_> = expected.iter().map(|id| crate::event::id_of("shop", id)).collect();
    wanted.sort();
    assert_eq!(events, wanted, "each was told once");
}
