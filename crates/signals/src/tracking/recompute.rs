//! Deciding again who opened and clicked, from the facts that were kept.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use tidings_access::{Cx, StorageError};
use tidings_delivery::ledger::{Message, Source};
use tidings_kernel::{Condition, EmailAddress, Item, Query, tables};
use tidings_people::keys;

use super::evidence::{self, Clicked, Way};
use super::verdict::decide;
use crate::events::{RecordError, revise};

/// Events of one person that are looked at together.
const PAGE: usize = 500;
/// Clocks of two nodes differ by less.
const SKEW: SignedDuration = SignedDuration::from_mins(10);
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
    let seen = seen_of(cx, (source, &email), way).await?;
    let mut clicks = evidence::clicked(&seen);
    // And those that wait for their verdict.
    let always = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
    clicks.extend(evidence::traces(cx, source, always).await?);
    let mut changed = 0;
    for event in &seen {
        changed += usize::from(decide_again(cx, (&message, way), event, &clicks).await?);
    }
    Ok(changed)
}

/// The opens and clicks of a message that have a verdict. They are not many: of one message only so many are recorded.
async fn seen_of(
    cx: &Cx,
    (source, email): (Source, &EmailAddress),
    way: Way,
) -> Result<Vec<Item>, StorageError> {
    let mine = Condition::eq("messageRef", source.reference()).and(Condition::exists("verdict"));
    let since = way.created_at.and_then(|at| at.checked_sub(SKEW).ok());
    let since = since.unwrap_or(Timestamp::UNIX_EPOCH).max(Timestamp::UNIX_EPOCH);
    let items = cx.items().await?;
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let query = Query::new(&tables::EVENTS, keys::subscriber(email))
            .between(format!("EVT#{}", keys::time(since)), "EVT#~")
            .filter(mine.clone())
            .limit(PAGE)
            .after(cursor);
        let page = items.query(query).await?;
        found.extend(page.items);
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(found);
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
    let recorded = evidence::clicks(cx, message, email, wide).await?;
    let mut clicks = evidence::clicked(&recorded);
    clicks.extend(evidence::traces(cx, message.source, wide).await?);
    for event in &recorded {
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
    clicks: &[Clicked],
) -> Result<bool, RecordError> {
    // What came without facts stays what it is.
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
