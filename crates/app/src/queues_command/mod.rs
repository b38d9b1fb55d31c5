//! `tidings queues`: how full the queues are, what was given up, and whether messages come through.

mod dead;
mod probe;
mod send;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde::Serialize;
use tidings_kernel::{Queue, queues};

use crate::config::Config;
use crate::failure::Failure;
use crate::output::{Layout, Output};
use crate::runtime::Runtime;
use crate::store::Store;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings queues list
  tidings queues dead transactional-email
  tidings queues replay transactional-email --all
  tidings queues replay email-events 019dc2f0a1b2-00000001-9a3c77e1
  tidings queues probe --count 1000

A message that fails is tried again, with longer and longer pauses. After 12 tries, or at once if
trying again cannot help, it becomes a dead letter: look at it, mend the cause, and replay it.")]
pub(crate) struct QueuesArgs {
    /// Lay each answer out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: QueuesCommand,
}

#[derive(Debug, Subcommand)]
enum QueuesCommand {
    /// Print how full each queue is, and how long its oldest message has been waiting
    List,
    /// Send messages that keep to the queue's contract, from an argument or from stdin
    Send(send::SendArgs),
    /// Print dead letters, the oldest first
    Dead(dead::DeadArgs),
    /// Put dead letters back into their queue
    Replay(dead::ChosenArgs),
    /// Delete dead letters for good
    Purge(dead::ChosenArgs),
    /// Send messages through the queues and tell whether each came through, and how fast
    Probe(probe::ProbeArgs),
}

pub(crate) async fn run(args: QueuesArgs, config: &Config) -> Result<(), Failure> {
    let store = Store::open(config).await?;
    let runtime = Runtime::open(&store, config).await?;
    let layout = if args.pretty { Layout::Pretty } else { Layout::Lines };
    let mut out = Output::new(layout);
    match args.command {
        QueuesCommand::List => list(&runtime, &mut out).await?,
        QueuesCommand::Send(args) => send::run(&args, &runtime, &mut out).await?,
        QueuesCommand::Dead(args) => dead::list(&args, &runtime, &mut out).await?,
        QueuesCommand::Replay(args) => dead::replay(args, &runtime, &mut out).await?,
        QueuesCommand::Purge(args) => dead::purge(args, &runtime, &mut out).await?,
        QueuesCommand::Probe(args) => probe::run(&args, &runtime, &mut out).await?,
    }
    out.finish()?;
    store.close().await;
    Ok(())
}

#[derive(Serialize)]
struct Fullness {
    queue: &'static str,
    ready: u64,
    hidden: u64,
    dead: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_age_seconds: Option<u64>,
}

async fn list(runtime: &Runtime, out: &mut Output) -> Result<(), Failure> {
    for queue in queues::ALL {
        let depth = runtime.queues.depth(queue).await?;
        out.json(&Fullness {
            queue: queue.name,
            ready: depth.ready,
            hidden: depth.hidden,
            dead: depth.dead,
            oldest_age_seconds: depth.oldest_age.map(|age| age.as_secs()),
        })?;
    }
    Ok(())
}

/// The name of a queue, as an argument.
pub(crate) fn queue_parser() -> impl TypedValueParser<Value = &'static Queue> {
    let names = PossibleValuesParser::new(queues::ALL.map(|queue| queue.name));
    names.map(|name| queues::by_name(&name).expect("only names of queues are possible"))
}
