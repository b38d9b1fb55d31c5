//! Transient bounces: one says little, five in a row without a delivery between say that nobody is there.
//!
//! Events come late, twice and in any order, so nothing is counted up. What is kept is when the last bounces and
//! deliveries happened, and the rule looks at the times alone. A delivery that turns up late breaks the row too: it takes back
//! a suppression that should not have been. To people who never bounce a delivery costs one read and no write; if one of
//! theirs is needed later, it is among their events.

use jiff::Timestamp;
use tidings_access::{Cx, StorageError, in_millis};
use tidings_kernel::{
    Condition, EmailAddress, Expect, Item, Query, StoreError, Txn, Value, tables,
};

use super::record::{Kind, Reason, Suppression};
use super::store::{self, Held};
use super::{Suppress, Suppressed, suppress};
use crate::keys;
use crate::race;

/// So many in a row suppress.
const ROW: usize = 5;
/// So many of each are kept: the newest.
const KEPT: usize = 20;

/// Notes a transient bounce. `None` if it suppresses nothing (yet). The same event counts once.
pub async fn transient_bounce(
    cx: &Cx,
    email: &EmailAddress,
    event: &str,
    at: Timestamp,
) -> Result<Option<Suppressed>, StorageError> {
    let (items, at) = (cx.items().await?, in_millis(at));
    for _ in 0..race::ATTEMPTS {
        let held = Held::load(&items, email).await?;
        if held.lifted_at.is_some_and(|lifted| at <= lifted) {
            return Ok(Some(Suppressed::Stale));
        }
        let mut kept = Kept::read(held.bounces.as_ref());
        if !kept.bounces.iter().any(|(id, _)| id == event) {
            kept.bounces.push((event.to_owned(), at));
            let txn = held.unchanged_by(Txn::new());
            let put = txn.put(&tables::MAIN, kept.to_item(email), kept.expected());
            match items.transact(put).await {
                Ok(()) => {}
                Err(error) if race::lost(&error) => continue,
                Err(error) => return Err(error.into()),
            }
        }
        // Also if it was known already: whoever noted it may have died before the next line.
        if row(&kept.bounces, &kept.deliveries).is_some() {
            kept.deliveries.extend(deliveries_between(cx, email, &kept.bounces).await?);
        }
        let Some(since) = row(&kept.bounces, &kept.deliveries) else { return Ok(None) };
        let cmd = Suppress {
            email: email.clone(),
            kind: Kind::Transient,
            reason: Reason::clipped("five consecutive transient bounces"),
            source: Some(kept.at(since).unwrap_or(event).to_owned()),
            note: None,
            at: since,
        };
        return suppress(cx, cmd).await.map(Some);
    }
    Err(StoreError::Conflict.into())
}

/// Notes a delivery: bounces before it and after it are no row.
pub async fn delivered(cx: &Cx, email: &EmailAddress, at: Timestamp) -> Result<(), StorageError> {
    let (items, at) = (cx.items().await?, in_millis(at));
    let mut unmarked = false;
    for _ in 0..race::ATTEMPTS {
        let Some(bounces) = items.get(&tables::MAIN, &keys::bounces(email)).await? else {
            return Ok(());
        };
        let mut kept = Kept::read(Some(&bounces));
        if !kept.deliveries.contains(&at) {
            kept.deliveries.push(at);
            let put = Txn::new().put(&tables::MAIN, kept.to_item(email), kept.expected());
            match items.transact(put).await {
                Ok(()) => {}
                Err(error) if race::lost(&error) => continue,
                Err(error) => return Err(error.into()),
            }
        }
        if row(&kept.bounces, &kept.deliveries).is_some() {
            kept.deliveries.extend(deliveries_between(cx, email, &kept.bounces).await?);
        }
        let held = Held::load(&items, email).await?;
        if let Some(since) = row(&kept.bounces, &kept.deliveries) {
            let Some(moved) = moved(&held, &kept, since) else { return Ok(()) };
            match items.transact(moved).await {
                Ok(()) => return Ok(()),
                Err(error) if race::lost(&error) => continue,
                Err(error) => return Err(error.into()),
            }
        }
        let current = match &held.suppression {
            Some(current) if current.kind == Kind::Transient => current,
            // Meanwhile it is suppressed for something that lasts: what was taken from the identity comes back.
            Some(current) if unmarked => return Ok(store::mark_again(cx, current).await?),
            _ => return Ok(()),
        };
        if !std::mem::replace(&mut unmarked, true) {
            store::unmark(cx, current, "suppression.withdraw").await?;
        }
        let txn = held.flag_profile(held.without_suppression_alone(Txn::new()), false, cx.now());
        match items.transact(txn).await {
            Ok(()) => return Ok(()),
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}

/// If the row that suppressed is broken, and another one, from later, is not: since then it is suppressed.
fn moved(held: &Held, kept: &Kept, since: Timestamp) -> Option<Txn> {
    let current = held.suppression.as_ref().filter(|current| current.kind == Kind::Transient)?;
    if current.suppressed_at == since {
        return None;
    }
    let source = kept.at(since).map(ToOwned::to_owned);
    let moved = Suppression { suppressed_at: since, source, ..current.clone() };
    let txn = Txn::new().put(&tables::MAIN, moved.to_entry(), Expect::Anything);
    let txn = held.unchanged_by(txn);
    Some(txn.put(&tables::MAIN, moved.to_item(), held.expected_suppression()))
}

/// When the first row of five was complete, if there is one.
fn row(bounces: &[(String, Timestamp)], deliveries: &[Timestamp]) -> Option<Timestamp> {
    let mut times: Vec<Timestamp> = bounces.iter().map(|(_, at)| *at).collect();
    times.sort();
    let unbroken =
        |row: &&[Timestamp]| !deliveries.iter().any(|at| row[0] <= *at && *at <= row[ROW - 1]);
    times.windows(ROW).find(unbroken).map(|row| row[ROW - 1])
}

/// Those that were stored as events before the first bounce was noted here.
async fn deliveries_between(
    cx: &Cx,
    email: &EmailAddress,
    bounces: &[(String, Timestamp)],
) -> Result<Vec<Timestamp>, StorageError> {
    let times = || bounces.iter().map(|(_, at)| *at);
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return Ok(Vec::new()) };
    let range = (format!("EVT#{}", keys::time(first)), format!("EVT#{}~", keys::time(last)));
    let query = Query::new(&tables::EVENTS, keys::subscriber(email))
        .between(range.0, range.1)
        .filter(Condition::eq("eventType", "delivery"))
        .limit(KEPT);
    let found = cx.items().await?.query(query).await?.items;
    Ok(found.iter().filter_map(|item| item.text("timestamp")?.parse().ok()).collect())
}

/// The item BOUNCES.
struct Kept {
    bounces: Vec<(String, Timestamp)>,
    deliveries: Vec<Timestamp>,
    /// Counts the writes, so that of two at once one loads again.
    version: i64,
}

impl Kept {
    /// The bounce that was the last of a row: always the same one, whichever was heard of last.
    fn at(&self, since: Timestamp) -> Option<&str> {
        let then = self.bounces.iter().filter(|(_, at)| *at == since);
        then.map(|(id, _)| id.as_str()).min()
    }

    fn read(item: Option<&Item>) -> Self {
        let list = |name: &str| match item.and_then(|item| item.get(name)) {
            Some(Value::L(list)) => list.clone(),
            _ => Vec::new(),
        };
        let bounce = |value: &Value| {
            let Value::M(map) = value else { return None };
            let at = map.get("at")?.as_text()?.parse().ok()?;
            Some((map.get("id")?.as_text()?.to_owned(), at))
        };
        Self {
            bounces: list("transients").iter().filter_map(bounce).collect(),
            deliveries: list("deliveries")
                .iter()
                .filter_map(|at| at.as_text()?.parse().ok())
                .collect(),
            version: item.and_then(|item| item.integer("version")).unwrap_or(0),
        }
    }

    fn expected(&self) -> Expect {
        match self.version {
            0 => Expect::Absent,
            version => Expect::That(Condition::eq("version", version)),
        }
    }

    fn to_item(&self, email: &EmailAddress) -> Item {
        let mut bounces = self.bounces.clone();
        bounces.sort_by_key(|(_, at)| *at);
        let bounces = bounces[bounces.len().saturating_sub(KEPT)..].iter().map(|(id, at)| {
            let map = [("id", id.as_str().into()), ("at", keys::time(*at).into())];
            Value::M(map.map(|(name, value)| (name.to_owned(), value)).into())
        });
        let mut deliveries = self.deliveries.clone();
        deliveries.sort();
        let deliveries = deliveries[deliveries.len().saturating_sub(KEPT)..].iter();
        tables::MAIN
            .bare_item(&keys::bounces(email))
            .with("transients", bounces.collect::<Vec<_>>())
            .with("deliveries", deliveries.map(|at| keys::time(*at).into()).collect::<Vec<Value>>())
            .with("version", self.version + 1)
    }
}
