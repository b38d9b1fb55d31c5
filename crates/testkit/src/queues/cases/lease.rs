//! Leases: who received a message has it alone for a while. Then it comes again, as the same message.

use std::time::Duration;

use tidings_kernel::queues::PROBE;
use tidings_kernel::{MAX_LEASE, Postponement};

use super::{Case, cases};
use crate::queues::Quirk;
use crate::queues::ground::{Ground, LONG, SHORT, postponement};

pub(super) const CASES: &[Case] = &cases![
    a_lease_keeps_a_delivery_from_others,
    what_is_not_settled_comes_again,
    a_message_keeps_its_id_and_gets_a_new_receipt,
    a_renewed_lease_lasts_from_now,
    what_is_given_back_comes_at_once,
    what_failed_comes_again_after_its_pause,
    many_are_postponed_at_once,
    a_late_receipt_cannot_keep_the_message,
    the_longest_lease,
    what_is_deferred_comes_after_its_pause,
    what_is_deferred_for_ever_is_never_given_up,
    deferring_twice_is_deferring_once,
    a_late_receipt_cannot_defer,
];

async fn a_lease_keeps_a_delivery_from_others(ground: Ground) {
    ground.send(&PROBE, "a").await;
    ground.take_one(&PROBE).await;
    ground.assert_nothing(&PROBE).await;
}

async fn what_is_not_settled_comes_again(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let first = ground.take_one_for(&PROBE, SHORT).await;
    ground.pass(SHORT).await;
    let second = ground.take_one(&PROBE).await;
    assert_eq!((first.receives, second.receives), (1, 2));
    assert_eq!((first.body, first.id), (second.body, second.id));
}

async fn a_message_keeps_its_id_and_gets_a_new_receipt(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let first = ground.take_one(&PROBE).await;
    ground.postpone(&PROBE, &first, Duration::ZERO).await;
    let second = ground.take_one(&PROBE).await;
    assert_eq!(first.id, second.id);
    assert_eq!(first.enqueued_at, second.enqueued_at);
    assert_ne!(first.receipt, second.receipt);
}

async fn a_renewed_lease_lasts_from_now(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let delivery = ground.take_one_for(&PROBE, 3 * SHORT).await;
    assert_eq!(ground.postpone(&PROBE, &delivery, LONG).await, 1);
    ground.pass(3 * SHORT).await;
    ground.assert_nothing(&PROBE).await;
    assert_eq!(ground.acknowledge(&PROBE, &delivery).await, 1);
}

async fn what_is_given_back_comes_at_once(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let first = ground.take_one(&PROBE).await;
    assert_eq!(ground.postpone(&PROBE, &first, Duration::ZERO).await, 1);
    assert_eq!(ground.take_one(&PROBE).await.receives, 2);
}

async fn what_failed_comes_again_after_its_pause(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let first = ground.take_one(&PROBE).await;
    let reason = Some("the provider does not answer 🦀".to_owned());
    let pause = Postponement { reason, ..postponement(&first, SHORT) };
    assert_eq!(ground.engine.postpone(&PROBE, &[pause]).await.unwrap(), 1);
    ground.pass(SHORT).await;
    assert_eq!(ground.take_one(&PROBE).await.receives, 2);
}

async fn many_are_postponed_at_once(ground: Ground) {
    ground.send_numbers(&PROBE, 25).await;
    let taken = ground.take(&PROBE, 25).await;
    let back: Vec<_> =
        taken.iter().map(|delivery| postponement(delivery, Duration::ZERO)).collect();
    assert_eq!(ground.engine.postpone(&PROBE, &back).await.unwrap(), 25);
    let again = ground.take(&PROBE, 25).await;
    assert!(again.iter().all(|delivery| delivery.receives == 2));
    assert_eq!(again.len(), 25);
}

async fn a_late_receipt_cannot_keep_the_message(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let first = ground.take_one(&PROBE).await;
    ground.postpone(&PROBE, &first, Duration::ZERO).await;
    ground.take_one(&PROBE).await;
    let held = ground.postpone(&PROBE, &first, Duration::ZERO).await;
    if ground.has(Quirk::ReceiptsAreNotTold) {
        return;
    }
    assert_eq!(held, 0);
    ground.assert_nothing(&PROBE).await;
}

async fn the_longest_lease(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let delivery = ground.take_one_for(&PROBE, MAX_LEASE).await;
    ground.assert_nothing(&PROBE).await;
    assert_eq!(ground.acknowledge(&PROBE, &delivery).await, 1);
}

async fn what_is_deferred_comes_after_its_pause(ground: Ground) {
    ground.send(&PROBE, "Zoë 🦀").await;
    let first = ground.take_one(&PROBE).await;
    ground.engine.defer(&PROBE, &first, 2 * SHORT, "the workspace waits").await.unwrap();
    ground.assert_nothing(&PROBE).await;
    ground.pass(2 * SHORT).await;
    let second = ground.take_one(&PROBE).await;
    assert_eq!((second.body.as_str(), second.receives), ("Zoë 🦀", 1));
    assert_eq!(ground.acknowledge(&PROBE, &second).await, 1);
    ground.assert_nothing(&PROBE).await;
}

/// Nobody tried, so nothing counts.
async fn what_is_deferred_for_ever_is_never_given_up(ground: Ground) {
    ground.send(&PROBE, "a").await;
    for _ in 0..PROBE.max_receives + 3 {
        let delivery = ground.take_one(&PROBE).await;
        assert_eq!((delivery.body.as_str(), delivery.receives), ("a", 1));
        ground.engine.defer(&PROBE, &delivery, Duration::ZERO, "not yet").await.unwrap();
    }
    assert_eq!(ground.dead_letters(&PROBE).await, []);
    // What is tried from then on counts from one.
    ground.wear_out(&PROBE).await;
    assert_eq!(ground.dead_letters(&PROBE).await.len(), 1);
}

/// Whoever got no answer asks again.
async fn deferring_twice_is_deferring_once(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let first = ground.take_one(&PROBE).await;
    ground.engine.defer(&PROBE, &first, Duration::ZERO, "not yet").await.unwrap();
    ground.engine.defer(&PROBE, &first, Duration::ZERO, "not yet").await.unwrap();
    let second = ground.take_one(&PROBE).await;
    assert_eq!(second.receives, 1);
    ground.assert_nothing(&PROBE).await;
}

async fn a_late_receipt_cannot_defer(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let first = ground.take_one(&PROBE).await;
    ground.postpone(&PROBE, &first, Duration::ZERO).await;
    let second = ground.take_one(&PROBE).await;
    if !ground.has(Quirk::ReceiptsAreNotTold) {
        ground.engine.defer(&PROBE, &first, Duration::ZERO, "too late").await.unwrap();
        ground.assert_nothing(&PROBE).await;
    }
    assert_eq!(ground.acknowledge(&PROBE, &second).await, 1);
    // What is done stays done, whoever held it before.
    for late in [&first, &second] {
        ground.engine.defer(&PROBE, late, Duration::ZERO, "too late").await.unwrap();
    }
    ground.assert_nothing(&PROBE).await;
}
