//! What a case stands on: an engine with empty queues, and short words for what cases do all the time.

use std::sync::Arc;
use std::time::Duration;

use tidings_kernel::{
    DeadLetter, Delivery, Depth, Outgoing, Postponement, Queue, QueueEngine, Receipt, Receive,
};

use super::{Quirk, Subject};

/// Longer than any case takes, so that a delivery is kept from others while it lasts.
pub(super) const LONG: Duration = Duration::from_secs(600);
/// The shortest lease that every engine can hold.
pub(super) const SHORT: Duration = Duration::from_secs(1);
/// How long a case waits for what must come.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Ground {
    pub(super) engine: Arc<dyn QueueEngine>,
    subject: Arc<dyn Subject>,
}

impl Ground {
    pub(super) fn new(subject: Arc<dyn Subject>) -> Self {
        Self { engine: subject.engine(), subject }
    }

    pub(super) fn has(&self, quirk: Quirk) -> bool {
        self.subject.quirks().contains(&quirk)
    }

    pub(super) async fn pass(&self, time: Duration) {
        self.subject.pass(time).await;
    }

    pub(super) async fn send(&self, queue: &'static Queue, body: &str) {
        self.engine.send(vec![Outgoing::new(queue, body)]).await.unwrap();
    }

    /// So many messages, with the numbers from 0 as their bodies.
    pub(super) async fn send_numbers(&self, queue: &'static Queue, count: usize) {
        let messages = (0..count).map(|number| Outgoing::new(queue, number.to_string()));
        self.engine.send(messages.collect()).await.unwrap();
    }

    /// What comes within the patience, until there are so many.
    pub(super) async fn take(&self, queue: &'static Queue, count: usize) -> Vec<Delivery> {
        take(&*self.engine, queue, count).await
    }

    pub(super) async fn take_one(&self, queue: &'static Queue) -> Delivery {
        self.take_one_for(queue, LONG).await
    }

    pub(super) async fn take_one_for(&self, queue: &'static Queue, lease: Duration) -> Delivery {
        let request = Receive { max: 1, lease, wait: PATIENCE };
        let mut deliveries = self.engine.receive(queue, request).await.unwrap();
        assert_eq!(deliveries.len(), 1, "one message is in {queue}");
        deliveries.remove(0)
    }

    pub(super) async fn assert_nothing(&self, queue: &'static Queue) {
        let found =
            self.engine.receive(queue, Receive { max: 10, lease: LONG, wait: Duration::ZERO });
        assert_eq!(found.await.unwrap(), [], "nothing is in {queue}");
    }

    pub(super) async fn acknowledge(&self, queue: &'static Queue, delivery: &Delivery) -> usize {
        let receipts = [delivery.receipt.clone()];
        self.engine.acknowledge(queue, &receipts).await.unwrap()
    }

    pub(super) async fn postpone(
        &self,
        queue: &'static Queue,
        delivery: &Delivery,
        lease: Duration,
    ) -> usize {
        self.engine.postpone(queue, &[postponement(delivery, lease)]).await.unwrap()
    }

    /// Receives the one message of a queue until it is given up.
    pub(super) async fn wear_out(&self, queue: &'static Queue) -> Delivery {
        let mut delivery = self.take_one(queue).await;
        for receives in 1..=queue.max_receives {
            assert_eq!(delivery.receives, receives);
            self.postpone(queue, &delivery, Duration::ZERO).await;
            if receives < queue.max_receives {
                delivery = self.take_one(queue).await;
            }
        }
        self.assert_nothing(queue).await;
        delivery
    }

    /// Puts so many messages, with the numbers from 0 as their bodies, among the dead letters.
    pub(super) async fn bury_numbers(&self, queue: &'static Queue, count: usize) {
        for number in 0..count {
            self.send(queue, &number.to_string()).await;
            let delivery = self.take_one(queue).await;
            self.engine.bury(queue, &delivery, "no use").await.unwrap();
        }
    }

    pub(super) async fn dead_letters(&self, queue: &'static Queue) -> Vec<DeadLetter> {
        self.engine.dead_letters(queue, None, 100).await.unwrap()
    }

    pub(super) async fn depth(&self, queue: &'static Queue) -> Depth {
        self.engine.depth(queue).await.unwrap()
    }
}

pub(super) async fn take(
    engine: &dyn QueueEngine,
    queue: &'static Queue,
    count: usize,
) -> Vec<Delivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let request = Receive { max: count - taken.len(), lease: LONG, wait: PATIENCE };
        let deliveries = engine.receive(queue, request).await.unwrap();
        if deliveries.is_empty() {
            break;
        }
        taken.extend(deliveries);
    }
    taken
}

pub(super) fn postponement(delivery: &Delivery, lease: Duration) -> Postponement {
    Postponement { receipt: delivery.receipt.clone(), lease, reason: None }
}

pub(super) fn receipts(deliveries: &[Delivery]) -> Vec<Receipt> {
    deliveries.iter().map(|delivery| delivery.receipt.clone()).collect()
}

/// The bodies, sorted: no queue promises an order.
pub(super) fn bodies(deliveries: &[Delivery]) -> Vec<&str> {
    let mut bodies: Vec<_> = deliveries.iter().map(|delivery| delivery.body.as_str()).collect();
    bodies.sort_unstable();
    bodies
}

/// The request was refused as it stands, for this reason.
macro_rules! assert_refused {
    ($result:expr, $reason:pat) => {
        match $result {
            Err(tidings_kernel::QueueError::Invalid($reason)) => {}
            other => panic!("expected {}, found {other:?}", stringify!($reason)),
        }
    };
}
pub(super) use assert_refused;
