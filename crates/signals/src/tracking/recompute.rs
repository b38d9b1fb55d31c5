//! Deciding again who opened and clicked, from the facts that were kept.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use tidings_access::{Cx, StorageError};
use tidings_delivery::ledger::{Message, Source};
use tidings_kernel::{Condition, EmailAddress, Item, Query, tables};
use tidings_people::keys;

use super::evidence::{self, Way};
use super::verdict::decide;
use crate::events::{RecordError, revise};

/// Events of one person that are looked at together.
const PAGE: usize = 500;
/// What lies further apart has nothing to do with each other.
const BURST: SignedDuration = SignedDuration::from_secs(2);

/// Decides anew about every open and click of a message, and counts again what has changed. Tells how many have.
/// Doing it again changes nothing.
pub async fn recompute(cx: &Cx, source: Source) -> Result<usize, RecordError> {
    let workspace = cx.workspace_id().get();
    let message = cx.database().read(move |tx| Message::find(tx, source)).await?;
    let message = message.filter(|message| message.workspace == workspace);
    let Some(message) = message else { return Ok(0) };
    let email = message.email.as_deref().and_then(|email| email.parse::<EmailAddress>().ok());
    let Some(email) = email else { return Ok(0) };
    let way = evidence::way(cx, source).await?;
    let mine = Condition::eq("messageRef", source.reference());
    let mut changed = 0;
    let mut cursor = None;
    loop {
        let query = Query::new(&tables::EVENTS, keys::subscriber(&email))
            .begins_with("EVT#")
            .filter(mine.clone())
            .limit(PAGE)
            .after(cursor);
        let page = cx.items().await?.query(query).await.map_err(StorageError::from)?;
        for event in &page.items {
            let Some(at) = evidence::occurred_at(event) else { continue };
            let around = evidence::clicks(cx, &message, &email, near(at)).await?;
            changed += usize::from(decide_again(cx, (&message, way), event, &around).await?);
        }
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(changed);
        }
    }
}

/// The messages that somebody or something opened or clicked in this person's name, as far as that is kept.
pub async fn seen_by(cx: &Cx, email: &EmailAddress) -> Result<Vec<Source>, StorageError> {
    let seen = Condition::eq("eventType", "open").or(Condition::eq("eventType", "click"));
    let mut found = BTreeSet::new();
    let mut cursor = None;
    loop {
        let query = Query::new(&tables::EVENTS, keys::subscriber(email))
            .begins_with("EVT#")
            .filter(seen.clone())
            .limit(PAGE)
            .after(cursor);
        let page = cx.items().await?.query(query).await?;
        found.extend(
            page.items.iter().filter_map(|event| event.text("messageRef")).map(str::to_owned),
        );
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(found.iter().filter_map(|text| Source::from_reference(text)).collect());
        }
    }
}

/// Decides anew about the clicks around one that has just been recorded: the first of many looked like a person's.
pub(super) async fn recompute_around(
    cx: &Cx,
    message: &Message,
    email: &EmailAddress,
    at: Timestamp,
) -> Result<(), RecordError> {
    let way = evidence::way(cx, message.source).await?;
    let (from, to) = near(at);
    let wide = (near(from).0, near(to).1);
    let clicks = evidence::clicks(cx, message, email, wide).await?;
    for event in &clicks {
        let is_near = evidence::occurred_at(event).is_some_and(|then| from <= then && then <= to);
        if is_near {
            decide_again(cx, (message, way), event, &clicks).await?;
        }
    }
    Ok(())
}

pub(super) fn near(at: Timestamp) -> (Timestamp, Timestamp) {
    let from = at.checked_sub(BURST).unwrap_or(Timestamp::MIN);
    (from, at.checked_add(BURST).unwrap_or(Timestamp::MAX))
}

async fn decide_again(
    cx: &Cx,
    (message, way): (&Message, Way),
    event: &Item,
    clicks: &[Item],
) -> Result<bool, RecordError> {
    // An event of the provider has no facts of ours; it stays what it is.
    let (Some(facts), Some(at)) = (evidence::kept(event), evidence::occurred_at(event)) else {
        return Ok(false);
    };
    let facts = evidence::complete(facts, at, way, (event.text("linkUrl"), clicks));
    let verdict = decide(&facts).json(&facts);
    let before = event.get("verdict").map(evidence::json);
    if before.as_ref() == Some(&verdict) {
        return Ok(false);
    }
    revise(cx, message, event, &verdict).await
}
