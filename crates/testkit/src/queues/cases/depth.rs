//! Depth: how full a queue is.

use std::time::Duration;

use tidings_kernel::Outgoing;
use tidings_kernel::queues::{EMAIL_EVENTS, PROBE};

use super::{Case, cases};
use crate::queues::Quirk;
use crate::queues::ground::{Ground, SHORT};

pub(super) const CASES: &[Case] = &cases![
    an_empty_queue_has_no_depth,
    every_message_is_counted_where_it_is,
    the_oldest_has_an_age
];

async fn an_empty_queue_has_no_depth(ground: Ground) {
    let depth = ground.depth(&PROBE).await;
    assert_eq!((depth.ready, depth.hidden, depth.dead), (0, 0, 0));
    assert_eq!(depth.oldest_age, None);
}

async fn every_message_is_counted_where_it_is(ground: Ground) {
    ground.bury_numbers(&PROBE, 1).await;
    ground.send_numbers(&PROBE, 5).await;
    let held = Outgoing::new(&PROBE, "held").delayed(Duration::from_secs(600));
    ground.engine.send(vec![held]).await.unwrap();
    ground.take(&PROBE, 2).await;
    ground.send(&EMAIL_EVENTS, "another queue's").await;
    let depth = ground.depth(&PROBE).await;
    assert_eq!((depth.ready, depth.hidden, depth.dead), (3, 3, 1));
}

async fn the_oldest_has_an_age(ground: Ground) {
    ground.send(&PROBE, "a").await;
    ground.pass(SHORT).await;
    ground.send(&PROBE, "b").await;
    let age = ground.depth(&PROBE).await.oldest_age;
    match age {
        Some(age) => assert!(age >= SHORT, "{age:?}"),
        None => assert!(ground.has(Quirk::AgeIsNotTold), "the engine does not tell the age"),
    }
}
