//! The facts behind a verdict: what the request said, how its message went, and what else happened around it.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};
use tidings_access::{Cx, StorageError};
use tidings_delivery::ledger::{Message, Source};
use tidings_kernel::{Condition, EmailAddress, Item, Key, Query, Value, hex, tables};
use tidings_people::keys;
use tidings_sql::{DatabaseError, Param};

use super::verdict::{Action, Facts};
use crate::events::Event;

/// So many clicks around one are looked at; a machine that makes more has shown itself.
const MOST: usize = 200;
const SECOND: SignedDuration = SignedDuration::from_secs(1);
/// For so many seconds it is known that a click is on its way to its verdict.
const TRACE_SECONDS: i64 = 60 * 60;

/// When a message went out and arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Way {
    handed_at: Option<Timestamp>,
    delivered_at: Option<Timestamp>,
    /// When it was written down: nothing happened to it before.
    pub(super) created_at: Option<Timestamp>,
}

/// A click as far as others are judged by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clicked {
    at: Timestamp,
    link: String,
}

pub(super) async fn way(cx: &Cx, source: Source) -> Result<Way, DatabaseError> {
    let table = match source {
        Source::Transactional(_) => "transactional_messages",
        Source::Recipient(_) => "campaign_recipients",
    };
    let sql = format!(
        "SELECT coalesce(handed_at, sent_at), delivered_at, created_at FROM {table} WHERE workspace_id = $1 AND id = $2"
    );
    let params = (cx.workspace_id().get(), source.id());
    let rows =
        cx.database().read(move |tx| tx.query(&sql, &[Param::Int(params.0), Param::Int(params.1)]));
    match rows.await?.first() {
        Some(row) => {
            let (handed_at, delivered_at) = (row.optional_time(0)?, row.optional_time(1)?);
            Ok(Way { handed_at, delivered_at, created_at: row.optional_time(2)? })
        }
        None => Ok(Way::default()),
    }
}

/// The clicks in a message around a time, as they are recorded. What a provider tells of clicks that our own links tell
/// is not among them.
pub(super) async fn clicks(
    cx: &Cx,
    message: &Message,
    email: &EmailAddress,
    (from, to): (Timestamp, Timestamp),
) -> Result<Vec<Item>, StorageError> {
    let of_message = Condition::eq("messageRef", message.source.reference())
        .and(Condition::eq("eventType", "click"))
        .and(Condition::exists("verdict"));
    // Everything of a millisecond sorts behind its time and a `#`.
    let query = Query::new(&tables::EVENTS, keys::subscriber(email))
        .between(format!("EVT#{}", keys::time(from)), format!("EVT#{}~", keys::time(to)))
        .filter(of_message)
        .limit(MOST);
    Ok(cx.items().await?.query(query).await?.items)
}

/// What is put down of a click while it waits for its verdict.
pub(super) fn trace(source: Source, click: &Event, now: Timestamp) -> Item {
    let at = keys::time(click.occurred_at);
    let sort = format!("HIT#{at}#{}", &hex(&Sha256::digest(&click.id))[..16]);
    let mut item = tables::EVENTS.bare_item(&Key::new(partition(source), sort));
    item.set("timestamp", at);
    item.set("link", link(click.url.as_deref()));
    // From now on: a provider may tell of it hours later.
    item.set("ttl", now.as_second() + TRACE_SECONDS);
    item
}

/// The clicks in a message around a time that wait for their verdict, or did so not long ago.
pub(super) async fn traces(
    cx: &Cx,
    source: Source,
    (from, to): (Timestamp, Timestamp),
) -> Result<Vec<Clicked>, StorageError> {
    let query = Query::new(&tables::EVENTS, partition(source))
        .between(format!("HIT#{}", keys::time(from)), format!("HIT#{}~", keys::time(to)))
        .limit(MOST);
    let found = cx.items().await?.query(query).await?.items;
    let read =
        |item: &Item| Some(Clicked { at: occurred_at(item)?, link: item.text("link")?.to_owned() });
    Ok(found.iter().filter_map(read).collect())
}

/// The same of clicks that are recorded.
pub(super) fn clicked(events: &[Item]) -> Vec<Clicked> {
    let read =
        |item: &Item| Some(Clicked { at: occurred_at(item)?, link: link(item.text("linkUrl")) });
    let clicks = events.iter().filter(|item| item.text("eventType") == Some("click"));
    clicks.filter_map(read).collect()
}

fn partition(source: Source) -> String {
    format!("MSG#{}", source.reference())
}

/// What tells one link from another, without where it leads.
fn link(url: Option<&str>) -> String {
    hex(&Sha256::digest(url.unwrap_or_default())[..8])
}

/// The same facts with what the ledger and the other clicks say now.
pub(super) fn complete(
    facts: Facts,
    at: Timestamp,
    way: Way,
    (url, clicks): (Option<&str>, &[Clicked]),
) -> Facts {
    let since =
        |from: Option<Timestamp>| from.map(|from| at.as_millisecond() - from.as_millisecond());
    let own = link(url);
    let others = |within: SignedDuration| {
        let other = |click: &&Clicked| click.link != own;
        let near = |click: &&Clicked| at.duration_since(click.at).abs() <= within;
        let links: BTreeSet<_> =
            clicks.iter().filter(other).filter(near).map(|click| &click.link).collect();
        u32::try_from(links.len()).unwrap_or(u32::MAX)
    };
    let is_click = facts.action == Action::Click;
    Facts {
        since_handoff_ms: since(way.handed_at),
        since_delivery_ms: since(way.delivered_at),
        other_links_1s: if is_click { others(SECOND) } else { 0 },
        other_links_2s: if is_click { others(2 * SECOND) } else { 0 },
        ..facts
    }
}

pub(super) fn occurred_at(event: &Item) -> Option<Timestamp> {
    event.text("timestamp")?.parse().ok()
}

/// The facts that were kept beside an open or a click.
pub(super) fn kept(event: &Item) -> Option<Facts> {
    let facts = tidings_kernel::Path::of("verdict").key("facts");
    serde_json::from_value(json(facts.find(event)?)).ok()
}

/// A value as it was before it became part of an item.
pub(crate) fn json(value: &Value) -> Json {
    match value {
        Value::S(text) => text.as_str().into(),
        Value::N(number) => number.to_i64().map_or(Json::Null, Json::from),
        Value::Bool(flag) => (*flag).into(),
        Value::M(fields) => {
            Json::Object(fields.iter().map(|(name, value)| (name.clone(), json(value))).collect())
        }
        Value::L(values) => values.iter().map(json).collect(),
        Value::Null | Value::B(_) | Value::Ss(_) | Value::Ns(_) | Value::Bs(_) => Json::Null,
    }
}
