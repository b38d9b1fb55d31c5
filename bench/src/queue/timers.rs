//! What it costs to look for timers that are due while very many wait.

use std::time::{Duration, Instant};

use anyhow::ensure;
use tidings_kernel::TimerEngine;
use tidings_sql::{Database, DatabaseError, Dialect, Param, SqlQueues};

use super::Sizes;
use super::engine::Engine;
use crate::report::Report;

/// A time that does not come while this runs: in 2100.
const DUE: i64 = 4_102_444_800_000;

pub(super) async fn measure(
    engine: &Engine<'_>,
    sizes: &Sizes,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (database, queues) = engine.open("timers").await?;
    // The first calls connect and prepare.
    calls_per_second(&queues, sizes.timer_span / 4).await?;
    let none = calls_per_second(&queues, sizes.timer_span).await?;
    arm(&database, sizes.timers).await?;
    calls_per_second(&queues, sizes.timer_span / 4).await?;
    let many = calls_per_second(&queues, sizes.timer_span).await?;
    database.close().await;
    report.line(&format!("| {} | {none:.0} | {many:.0} |", engine.name()));
    report.ratio(&format!("timers_idle_{}", engine.label()), many / none, 0.9);
    Ok(())
}

async fn calls_per_second(queues: &SqlQueues, span: Duration) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let mut calls = 0;
    while begun.elapsed() < span {
        let fired = queues.fire(1_000).await?;
        ensure!(fired.count == 0, "a timer fired that is not due");
        calls += 1;
    }
    Ok(f64::from(calls) / begun.elapsed().as_secs_f64())
}

async fn arm(database: &Database, count: u64) -> anyhow::Result<()> {
    let numbers = match database.dialect() {
        Dialect::Sqlite => {
            "WITH RECURSIVE numbers (n) AS (
                 SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < $2)"
        }
        Dialect::Postgres => "WITH numbers (n) AS (SELECT generate_series(1, $2::bigint))",
    };
    // The dues come in no order, as in life.
    let sql = format!(
        "{numbers} INSERT INTO timers (workspace, timer_key, due_at, queue, body)
         SELECT 'bench', 'timer-' || n, $1 + (n * 7919) % 1000003, 'probe', '{{}}' FROM numbers"
    );
    let armed: Result<u64, DatabaseError> = database
        .write(move |tx| tx.execute(&sql, &[Param::Int(DUE), Param::Int(count as i64)]))
        .await;
    ensure!(armed? == count, "not all timers were armed");
    Ok(())
}
