//! Timers in a transaction: armed, moved and cancelled by key, if the transaction is made.

use jiff::ToSpan;
use tidings_kernel::queues::{EMAIL_EVENTS, PROBE};
use tidings_kernel::tables::MAIN;
use tidings_kernel::{BadMessage, Expect, Invalid, Key, MAX_BODY_BYTES, MAX_TIMER_KEY, Timer, Txn};

use super::{Case, cases};
use crate::later::ground::{Ground, assert_refused, cancelled, row};

pub(super) const CASES: &[Case] = &cases![
    a_timer_fires_at_its_time_and_once,
    a_timer_of_milliseconds,
    a_timer_of_months,
    a_timer_goes_to_its_queue,
    a_timer_that_is_moved_earlier_fires_then,
    a_timer_that_is_moved_later_fires_then,
    a_timer_that_is_armed_again_for_the_same_time_fires_once,
    a_timer_can_be_armed_again_after_it_fired,
    a_cancelled_timer_never_fires,
    a_cancelled_timer_can_be_armed_again,
    cancelling_nothing_is_fine,
    a_time_that_is_over_fires_next,
    a_cancelled_transaction_changes_no_timer,
    one_timer_changes_once_in_a_transaction,
    fifty_timers_in_a_transaction_and_no_more,
    keys_of_any_kind,
    bad_timers_are_refused_before_anything,
    timers_of_two_workspaces_do_not_meet,
];

async fn a_timer_fires_at_its_time_and_once(ground: Ground) {
    ground.arm(ground.timer("t", 10.minutes(), "a")).await;
    let fired = ground.fire().await;
    assert_eq!(fired.count, 0);
    assert_eq!(fired.next_due, Some(ground.now() + 10.minutes()));
    ground.pass(599_999.milliseconds());
    assert_eq!(ground.fire().await.count, 0);
    ground.pass(1.milliseconds());
    assert_eq!(ground.fired().await, ["a"]);
    assert_eq!(ground.fire().await.count, 0);
    ground.pass(1.hour());
    assert_eq!(ground.fire().await.count, 0);
    ground.assert_nothing(&PROBE).await;
}

async fn a_timer_of_milliseconds(ground: Ground) {
    ground.arm(ground.timer("t", 1.milliseconds(), "a")).await;
    assert_eq!(ground.fire().await.count, 0);
    ground.pass(1.milliseconds());
    assert_eq!(ground.fired().await, ["a"]);
}

async fn a_timer_of_months(ground: Ground) {
    ground.arm(ground.timer("t", 200.days(), "a")).await;
    for _ in 0..4 {
        ground.pass(49.days());
        assert_eq!(ground.fire().await.count, 0);
    }
    ground.pass(4.days());
    assert_eq!(ground.fired().await, ["a"]);
}

async fn a_timer_goes_to_its_queue(ground: Ground) {
    let timer = Timer { queue: &EMAIL_EVENTS, ..ground.timer("t", 1.minute(), "Zoë 🦀") };
    ground.arm(timer).await;
    ground.pass(1.minute());
    assert_eq!(ground.fire().await.count, 1);
    assert_eq!(ground.arrived(&EMAIL_EVENTS, 1).await, ["Zoë 🦀"]);
    ground.assert_nothing(&PROBE).await;
}

async fn a_timer_that_is_moved_earlier_fires_then(ground: Ground) {
    ground.arm(ground.timer("t", 3.hours(), "late")).await;
    ground.arm(ground.timer("t", 1.hour(), "early")).await;
    ground.pass(1.hour());
    assert_eq!(ground.fired().await, ["early"]);
    ground.pass(3.hours());
    assert_eq!(ground.fire().await.count, 0);
    ground.assert_nothing(&PROBE).await;
}

async fn a_timer_that_is_moved_later_fires_then(ground: Ground) {
    ground.arm(ground.timer("t", 1.hour(), "early")).await;
    ground.arm(ground.timer("t", 3.hours(), "late")).await;
    ground.pass(2.hours());
    assert_eq!(ground.fire().await.count, 0);
    ground.pass(1.hour());
    assert_eq!(ground.fired().await, ["late"]);
}

async fn a_timer_that_is_armed_again_for_the_same_time_fires_once(ground: Ground) {
    for body in ["first", "second", "second"] {
        ground.arm(ground.timer("t", 1.hour(), body)).await;
    }
    ground.pass(1.hour());
    assert_eq!(ground.fired().await, ["second"]);
    assert_eq!(ground.fire().await.count, 0);
}

async fn a_timer_can_be_armed_again_after_it_fired(ground: Ground) {
    for body in ["first", "second"] {
        ground.arm(ground.timer("t", 1.hour(), body)).await;
        ground.pass(1.hour());
        assert_eq!(ground.fired().await, [body]);
    }
}

async fn a_cancelled_timer_never_fires(ground: Ground) {
    ground.arm(ground.timer("t", 1.hour(), "a")).await;
    ground.arm(ground.timer("u", 1.hour(), "b")).await;
    ground.transact(Txn::new().cancel_timer("t")).await;
    ground.pass(2.hours());
    assert_eq!(ground.fired().await, ["b"]);
    assert_eq!(ground.fire().await.count, 0);
}

async fn a_cancelled_timer_can_be_armed_again(ground: Ground) {
    ground.arm(ground.timer("t", 1.hour(), "a")).await;
    ground.transact(Txn::new().cancel_timer("t")).await;
    ground.arm(ground.timer("t", 1.hour(), "b")).await;
    ground.pass(1.hour());
    assert_eq!(ground.fired().await, ["b"]);
}

async fn cancelling_nothing_is_fine(ground: Ground) {
    ground.transact(Txn::new().cancel_timer("t")).await;
    ground.arm(ground.timer("t", 1.minute(), "a")).await;
    ground.pass(1.minute());
    assert_eq!(ground.fired().await, ["a"]);
    ground.transact(Txn::new().cancel_timer("t").put(&MAIN, row("a", "b"), Expect::Absent)).await;
    assert_eq!(ground.fire().await.count, 0);
}

async fn a_time_that_is_over_fires_next(ground: Ground) {
    ground.arm(ground.timer("now", 0.minutes(), "now")).await;
    ground.arm(ground.timer("before", -10.days(), "before")).await;
    ground
        .arm(Timer {
            due: "1969-01-01T00:00:00Z".parse().unwrap(),
            ..ground.timer("ages", 0.minutes(), "ages")
        })
        .await;
    assert_eq!(ground.fired().await, ["ages", "before", "now"]);
    assert_eq!(ground.fire().await.count, 0);
}

async fn a_cancelled_transaction_changes_no_timer(ground: Ground) {
    ground.arm(ground.timer("t", 2.hours(), "kept")).await;
    ground.arm(ground.timer("u", 2.hours(), "kept too")).await;
    let txn = Txn::new()
        .check(&MAIN, Key::new("a", "b"), Expect::Present)
        .arm(ground.timer("t", 1.hour(), "moved"))
        .arm(ground.timer("v", 1.hour(), "new"))
        .cancel_timer("u");
    cancelled(ground.store.transact(txn).await);
    ground.pass(1.hour());
    assert_eq!(ground.fire().await.count, 0);
    ground.pass(1.hour());
    assert_eq!(ground.fired().await, ["kept", "kept too"]);
}

async fn one_timer_changes_once_in_a_transaction(ground: Ground) {
    let arm = || Txn::new().arm(ground.timer("t", 0.minutes(), "x"));
    let twice = arm().arm(ground.timer("t", 1.hour(), "x"));
    assert_refused!(ground.store.transact(twice).await, Invalid::TxnSameTimer);
    let cancelled = arm().cancel_timer("t");
    assert_refused!(ground.store.transact(cancelled).await, Invalid::TxnSameTimer);
    assert_eq!(ground.fire().await.count, 0);
}

async fn fifty_timers_in_a_transaction_and_no_more(ground: Ground) {
    let timers = |count: usize| {
        (0..count).fold(Txn::new(), |txn, number| {
            let body = format!("{number:02}");
            txn.arm(ground.timer(&body, 1.minute(), &body))
        })
    };
    assert_refused!(ground.store.transact(timers(51)).await, Invalid::TxnCount);
    let written = timers(50).put(&MAIN, row("a", "b"), Expect::Anything);
    assert_refused!(ground.store.transact(written).await, Invalid::TxnCount);
    let cancelled = timers(50).cancel_timer("t");
    assert_refused!(ground.store.transact(cancelled).await, Invalid::TxnCount);
    ground.transact(timers(50)).await;
    ground.pass(1.minute());
    assert_eq!(ground.fired().await.len(), 50);
}

async fn keys_of_any_kind(ground: Ground) {
    let longest = "k".repeat(MAX_TIMER_KEY);
    let keys = ["a", "A", "a#b", "a b", "Zoë 🦀", "'\";--", "%_", " ", &longest];
    for key in keys {
        ground.arm(ground.timer(key, 1.minute(), key)).await;
    }
    ground.transact(Txn::new().cancel_timer("A")).await;
    ground.pass(1.minute());
    let mut expected: Vec<_> = keys.into_iter().filter(|key| *key != "A").collect();
    expected.sort_unstable();
    assert_eq!(ground.fired().await, expected);
}

async fn bad_timers_are_refused_before_anything(ground: Ground) {
    let arm = |timer: Timer| {
        ground.store.transact(Txn::new().arm(ground.timer("good", 0.minutes(), "good")).arm(timer))
    };
    for key in ["", "a\0b", &"k".repeat(MAX_TIMER_KEY + 1)] {
        let refused = arm(ground.timer(key, 0.minutes(), "x")).await;
        assert_refused!(refused, Invalid::Message(BadMessage::TimerKey));
    }
    let refused = arm(ground.timer("t", 0.minutes(), "")).await;
    assert_refused!(refused, Invalid::Message(BadMessage::EmptyBody));
    let large = "x".repeat(MAX_BODY_BYTES + 1);
    let refused = arm(ground.timer("t", 0.minutes(), &large)).await;
    assert_refused!(refused, Invalid::Message(BadMessage::BodyTooLarge { .. }));
    assert_eq!(ground.fire().await.count, 0);
}

async fn timers_of_two_workspaces_do_not_meet(ground: Ground) {
    let other = ground.other_store().await;
    for (store, body) in [(&ground.store, "acme"), (&other, "globex")] {
        for (key, kept) in [("kept", "kept"), ("cancelled", "cancelled")] {
            let timer = ground.timer(key, 1.hour(), &format!("{body} {kept}"));
            store.transact(Txn::new().arm(timer)).await.unwrap();
        }
    }
    ground.transact(Txn::new().cancel_timer("cancelled")).await;
    ground.arm(ground.timer("kept", 2.hours(), "acme moved")).await;
    ground.pass(1.hour());
    assert_eq!(ground.fired().await, ["globex cancelled", "globex kept"]);
    ground.pass(1.hour());
    assert_eq!(ground.fired().await, ["acme moved"]);
}
