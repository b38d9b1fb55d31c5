//! `tidings queues probe`: messages through the queues, counted and timed.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Output, say};
use crate::probe::{Marks, forget, marks, probe, slower_than};
use crate::runtime::Runtime;

const BATCH: i64 = 500;
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(super) struct ProbeArgs {
    /// How many messages to send
    #[arg(long, default_value_t = 100, value_name = "COUNT", value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    count: i64,
    /// How long to wait for them, in seconds
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    wait: u64,
    /// Leave the marks in the table `probes`; a later probe removes those older than a day
    #[arg(long)]
    keep: bool,
}

#[derive(Serialize)]
struct Summary {
    sent: i64,
    /// How many left their mark. Each leaves one, however often it is delivered.
    handled: i64,
    /// How many deliveries there were beyond the first.
    repeated: i64,
    seconds: f64,
    per_second: f64,
    p50_ms: i64,
    p99_ms: i64,
}

pub(super) async fn run(
    args: &ProbeArgs,
    runtime: &Runtime,
    out: &mut Output,
) -> Result<(), Failure> {
    let begun = runtime.clock.now();
    let run = format!("{:x}-{:x}", begun.as_millisecond(), std::process::id());
    let mut number = 0;
    while number < args.count {
        let last = (number + BATCH).min(args.count);
        let now = runtime.clock.now();
        let batch = (number + 1..=last).map(|number| probe(&run, number, now)).collect();
        runtime.queues.send(batch).await?;
        number = last;
    }
    let found = wait(args, runtime, &run).await?;
    let took = (found.last_handled_at - begun.as_millisecond()).max(1) as f64 / 1000.0;
    let database = &runtime.database;
    out.json(&Summary {
        sent: args.count,
        handled: found.handled,
        repeated: found.deliveries - found.handled,
        seconds: took,
        per_second: (found.handled as f64 / took).round(),
        p50_ms: slower_than(database, &run, found.handled, 0.50).await?,
        p99_ms: slower_than(database, &run, found.handled, 0.99).await?,
    })?;
    if found.handled < args.count {
        let message =
            format!("{} of {} probes did not come through", args.count - found.handled, args.count);
        return Err(Failure::failed(message).hint(
            "does a `tidings serve` with the role worker run on the same store? \
             `tidings queues list` shows what waits",
        ));
    }
    if !args.keep {
        forget(database, &run, begun).await?;
    }
    Ok(())
}

/// Waits until all have come, or time is over.
async fn wait(args: &ProbeArgs, runtime: &Runtime, run: &str) -> Result<Marks, Failure> {
    let mut ticks = tokio::time::interval(LOOK);
    let patience = tokio::time::Instant::now() + Duration::from_secs(args.wait);
    let shows_progress = std::io::stderr().is_terminal();
    let mut told = 0;
    loop {
        ticks.tick().await;
        let found = marks(&runtime.database, run).await?;
        if shows_progress && found.handled * 10 / args.count > told {
            told = found.handled * 10 / args.count;
            say(&format!("{} of {} came through", found.handled, args.count));
        }
        if found.handled >= args.count || tokio::time::Instant::now() > patience {
            return Ok(found);
        }
    }
}
