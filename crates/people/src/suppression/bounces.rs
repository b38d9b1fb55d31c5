//! Transient bounces: one says little, five in a row without a delivery between say that nobody is there.
//!
//! Events come late, twice and in any order, so nothing is counted up. What is kept is when the last bounces happened and
//! what was delivered between them (`kept`), and the rule looks at the times alone. A delivery that turns up late breaks
//! the row too: it takes back a suppression that should not have been. To people who never bounce a delivery costs one read
//! and no write; if one of theirs is needed later, it is among their events.
//!
//! Who notes a bounce looks among the events for what was delivered right before and right after it, while they are there:
//! they are not kept for ever (`data.ttl_days`), and the next bounce may come in a month.

use jiff::Timestamp;
use tidings_access::{Cx, StorageError, in_millis};
use tidings_kernel::{Condition, EmailAddress, Expect, Query, StoreError, Txn, tables};

use super::kept::{Kept, Note, Row, is_of_row};
use super::record::{Kind, Reason, Suppression};
use super::store::{self, Held};
use super::{Suppress, Suppressed, suppress};
use crate::keys;
use crate::race;

/// Notes a transient bounce, and suppresses if it completes a row. The same event counts once.
pub async fn transient_bounce(
    cx: &Cx,
    email: &EmailAddress,
    event: &str,
    at: Timestamp,
) -> Result<(), StorageError> {
    let at = in_millis(at);
    let Some(kept) = note(cx, email, Note::Bounce(event, at)).await? else { return Ok(()) };
    // After that, or a delivery could be recorded in between and be seen by neither. Also of a bounce that was known
    // already: whoever noted it may have died here.
    let next_to_it = deliveries_next_to(cx, email, &kept, at).await?;
    if !next_to_it.is_empty() {
        note(cx, email, Note::Deliveries(&next_to_it)).await?;
    }
    settle(cx, email).await
}

/// Notes a delivery: bounces before it and after it are no row.
pub async fn delivered(cx: &Cx, email: &EmailAddress, at: Timestamp) -> Result<(), StorageError> {
    let items = cx.items().await?;
    if items.get(&tables::MAIN, &keys::bounces(email)).await?.is_none() {
        return Ok(());
    }
    note(cx, email, Note::Deliveries(&[in_millis(at)])).await?;
    settle(cx, email).await
}

/// Keeps it, and tells what is kept now. `None` of a bounce from before somebody lifted the suppression.
async fn note(cx: &Cx, email: &EmailAddress, note: Note<'_>) -> Result<Option<Kept>, StorageError> {
    let items = cx.items().await?;
    for _ in 0..race::ATTEMPTS {
        let held = Held::load(&items, email).await?;
        if let Note::Bounce(_, at) = note
            && held.lifted_at.is_some_and(|lifted| at <= lifted)
        {
            return Ok(None);
        }
        let before = Kept::read(held.bounces.as_ref());
        let after = before.clone().with(note);
        if after == before {
            return Ok(Some(after));
        }
        let txn = held.unchanged_by(Txn::new());
        let put = txn.put(&tables::MAIN, after.to_item(email), before.expected());
        match items.transact(put).await {
            Ok(()) => return Ok(Some(after)),
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}

/// Makes the suppression what the bounces say: it is there since the first row, or not at all. Looks again after each
/// change, so that of several who do this at once the last one sees it right.
async fn settle(cx: &Cx, email: &EmailAddress) -> Result<(), StorageError> {
    let items = cx.items().await?;
    let mut unmarked = false;
    for _ in 0..race::ATTEMPTS {
        let held = Held::load(&items, email).await?;
        let kept = Kept::read(held.bounces.as_ref());
        let txn = match (&held.suppression, kept.row()) {
            (None, None) => return Ok(()),
            (current, Some(row)) if is_earlier(&row, current.as_ref()) => {
                match begin(cx, email, row).await? {
                    Some(Suppressed::Stale) => return Ok(()),
                    _ => continue,
                }
            }
            (Some(current), Some(row)) if is_of_row(current) && !row.is_why(current) => {
                moved(&held, current, row)
            }
            (Some(current), None) if is_of_row(current) => {
                if !std::mem::replace(&mut unmarked, true) {
                    store::unmark(cx, current, "suppression.withdraw").await?;
                }
                held.flag_profile(held.without_suppression_alone(Txn::new()), false, cx.now())
            }
            // Meanwhile it is suppressed for something else: what was taken from the identity comes back.
            (Some(current), _) if unmarked => return Ok(store::mark_again(cx, current).await?),
            _ => return Ok(()),
        };
        // It was decided by these bounces and by no others.
        let txn = txn.check(&tables::MAIN, keys::bounces(email), kept.expected());
        match items.transact(txn).await {
            Ok(()) => {}
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}

/// Whether nothing is suppressed yet, or for a later row.
fn is_earlier(row: &Row, current: Option<&Suppression>) -> bool {
    current.is_none_or(|current| is_of_row(current) && row.since < current.suppressed_at)
}

/// Suppresses because of a row, unless it is none after all: then the delivery that breaks it is noted.
async fn begin(
    cx: &Cx,
    email: &EmailAddress,
    row: Row,
) -> Result<Option<Suppressed>, StorageError> {
    let within = deliveries(email, (row.first, row.since));
    if let Some(at) = first_of(cx, within).await? {
        note(cx, email, Note::Deliveries(&[at])).await?;
        return Ok(None);
    }
    let cmd = Suppress {
        email: email.clone(),
        kind: Kind::Transient,
        reason: Reason::clipped("five consecutive transient bounces"),
        source: Some(row.source),
        note: None,
        at: row.since,
    };
    suppress(cx, cmd).await.map(Some)
}

/// If the row that suppressed is broken, and another one, from later, is not: since then it is suppressed.
fn moved(held: &Held, current: &Suppression, row: Row) -> Txn {
    let moved =
        Suppression { suppressed_at: row.since, source: Some(row.source), ..current.clone() };
    let txn = Txn::new().put(&tables::MAIN, moved.to_entry(), Expect::Anything);
    let txn = held.unchanged_by(txn);
    txn.put(&tables::MAIN, moved.to_item(), held.expected_suppression())
}

/// The last one before it and the first one after it, of those that are among the events.
async fn deliveries_next_to(
    cx: &Cx,
    email: &EmailAddress,
    kept: &Kept,
    at: Timestamp,
) -> Result<Vec<Timestamp>, StorageError> {
    let (from, to) = kept.around(at);
    let before = first_of(cx, deliveries(email, (from, at)).backward()).await?;
    let after = first_of(cx, deliveries(email, (at, to))).await?;
    Ok(before.into_iter().chain(after).collect())
}

async fn first_of(cx: &Cx, query: Query) -> Result<Option<Timestamp>, StorageError> {
    let found = cx.items().await?.query(query.limit(1)).await?.items;
    Ok(found.first().and_then(|item| item.text("timestamp")?.parse().ok()))
}

fn deliveries(email: &EmailAddress, (from, to): (Timestamp, Timestamp)) -> Query {
    let (from, to) = (format!("EVT#{}", keys::time(from)), format!("EVT#{}~", keys::time(to)));
    Query::new(&tables::EVENTS, keys::subscriber(email))
        .between(from, to)
        .filter(Condition::eq("eventType", "delivery"))
}
