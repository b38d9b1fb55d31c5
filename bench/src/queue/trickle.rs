//! A steady trickle of jobs, and how long each takes from before it is sent until a worker has it in hand.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tidings_jobs::{Handler, Outcome, Settings};
use tidings_kernel::{Delivery, Outgoing, Queue, QueueEngine, queues};
use tidings_sql::SqlQueues;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::crew::Crew;

/// 200 a second.
const EVERY: Duration = Duration::from_millis(5);
/// Connections, statements and caches come with the first jobs, which are not counted.
const WARM_UP: usize = 40;

#[derive(Debug, Clone, Copy)]
pub(super) struct Latency {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Notes how long every job was on its way, by the time in its body.
pub(super) struct Stopwatch {
    epoch: Instant,
    taken: Mutex<Vec<Duration>>,
}

impl Stopwatch {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { epoch: Instant::now(), taken: Mutex::default() })
    }

    fn body(&self) -> String {
        format!("{{\"sent\":{}}}", self.epoch.elapsed().as_nanos())
    }

    fn latency(&self) -> Latency {
        let mut taken =
            self.taken.lock().unwrap_or_else(PoisonError::into_inner).split_off(WARM_UP);
        taken.sort_unstable();
        let at = |share: f64| {
            let place = ((taken.len() as f64 * share) as usize).min(taken.len().saturating_sub(1));
            taken.get(place).map_or(0.0, Duration::as_secs_f64) * 1000.0
        };
        Latency { p50_ms: at(0.5), p99_ms: at(0.99) }
    }
}

#[async_trait]
impl Handler for Stopwatch {
    async fn handle(&self, delivery: &Delivery) -> Outcome {
        let now = self.epoch.elapsed();
        let sent = delivery.body.trim_start_matches("{\"sent\":").trim_end_matches('}').parse();
        let Ok(sent) = sent else { return Outcome::dead("it says not when it was sent") };
        let taken = now.saturating_sub(Duration::from_nanos(sent));
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(taken);
        Outcome::Done
    }
}

pub(super) async fn on_idle_workers(
    queues: &SqlQueues,
    crew: (usize, Settings),
    span: Duration,
) -> anyhow::Result<Latency> {
    let stopwatch = Stopwatch::new();
    let handler: Arc<dyn Handler> = stopwatch.clone();
    let crew = Crew::start(queues, &queues::PROBE, &handler, crew);
    let latency = run(queues, &queues::PROBE, (&crew, &stopwatch), || true, span).await?;
    crew.stop().await;
    Ok(latency)
}

/// Sends until the span is over, or `go_on` says no, and waits until all are done.
pub(super) async fn run(
    queues: &SqlQueues,
    queue: &'static Queue,
    (crew, stopwatch): (&Crew, &Arc<Stopwatch>),
    go_on: impl Fn() -> bool,
    span: Duration,
) -> anyhow::Result<Latency> {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut sending = JoinSet::new();
    let mut count = 0;
    let begun = Instant::now();
    while count <= WARM_UP || (begun.elapsed() < span && go_on()) {
        ticks.tick().await;
        count += 1;
        // Not waited for: a slow one must not keep the next from being late as well.
        let (queues, stopwatch) = (queues.clone(), Arc::clone(stopwatch));
        sending.spawn(async move {
            let body = stopwatch.body();
            queues.send(vec![Outgoing::new(queue, body)]).await
        });
    }
    while let Some(sent) = sending.join_next().await {
        sent??;
    }
    crew.until_done(count).await?;
    Ok(stopwatch.latency())
}
