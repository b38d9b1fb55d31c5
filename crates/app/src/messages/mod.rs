//! `tidings messages`: transactional mail, for operators.

mod send;
mod shown;

use clap::{Args, Subcommand, ValueEnum};
use tidings_access::{ClientId, Cx, Limit, Slug, clients};
use tidings_delivery::ledger::Source;
use tidings_delivery::transactional::{
    self, CancelError, Find, FindError, List, MessageId, Settle, SettleError, Settled, Status,
};
use tidings_kernel::{EmailAddress, Workspace};
use tidings_signals::queries;

use self::send::SendArgs;
use self::shown::MessageShown;
use crate::config::Config;
use crate::events_command::EventShown;
use crate::failure::Failure;
use crate::open::{Open, layout};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings messages send ada@example.org --client shop --subject 'Hello {{ name }}' --text 'It works.' --context '{\"name\":\"Ada\"}'
  tidings messages send ada@example.org --client shop --template password-reset --key reset-42
  tidings messages send ada@example.org --client shop --template invoice --attach invoice.pdf --reply-to billing@example.org
  tidings messages list --client shop --status failed
  tidings messages list --client shop --to ada@example.org
  tidings messages dry-run ada@example.org --client shop --template password-reset
  tidings messages show 17
  tidings messages events 17
  tidings messages cancel 17
  tidings messages uncertain
  tidings messages settle 17 sent --reason 'the provider has it in its log'
  tidings messages settle 18 resend --reason 'the mail server was broken'

A message is uncertain if it was handed to the provider and no answer came. It is not sent again by itself: the
provider's own news settle it, or you do.")]
pub(crate) struct MessagesArgs {
    /// The workspace whose messages are meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    workspace: Workspace,
    /// Lay each message out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: MessagesCommand,
}

#[derive(Debug, Subcommand)]
enum MessagesCommand {
    /// Write a message down; a running server sends it
    Send(Box<SendArgs>),
    /// Print the mail that would be sent, and whether it would; nothing is written down
    DryRun(Box<SendArgs>),
    /// Print what came back of a message, the oldest first
    Events {
        /// Its id
        id: i64,
    },
    /// Print a message with its bodies
    Show {
        /// Its id
        id: i64,
    },
    /// Print the messages of a client, the newest first
    List {
        /// The client
        #[arg(long)]
        client: Slug,
        /// Only those with this status
        #[arg(long)]
        status: Option<Status>,
        /// Only those of this sequence
        #[arg(long)]
        sequence: Option<Slug>,
        /// Only those to this address
        #[arg(long, value_name = "ADDRESS")]
        to: Option<EmailAddress>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Cancel a message that nobody is sending yet
    Cancel {
        /// Its id
        id: i64,
    },
    /// Print the messages that were handed over without an answer, the oldest first
    Uncertain,
    /// Say what became of an uncertain message, or have it or a failed one sent once more
    Settle {
        /// Its id
        id: i64,
        /// What became of it
        outcome: Became,
        /// How that is known
        #[arg(long)]
        reason: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Became {
    Sent,
    Failed,
    Resend,
}

pub(crate) async fn run(args: MessagesArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match open.inside(args.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(command: MessagesCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let find = |id: i64| Find { id: MessageId::from(id), client: None };
    match command {
        MessagesCommand::Send(args) => send::send(open, cx, *args).await,
        MessagesCommand::DryRun(args) => send::dry_run(open, cx, *args).await,
        MessagesCommand::Events { id } => events(open, cx, find(id)).await,
        MessagesCommand::Show { id } => {
            let found = transactional::show(cx, find(id)).await.map_err(missing)?;
            open.print(&MessageShown::from(found))
        }
        MessagesCommand::List { client, status, sequence, to, limit } => {
            let client = the_client(cx, client).await?;
            let sequence = sequence.map(|sequence| sequence.to_string());
            let which = List { client, status, sequence, to, after: None, limit: Limit::MAX };
            list(open, cx, which, limit).await
        }
        MessagesCommand::Cancel { id } => {
            let cancelled = transactional::cancel(cx, find(id)).await.map_err(too_late)?;
            open.print(&MessageShown::from(cancelled))
        }
        MessagesCommand::Uncertain => uncertain(open, cx).await,
        MessagesCommand::Settle { id, outcome, reason } => {
            let outcome = match outcome {
                Became::Sent => Settled::Sent,
                Became::Failed => Settled::Failed,
                Became::Resend => Settled::Resend,
            };
            let settle = Settle { message: find(id), outcome, reason };
            let settled = transactional::settle(cx, settle).await.map_err(not_settled)?;
            open.print(&MessageShown::from(settled))
        }
    }
}

async fn events(open: &Open, cx: &Cx, find: Find) -> Result<(), Failure> {
    let message = transactional::show(cx, find).await.map_err(missing)?.message;
    let source = Source::Transactional(find.id.get());
    let mut out = open.out();
    // Nothing is known of who is erased.
    if let Some(email) = message.email.as_deref().and_then(|email| email.parse().ok()) {
        let since = message.times.created_at;
        for event in queries::of_message(cx, (source, &email), since).await? {
            out.json(&EventShown::from(event))?;
        }
    }
    out.finish()
}

async fn list(open: &Open, cx: &Cx, which: List, limit: usize) -> Result<(), Failure> {
    let (mut out, mut after, mut left) = (open.out(), None, limit);
    while left > 0 {
        let list = List { after, ..which.clone() };
        let page = transactional::list(cx, list).await?;
        for message in page.items.into_iter().take(left) {
            left -= 1;
            out.json(&MessageShown::from(message))?;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    out.finish()
}

async fn uncertain(open: &Open, cx: &Cx) -> Result<(), Failure> {
    let (mut out, mut after) = (open.out(), None);
    loop {
        let page = transactional::uncertain(cx, after, Limit::MAX).await?;
        for message in page.items {
            out.json(&MessageShown::from(message))?;
        }
        after = page.next;
        if after.is_none() {
            return out.finish();
        }
    }
}

async fn the_client(cx: &Cx, slug: Slug) -> Result<ClientId, Failure> {
    let found = clients::find(cx, slug).await.map_err(|error| match error {
        clients::FindError::Missing(_) => Failure::from(error)
            .hint("`tidings clients list --workspace …` shows those that there are"),
        clients::FindError::Store(_) => error.into(),
    })?;
    Ok(found.id)
}

fn missing(error: FindError) -> Failure {
    match error {
        FindError::Missing(_) => Failure::from(error).hint(WHERE_TO_LOOK),
        FindError::Store(_) => error.into(),
    }
}

fn too_late(error: CancelError) -> Failure {
    match error {
        CancelError::Missing(_) => Failure::from(error).hint(WHERE_TO_LOOK),
        CancelError::TooLate { .. } | CancelError::Store(_) => error.into(),
    }
}

fn not_settled(error: SettleError) -> Failure {
    match error {
        SettleError::Missing(_) | SettleError::NotUncertain { .. } => {
            Failure::from(error).hint("`tidings messages uncertain` shows those that can be")
        }
        SettleError::NotOver { .. }
        | SettleError::Erased(_)
        | SettleError::Reminder(_)
        | SettleError::Reason
        | SettleError::Store(_) => error.into(),
    }
}

const WHERE_TO_LOOK: &str = "`tidings messages list --client …` shows those that there are";
