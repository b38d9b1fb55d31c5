//! Whoever takes an event in or works on it may end anywhere: told again and worked on again, it counts once.

use serde_json::json;
use tidings_jobs::contracts::SequenceEvent;
use tidings_jobs::{Outcome, Work as _};
use tidings_testbed::{Bed, each_store, until_turn};

use super::super::{Event, Worker, accept};
use super::{World, email, event, wait_a_week};
use crate::executions::funnel;

each_store!(
    wherever_it_is_cut_off_an_event_is_told_once,
    wherever_a_worker_ends_an_event_counts_once
);

/// More than any of them takes: the last ones come to their end at once.
const TURNS: usize = 40;

async fn wherever_it_is_cut_off_an_event_is_told_once(bed: &Bed) {
    let world = World::new(bed).await;
    let mut whole = 0;
    for turns in 0..TURNS {
        let cx = world.cx().await;
        let told = || {
            let told = event("user.created", json!({}));
            vec![Event { message_id: Some(format!("m{turns}")), ..told }]
        };
        let cut_off = until_turn(accept(&cx, told()), turns).await;
        whole += usize::from(cut_off.is_some());
        accept(&cx, told()).await.unwrap();
    }
    // How many are cut off is up to the threads of the database: one that is fast leaves nothing to wait for.
    assert!(whole > 0, "the last ones come to their end");
    assert_eq!(world.queued().await.len(), TURNS);
}

async fn wherever_a_worker_ends_an_event_counts_once(bed: &Bed) {
    let world = World::new(bed).await;
    world
        .put(json!({
            "exitOn": ["user.paid"], "steps": wait_a_week(),
            "events": [{ "event": "user.paid", "send": "bye" }],
        }))
        .await;
    let worker = Worker::new(world.tools.clone());
    let (mut whole, mut names) = (0, Vec::new());
    for turns in 0..TURNS {
        let name = format!("p{turns}");
        let of = |message| SequenceEvent { email: Some(email(&name).to_string()), ..message };
        let created = of(world.message(&format!("c{turns}"), "user.created", json!({})).await);
        bed.advance(1).await;
        let paid = of(world.message(&format!("p{turns}"), "user.paid", json!({})).await);
        for message in [created, paid] {
            let ended = until_turn(worker.work(message.clone()), turns).await;
            whole += usize::from(ended.is_some());
            assert_eq!(world.deliver(&message).await, Outcome::Done);
        }
        names.push(name);
    }
    assert!(whole > 0, "the last ones come to their end");
    for name in names {
        assert!(world.inside(&name).await.is_empty(), "{name} has paid");
    }
    let mut mails = world.mails().await;
    assert_eq!(mails.len(), TURNS, "one for each, whoever ended where");
    mails.dedup();
    assert_eq!(mails.len(), TURNS);
    world.walk().await;
    let cx = world.cx().await;
    let active = world.tools.versions.active(&cx, "welcome").await.unwrap().unwrap();
    let funnel = funnel(&cx, &active.program, active.version).await.unwrap();
    let counts = (funnel.entered, funnel.left, funnel.active);
    assert_eq!(counts, (TURNS as i64, TURNS as i64, 0));
}
