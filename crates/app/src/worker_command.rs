//! `tidings worker handle` and `tidings lambda`: the workers outside of the server, on events in the shape of SQS.

use std::io::Read as _;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use tidings_jobs::Event;
use tidings_kernel::Queue;

use crate::config::Config;
use crate::failure::Failure;
use crate::output::{Layout, Output};
use crate::queues_command::queue_parser;
use crate::runtime::Runtime;
use crate::store::Store;

/// Lambda hands over 6 MB at most.
const MAX_EVENT_BYTES: u64 = 16 << 20;

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    #[command(subcommand)]
    command: WorkerCommand,
}

#[derive(Debug, Subcommand)]
enum WorkerCommand {
    /// Work on an event of SQS from stdin, and print which of its records failed
    #[command(after_help = "\
Examples:
  tidings worker handle transactional-email < event.json
  {\"batchItemFailures\":[{\"itemIdentifier\":\"message-2\"}]}

An event is {\"Records\":[{\"messageId\":\"…\",\"body\":\"…\"}]}, as AWS Lambda hands it over. Why a record failed
is on stderr.")]
    Handle {
        /// The queue that the event is of
        #[arg(value_parser = queue_parser())]
        queue: &'static Queue,
    },
}

#[derive(Debug, Args)]
pub(crate) struct LambdaArgs {
    /// The queue whose events this function gets
    #[arg(value_parser = queue_parser())]
    queue: &'static Queue,
}

pub(crate) async fn run(args: &WorkerArgs, config: &Config) -> Result<(), Failure> {
    let WorkerCommand::Handle { queue } = args.command;
    let mut json = String::new();
    let read = std::io::stdin().lock().take(MAX_EVENT_BYTES).read_to_string(&mut json);
    read.context("the event cannot be read from stdin")?;
    let event = Event::parse(&json).map_err(|error| {
        Failure::from(error)
            .hint("give the event on stdin: `tidings worker handle --help` shows one")
    })?;
    let store = Store::open(config).await?;
    let runtime = Runtime::open(&store, config).await?;
    let handler = runtime.handler(queue)?;
    let response = event.handle(queue, &*handler, None, config.workers.time_limit).await;
    let mut out = Output::new(Layout::Lines);
    out.json(&response)?;
    out.finish()?;
    store.close().await;
    Ok(())
}

#[cfg(feature = "aws")]
pub(crate) async fn lambda(args: &LambdaArgs, config: &Config) -> Result<(), Failure> {
    let store = Store::open(config).await?;
    let runtime = Runtime::open(&store, config).await?;
    let handler = runtime.handler(args.queue)?;
    let (queue, time_limit) = (args.queue, config.workers.time_limit);
    // Events that Lambda makes itself are of SQS.
    let held_in = (config.engine == crate::config::Engine::Aws)
        .then(|| std::sync::Arc::clone(&runtime.queues));
    let ended = tidings_aws::run_lambda(move |event| {
        let (handler, held_in) = (std::sync::Arc::clone(&handler), held_in.clone());
        async move {
            let event = Event::from_value(event)?;
            let answer = event.handle(queue, &*handler, held_in.as_deref(), time_limit);
            Ok(serde_json::to_value(answer.await)?)
        }
    });
    ended.await.map_err(|error| {
        Failure::failed(format!("the Lambda runtime ended: {error}"))
            .hint("this command is for the bootstrap of a Lambda function, which sets AWS_LAMBDA_RUNTIME_API")
    })
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with the feature it is async")]
pub(crate) async fn lambda(_: &LambdaArgs, _: &Config) -> Result<(), Failure> {
    Err(crate::store::without_aws())
}
