//! The queues: how fast jobs that do nothing are sent and worked off, how soon one is begun on an idle worker, what
//! waiting timers cost, and whether a backlog in one queue is felt in another.
//!
//! Everything is durable. Beside PostgreSQL, graphile-worker does the same on the same server in the same run, with
//! the best settings that we know for it.

pub(crate) mod crew;
mod drain;
mod engine;
mod graphile;
mod isolation;
mod timers;
mod trickle;

use std::time::Duration;

use crate::postgres_server::PostgresServer;
use crate::report::Report;
use drain::Drained;
use engine::Engine;

/// How many workers share a queue.
const WORKERS: [usize; 2] = [1, 4];

pub(crate) struct Sizes {
    jobs: usize,
    /// How many of them are sent one by one.
    singles: usize,
    trickle: Duration,
    backlog: usize,
    timers: u64,
    timer_span: Duration,
}

impl Sizes {
    fn new(quick: bool) -> Self {
        if quick {
            Self {
                jobs: 10_000,
                singles: 2_000,
                trickle: Duration::from_millis(1_500),
                backlog: 10_000,
                timers: 100_000,
                timer_span: Duration::from_millis(500),
            }
        } else {
            Self {
                jobs: 100_000,
                singles: 10_000,
                trickle: Duration::from_secs(5),
                backlog: 100_000,
                timers: 1_000_000,
                timer_span: Duration::from_secs(2),
            }
        }
    }
}

pub(crate) async fn run(quick: bool) -> anyhow::Result<Report> {
    let sizes = Sizes::new(quick);
    let command =
        format!("cargo run --release -p bench -- queue{}", if quick { " --quick" } else { "" });
    let mut report = Report::new("queue", &command);
    // Not in /tmp, which may be memory.
    std::fs::create_dir_all("target")?;
    let folder = tempfile::tempdir_in("target")?;
    let server = PostgresServer::start()?;
    let mut engines = vec![Engine::Sqlite(folder.path())];
    engines.extend(server.as_ref().map(Engine::Postgres));

    report.line(&format!(
        "{} jobs that do nothing, sent before the workers start; then 200 a second, one by one, to idle workers.\n",
        sizes.jobs
    ));
    report.line("| engine | workers | sent/s, 1,000 at once | sent/s, one by one, 64 in flight | done/s | p50 ms | p99 ms |");
    report.line("|---|---:|---:|---:|---:|---:|---:|");
    let mut best = 0.0f64;
    for engine in &engines {
        for workers in WORKERS {
            let drained = drain::measure(engine, workers, &sizes).await?;
            report.line(&row(engine.name(), workers, &drained));
            if matches!(engine, Engine::Postgres(_)) {
                best = best.max(drained.done_per_second);
            }
        }
    }
    match &server {
        Some(server) => beside_graphile(server, &sizes, best, &mut report).await?,
        None => report.line("\nPostgreSQL is not installed here and was not measured."),
    }

    report.line(
        "\nLooking for timers that are due, calls a second, while so many wait and none is due:\n",
    );
    report.line(&format!("| engine | none waits | {} wait |", sizes.timers));
    report.line("|---|---:|---:|");
    for engine in &engines {
        timers::measure(engine, &sizes, &mut report).await?;
    }

    report.line(&format!(
        "\nOne queue, 200 jobs a second, beside another with a backlog of {} that a worker works off, and without:\n",
        sizes.backlog
    ));
    report.line("| engine | p50 ms alone | p99 ms alone | p50 ms beside it | p99 ms beside it |");
    report.line("|---|---:|---:|---:|---:|");
    for engine in &engines {
        isolation::measure(engine, &sizes, &mut report).await?;
    }
    Ok(report)
}

fn row(name: &str, workers: usize, drained: &Drained) -> String {
    format!(
        "| {name} | {workers} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} |",
        drained.batches_per_second,
        drained.singles_per_second,
        drained.done_per_second,
        drained.latency.p50_ms,
        drained.latency.p99_ms
    )
}

async fn beside_graphile(
    server: &PostgresServer,
    sizes: &Sizes,
    best: f64,
    report: &mut Report,
) -> anyhow::Result<()> {
    match graphile::measure(server, sizes).await? {
        Ok(graphile) => {
            for line in graphile.rows() {
                report.line(&line);
            }
            report.line(&format!("\n{}", graphile.about()));
            report.ratio("postgres_vs_graphile", best / graphile.best(), 5.0);
            report.ratio("postgres_vs_graphile_unbatched", best / graphile.unbatched(), 5.0);
        }
        Err(missing) => report.line(&format!("\nNot compared with graphile-worker: {missing}.")),
    }
    Ok(())
}
