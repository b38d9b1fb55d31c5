//! A pause while several workers hand over several batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::future::{join, join_all};
use tidings_jobs::Outcome;
use tidings_kernel::{Accepted, Mail, SendError, Sender};
use tidings_testbed::{Bed, each_store};
use tokio::sync::Semaphore;

use super::{AT_ONCE, World, delivery, worker_over};
use crate::campaigns::draft::Find;
use crate::campaigns::{Status, control};

each_store!(a_pause_takes_effect_within_one_handful_of_each_batch);

/// A provider that holds each message until it is let go.
struct Holding {
    asked: AtomicUsize,
    go: Semaphore,
}

#[async_trait]
impl Sender for Holding {
    fn name(&self) -> &'static str {
        "test"
    }

    async fn send(&self, _: &Mail) -> Result<Accepted, SendError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.go.acquire().await.unwrap().forget();
        Ok(Accepted::by_all(None))
    }
}

async fn a_pause_takes_effect_within_one_handful_of_each_batch(bed: &Bed) {
    const BATCHES: usize = 4;
    let world = World::new(bed, BATCHES * 10).await;
    let sending = world.campaign(10).await;
    let provider = Arc::new(Holding { asked: AtomicUsize::new(0), go: Semaphore::new(0) });
    let mut handlers = Vec::new();
    for node in ["node-1", "node-2"] {
        handlers.push(worker_over(bed.access.clone(), provider.clone(), node).await.handler());
    }
    let deliveries: Vec<_> = sending.messages.iter().map(|body| delivery(body)).collect();
    let working = deliveries.iter().enumerate();
    let working = working.map(|(place, delivery)| handlers[place % 2].handle(delivery));
    let (find, handed) = (Find { id: sending.campaign, client: None }, BATCHES * AT_ONCE);
    let cx = bed.cx().await;
    let pausing = async {
        while provider.asked.load(Ordering::SeqCst) < handed {
            tokio::task::yield_now().await;
        }
        let paused = control::pause(&cx, find, None).await.unwrap().campaign;
        assert_eq!(paused.status, Status::Paused);
        provider.go.add_permits(1_000);
    };
    let (outcomes, ()) = join(join_all(working), pausing).await;
    assert_eq!(outcomes, vec![Outcome::Done; BATCHES]);
    assert_eq!(provider.asked.load(Ordering::SeqCst), handed);
    let statuses = sending.statuses().await;
    let expected = [("pending", BATCHES * 10 - handed), ("sent", handed)];
    let expected = expected.map(|(status, count)| (status.to_owned(), count as i64));
    assert_eq!(statuses, expected.into_iter().collect());

    control::resume(&cx, find, None).await.unwrap();
    sending.feed().await;
    world.work().await;
    assert_eq!(world.provider.asked(), BATCHES * 10 - handed, "the others, each once");
    assert_eq!(sending.statuses().await["sent"], BATCHES as i64 * 10);
    assert_eq!(sending.status().await, Status::Sent);
}
