//! Sending messages by hand, none of which the worker would refuse to read.

use std::io::{BufRead as _, stdin};

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use serde_json::json;
use tidings_access::Change;
use tidings_jobs::contracts::check_for_queue;
use tidings_kernel::{Outgoing, Queue};

use super::queue_parser;
use crate::failure::Failure;
use crate::output::Output;
use crate::runtime::Runtime;

/// How many are sent in one transaction.
const BATCH: usize = 500;

#[derive(Debug, Args)]
pub(super) struct SendArgs {
    /// The queue
    #[arg(value_parser = queue_parser())]
    queue: &'static Queue,
    /// The body, as docs/contracts tells; without it, one body a line is read from stdin
    body: Option<String>,
}

#[derive(Serialize)]
struct Sent {
    sent: u64,
}

pub(super) async fn run(
    args: &SendArgs,
    runtime: &Runtime,
    out: &mut Output,
) -> Result<(), Failure> {
    let mut sent = 0;
    let mut batch = Vec::new();
    let take = |number: usize, body: &str| {
        check_for_queue(args.queue.name, body)
            .map_err(|error| Failure::usage(format!("line {number}: {error}")))
            .map(|()| Outgoing::new(args.queue, body))
    };
    if let Some(body) = &args.body {
        batch.push(take(1, body)?);
    } else {
        for (number, line) in stdin().lock().lines().enumerate() {
            let line = line.context("stdin cannot be read")?;
            if line.trim().is_empty() {
                continue;
            }
            let message = take(number + 1, &line).map_err(|failure| {
                failure.hint(format!("{sent} messages before it were sent, and none after it"))
            });
            batch.push(message?);
            if batch.len() == BATCH {
                sent += send(args.queue, std::mem::take(&mut batch), runtime).await?;
            }
        }
    }
    if !batch.is_empty() {
        sent += send(args.queue, batch, runtime).await?;
    }
    out.json(&Sent { sent })
}

/// The audit log has it before the queue, which may be elsewhere. What is in the messages may name somebody, and is not told.
async fn send(queue: &Queue, batch: Vec<Outgoing>, runtime: &Runtime) -> Result<u64, Failure> {
    let count = batch.len() as u64;
    let change = Change::new("queue.send", "queue", queue).after(json!({ "messages": count }));
    let access = runtime.access().clone();
    runtime.database.write(move |tx| access.record_change(tx, &change)).await?;
    runtime.queues.send(batch).await?;
    Ok(count)
}
