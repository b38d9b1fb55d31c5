//! The pace of several nodes on one store, at times that the tests make up.

use std::sync::Arc;

use tidings_testbed::{Bed, each_store};

use super::shared::Known;
use super::*;

each_store!(
    two_nodes_together_send_as_fast_as_one,
    what_one_node_is_told_slows_the_other,
    a_campaign_elsewhere_leaves_the_turn_to_whom_somebody_waits_for,
    a_node_takes_many_turns_at_once_and_keeps_them_for_a_second,
);

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_000_000_000_000 + millis).unwrap()
}

fn node(bed: &Bed, per_second: u32) -> Arc<Pace> {
    let store = (bed.access.database().clone(), "test");
    Arc::new(Pace::over_all_nodes(per_second, at(0), store))
}

async fn two_nodes_together_send_as_fast_as_one(bed: &Bed) {
    let nodes = [node(bed, 20), node(bed, 20)];
    let mut sent = [0, 0];
    for moment in 0..200 {
        // The one that comes first is now this one and now the other.
        let first = moment / 2 % 2;
        for place in [first, 1 - first] {
            let now = at(moment as i64 * 25);
            sent[place] += nodes[place].turn(Lane::Campaign, 1, now).await.unwrap_or(0);
        }
    }
    // Five seconds, and what the bucket held at first. Two turns more may have been taken and not used.
    let all = sent[0] + sent[1];
    assert!((115..=120).contains(&all), "{sent:?}");
    assert!(sent.iter().all(|one| *one > 20), "{sent:?}");
}

async fn what_one_node_is_told_slows_the_other(bed: &Bed) {
    let (one, other) = (node(bed, 100), node(bed, 100));
    assert_eq!(other.turn(Lane::Campaign, 1, at(0)).await, Ok(1));
    one.slow_down(Some(Duration::from_secs(5)), at(1_500)).await;
    // Answers to messages that were on their way together count once, whoever hears them.
    other.slow_down(None, at(1_600)).await;
    let NotBefore(then) = other.turn(Lane::Transactional, 1, at(3_000)).await.unwrap_err();
    assert!(then >= at(6_500), "{then}");
    assert!(other.turn(Lane::Campaign, 100, at(8_600)).await.is_ok());
    // Half of it was lost, and 5 % come back in a second.
    let rate = other.rate(at(8_600));
    assert!((80.0..90.0).contains(&rate), "{rate}");
}

async fn a_campaign_elsewhere_leaves_the_turn_to_whom_somebody_waits_for(bed: &Bed) {
    let (one, other) = (node(bed, 10), node(bed, 10));
    assert_eq!(other.turn(Lane::Campaign, 10, at(0)).await, Ok(10));
    let NotBefore(first) = one.turn(Lane::Transactional, 1, at(10)).await.unwrap_err();
    let NotBefore(second) = other.turn(Lane::Transactional, 1, at(11)).await.unwrap_err();
    assert!(first < second, "one after the other, whichever node they are on");
    assert!(second < at(400), "{second}");
    assert!(other.turn(Lane::Campaign, 10, first).await.is_err());
    assert_eq!(one.turn(Lane::Transactional, 1, first).await, Ok(1));
    assert_eq!(other.turn(Lane::Transactional, 1, second).await, Ok(1));
    // Nobody waits any more.
    assert!(other.turn(Lane::Campaign, 10, at(2_000)).await.is_ok());
}

async fn a_node_takes_many_turns_at_once_and_keeps_them_for_a_second(bed: &Bed) {
    let (one, other) = (node(bed, 1_000), node(bed, 1_000));
    assert_eq!(one.turn(Lane::Transactional, 1, at(0)).await, Ok(1));
    assert_eq!(other.turn(Lane::Campaign, 2_000, at(0)).await, Ok(900), "the others are leased");
    assert_eq!(one.turn(Lane::Transactional, 500, at(1)).await, Ok(99));
    // What is not used in time is lost.
    assert_eq!(one.turn(Lane::Transactional, 1, at(500)).await, Ok(1));
    assert_eq!(one.turn(Lane::Transactional, 2_000, at(2_000)).await, Ok(1_000));
}

#[test]
fn a_node_whose_clock_is_ahead_does_not_stop_the_others() {
    let mut known = Known::NEW;
    let hour = 3_600_000;
    assert_eq!(known.take((Lane::Campaign, 10), 10.0, at(hour)), Ok(10));
    assert!(known.take((Lane::Campaign, 10), 10.0, at(0)).is_err());
    assert_eq!(known.take((Lane::Campaign, 10), 10.0, at(500)), Ok(5));
}

#[test]
fn a_rate_of_less_than_everybody_wants_is_shared_out_without_a_rest() {
    for (per_second, seconds) in [(1, 10), (3, 10), (14, 10), (50, 10)] {
        let mut known = Known::NEW;
        let full = per_second as f64;
        let asked = (0..seconds * 100).map(|n| at(n * 10));
        let taken = asked.filter(|now| known.take((Lane::Campaign, 1), full, *now).is_ok()).count();
        let fair = per_second * seconds;
        assert!((fair..=fair + per_second).contains(&(taken as i64)), "{per_second}/s: {taken}");
    }
}
