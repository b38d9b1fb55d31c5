//! Inboxes: published to, listed, counted and marked over HTTP, beside a route that does nothing; the same with few and with
//! very many messages; and many who watch theirs at once.
//!
//! Callers and server share the machine: what a caller costs is in every figure.

mod requests;
mod seed;
mod streams;

use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tidings_signals::sns::Settings;
use tidings_sql::{Database, PostgresOptions, SqliteOptions, Tls};

use crate::mail::place::Place;
use crate::postgres_server::PostgresServer;
use crate::report::Report;

struct Sizes {
    span: Duration,
    /// Who asks, each with some messages.
    users: usize,
    /// Very many messages, of one user and of everyone.
    messages: usize,
    /// Those who watch, and how many messages are pushed to them.
    streams: usize,
    pushes: usize,
}

pub(crate) async fn run(quick: bool) -> anyhow::Result<Report> {
    let sizes = if quick {
        let span = Duration::from_secs(2);
        Sizes { span, users: 2_000, messages: 2_000, streams: 1_000, pushes: 200 }
    } else {
        let span = Duration::from_secs(8);
        Sizes { span, users: 2_000, messages: 10_000, streams: 10_000, pushes: 2_000 }
    };
    let command =
        format!("cargo run --release -p bench -- inbox{}", if quick { " --quick" } else { "" });
    let mut report = Report::new("inbox", &command);
    // They are counted in the product, too.
    let metrics = PrometheusBuilder::new().install_recorder()?;
    // Not in /tmp, which may be memory.
    std::fs::create_dir_all("target")?;
    let folder = tempfile::tempdir_in("target")?;
    let path = folder.path().join("inbox.db");
    let sqlite = Database::sqlite(&path, SqliteOptions::default()).await?;
    measure("SQLite", &sqlite, &metrics, &sizes, &mut report).await?;
    sqlite.close().await;
    match PostgresServer::start()? {
        Some(server) => {
            let options = PostgresOptions { tls: Tls::Disable, ..PostgresOptions::default() };
            let database = Database::postgres(&server.url(), options).await?;
            measure("PostgreSQL", &database, &metrics, &sizes, &mut report).await?;
            database.close().await;
        }
        None => report.line("PostgreSQL is not installed here and was not measured."),
    }
    streams::measure((sizes.streams, sizes.pushes), &mut report).await?;
    Ok(report)
}

async fn measure(
    name: &str,
    database: &Database,
    metrics: &PrometheusHandle,
    sizes: &Sizes,
    report: &mut Report,
) -> anyhow::Result<()> {
    // Nobody sends notifications here.
    let sns = Settings { topics: Vec::new(), certificate_origin: None };
    let place = Place::open(database, metrics, sns).await?;
    let engine = name.to_lowercase();
    report.line(&format!("### {name}\n"));
    requests::measure(&place, &engine, sizes, report).await?;
    requests::measure_flat(&place, &engine, sizes, report).await
}
