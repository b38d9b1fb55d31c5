//! Acknowledgement: what is done is gone for good, and only the right receipt can say so.

use std::time::Duration;

use tidings_kernel::queues::{EMAIL_EVENTS, PROBE};
use tidings_kernel::{BadMessage, QueueError, Receipt};

use super::{Case, cases};
use crate::queues::Quirk;
use crate::queues::ground::{Ground, SHORT, bodies, receipts};

pub(super) const CASES: &[Case] = &cases![
    what_is_acknowledged_never_comes_again,
    many_are_acknowledged_at_once,
    only_what_is_acknowledged_goes,
    acknowledging_twice_is_harmless,
    a_late_receipt_cannot_remove_the_new_delivery,
    a_late_receipt_of_what_nobody_took_since_does_no_harm,
    what_is_no_receipt_settles_nothing,
];

async fn what_is_acknowledged_never_comes_again(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let delivery = ground.take_one_for(&PROBE, 2 * SHORT).await;
    assert_eq!(ground.acknowledge(&PROBE, &delivery).await, 1);
    ground.pass(2 * SHORT).await;
    ground.assert_nothing(&PROBE).await;
    assert_eq!(ground.dead_letters(&PROBE).await, []);
}

async fn many_are_acknowledged_at_once(ground: Ground) {
    ground.send_numbers(&PROBE, 100).await;
    let taken = ground.take(&PROBE, 100).await;
    let held = ground.engine.acknowledge(&PROBE, &receipts(&taken)).await.unwrap();
    assert_eq!(held, 100);
    let depth = ground.depth(&PROBE).await;
    assert_eq!((depth.ready, depth.hidden, depth.dead), (0, 0, 0));
}

async fn only_what_is_acknowledged_goes(ground: Ground) {
    ground.send_numbers(&PROBE, 3).await;
    let taken = ground.take(&PROBE, 3).await;
    let (done, left) = taken.split_first().unwrap();
    ground.acknowledge(&PROBE, done).await;
    for delivery in left {
        ground.postpone(&PROBE, delivery, Duration::ZERO).await;
    }
    assert_eq!(bodies(&ground.take(&PROBE, 2).await), bodies(left));
    ground.assert_nothing(&PROBE).await;
}

async fn acknowledging_twice_is_harmless(ground: Ground) {
    ground.send_numbers(&PROBE, 2).await;
    let taken = ground.take(&PROBE, 2).await;
    assert_eq!(ground.acknowledge(&PROBE, &taken[0]).await, 1);
    let held = ground.engine.acknowledge(&PROBE, &receipts(&taken)).await.unwrap();
    assert!(held == 1 || ground.has(Quirk::ReceiptsAreNotTold), "{held}");
    let depth = ground.depth(&PROBE).await;
    assert_eq!((depth.ready, depth.hidden), (0, 0));
}

async fn a_late_receipt_cannot_remove_the_new_delivery(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let first = ground.take_one(&PROBE).await;
    ground.postpone(&PROBE, &first, Duration::ZERO).await;
    let second = ground.take_one(&PROBE).await;
    let held = ground.acknowledge(&PROBE, &first).await;
    if ground.has(Quirk::ReceiptsAreNotTold) {
        return;
    }
    assert_eq!(held, 0);
    ground.postpone(&PROBE, &second, Duration::ZERO).await;
    assert_eq!(ground.take_one(&PROBE).await.receives, 3);
}

/// The work is done, only late: removing the message and delivering it again are both right.
async fn a_late_receipt_of_what_nobody_took_since_does_no_harm(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let delivery = ground.take_one_for(&PROBE, SHORT).await;
    ground.pass(SHORT).await;
    ground.acknowledge(&PROBE, &delivery).await;
    let depth = ground.depth(&PROBE).await;
    assert!(depth.ready <= 1, "{depth:?}");
    assert_eq!(depth.dead, 0);
}

async fn what_is_no_receipt_settles_nothing(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let delivery = ground.take_one(&PROBE).await;
    for (queue, receipt) in
        [(&PROBE, Receipt("no receipt".to_owned())), (&EMAIL_EVENTS, delivery.receipt.clone())]
    {
        match ground.engine.acknowledge(queue, &[receipt]).await {
            Ok(held) => assert_eq!(held, 0),
            Err(QueueError::Invalid(BadMessage::Receipt)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(ground.acknowledge(&PROBE, &delivery).await, 1);
}
