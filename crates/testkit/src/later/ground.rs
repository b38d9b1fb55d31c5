//! What a case stands on: items, queues and timers at a known time, and short words for what cases do all the time.

use std::sync::Arc;
use std::time::Duration;

use jiff::{Span, SpanRelativeTo, Timestamp};
use tidings_kernel::queues::PROBE;
use tidings_kernel::{
    Clock, Delivery, Fired, Item, ItemStore, Queue, QueueEngine, Receive, StoreError, Timer,
    TimerEngine, Txn,
};

use super::{Subject, WORKSPACES};

/// When every case begins: a full hour, so that minutes later it is still the same one.
const START: &str = "2025-07-01T09:00:00Z";
const LEASE: Duration = Duration::from_secs(600);
/// How long a case waits for what must come.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Ground {
    pub(super) store: Arc<dyn ItemStore>,
    pub(super) queues: Arc<dyn QueueEngine>,
    pub(super) timers: Arc<dyn TimerEngine>,
    subject: Arc<dyn Subject>,
}

impl Ground {
    pub(super) async fn new(subject: Arc<dyn Subject>) -> Self {
        subject.clock().set(START.parse().unwrap());
        let store = subject.store(&WORKSPACES[0].parse().unwrap()).await;
        Self { store, queues: subject.queues(), timers: subject.timers(), subject }
    }

    /// The items of the other workspace.
    pub(super) async fn other_store(&self) -> Arc<dyn ItemStore> {
        self.subject.store(&WORKSPACES[1].parse().unwrap()).await
    }

    pub(super) fn now(&self) -> Timestamp {
        self.subject.clock().now()
    }

    pub(super) fn set(&self, now: Timestamp) {
        self.subject.clock().set(now);
    }

    pub(super) fn pass(&self, span: Span) {
        self.subject.clock().advance(span);
    }

    pub(super) async fn transact(&self, txn: Txn) {
        self.store.transact(txn).await.unwrap();
    }

    /// A timer that is due so long after now, or before.
    pub(super) fn timer(&self, key: &str, after: Span, body: &str) -> Timer {
        let after = after.to_duration(SpanRelativeTo::days_are_24_hours()).unwrap();
        let due = self.now() + after;
        Timer { key: key.to_owned(), due, queue: &PROBE, body: body.to_owned() }
    }

    pub(super) async fn arm(&self, timer: Timer) {
        self.transact(Txn::new().arm(timer)).await;
    }

    pub(super) async fn fire(&self) -> Fired {
        self.timers.fire(1_000).await.unwrap()
    }

    pub(super) async fn settle(&self) {
        self.subject.settle().await;
    }

    /// Fires what is due, and the bodies that come out of the queue of the timers.
    pub(super) async fn fired(&self) -> Vec<String> {
        let fired = self.fire().await;
        let bodies = self.arrived(&PROBE, fired.count).await;
        assert_eq!(bodies.len(), fired.count, "what was fired comes, and nothing else");
        bodies
    }

    /// The bodies that come out of a queue, sorted, and no more than expected.
    pub(super) async fn arrived(&self, queue: &'static Queue, expected: usize) -> Vec<String> {
        self.settle().await;
        let mut taken = Vec::new();
        loop {
            let wait = if taken.len() < expected { PATIENCE } else { Duration::ZERO };
            let request = Receive { max: 100, lease: LEASE, wait };
            let deliveries = self.queues.receive(queue, request).await.unwrap();
            if deliveries.is_empty() {
                break;
            }
            taken.extend(deliveries);
        }
        self.acknowledge(queue, &taken).await;
        let mut bodies: Vec<_> = taken.into_iter().map(|delivery| delivery.body).collect();
        bodies.sort_unstable();
        bodies
    }

    async fn acknowledge(&self, queue: &'static Queue, deliveries: &[Delivery]) {
        for chunk in deliveries.chunks(1_000) {
            let receipts: Vec<_> = chunk.iter().map(|delivery| delivery.receipt.clone()).collect();
            self.queues.acknowledge(queue, &receipts).await.unwrap();
        }
    }

    pub(super) async fn assert_nothing(&self, queue: &'static Queue) {
        assert_eq!(self.arrived(queue, 0).await, [""; 0], "nothing comes to {queue}");
    }
}

/// The transaction was refused as it stands, for this reason.
macro_rules! assert_refused {
    ($result:expr, $reason:pat) => {
        match $result {
            Err(tidings_kernel::StoreError::Invalid($reason)) => {}
            other => panic!("expected {}, found {other:?}", stringify!($reason)),
        }
    };
}
pub(super) use assert_refused;

/// How many writes of the cancelled transaction are accounted for.
pub(super) fn cancelled(result: Result<(), StoreError>) -> usize {
    match result {
        Err(StoreError::Cancelled(reasons)) => reasons.len(),
        other => panic!("expected a cancelled transaction, found {other:?}"),
    }
}

/// An item of a table with the keys `PK` and `SK`.
pub(super) fn row(partition: &str, sort: &str) -> Item {
    Item::new().with("PK", partition).with("SK", sort)
}
