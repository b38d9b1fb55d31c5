//! `tidings contact`: one person: what happened to him, who he is, what was learned of him, and his numbers.
//!
//! What is asked for is printed as JSON, one thing a line.

mod learned;
mod tell;
mod timeline;

use clap::{Args, Subcommand};
use tidings_access::Cx;
use tidings_kernel::Workspace;
use tidings_leads::identity::{self, Identity, Owner};
use tidings_people::contacts::ContactId;

use crate::config::Config;
use crate::failure::Failure;
use crate::open::{Open, layout};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tidings contact timeline ada@example.org
  tidings contact timeline user_id=42 --type purchase_completed --json
  tidings contact event shop order-77 --pretty
  tidings contact tell history.jsonl --source shop
  tidings contact identities ada@example.org --pretty
  tidings contact merge ada@example.org phone=+49301234567
  tidings contact unmerge 3
  tidings contact detach ada@example.org phone=+49301234567
  tidings contact memory ada@example.org --type purchase
  tidings contact remember ada@example.org preference colour red --expires-after 365d
  tidings contact forget-memory ada@example.org preference colour
  tidings contact features ada@example.org --pretty
  tidings contact features ada@example.org --as-of 2026-05-01T00:00:00Z
  tidings contact rebuild ada@example.org
  tidings contact rebuild --all

A person is named by an address, by the id of the contact, or by another identity:
user_id=42, customer_id=c-7, phone=+49301234567, anonymous_id=…, whatsapp=…, custom:crm=…")]
pub(crate) struct ContactArgs {
    /// The workspace whose contact is meant
    #[arg(long, global = true, default_value = "default", help_heading = "Common options")]
    workspace: Workspace,
    /// Lay what is printed out over several lines
    #[arg(long, global = true, help_heading = "Common options")]
    pretty: bool,
    #[command(subcommand)]
    command: ContactCommand,
}

#[derive(Debug, Subcommand)]
enum ContactCommand {
    /// Print what happened to somebody, in any channel, as a story
    Timeline(timeline::TimelineArgs),
    /// Print one event, by its source's own id
    Event(timeline::EventArgs),
    /// Tell what people did, from a file, as events on their timelines
    Tell(tell::TellArgs),
    /// Print what somebody is known by, over all channels
    Identities(timeline::WhoArgs),
    /// Say that two contacts are one person; the older one stays
    Merge(timeline::MergeArgs),
    /// Take two contacts apart who were merged
    Unmerge(timeline::IdArgs),
    /// Say that somebody is not known by this after all
    Detach(timeline::DetachArgs),
    /// Print the merges, the newest first, also those that were undone
    Merges,
    /// Print pairs of contacts who may be one person
    Flags,
    /// Say of such a pair that they are two people
    Dismiss(timeline::IdArgs),
    /// Print what was learned of somebody
    Memory(learned::MemoryArgs),
    /// Write down something about somebody, until an event says something newer
    Remember(learned::RememberArgs),
    /// Drop what was stated about somebody, so that only what events say counts
    ForgetMemory(learned::ForgetArgs),
    /// Print somebody's numbers, as they are or as they were
    Features(learned::FeaturesArgs),
    /// Derive memory and features of somebody, or of everybody, again from the events
    ///
    /// Of one person it is done at once. Of everybody it is begun, and the workers do it.
    Rebuild(learned::RebuildArgs),
}

pub(crate) async fn run(args: ContactArgs, config: &Config) -> Result<(), Failure> {
    let open = Open::existing(config, layout(args.pretty)).await?;
    let done = match open.inside(args.workspace).await {
        Ok(cx) => answer(args.command, &open, &cx).await,
        Err(failure) => Err(failure),
    };
    open.close().await;
    done
}

async fn answer(command: ContactCommand, open: &Open, cx: &Cx) -> Result<(), Failure> {
    match command {
        ContactCommand::Timeline(args) => timeline::timeline(args, open, cx).await,
        ContactCommand::Event(args) => timeline::event(&args, open, cx).await,
        ContactCommand::Tell(args) => tell::tell(args, open, cx).await,
        ContactCommand::Identities(args) => timeline::identities(args, open, cx).await,
        ContactCommand::Merge(args) => timeline::merge(args, open, cx).await,
        ContactCommand::Unmerge(args) => timeline::unmerge(&args, open, cx).await,
        ContactCommand::Detach(args) => timeline::detach(args, open, cx).await,
        ContactCommand::Merges => timeline::merges(open, cx).await,
        ContactCommand::Flags => timeline::flags(open, cx).await,
        ContactCommand::Dismiss(args) => timeline::dismiss(&args, open, cx).await,
        ContactCommand::Memory(args) => learned::memory(args, open, cx).await,
        ContactCommand::Remember(args) => learned::remember(args, open, cx).await,
        ContactCommand::ForgetMemory(args) => learned::forget(args, open, cx).await,
        ContactCommand::Features(args) => learned::features(args, open, cx).await,
        ContactCommand::Rebuild(args) => learned::rebuild(args, open, cx).await,
    }
}

/// Somebody, by whatever he is known.
#[derive(Debug, Clone)]
pub(crate) struct Whom(identity::Whom);

/// How to name a person.
pub(crate) fn whom(text: &str) -> Result<Whom, String> {
    if let Some((channel, value)) = text.split_once('=') {
        let identity = Identity::new(channel, value).map_err(|error| error.to_string())?;
        return Ok(Whom(identity::Whom::Identity(identity)));
    }
    if let Ok(id) = text.parse::<i64>() {
        return Ok(Whom(identity::Whom::Contact(ContactId::from(id))));
    }
    let email = text.parse().map_err(|error: tidings_kernel::AddressError| error.to_string())?;
    Ok(Whom(identity::Whom::Email(email)))
}

pub(crate) async fn found(cx: &Cx, whom: Whom) -> Result<Owner, Failure> {
    identity::find(cx, whom.0).await?.ok_or_else(|| {
        Failure::failed("there is no such contact")
            .hint("`tidings contacts list` shows those that there are")
    })
}
