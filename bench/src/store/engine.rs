//! Driving the engine: so many callers at once, for so long.

use std::time::{Duration, Instant};

use super::workload::Workload;

#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Writes units until so many items are stored.
pub(super) async fn fill(workload: &Workload, items: u64) -> anyhow::Result<()> {
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..1024 {
        let workload = workload.clone();
        callers.spawn(async move {
            while workload.items() < items {
                workload.write_one().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = callers.join_next().await {
        done??;
    }
    Ok(())
}

pub(super) async fn run(
    workload: &Workload,
    in_flight: usize,
    span: Duration,
) -> anyhow::Result<Figures> {
    let mut callers = tokio::task::JoinSet::new();
    let started = Instant::now();
    for _ in 0..in_flight {
        let workload = workload.clone();
        callers.spawn(async move {
            let mut latencies = Vec::new();
            while started.elapsed() < span {
                let begun = Instant::now();
                workload.write_one().await?;
                latencies.push(begun.elapsed());
            }
            anyhow::Ok(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(done) = callers.join_next().await {
        latencies.extend(done??);
    }
    let elapsed = started.elapsed();
    latencies.sort_unstable();
    let at = |share: f64| {
        let place = ((latencies.len() as f64 * share) as usize).min(latencies.len() - 1);
        latencies[place].as_secs_f64() * 1000.0
    };
    let per_second = latencies.len() as f64 / elapsed.as_secs_f64();
    Ok(Figures { per_second, p50_ms: at(0.5), p99_ms: at(0.99) })
}
