//! Benchmarks: `cargo run --release -p bench -- <bench> [--quick] [--write]`.
//!
//! Each measures the product beside a limit taken in the same run, and ends with one line per figure:
//! `ratio <bench>.<figure> <value> wanted <value>`, always so that higher is better. Not here: tests.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark measures the real time and prints what it finds"
)]

mod campaign;
mod inbox;
mod leads;
mod mail;
mod postgres_server;
mod product;
mod queue;
mod report;
mod sequence;
mod store;

use clap::{Parser, Subcommand};

/// The same as in `tidings`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Tidings on this machine.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    bench: Bench,
    /// Smaller runs, under a minute in all.
    #[arg(long, global = true)]
    quick: bool,
    /// Write the table into docs/performance.md.
    #[arg(long, global = true)]
    write: bool,
}

#[derive(Subcommand)]
enum Bench {
    /// Durable event-ingest transactions on SQLite and PostgreSQL.
    Store,
    /// Jobs through the queues of SQLite and PostgreSQL, beside graphile-worker.
    Queue,
    /// Messages, notifications of the provider and files of people, over HTTP.
    Mail,
    /// A campaign over SMTP, beside Postfix's own source of mail.
    Campaign,
    /// A million people in the middle of a sequence.
    Sequence,
    /// Inboxes over HTTP: publishing, reading, counting, marking, and ten thousand who watch.
    Inbox,
    /// Events of people: how fast they become features, and the work of a day.
    Leads,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let report = match arguments.bench {
        Bench::Store => store::run(arguments.quick).await?,
        Bench::Queue => queue::run(arguments.quick).await?,
        Bench::Mail => mail::run(arguments.quick).await?,
        Bench::Inbox => inbox::run(arguments.quick).await?,
        Bench::Leads => leads::run(arguments.quick).await?,
        Bench::Sequence => sequence::run(arguments.quick).await?,
        Bench::Campaign => tokio::task::block_in_place(|| campaign::run(arguments.quick))?,
    };
    println!("{}", report.text());
    if arguments.write {
        report.write()?;
    }
    for line in report.ratios() {
        println!("{line}");
    }
    Ok(())
}
