//! Messages in a transaction: they leave if it is made, and only then.

use std::time::Duration;

use jiff::ToSpan;
use tidings_kernel::queues::{EMAIL_EVENTS, FEATURE_PROCESSING, MEMORY_PROCESSING, PROBE};
use tidings_kernel::tables::MAIN;
use tidings_kernel::topics::LEAD_EVENTS;
use tidings_kernel::{BadMessage, Expect, Invalid, Key, MAX_BODY_BYTES, MAX_DELAY, Outgoing, Txn};

use super::{Case, cases};
use crate::later::ground::{Ground, assert_refused, cancelled, row};

pub(super) const CASES: &[Case] = &cases![
    a_transaction_sends_its_messages,
    a_cancelled_transaction_sends_nothing,
    reasons_are_told_of_writes_only,
    a_transaction_of_messages_only,
    a_message_to_a_topic_reaches_its_queues,
    a_hundred_messages_and_no_more,
    the_largest_body_is_sent,
    a_delayed_message_is_held_back,
    a_delay_counts_from_the_transaction,
    bad_messages_are_refused_before_anything,
    two_workspaces_send_to_one_queue,
];

fn message(body: &str) -> Outgoing {
    Outgoing::new(&PROBE, body)
}

async fn a_transaction_sends_its_messages(ground: Ground) {
    let txn = Txn::new()
        .put(&MAIN, row("a", "b"), Expect::Absent)
        .enqueue(message("{\"name\":\"Zoë 🦀\"}\r\n"))
        .enqueue(Outgoing::new(&EMAIL_EVENTS, "another"));
    ground.transact(txn).await;
    assert_eq!(ground.store.get(&MAIN, &Key::new("a", "b")).await.unwrap(), Some(row("a", "b")));
    assert_eq!(ground.arrived(&PROBE, 1).await, ["{\"name\":\"Zoë 🦀\"}\r\n"]);
    assert_eq!(ground.arrived(&EMAIL_EVENTS, 1).await, ["another"]);
}

async fn a_cancelled_transaction_sends_nothing(ground: Ground) {
    let txn = Txn::new()
        .put(&MAIN, row("a", "b"), Expect::Present)
        .enqueue(message("x"))
        .enqueue(Outgoing::publish(&LEAD_EVENTS, "x"));
    cancelled(ground.store.transact(txn).await);
    ground.assert_nothing(&PROBE).await;
    ground.assert_nothing(&MEMORY_PROCESSING).await;
}

async fn reasons_are_told_of_writes_only(ground: Ground) {
    let txn = Txn::new()
        .put(&MAIN, row("a", "b"), Expect::Absent)
        .put(&MAIN, row("a", "c"), Expect::Present)
        .enqueue(message("x"))
        .arm(ground.timer("t", 1.hour(), "x"))
        .cancel_timer("u");
    assert_eq!(cancelled(ground.store.transact(txn).await), 2);
}

async fn a_transaction_of_messages_only(ground: Ground) {
    ground.transact(Txn::new().enqueue(message("a")).enqueue(message("a"))).await;
    assert_eq!(ground.arrived(&PROBE, 2).await, ["a", "a"]);
}

async fn a_message_to_a_topic_reaches_its_queues(ground: Ground) {
    ground.transact(Txn::new().enqueue(Outgoing::publish(&LEAD_EVENTS, "a"))).await;
    assert_eq!(ground.arrived(&MEMORY_PROCESSING, 1).await, ["a"]);
    assert_eq!(ground.arrived(&FEATURE_PROCESSING, 1).await, ["a"]);
}

async fn a_hundred_messages_and_no_more(ground: Ground) {
    let messages = |count: usize| {
        (0..count).fold(Txn::new(), |txn, number| txn.enqueue(message(&format!("{number:02}"))))
    };
    assert_refused!(ground.store.transact(messages(101)).await, Invalid::TxnCount);
    let written = messages(100).put(&MAIN, row("a", "b"), Expect::Anything);
    assert_refused!(ground.store.transact(written).await, Invalid::TxnCount);
    ground.transact(messages(100)).await;
    let expected: Vec<_> = (0..100).map(|number| format!("{number:02}")).collect();
    assert_eq!(ground.arrived(&PROBE, 100).await, expected);
}

async fn the_largest_body_is_sent(ground: Ground) {
    let body = "x".repeat(MAX_BODY_BYTES);
    ground.transact(Txn::new().enqueue(message(&body))).await;
    assert!(ground.arrived(&PROBE, 1).await == [body]);
}

async fn a_delayed_message_is_held_back(ground: Ground) {
    ground.transact(Txn::new().enqueue(message("a").delayed(MAX_DELAY))).await;
    ground.assert_nothing(&PROBE).await;
}

async fn a_delay_counts_from_the_transaction(ground: Ground) {
    ground.transact(Txn::new().enqueue(message("a").delayed(MAX_DELAY))).await;
    ground.pass(15.minutes());
    assert_eq!(ground.arrived(&PROBE, 1).await, ["a"]);
}

async fn bad_messages_are_refused_before_anything(ground: Ground) {
    let txn = |bad: Outgoing| {
        let txn = Txn::new().put(&MAIN, row("a", "b"), Expect::Anything);
        ground.store.transact(txn.enqueue(message("good")).enqueue(bad))
    };
    assert_refused!(txn(message("")).await, Invalid::Message(BadMessage::EmptyBody));
    assert_refused!(txn(message("\u{1}")).await, Invalid::Message(BadMessage::BodyCharacter));
    let late = message("x").delayed(MAX_DELAY + Duration::from_millis(1));
    assert_refused!(txn(late).await, Invalid::Message(BadMessage::Delay));
    assert_eq!(ground.store.get(&MAIN, &Key::new("a", "b")).await.unwrap(), None);
    ground.assert_nothing(&PROBE).await;
}

async fn two_workspaces_send_to_one_queue(ground: Ground) {
    let other = ground.other_store().await;
    ground.transact(Txn::new().enqueue(message("a"))).await;
    other.transact(Txn::new().enqueue(message("b"))).await.unwrap();
    assert_eq!(ground.arrived(&PROBE, 2).await, ["a", "b"]);
}
