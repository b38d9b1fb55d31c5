//! `tidings messages`: transactional mail, for operators.

mod shown;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use serde_json::{Map, Value};
use tidings_access::{ClientId, Cx, Limit, Slug, clients};
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::{
    self, AcceptError, CancelError, Content, Find, FindError, List, MessageId, Messages, Send,
    Settle, SettleError, Settled, Status, Tracking,
};
use tidings_kernel::{EmailAddress, Workspace};

use self::shown::{AcceptedShown, MessageShown};
use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings messages send ada@example.org --client shop --subject 'Hello {{ name }}' --text 'It works.' --context '{\"name\":\"Ada\"}'
  tidings messages send ada@example.org --client shop --template password-reset --key reset-42
  tidings messages list --client shop --status failed
  tidings messages show 17
  tidings messages cancel 17
  tidings messages uncertain
  tidings messages settle 17 sent --reason 'the provider has it in its log'

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
    /// Say what became of an uncertain message
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

#[derive(Debug, Args)]
struct SendArgs {
    /// To whom
    to: EmailAddress,
    /// The client that sends
    #[arg(long)]
    client: Slug,
    /// The key of a stored template
    #[arg(long, required_unless_present = "subject", conflicts_with_all = ["subject", "html", "text"])]
    template: Option<String>,
    /// The subject, as Liquid
    #[arg(long)]
    subject: Option<String>,
    /// The HTML body, as Liquid
    #[arg(long)]
    html: Option<String>,
    /// The text body, as Liquid
    #[arg(long)]
    text: Option<String>,
    /// Variables, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = object)]
    context: Option<Map<String, Value>>,
    /// One of the client's senders [default: the template's, or the client's default]
    #[arg(long)]
    sender: Option<Slug>,
    /// Sending again with the same key changes nothing
    #[arg(long)]
    key: Option<String>,
    /// When, within a year [default: now]
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    /// Leave links as they are, and add no pixel
    #[arg(long)]
    no_tracking: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Became {
    Sent,
    Failed,
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text)
        .map_err(|_| "use a JSON object such as {\"name\":\"Ada\"}".to_owned())
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
        MessagesCommand::Send(args) => send(open, cx, *args).await,
        MessagesCommand::Show { id } => {
            let found = transactional::show(cx, find(id)).await.map_err(missing)?;
            open.print(&MessageShown::from(found))
        }
        MessagesCommand::List { client, status, sequence, limit } => {
            let client = the_client(cx, client).await?;
            let sequence = sequence.map(|sequence| sequence.to_string());
            let which = List { client, status, sequence, after: None, limit: Limit::MAX };
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
            };
            let settle = Settle { message: find(id), outcome, reason };
            let settled = transactional::settle(cx, settle).await.map_err(not_settled)?;
            open.print(&MessageShown::from(settled))
        }
    }
}

async fn send(open: &Open, cx: &Cx, args: SendArgs) -> Result<(), Failure> {
    let client = the_client(cx, args.client).await?;
    let content = match args.template {
        Some(key) => Content::Template(key),
        None => Content::Inline {
            subject: args.subject.unwrap_or_default(),
            html: args.html,
            text: args.text,
        },
    };
    let send = Send {
        context: args.context.unwrap_or_default(),
        sender: args.sender,
        idempotency_key: args.key,
        scheduled_at: args.at,
        tracking: if args.no_tracking { Tracking::Off } else { Tracking::On },
        ..Send::of(client, args.to, content)
    };
    let accepted = Messages::new(Templates::default()).accept(cx, send).await;
    open.print(&AcceptedShown::from(accepted.map_err(not_accepted)?))
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

fn not_accepted(error: AcceptError) -> Failure {
    match error {
        AcceptError::Invalid(_)
        | AcceptError::NoTemplate(_)
        | AcceptError::NoVersion(..)
        | AcceptError::KeyReused(_)
        | AcceptError::InFlight
        | AcceptError::BatchSize => Failure::from(error)
            .hint("`tidings senders list` and `tidings templates list` show what there is"),
        AcceptError::Store(error) => error.into(),
    }
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
        SettleError::Reason | SettleError::Store(_) => error.into(),
    }
}

const WHERE_TO_LOOK: &str = "`tidings messages list --client …` shows those that there are";
