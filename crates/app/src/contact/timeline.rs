//! `tidings contact timeline`: the story of a person, and who is who.

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tidings_access::Cx;
use tidings_leads::event::StoredEvent;
use tidings_leads::identity::{
    self, DetachError, FlagId, Identity, Merge, MergeError, MergeId, UnmergeError,
};
use tidings_leads::timeline::{self, Listing, MAX_LIMIT};
use tidings_people::contacts::ContactId;

use super::{Whom, found, whom};
use crate::failure::Failure;
use crate::open::Open;
use crate::output::say;

#[derive(Debug, Args)]
pub(super) struct TimelineArgs {
    /// Whose story it is
    #[arg(value_name = "PERSON", value_parser = whom)]
    who: Whom,
    /// Only what happened before this
    #[arg(long, value_name = "TIME")]
    before: Option<Timestamp>,
    /// Only what happened then or later
    #[arg(long, value_name = "TIME")]
    after: Option<Timestamp>,
    /// Only events of this type; can be given up to ten times
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// So many at most, the newest first
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    limit: usize,
    /// Print the events as JSON, one a line, and not as a story
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct EventArgs {
    /// Which system told it
    source: String,
    /// What that system calls it: its external_event_id
    id: String,
}

#[derive(Debug, Args)]
pub(super) struct WhoArgs {
    /// Who is meant
    #[arg(value_name = "PERSON", value_parser = whom)]
    who: Whom,
}

#[derive(Debug, Args)]
pub(super) struct MergeArgs {
    /// One of them
    #[arg(value_name = "PERSON", value_parser = whom)]
    one: Whom,
    /// The other one
    #[arg(value_name = "OTHER", value_parser = whom)]
    other: Whom,
}

#[derive(Debug, Args)]
pub(super) struct DetachArgs {
    /// Who is meant
    #[arg(value_name = "PERSON", value_parser = whom)]
    who: Whom,
    /// What he is not known by, such as phone=+49301234567
    #[arg(value_parser = named)]
    identity: Identity,
}

fn named(text: &str) -> Result<Identity, String> {
    let (channel, value) = text.split_once('=').ok_or("use channel=value, such as user_id=42")?;
    Identity::new(channel, value).map_err(|error| error.to_string())
}

#[derive(Debug, Args)]
pub(super) struct IdArgs {
    /// Its id
    id: i64,
}

pub(super) async fn timeline(args: TimelineArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let owner = found(cx, args.who).await?;
    let (mut out, mut left, mut told) = (open.out(), args.limit, 0);
    let mut listing = Listing {
        before: args.before,
        after: args.after,
        types: args.types,
        limit: MAX_LIMIT,
        cursor: None,
    };
    while left > 0 {
        listing.limit = left.min(MAX_LIMIT);
        let whom = identity::Whom::Contact(owner.lead_id);
        let Some(page) = timeline::timeline(cx, whom, &listing).await? else { break };
        for event in &page.events {
            if args.json {
                out.json(&shown(owner.lead_id, event))?;
            } else {
                out.text(&line(event, cx.now()))?;
            }
        }
        told += page.events.len();
        left -= page.events.len();
        listing.cursor = page.next;
        if listing.cursor.is_none() {
            break;
        }
    }
    if told == 0 {
        say("Nothing is known to have happened.");
    } else if listing.cursor.is_some() {
        say("There is more: use --limit, or --before with the time of the last one.");
    }
    out.finish()
}

/// `3 days ago  2026-06-28 14:02  opened  “Welcome”`: how long ago it was, when, and what.
fn line(event: &StoredEvent, now: Timestamp) -> String {
    let at = event.occurred_at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M").to_string();
    let ago = timeline::ago(event.occurred_at, now);
    format!("{ago:<14}  {at}  {}\n", timeline::sentence(event))
}

pub(super) async fn event(args: &EventArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    match timeline::told_as(cx, &args.source, &args.id).await? {
        Some((owner, event)) => open.print(&shown(owner.lead_id, &event)),
        None => Err(Failure::failed(format!("{} told no event {}", args.source, args.id))
            .hint("what was told just now is there when the queue `lead-ingestion` is worked off")),
    }
}

fn shown(contact: ContactId, event: &StoredEvent) -> Value {
    json!({
        "id": event.id,
        "contact_id": contact.get(),
        "event_type": event.event_type,
        "occurred_at": event.occurred_at,
        "received_at": event.received_at,
        "source_type": event.source_type,
        "source": event.source,
        "external_event_id": event.external_event_id,
        "object_id": event.object_id,
        "object_id_ref": event.object_id_ref,
        "payload": event.payload,
    })
}

pub(super) async fn identities(args: WhoArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let owner = found(cx, args.who).await?;
    let view = identity::view(cx, identity::Whom::Contact(owner.lead_id)).await?;
    let Some(view) = view else { return Ok(()) };
    let identities = view.identities.iter().map(|one| {
        json!({
            "channel": one.channel, "value": one.value, "typed_value": one.typed,
            "from": one.from.map(ContactId::get), "is": one.is, "created_at": one.created_at,
        })
    });
    let merged = view.merged.iter().map(|one| one.get());
    open.print(&json!({
        "contact_id": view.owner.lead_id.get(),
        "lead_organization_id": view.owner.lead_organization_id,
        "first_seen_at": view.first_seen_at,
        "last_seen_at": view.last_seen_at,
        "identities": identities.collect::<Vec<_>>(),
        "merged": merged.collect::<Vec<_>>(),
    }))
}

pub(super) async fn merge(args: MergeArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let (one, other) = (found(cx, args.one).await?, found(cx, args.other).await?);
    let merged = identity::merge(cx, one.lead_id, other.lead_id).await;
    let merged = merged.map_err(|error| match error {
        error @ (MergeError::Missing(_)
        | MergeError::Erased(_)
        | MergeError::Same
        | MergeError::TooMany) => Failure::usage(error.to_string()),
        MergeError::Store(error) => error.into(),
    })?;
    say("`tidings contact unmerge` takes them apart again.");
    open.print(&merge_shown(&merged))
}

pub(super) async fn unmerge(args: &IdArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let undone = identity::unmerge(cx, MergeId::from(args.id)).await;
    let undone = undone.map_err(|error| match error {
        error @ (UnmergeError::Missing(_) | UnmergeError::Erased(_)) => {
            Failure::usage(error.to_string())
                .hint("`tidings contact merges` shows those that there are")
        }
        UnmergeError::Store(error) => error.into(),
    })?;
    open.print(&merge_shown(&undone))
}

pub(super) async fn detach(args: DetachArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    let owner = found(cx, args.who).await?;
    let whom = identity::Whom::Contact(owner.lead_id);
    let detached = identity::detach(cx, whom, args.identity).await;
    let detached = detached.map_err(|error| match error {
        error @ (DetachError::Missing | DetachError::Address | DetachError::Last(_)) => {
            Failure::usage(error.to_string())
        }
        DetachError::Store(error) => error.into(),
    })?;
    open.print(&json!({ "detached": detached }))
}

pub(super) async fn merges(open: &Open, cx: &Cx) -> Result<(), Failure> {
    let (mut out, mut before) = (open.out(), None);
    loop {
        let page = identity::merges(cx, before, MAX_LIMIT).await?;
        for merge in &page {
            out.json(&merge_shown(merge))?;
        }
        before = page.last().map(|merge| merge.id);
        if page.len() < MAX_LIMIT {
            return out.finish();
        }
    }
}

fn merge_shown(merge: &Merge) -> Value {
    json!({
        "id": merge.id.get(),
        "contact_id": merge.winner.get(),
        "merged_id": merge.loser.get(),
        "event_id": merge.event_id,
        "merged_at": merge.merged_at,
        "undone_at": merge.undone_at,
    })
}

pub(super) async fn flags(open: &Open, cx: &Cx) -> Result<(), Failure> {
    let (mut out, mut before) = (open.out(), None);
    loop {
        let page = identity::flags(cx, before, MAX_LIMIT).await?;
        for flag in &page {
            out.json(&json!({
                "id": flag.id.get(),
                "contact_ids": flag.contacts.map(ContactId::get),
                "cause": flag.cause,
                "event_id": flag.event_id,
                "flagged_at": flag.flagged_at,
            }))?;
        }
        before = page.last().map(|flag| flag.id);
        if page.len() < MAX_LIMIT {
            return out.finish();
        }
    }
}

pub(super) async fn dismiss(args: &IdArgs, open: &Open, cx: &Cx) -> Result<(), Failure> {
    if identity::dismiss(cx, FlagId::from(args.id)).await? {
        return open.print(&json!({ "dismissed": true }));
    }
    Err(Failure::usage(format!("there is no flag {}", args.id))
        .hint("`tidings contact flags` shows those that nobody has decided on"))
}
