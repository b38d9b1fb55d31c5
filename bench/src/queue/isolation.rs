//! Whether account mail still goes out at once while a campaign waits in its own queue.

use std::sync::Arc;

use tidings_jobs::{Handler, Settings};
use tidings_kernel::queues::{CAMPAIGN_EMAIL, TRANSACTIONAL_EMAIL};
use tidings_sql::SqlQueues;

use super::Sizes;
use super::crew::{Crew, Nothing};
use super::drain;
use super::engine::Engine;
use super::trickle::{self, Latency, Stopwatch};
use crate::report::Report;

pub(super) async fn measure(
    engine: &Engine<'_>,
    sizes: &Sizes,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (database, queues) = engine.open("isolation").await?;
    let alone = small_queue(&queues, || true, sizes).await?;
    drain::send(&queues, &CAMPAIGN_EMAIL, sizes.backlog).await?;
    let nothing: Arc<dyn Handler> = Arc::new(Nothing);
    // As the product starts its workers.
    let busy = Crew::start(&queues, &CAMPAIGN_EMAIL, &nothing, (1, Settings::default()));
    let beside = small_queue(&queues, || busy.done() < sizes.backlog, sizes).await?;
    busy.stop().await;
    database.close().await;
    report.line(&format!(
        "| {} | {:.2} | {:.2} | {:.2} | {:.2} |",
        engine.name(),
        alone.p50_ms,
        alone.p99_ms,
        beside.p50_ms,
        beside.p99_ms
    ));
    report.ratio(&format!("isolation_{}", engine.label()), alone.p99_ms / beside.p99_ms, 0.5);
    Ok(())
}

async fn small_queue(
    queues: &SqlQueues,
    go_on: impl Fn() -> bool,
    sizes: &Sizes,
) -> anyhow::Result<Latency> {
    let stopwatch = Stopwatch::new();
    let handler: Arc<dyn Handler> = stopwatch.clone();
    let crew = Crew::start(queues, &TRANSACTIONAL_EMAIL, &handler, (1, Settings::default()));
    let watched = (&crew, &stopwatch);
    let latency = trickle::run(queues, &TRANSACTIONAL_EMAIL, watched, go_on, sizes.trickle).await?;
    crew.stop().await;
    Ok(latency)
}
