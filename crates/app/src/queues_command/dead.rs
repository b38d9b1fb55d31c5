//! Dead letters: look at them, put them back, throw them away.

use clap::Args;
use serde::Serialize;
use serde_json::json;
use tidings_access::Change;
use tidings_kernel::{DeadLetter, Queue, Which};

use super::queue_parser;
use crate::failure::Failure;
use crate::output::Output;
use crate::runtime::Runtime;

/// How many are asked for at a time.
const PAGE: usize = 100;

#[derive(Debug, Args)]
pub(super) struct DeadArgs {
    /// The queue
    #[arg(value_parser = queue_parser())]
    queue: &'static Queue,
    /// Print at most so many
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    limit: usize,
    /// Go on after the letter with this id (not on SQS, which shows some of them in any order)
    #[arg(long, value_name = "ID")]
    after: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct ChosenArgs {
    /// The queue
    #[arg(value_parser = queue_parser())]
    queue: &'static Queue,
    /// The dead letters that are meant
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// All that there are
    #[arg(long)]
    all: bool,
}

#[derive(Serialize)]
struct Letter {
    id: String,
    receives: u32,
    enqueued_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    body: serde_json::Value,
}

impl From<DeadLetter> for Letter {
    fn from(letter: DeadLetter) -> Self {
        Self {
            id: letter.id,
            receives: letter.receives,
            enqueued_at: letter.enqueued_at.to_string(),
            reason: letter.reason,
            // What is not JSON, which may be why it is here, is shown as text.
            body: serde_json::from_str(&letter.body).unwrap_or_else(|_| letter.body.into()),
        }
    }
}

pub(super) async fn list(
    args: &DeadArgs,
    runtime: &Runtime,
    out: &mut Output,
) -> Result<(), Failure> {
    let (mut after, mut left) = (args.after.clone(), args.limit);
    while left > 0 {
        let asked = left.min(PAGE);
        let page = runtime.queues.dead_letters(args.queue, after.as_deref(), asked).await?;
        let (found, last) = (page.len(), page.last().map(|letter| letter.id.clone()));
        for letter in page {
            out.json(&Letter::from(letter))?;
        }
        // SQS cannot go on, and gives fewer than were asked for in one go.
        if found < asked {
            break;
        }
        left -= found;
        after = last;
    }
    Ok(())
}

#[derive(Serialize)]
struct Replayed {
    replayed: u64,
}

#[derive(Serialize)]
struct Purged {
    purged: u64,
}

pub(super) async fn replay(
    args: ChosenArgs,
    runtime: &Runtime,
    out: &mut Output,
) -> Result<(), Failure> {
    let queue = args.queue;
    audit(&args, runtime, "queue.replay").await?;
    out.json(&Replayed { replayed: runtime.queues.replay(queue, args.which()).await? })
}

pub(super) async fn purge(
    args: ChosenArgs,
    runtime: &Runtime,
    out: &mut Output,
) -> Result<(), Failure> {
    let queue = args.queue;
    audit(&args, runtime, "queue.purge").await?;
    out.json(&Purged { purged: runtime.queues.purge(queue, args.which()).await? })
}

/// Before it is done: the queue may be elsewhere, and what is gone then must not be gone without a trace. Where nothing
/// was given up there is nothing to tell.
async fn audit(args: &ChosenArgs, runtime: &Runtime, action: &'static str) -> Result<(), Failure> {
    if runtime.queues.dead_letters(args.queue, None, 1).await?.is_empty() {
        return Ok(());
    }
    let dead = runtime.queues.depth(args.queue).await?.dead;
    let asked = if args.all { json!("all") } else { json!(args.ids) };
    let change = Change::new(action, "queue", args.queue)
        .before(json!({ "dead": dead }))
        .after(json!({ "asked_for": asked }));
    let access = runtime.access().clone();
    runtime.database.write(move |tx| access.record_change(tx, &change)).await?;
    Ok(())
}

impl ChosenArgs {
    fn which(self) -> Which {
        if self.all { Which::All } else { Which::Only(self.ids) }
    }
}
