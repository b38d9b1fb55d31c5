//! What a server does besides answering: work on the queues, fire timers, begin periodic work, clean up.

use std::sync::Arc;
use std::time::Duration;

use tidings_inbox::expiry::Rounds;
use tidings_inbox::patrol::Patrol;
use tidings_jobs::{Stop, fire_timers, keep_schedules, relay};
use tidings_kernel::{Queue, QueueEngine, queues};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::{sweeper, until};
use crate::config::Config;
use crate::failure::Failure;
use crate::probe;
use crate::runtime::Runtime;
use crate::store::Store;

/// How often the depth of the queues is looked at.
const LOOK: Duration = Duration::from_secs(15);

/// Tasks with their names.
pub(super) type Tasks = Vec<(String, JoinHandle<()>)>;

/// Starts what the roles of this process ask for.
pub(super) fn start(
    store: &Store,
    runtime: &Runtime,
    config: &Config,
    stop: &Stop,
    stopped: &watch::Receiver<bool>,
) -> Result<Tasks, Failure> {
    let mut tasks = Tasks::new();
    let mut spawn = |name: String, task: JoinHandle<()>| tasks.push((name, task));
    if config.roles.worker {
        for worker in runtime.workers(config) {
            let name = format!("worker of {}", worker.queue);
            spawn(name, tokio::spawn(worker.run(stop.clone())));
        }
    }
    if config.roles.http {
        let (inbox, access) = (Arc::clone(&runtime.inbox), runtime.access().clone());
        let stop = stop.clone();
        let following = async move { inbox.hints.follow(&access, stop).await };
        spawn("inbox hints".to_owned(), tokio::spawn(following));
    }
    if config.roles.scheduler {
        for timers in &runtime.timers {
            let firing = fire_timers(Arc::clone(timers), Arc::clone(&runtime.clock), stop.clone());
            spawn("timers".to_owned(), tokio::spawn(firing));
        }
        for outbox in &runtime.outboxes {
            let relaying = relay(Arc::clone(outbox), Arc::clone(&runtime.queues), stop.clone());
            spawn("outbox relay".to_owned(), tokio::spawn(relaying));
        }
        let schedules = vec![
            probe::heartbeat(&config.heartbeat, &runtime.clock)?,
            tidings_leads::features::schedule(&config.daily_features)?,
        ];
        let (engine, clock) = (Arc::clone(&runtime.schedules), Arc::clone(&runtime.clock));
        let keeping = keep_schedules(schedules, engine, clock, stop.clone());
        spawn("schedules".to_owned(), tokio::spawn(keeping));
        let engine = Arc::clone(&store.engine);
        let inboxes =
            Rounds::new(runtime.access().clone(), Arc::clone(&engine), Arc::clone(&runtime.inbox));
        let sweeping = sweeper::run(engine, inboxes, config.sweep.clone(), stopped.clone());
        spawn("sweeper".to_owned(), tokio::spawn(sweeping));
        let patrol = Patrol::new(runtime.access().clone(), Arc::clone(&runtime.inbox));
        let patrolling = sweeper::patrol(patrol, stopped.clone());
        spawn("inbox patrol".to_owned(), tokio::spawn(patrolling));
        let tidying = sweeper::tidy(runtime.access().clone(), config.sweep.batch, stopped.clone());
        spawn("chores".to_owned(), tokio::spawn(tidying));
        let gauging = gauge_queues(Arc::clone(&runtime.queues), stopped.clone());
        spawn("queue gauges".to_owned(), tokio::spawn(gauging));
    }
    Ok(tasks)
}

/// Keeps the gauges of the queues up to date.
async fn gauge_queues(engine: Arc<dyn QueueEngine>, stopped: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stop = until(stopped);
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return,
            _ = ticks.tick() => {}
        }
        for queue in queues::ALL {
            if let Err(error) = gauge(&*engine, queue).await {
                let error = format!("{:#}", anyhow::Error::new(error));
                tracing::warn!(queue = queue.name, error, "The depth of a queue is not known");
            }
        }
    }
}

async fn gauge(
    engine: &dyn QueueEngine,
    queue: &'static Queue,
) -> Result<(), tidings_kernel::QueueError> {
    let depth = engine.depth(queue).await?;
    for (state, count) in [("ready", depth.ready), ("hidden", depth.hidden), ("dead", depth.dead)] {
        metrics::gauge!("tidings_queue_messages", "queue" => queue.name, "state" => state)
            .set(count as f64);
    }
    let is_empty = depth.ready + depth.hidden == 0;
    // SQS does not know: no figure is better than one that looks well.
    if let Some(age) = depth.oldest_age.or(is_empty.then_some(Duration::ZERO)) {
        metrics::gauge!("tidings_queue_oldest_age_seconds", "queue" => queue.name).set(age);
    }
    Ok(())
}
