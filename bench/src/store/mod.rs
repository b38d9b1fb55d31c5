//! The store: how fast an engagement event is taken in, durably, beside what the disk and SQLite can do.
//!
//! One unit is the event-ingest transaction of the design: a dedupe item that must not be there yet, the event
//! with its two indexes, and two counters. Two items stay behind.

mod engine;
mod limits;
mod workload;

use std::sync::Arc;
use std::time::Duration;

use tidings_kernel::SystemClock;
use tidings_sql::{Database, PostgresOptions, SqlItems, SqliteOptions, Tls};

use crate::postgres_server::PostgresServer;
use crate::report::Report;
use engine::Figures;
use workload::Workload;

/// The most first: it is compared, and the others fill the store further.
const IN_FLIGHT: [usize; 3] = [1024, 64, 1];

struct Sizes {
    small: u64,
    large: u64,
    span: Duration,
}

pub(crate) async fn run(quick: bool) -> anyhow::Result<Report> {
    let sizes = if quick {
        Sizes { small: 20_000, large: 200_000, span: Duration::from_secs(2) }
    } else {
        Sizes { small: 100_000, large: 2_000_000, span: Duration::from_secs(10) }
    };
    let command =
        format!("cargo run --release -p bench -- store{}", if quick { " --quick" } else { "" });
    let mut report = Report::new("store", &command);
    // Not in /tmp, which may be memory.
    std::fs::create_dir_all("target")?;
    let folder = tempfile::tempdir_in("target")?;

    let fsyncs = limits::fsyncs_per_second(folder.path())?;
    report.line(
        "One unit: dedupe put + event + two indexes + two counters, one transaction, durable.\n",
    );
    report.line(&format!("The disk makes {fsyncs:.0} fsyncs a second.\n"));
    report.line("| engine | items stored in the end | in flight | units/s | p50 ms | p99 ms |");
    report.line("|---|---:|---:|---:|---:|---:|");

    let sqlite =
        Database::sqlite(&folder.path().join("bench.db"), SqliteOptions::default()).await?;
    let engine = SqlItems::new(sqlite.clone(), Arc::new(SystemClock));
    let (small, large, one_by_one) = measure("SQLite", engine, &sizes, &mut report).await?;
    sqlite.close().await;

    for (stored, busiest) in [(sizes.small, &small), (sizes.large, &large)] {
        let raw = limits::raw_sqlite(
            &folder.path().join(format!("raw-{stored}.db")),
            stored,
            sizes.span,
        )?;
        let name = "raw SQLite, one commit per 1,024";
        report.line(&format!("| {name} | {stored} | – | {raw:.0} | – | – |"));
        let label = if stored == sizes.small { "small" } else { "large" };
        report.ratio(&format!("sqlite_vs_raw_{label}"), busiest.per_second / raw, 0.7);
    }
    report.ratio("sqlite_flat", large.per_second / small.per_second, 0.85);
    // One at a time, a unit cannot be faster than one fsync.
    report.ratio("sqlite_1_vs_fsyncs", one_by_one / fsyncs, 0.5);

    match PostgresServer::start()? {
        Some(server) => {
            let options = PostgresOptions { tls: Tls::Disable, ..PostgresOptions::default() };
            let database = Database::postgres(&server.url(), options).await?;
            let engine = SqlItems::new(database.clone(), Arc::new(SystemClock));
            let (small, large, one_by_one) =
                measure("PostgreSQL", engine, &sizes, &mut report).await?;
            report.ratio("postgres_1_vs_fsyncs", one_by_one / fsyncs, 0.2);
            report.ratio("postgres_flat", large.per_second / small.per_second, 0.85);
            database.close().await;
        }
        None => report.line("\nPostgreSQL is not installed here and was not measured."),
    }
    Ok(report)
}

/// The figures at the most in flight, with few items stored and with many, and units a second one at a time.
async fn measure(
    name: &str,
    items: SqlItems,
    sizes: &Sizes,
    report: &mut Report,
) -> anyhow::Result<(Figures, Figures, f64)> {
    let workload = Workload::open(&items).await?;
    let mut busiest = Vec::new();
    let mut one_by_one = 0.0;
    for stored in [sizes.small, sizes.large] {
        engine::fill(&workload, stored).await?;
        for in_flight in IN_FLIGHT {
            let figures = engine::run(&workload, in_flight, sizes.span).await?;
            let stored = workload.items();
            report.line(&format!(
                "| {name} | {stored} | {in_flight} | {:.0} | {:.2} | {:.2} |",
                figures.per_second, figures.p50_ms, figures.p99_ms
            ));
            if in_flight == IN_FLIGHT[0] {
                busiest.push(figures);
            }
            if in_flight == 1 {
                one_by_one = figures.per_second;
            }
        }
    }
    workload.verify().await?;
    let large = busiest.pop().expect("two sizes were measured");
    let small = busiest.pop().expect("two sizes were measured");
    Ok((small, large, one_by_one))
}
