//! `tidings events` and `tidings stats`.

mod send;
mod stats;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;
use tidings_access::{Cx, Limit};
use tidings_delivery::ledger::Source;
use tidings_delivery::templates::Templates;
use tidings_delivery::transactional::Messages;
use tidings_kernel::{EmailAddress, Workspace};
use tidings_signals::queries::{self, Filter, Of, Stored};
use tidings_signals::replies::{Received, Replies};
use tidings_signals::ses::stray::{self, Stray};
use tidings_signals::tracking;

use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};

pub(crate) use stats::{StatsArgs, stats};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings events list --contact ada@example.org --workspace acme
  tidings events list --sequence spring --type click --from 2026-07-01T00:00:00Z
  tidings events send user.signed_up --email ada@example.org --data '{\"plan\":\"pro\"}'
  tidings events recompute --message t-101
  tidings events recompute --contact ada@example.org
  tidings events inbound mail.eml
  tidings events stray")]
pub(crate) struct EventsArgs {
    /// The workspace whose events are meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    workspace: Workspace,
    /// Lay each event out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: EventsCommand,
}

#[derive(Debug, Subcommand)]
enum EventsCommand {
    /// Print the events of a contact, a template or a sequence, the newest first
    List(ListArgs),
    /// Tell what happened to a person, so that sequences begin, go on or end with it
    Send(send::SendArgs),
    /// Decide anew whether people or machines opened and clicked, from the facts that were kept
    Recompute(WhatArgs),
    /// Take a mail in that came to the workspace, as a reply
    Inbound {
        /// The file with the mail, headers and body; `-` reads it from standard input
        file: PathBuf,
    },
    /// Print what came in and is about no message of any workspace, the newest first
    Stray {
        /// Stop after so many
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    of: OfArgs,
    /// Only events of this type: send, delivery, open, click, bounce, complaint, reject, reply, unsubscribe, delay
    /// or rendering_failure
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Not before this time
    #[arg(long, value_name = "TIME")]
    from: Option<Timestamp>,
    /// Not after this time
    #[arg(long, value_name = "TIME")]
    to: Option<Timestamp>,
    /// Stop after so many
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct OfArgs {
    /// The person, by e-mail address
    #[arg(long, value_name = "ADDRESS")]
    contact: Option<EmailAddress>,
    /// The template, by its key
    #[arg(long, value_name = "KEY")]
    template: Option<String>,
    /// The sequence by its id, or the campaign by its key
    #[arg(long, value_name = "ID")]
    sequence: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct WhatArgs {
    /// One message, such as t-101 (transactional) or c-501 (of a campaign)
    #[arg(long, value_name = "REFERENCE", value_parser = reference)]
    message: Option<Source>,
    /// All that a person opened or clicked, by e-mail address
    #[arg(long, value_name = "ADDRESS")]
    contact: Option<EmailAddress>,
}

fn reference(text: &str) -> Result<Source, String> {
    Source::from_reference(text).ok_or_else(|| "use a reference such as t-101 or c-501".to_owned())
}

#[derive(Serialize)]
struct Decided {
    message: String,
    /// How many events have another verdict now.
    changed: usize,
}

#[derive(Serialize)]
pub(crate) struct EventShown {
    id: Option<String>,
    r#type: String,
    email: String,
    occurred_at: Timestamp,
    message: Option<String>,
    template_key: Option<String>,
    sequence_id: Option<String>,
    subject: Option<String>,
    url: Option<String>,
    bounce_type: Option<String>,
    bounce_subtype: Option<String>,
    reason: Option<String>,
    verdict: Option<serde_json::Value>,
}

#[derive(Serialize)]
struct ShownStray {
    id: String,
    r#type: String,
    reason: String,
    received_at: Timestamp,
    body: String,
}

pub(crate) async fn events(args: EventsArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match args.command {
        EventsCommand::Stray { limit } => strays(&open, limit).await,
        EventsCommand::Send(told) => match open.inside(args.workspace).await {
            Ok(cx) => send::send(&open, &cx, told).await,
            Err(failure) => Err(failure),
        },
        EventsCommand::Inbound { file } => match open.inside(args.workspace).await {
            Ok(cx) => inbound(&open, &cx, config, &file).await,
            Err(failure) => Err(failure),
        },
        EventsCommand::Recompute(what) => match open.inside(args.workspace).await {
            Ok(cx) => decide_anew(&open, &cx, what).await,
            Err(failure) => Err(failure),
        },
        EventsCommand::List(list) => match open.inside(args.workspace).await {
            Ok(cx) => print(&open, &cx, list).await,
            Err(failure) => Err(failure),
        },
    };
    open.close().await;
    done
}

async fn print(open: &Open, cx: &Cx, args: ListArgs) -> Result<(), Failure> {
    let of = match args.of {
        OfArgs { contact: Some(email), .. } => Of::Contact(email),
        OfArgs { template: Some(key), .. } => Of::Template(key),
        OfArgs { sequence, .. } => Of::Sequence(sequence.unwrap_or_default()),
    };
    let filter = Filter { of, kind: args.kind, from: args.from, to: args.to };
    let (mut out, mut cursor, mut left) = (open.out(), None, args.limit);
    while left > 0 {
        let page = queries::list(cx, &filter, cursor, Limit::MAX).await?;
        for event in page.items.into_iter().take(left) {
            out.json(&EventShown::from(event))?;
            left -= 1;
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    out.finish()
}

async fn decide_anew(open: &Open, cx: &Cx, what: WhatArgs) -> Result<(), Failure> {
    let mut messages: Vec<Source> = what.message.into_iter().collect();
    if let Some(email) = &what.contact {
        messages.extend(tracking::seen_by(cx, email).await?);
    }
    let mut out = open.out();
    for message in messages {
        let changed = tracking::recompute(cx, message).await?;
        out.json(&Decided { message: message.reference(), changed })?;
    }
    out.finish()
}

async fn inbound(open: &Open, cx: &Cx, config: &Config, file: &Path) -> Result<(), Failure> {
    let mut mime = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().read_to_end(&mut mime)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut mime))
    };
    read.with_context(|| format!("{} could not be read", file.display()))?;
    let messages = Messages::new(Templates::default());
    let replies = Replies::new(open.access.clone(), config.data_ttl_days)
        .passing_on(messages, config.signals.forward_replies_to.clone());
    let (status, reason) = match replies.receive(cx, &mime).await? {
        Received::Reply => ("reply", None),
        Received::Automatic => ("automatic", None),
        Received::Unproven => ("unproven", None),
        Received::Told(what) => (what, None),
        Received::Before => ("duplicate", None),
        Received::Ignored(why) => ("ignored", Some(why.as_str())),
    };
    open.print(&serde_json::json!({ "status": status, "reason": reason }))
}

async fn strays(open: &Open, limit: usize) -> Result<(), Failure> {
    let (mut out, mut before, mut left) = (open.out(), None, limit);
    while left > 0 {
        let page = stray::list(open.access.database(), before, Limit::MAX).await?;
        for stray in page.items.into_iter().take(left) {
            out.json(&ShownStray::from(stray))?;
            left -= 1;
        }
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    out.finish()
}

impl From<Stored> for EventShown {
    fn from(event: Stored) -> Self {
        Self {
            id: event.id,
            r#type: event.kind,
            email: event.email,
            occurred_at: event.occurred_at,
            message: event.message,
            template_key: event.template_key,
            sequence_id: event.sequence_id,
            subject: event.subject,
            url: event.url,
            bounce_type: event.bounce_type,
            bounce_subtype: event.bounce_subtype,
            reason: event.reason,
            verdict: event.verdict,
        }
    }
}

impl From<Stray> for ShownStray {
    fn from(stray: Stray) -> Self {
        Self {
            id: stray.id,
            r#type: stray.event_type,
            reason: stray.reason,
            received_at: stray.received_at,
            body: stray.body,
        }
    }
}
