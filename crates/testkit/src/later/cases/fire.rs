//! Firing: many timers, a few at a time, by many nodes at once.

use std::sync::Arc;

use jiff::ToSpan;
use tidings_kernel::queues::PROBE;
use tidings_kernel::{MAX_BODY_BYTES, Txn};
use tokio::task::JoinSet;

use super::{Case, cases};
use crate::later::ground::Ground;

pub(super) const CASES: &[Case] = &cases![
    nothing_to_fire,
    many_timers_fire_a_few_at_a_time,
    moved_timers_do_not_stand_in_the_way,
    what_is_due_next_is_told,
    the_largest_bodies_fire,
    nodes_that_fire_at_once_fire_each_timer_once,
];

async fn arm_many(ground: &Ground, count: usize, body: &str) {
    for from in (0..count).step_by(50) {
        let txn = (from..count.min(from + 50)).fold(Txn::new(), |txn, number| {
            let due = (1 + number as i64).seconds();
            txn.arm(ground.timer(&number.to_string(), due, &format!("{body} {number:03}")))
        });
        ground.transact(txn).await;
    }
}

fn numbered(count: usize, body: &str) -> Vec<String> {
    (0..count).map(|number| format!("{body} {number:03}")).collect()
}

async fn nothing_to_fire(ground: Ground) {
    let fired = ground.fire().await;
    assert_eq!((fired.count, fired.next_due), (0, None));
}

async fn many_timers_fire_a_few_at_a_time(ground: Ground) {
    arm_many(&ground, 250, "a").await;
    ground.pass(1.hour());
    for expected in [100, 100, 50, 0] {
        let fired = ground.timers.fire(100).await.unwrap();
        assert_eq!(fired.count, expected);
        if expected == 100 {
            assert!(fired.next_due.is_some_and(|due| due <= ground.now()), "{fired:?}");
        }
    }
    assert_eq!(ground.arrived(&PROBE, 250).await, numbered(250, "a"));
}

async fn moved_timers_do_not_stand_in_the_way(ground: Ground) {
    for body in ["a", "b", "c"] {
        arm_many(&ground, 20, body).await;
    }
    ground.pass(1.hour());
    assert_eq!(ground.timers.fire(10).await.unwrap().count, 10);
    assert_eq!(ground.timers.fire(20).await.unwrap().count, 10);
    assert_eq!(ground.arrived(&PROBE, 20).await, numbered(20, "c"));
}

async fn what_is_due_next_is_told(ground: Ground) {
    for (key, minutes) in [("b", 20), ("a", 10), ("c", 30)] {
        ground.arm(ground.timer(key, minutes.minutes(), key)).await;
    }
    let start = ground.now();
    for (key, minutes) in [("a", 10), ("b", 20), ("c", 30)] {
        assert_eq!(ground.fire().await.next_due, Some(start + minutes.minutes()));
        ground.pass(10.minutes());
        assert_eq!(ground.fired().await, [key]);
    }
    assert_eq!(ground.fire().await.next_due, None);
}

async fn the_largest_bodies_fire(ground: Ground) {
    let body = "x".repeat(MAX_BODY_BYTES);
    for key in ["a", "b", "c", "d", "e", "f"] {
        ground.arm(ground.timer(key, 1.minute(), &body)).await;
    }
    ground.pass(1.minute());
    let fired = ground.fired().await;
    assert_eq!(fired.len(), 6);
    assert!(fired.iter().all(|fired| *fired == body));
}

async fn nodes_that_fire_at_once_fire_each_timer_once(ground: Ground) {
    arm_many(&ground, 100, "a").await;
    ground.pass(1.hour());
    let mut nodes = JoinSet::new();
    for _ in 0..8 {
        let timers = Arc::clone(&ground.timers);
        nodes.spawn(async move {
            let mut count = 0;
            loop {
                match timers.fire(20).await.unwrap().count {
                    0 => return count,
                    fired => count += fired,
                }
            }
        });
    }
    let counts = nodes.join_all().await;
    assert_eq!(counts.iter().sum::<usize>(), 100);
    assert_eq!(ground.arrived(&PROBE, 100).await, numbered(100, "a"));
}
