//! Sequences: how fast people are let in, how fast those go on whose wait is over, and what a million who wait cost.
//!
//! People are let in and go on in this process, with the same workers as in the product; what waiting costs is asked of the
//! product itself, started on the same file.

mod place;

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::product::Product;
use crate::report::Report;
use place::Place;

/// So many have their wait over while all the others wait.
const DUE: usize = 10_000;
/// So much memory is wanted at most, in megabytes.
const WANTED_MEGABYTES: f64 = 100.0;

struct Run {
    waiting: usize,
    entered_per_second: f64,
    gone_on_per_second: f64,
    started_in: Duration,
    megabytes: f64,
    /// Processor time of an idle minute.
    idle: Duration,
}

pub(crate) async fn run(quick: bool) -> anyhow::Result<Report> {
    let sizes: &[usize] = if quick { &[1_000, 10_000] } else { &[10_000, 100_000, 1_000_000] };
    let (due, minute) = if quick { (1_000, 6) } else { (DUE, 60) };
    let command =
        format!("cargo run --release -p bench -- sequence{}", if quick { " --quick" } else { "" });
    let mut report = Report::new("sequence", &command);
    std::fs::create_dir_all("target")?;
    let program = tokio::task::block_in_place(Product::build)?;
    report.line(&format!(
        "{due} of them have their wait over at once; each then gets a tag and comes to the end.\n"
    ));
    report.line("| waiting | let in/s | gone on/s | start ms | MB | CPU ms of an idle minute |");
    report.line("|---:|---:|---:|---:|---:|---:|");
    let mut runs = Vec::new();
    for &waiting in sizes {
        let run = measure(&program, (waiting, due), minute).await?;
        report.line(&format!(
            "| {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |",
            run.waiting,
            run.entered_per_second,
            run.gone_on_per_second,
            run.started_in.as_secs_f64() * 1e3,
            run.megabytes,
            run.idle.as_secs_f64() * 1e3
        ));
        runs.push(run);
    }
    let (first, last) = (runs.first().context("no runs")?, runs.last().context("no runs")?);
    report.ratio("flat_let_in", last.entered_per_second / first.entered_per_second, 0.85);
    report.ratio("flat_gone_on", last.gone_on_per_second / first.gone_on_per_second, 0.85);
    report.ratio("memory", WANTED_MEGABYTES / last.megabytes, 1.0);
    Ok(report)
}

async fn measure(
    program: &std::path::Path,
    (waiting, due): (usize, usize),
    minute: u64,
) -> anyhow::Result<Run> {
    let product = Product::new(program, &[])?;
    tokio::task::block_in_place(|| product.run(&["bootstrap", "--client", "shop"]))?;
    let place = Place::open(&product.path("tidings.db")).await?;
    place.import("waiting", waiting).await?;
    place.import("due", due).await?;

    let began = Instant::now();
    place.let_in("long", "waiting").await?;
    let entered_per_second = waiting as f64 / began.elapsed().as_secs_f64();
    ensure!(place.active("long").await? == waiting as u64, "not everybody is in");

    place.let_in("short", "due").await?;
    let began = Instant::now();
    place.two_hours_later().await?;
    let gone_on_per_second = due as f64 / began.elapsed().as_secs_f64();
    ensure!(place.active("short").await? == 0, "not everybody has gone on");
    place.close().await;

    tokio::task::block_in_place(|| {
        let began = Instant::now();
        let server = product.serve(String::new())?;
        let started_in = began.elapsed();
        std::thread::sleep(Duration::from_secs(3));
        let before = server.processor_time()?;
        std::thread::sleep(Duration::from_secs(minute));
        let idle = (server.processor_time()? - before).mul_f64(60.0 / minute as f64);
        let megabytes = server.resident_megabytes()?;
        Ok(Run { waiting, entered_per_second, gone_on_per_second, started_in, megabytes, idle })
    })
}
