//! Mail: messages accepted and handed over, what the provider tells taken in, and files of people imported, each beside a
//! limit that is measured in the same run.
//!
//! Callers and server share the machine: what a caller costs is in every figure.

mod accept;
mod handoff;
mod import;
mod ingest;
pub(crate) mod load;
pub(crate) mod place;
mod signer;

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tidings_sql::{Database, PostgresOptions, SqliteOptions, Tls};

use crate::postgres_server::PostgresServer;
use crate::report::Report;
use handoff::Clerk;
use place::Place;
use signer::Signer;

/// So many rows a second are wanted of an import.
const WANTED_ROWS: f64 = 20_000.0;

struct Sizes {
    span: Duration,
    /// The most messages at saturation, and so the most notifications.
    messages: usize,
    rows: usize,
}

pub(crate) async fn run(quick: bool) -> anyhow::Result<Report> {
    let sizes = if quick {
        Sizes { span: Duration::from_secs(2), messages: 2_000, rows: 20_000 }
    } else {
        Sizes { span: Duration::from_secs(8), messages: 20_000, rows: 200_000 }
    };
    let command =
        format!("cargo run --release -p bench -- mail{}", if quick { " --quick" } else { "" });
    let mut report = Report::new("mail", &command);
    // They are counted in the product, too.
    let metrics = PrometheusBuilder::new().install_recorder()?;
    // Not in /tmp, which may be memory.
    std::fs::create_dir_all("target")?;
    let folder = tempfile::tempdir_in("target")?;

    let sqlite = Database::sqlite(&folder.path().join("mail.db"), SqliteOptions::default()).await?;
    let imports =
        Database::sqlite(&folder.path().join("import.db"), SqliteOptions::default()).await?;
    measure("SQLite", &sqlite, (&imports, &metrics), &sizes, &mut report).await?;
    sqlite.close().await;
    imports.close().await;
    match PostgresServer::start()? {
        Some(server) => {
            let options = || PostgresOptions { tls: Tls::Disable, ..PostgresOptions::default() };
            let database = Database::postgres(&server.url(), options()).await?;
            let imports = server.new_database("imports")?;
            let imports = Database::postgres(&imports, options()).await?;
            measure("PostgreSQL", &database, (&imports, &metrics), &sizes, &mut report).await?;
            database.close().await;
            imports.close().await;
        }
        None => report.line("PostgreSQL is not installed here and was not measured."),
    }
    Ok(report)
}

async fn measure(
    name: &str,
    database: &Database,
    (imports, metrics): (&Database, &PrometheusHandle),
    sizes: &Sizes,
    report: &mut Report,
) -> anyhow::Result<()> {
    let signer = Signer::open().await?;
    let place = Place::open(database, metrics, signer.settings()).await?;
    let engine = name.to_lowercase();
    report.line(&format!("### {name}\n"));

    let clerk = Arc::new(Clerk::default());
    let handoff = handoff::measure(&place, &clerk, (sizes.span, sizes.messages)).await?;
    report.line("From the request to the sender, everybody new, 32 messages at once:\n");
    report
        .line("| load | accepted/s | handed over/s | p50 ms | p99 ms |\n|---|---:|---:|---:|---:|");
    let (steady, saturated) = (handoff.steady, handoff.saturated);
    for (load, accepted, figures) in [
        ("200 a second", steady.per_second, steady),
        ("64 connections", handoff.accepted.per_second, saturated),
    ] {
        report.line(&format!(
            "| {load} | {accepted:.0} | {:.0} | {:.2} | {:.2} |",
            figures.per_second, figures.p50_ms, figures.p99_ms
        ));
    }

    let handed = clerk.handed();
    let count = handed.len();
    let ingest = ingest::measure(&place, &signer, handed).await?;
    report.line(&format!("\n{count} notifications of SES, each with its signature:\n"));
    report.line("| step | notifications/s | p50 ms | p99 ms |\n|---|---:|---:|---:|");
    for (step, figures) in [
        ("taken in over HTTP, 64 connections", ingest.accepted),
        ("the same item transactions alone, 64 callers", ingest.raw),
    ] {
        report.line(&format!(
            "| {step} | {:.0} | {:.2} | {:.2} |",
            figures.per_second, figures.p50_ms, figures.p99_ms
        ));
    }
    let recorded = ingest.recorded;
    report.line(&format!("| recorded by the worker, with the ledger | {recorded:.0} | – | – |"));
    report.ratio(
        &format!("ingest_{engine}"),
        ingest.accepted.per_second / ingest.raw.per_second,
        0.5,
    );
    report.ratio(&format!("record_{engine}"), recorded / ingest.raw.per_second, 0.5);

    report.line("\nRequests, 64 connections:\n");
    report.line("| request | a second | p50 ms | p99 ms |\n|---|---:|---:|---:|");
    accept::measure(&place, &engine, sizes.span, report).await?;

    let place = Place::open(imports, metrics, signer.settings()).await?;
    let rows = sizes.rows;
    let rates = import::measure(&place.cx, rows).await?;
    report.line(&format!("\nA file of {rows} people with 2 tags and 3 attributes each:\n"));
    report.line("| import | rows/s |\n|---|---:|");
    report.line(&format!("| everybody new | {:.0} |", rates.new));
    report.line(&format!("| the same file again | {:.0} |\n", rates.again));
    report.ratio(&format!("import_{engine}"), rates.new / WANTED_ROWS, 1.0);
    Ok(())
}
