//! `tidings messages`: transactional mail, for operators.

mod shown;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tidings_access::{ClientId, Cx, Limit, Slug, clients};
use tidings_delivery::eligibility::Verdict;
use tidings_delivery::ledger::Source;
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::{
    self, AcceptError, CancelError, Content, Find, FindError, List, MessageId, Messages, Send,
    Settle, SettleError, Settled, Status, Tracking,
};
use tidings_kernel::{EmailAddress, Workspace};
use tidings_signals::queries;

use self::shown::{AcceptedShown, MessageShown};
use crate::config::Config;
use crate::events_command::EventShown;
use crate::failure::Failure;
use crate::open::{Open, layout};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings messages send ada@example.org --client shop --subject 'Hello {{ name }}' --text 'It works.' --context '{\"name\":\"Ada\"}'
  tidings messages send ada@example.org --client shop --template password-reset --key reset-42
  tidings messages list --client shop --status failed
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
    Resend,
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
        MessagesCommand::DryRun(args) => dry_run(open, cx, *args).await,
        MessagesCommand::Events { id } => events(open, cx, find(id)).await,
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
                Became::Resend => Settled::Resend,
            };
            let settle = Settle { message: find(id), outcome, reason };
            let settled = transactional::settle(cx, settle).await.map_err(not_settled)?;
            open.print(&MessageShown::from(settled))
        }
    }
}

async fn send(open: &Open, cx: &Cx, args: SendArgs) -> Result<(), Failure> {
    let send = asked(cx, args).await?;
    let accepted = Messages::new(Templates::default()).accept(cx, send).await;
    open.print(&AcceptedShown::from(accepted.map_err(not_accepted)?))
}

async fn dry_run(open: &Open, cx: &Cx, args: SendArgs) -> Result<(), Failure> {
    // Whether its key was used before says nothing of the mail.
    let send = Send { idempotency_key: None, ..asked(cx, args).await? };
    let made = Messages::new(Templates::default()).dry_run(cx, &send).await;
    let made = made.map_err(not_accepted)?;
    open.print(&json!({
        "would_deliver": made.would_deliver(),
        "reason": reason(&made.decision.verdict),
        "from_email": made.from_email,
        "from_name": made.from_name,
        "reply_to": made.reply_to,
        "template_version": made.template_version,
        "subject": made.rendered.subject,
        "html": made.rendered.html,
        "text": made.rendered.text,
    }))
}

/// Why it would not go out now.
fn reason(verdict: &Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Send => None,
        Verdict::Skip(reason) => Some(reason.as_str()),
        Verdict::Defer { reason, .. } => Some(reason.as_str()),
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

async fn asked(cx: &Cx, args: SendArgs) -> Result<Send, Failure> {
    if let Some(key) = &args.key {
        transactional::check_key(key).map_err(|wrong| Failure::usage(wrong.message))?;
    }
    let client = the_client(cx, args.client).await?;
    let content = match args.template {
        Some(key) => Content::Template(key),
        None => Content::Inline {
            subject: args.subject.unwrap_or_default(),
            html: args.html,
            text: args.text,
        },
    };
    Ok(Send {
        context: args.context.unwrap_or_default(),
        sender: args.sender,
        idempotency_key: args.key,
        scheduled_at: args.at,
        tracking: if args.no_tracking { Tracking::Off } else { Tracking::On },
        ..Send::of(client, args.to, content)
    })
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
        SettleError::NotOver { .. }
        | SettleError::Erased(_)
        | SettleError::Reminder(_)
        | SettleError::Reason
        | SettleError::Store(_) => error.into(),
    }
}

const WHERE_TO_LOOK: &str = "`tidings messages list --client …` shows those that there are";
