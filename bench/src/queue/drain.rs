//! Sending jobs, and working them off.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::ensure;
use tidings_jobs::{Handler, Settings};
use tidings_kernel::{Outgoing, Queue, QueueEngine, queues};
use tidings_sql::SqlQueues;
use tokio::task::JoinSet;

use super::Sizes;
use super::crew::{Crew, Nothing};
use super::engine::Engine;
use super::trickle::{self, Latency};

const AT_ONCE: usize = 1_000;
const IN_FLIGHT: usize = 64;

pub(super) struct Drained {
    pub(super) batches_per_second: f64,
    pub(super) singles_per_second: f64,
    pub(super) done_per_second: f64,
    pub(super) latency: Latency,
}

/// For jobs as short as these: one batch is worked on while the next is taken.
pub(super) fn settings() -> Settings {
    Settings { concurrency: 1_024, batch: 512, ..Settings::default() }
}

pub(super) async fn measure(
    engine: &Engine<'_>,
    workers: usize,
    sizes: &Sizes,
) -> anyhow::Result<Drained> {
    let (database, queues) = engine.open(&format!("drain_{workers}")).await?;
    let nothing: Arc<dyn Handler> = Arc::new(Nothing);
    let crew = (workers, settings());

    let singles_per_second = send_singly(&queues, sizes.singles).await?;
    let started = Crew::start(&queues, &queues::PROBE, &nothing, crew.clone());
    started.until_done(sizes.singles).await?;
    started.stop().await;

    let batches_per_second = send(&queues, &queues::PROBE, sizes.jobs).await?;
    let begun = Instant::now();
    let started = Crew::start(&queues, &queues::PROBE, &nothing, crew.clone());
    started.until_done(sizes.jobs).await?;
    let done_per_second = sizes.jobs as f64 / begun.elapsed().as_secs_f64();
    started.stop().await;
    let left = queues.depth(&queues::PROBE).await?;
    ensure!(left.ready + left.hidden + left.dead == 0, "after all was done there is {left:?}");

    database.close().await;

    // The other side, too, begins this with an empty table.
    let (database, queues) = engine.open(&format!("trickle_{workers}")).await?;
    let latency = trickle::on_idle_workers(&queues, crew, sizes.trickle).await?;
    database.close().await;
    Ok(Drained { batches_per_second, singles_per_second, done_per_second, latency })
}

/// Sends jobs, a batch after the other. Tells how many a second.
pub(super) async fn send(
    queues: &SqlQueues,
    queue: &'static Queue,
    jobs: usize,
) -> anyhow::Result<f64> {
    let begun = Instant::now();
    for first in (0..jobs).step_by(AT_ONCE) {
        let batch = first..jobs.min(first + AT_ONCE);
        queues.send(batch.map(|n| Outgoing::new(queue, body(n))).collect()).await?;
    }
    Ok(jobs as f64 / begun.elapsed().as_secs_f64())
}

async fn send_singly(queues: &SqlQueues, jobs: usize) -> anyhow::Result<f64> {
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let mut senders = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (queues, next) = (queues.clone(), Arc::clone(&next));
        senders.spawn(async move {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= jobs {
                    return anyhow::Ok(());
                }
                queues.send(vec![Outgoing::new(&queues::PROBE, body(n))]).await?;
            }
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    Ok(jobs as f64 / begun.elapsed().as_secs_f64())
}

/// The same as what the other side sends.
fn body(n: usize) -> String {
    format!("{{\"job\":{n}}}")
}
