//! A clock that jumps: nothing is lost, and nothing fires twice.

use jiff::ToSpan;
use tidings_kernel::queues::PROBE;

use super::{Case, cases};
use crate::later::ground::Ground;

pub(super) const CASES: &[Case] = &cases![
    a_clock_that_jumps_forward_fires_everything_once,
    a_clock_that_jumps_back_still_fires_what_is_armed_then,
    what_was_armed_before_a_jump_back_fires_at_its_time,
    what_was_armed_while_the_clock_was_behind_is_not_lost,
];

async fn a_clock_that_jumps_forward_fires_everything_once(ground: Ground) {
    assert_eq!(ground.fire().await.count, 0);
    for day in 10..40 {
        ground.arm(ground.timer(&day.to_string(), day.days(), &day.to_string())).await;
    }
    ground.pass(40.days());
    let expected: Vec<_> = (10..40).map(|day| day.to_string()).collect();
    assert_eq!(ground.fired().await, expected);
    assert_eq!(ground.fire().await.count, 0);
    ground.assert_nothing(&PROBE).await;
}

async fn a_clock_that_jumps_back_still_fires_what_is_armed_then(ground: Ground) {
    assert_eq!(ground.fire().await.count, 0);
    ground.pass(10.days());
    assert_eq!(ground.fire().await.count, 0);
    ground.pass(-10.days());
    ground.arm(ground.timer("t", 5.minutes(), "a")).await;
    assert_eq!(ground.fire().await.count, 0);
    ground.pass(5.minutes());
    assert_eq!(ground.fired().await, ["a"]);
}

async fn what_was_armed_before_a_jump_back_fires_at_its_time(ground: Ground) {
    let start = ground.now();
    ground.arm(ground.timer("t", 1.hour(), "a")).await;
    assert_eq!(ground.fire().await.count, 0);
    ground.pass(-3.days());
    assert_eq!(ground.fire().await.count, 0);
    ground.set(start + 1.hour());
    assert_eq!(ground.fired().await, ["a"]);
    ground.pass(-3.days());
    assert_eq!(ground.fire().await.count, 0);
}

async fn what_was_armed_while_the_clock_was_behind_is_not_lost(ground: Ground) {
    let start = ground.now();
    ground.pass(10.days());
    assert_eq!(ground.fire().await.count, 0);
    ground.set(start);
    ground.arm(ground.timer("t", 5.minutes(), "a")).await;
    assert_eq!(ground.fire().await.count, 0);
    ground.pass(10.days());
    assert_eq!(ground.fired().await, ["a"]);
}
