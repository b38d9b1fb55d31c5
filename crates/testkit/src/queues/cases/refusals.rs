//! Refusals: what no engine could carry is refused by all of them, and leaves nothing behind.

use std::time::Duration;

use tidings_kernel::queues::PROBE;
use tidings_kernel::topics::LEAD_EVENTS;
use tidings_kernel::{
    BadMessage, MAX_BODY_BYTES, MAX_DELAY, MAX_LEASE, MAX_MESSAGES, Outgoing, Postponement,
    Receipt, Receive,
};

use super::{Case, cases};
use crate::queues::ground::{Ground, LONG, assert_refused, postponement};

pub(super) const CASES: &[Case] = &cases![
    bad_messages_are_refused_with_all_that_came_with_them,
    one_call_sends_1_to_1000_messages,
    one_call_receives_1_to_1000_messages,
    one_call_settles_1_to_1000_messages,
    a_lease_lasts_12_hours_at_most,
];

/// Longer than the longest by the smallest step.
const MOMENT: Duration = Duration::from_millis(1);

async fn bad_messages_are_refused_with_all_that_came_with_them(ground: Ground) {
    let probe = |body: &str| Outgoing::new(&PROBE, body);
    let send =
        async |bad: Outgoing| ground.engine.send(vec![probe("good"), bad, probe("good")]).await;
    assert_refused!(send(probe("")).await, BadMessage::EmptyBody);
    let large = "x".repeat(MAX_BODY_BYTES + 1);
    assert_refused!(send(probe(&large)).await, BadMessage::BodyTooLarge { .. });
    for character in ["\u{0}", "\u{b}", "\u{1f}", "\u{fffe}", "\u{ffff}"] {
        assert_refused!(send(probe(character)).await, BadMessage::BodyCharacter);
    }
    assert_refused!(send(probe("x").delayed(MAX_DELAY + MOMENT)).await, BadMessage::Delay);
    let published = Outgoing::publish(&LEAD_EVENTS, "x").delayed(MOMENT);
    assert_refused!(send(published).await, BadMessage::TopicDelay);
    ground.assert_nothing(&PROBE).await;
    let depth = ground.depth(&PROBE).await;
    assert_eq!((depth.ready, depth.hidden, depth.dead), (0, 0, 0));
}

async fn one_call_sends_1_to_1000_messages(ground: Ground) {
    assert_refused!(ground.engine.send(Vec::new()).await, BadMessage::Count);
    let many = vec![Outgoing::new(&PROBE, "x"); MAX_MESSAGES + 1];
    assert_refused!(ground.engine.send(many).await, BadMessage::Count);
    ground.assert_nothing(&PROBE).await;
}

async fn one_call_receives_1_to_1000_messages(ground: Ground) {
    ground.send(&PROBE, "a").await;
    for max in [0, MAX_MESSAGES + 1] {
        let request = Receive { max, lease: LONG, wait: Duration::ZERO };
        assert_refused!(ground.engine.receive(&PROBE, request).await, BadMessage::Count);
    }
    assert_eq!(ground.take_one(&PROBE).await.receives, 1);
}

async fn one_call_settles_1_to_1000_messages(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let delivery = ground.take_one(&PROBE).await;
    let receipts: Vec<Receipt> = vec![delivery.receipt.clone(); MAX_MESSAGES + 1];
    let back: Vec<Postponement> = vec![postponement(&delivery, Duration::ZERO); MAX_MESSAGES + 1];
    for count in [0, MAX_MESSAGES + 1] {
        let acknowledged = ground.engine.acknowledge(&PROBE, &receipts[..count]).await;
        assert_refused!(acknowledged, BadMessage::Count);
        assert_refused!(ground.engine.postpone(&PROBE, &back[..count]).await, BadMessage::Count);
    }
    ground.assert_nothing(&PROBE).await;
    assert_eq!(ground.acknowledge(&PROBE, &delivery).await, 1);
}

async fn a_lease_lasts_12_hours_at_most(ground: Ground) {
    ground.send(&PROBE, "a").await;
    let lease = MAX_LEASE + MOMENT;
    let request = Receive { max: 1, lease, wait: Duration::ZERO };
    assert_refused!(ground.engine.receive(&PROBE, request).await, BadMessage::Lease);
    let delivery = ground.take_one(&PROBE).await;
    assert_eq!(delivery.receives, 1);
    let back = [postponement(&delivery, Duration::ZERO), postponement(&delivery, lease)];
    assert_refused!(ground.engine.postpone(&PROBE, &back).await, BadMessage::Lease);
    let deferred = ground.engine.defer(&PROBE, &delivery, lease, "not yet").await;
    assert_refused!(deferred, BadMessage::Lease);
    ground.assert_nothing(&PROBE).await;
}
