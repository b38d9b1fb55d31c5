//! Once a day: the features that change although nothing happens, of those who were active in the last 90 days, and for some
//! days more, until nothing of theirs is in any window.

use jiff::{SignedDuration, Timestamp};
use tidings_access::{Access, Cx, StorageError};
use tidings_jobs::contracts::{Contract as _, LeadUpkeep, UpkeepTask};
use tidings_jobs::{Schedule, ScheduleError};
use tidings_kernel::{Key, Outgoing, Txn, queues, tables};
use tidings_sql::{DatabaseError, Param, Row};

use super::rebuild::rebuild;
use super::registry::by_time;
use super::store::{self, Kept};
use super::take::was_too_slow;
use super::upkeep::{begin, go_on};
use super::{changed, state};

/// The name of the schedule.
pub const DAILY: &str = "lead-features";
/// So many people a page has. In tests fewer, so that some tell of several pages.
const PAGE: i64 = if cfg!(test) { 20 } else { 200 };
/// So many of them are written at once.
const AT_ONCE: usize = if cfg!(test) { 8 } else { 25 };

/// So many days longer than the longest window somebody is looked after. The last thing that he did leaves a window with the
/// day, by the calendar, and not so many hours after it; and a day or two may not be computed at all.
const GRACE_DAYS: i32 = 10;

/// What begins the day's work in all workspaces.
pub fn schedule(cron: &str) -> Result<Schedule, ScheduleError> {
    Schedule::new(DAILY, cron, "UTC", |at| {
        let message = LeadUpkeep { task: UpkeepTask::Daily, at, workspace: None, after: None };
        let body = message.to_body().expect("an occurrence keeps to its contract");
        Outgoing::new(&queues::FEATURE_PROCESSING, body)
    })
}

/// Begins it in every workspace. Where it was begun before, that stays as it is.
pub(super) async fn begin_everywhere(
    access: &Access,
    message: &LeadUpkeep,
) -> Result<(), StorageError> {
    let read = access.database().read(|tx| {
        let sql = "SELECT id FROM workspaces WHERE disabled_at IS NULL ORDER BY id";
        let rows = tx.query(sql, &[])?;
        rows.iter().map(|row: &Row| row.int(0)).collect::<Result<Vec<_>, DatabaseError>>()
    });
    for workspace in read.await? {
        if let Some(cx) = access.working_for(workspace).await? {
            begin(&cx, message.task, message.at).await?;
        }
    }
    Ok(())
}

/// The next people in the order of their last activity. Whoever does something meanwhile moves to the end, and is met there.
pub(super) async fn page(cx: &Cx, page: &LeadUpkeep) -> Result<(), StorageError> {
    let found = people(cx, page).await?;
    let ids: Vec<String> = found.iter().map(|(id, _)| id.to_string()).collect();
    for some in ids.chunks(AT_ONCE) {
        refresh(cx, some).await?;
    }
    let last = found.last().filter(|_| found.len() as i64 == PAGE);
    let next = last.map(|(id, seen)| format!("{seen}:{id}"));
    go_on(cx, page, (found.len() as i64, next), Txn::new()).await
}

/// Ids and when they were last seen, after where the page before ended.
async fn people(cx: &Cx, page: &LeadUpkeep) -> Result<Vec<(i64, i64)>, StorageError> {
    let window = SignedDuration::from_hours(24 * i64::from(state::KEPT_DAYS + GRACE_DAYS));
    let since = page.at.checked_sub(window).unwrap_or(Timestamp::MIN).as_millisecond();
    let place = page.after.as_deref().and_then(|after| {
        let (seen, id) = after.split_once(':')?;
        Some((seen.parse::<i64>().ok()?, id.parse::<i64>().ok()?))
    });
    let (seen, id) = place.unwrap_or((since - 1, i64::MAX));
    let workspace = cx.workspace_id().get();
    let read = cx.database().read(move |tx| {
        let sql = "SELECT id, last_seen_at FROM lead_organizations
                   WHERE workspace_id = $1 AND (last_seen_at, id) > ($2, $3)
                   ORDER BY last_seen_at, id LIMIT $4";
        let params = [Param::Int(workspace), Param::Int(seen), Param::Int(id), Param::Int(PAGE)];
        let rows = tx.query(sql, &params)?;
        let pair = |row: &Row| Ok((row.int(0)?, row.int(1)?));
        rows.iter().map(pair).collect::<Result<Vec<_>, DatabaseError>>()
    });
    Ok(read.await?)
}

/// Computes what time changes, for some people. They are written together; if one of them is written by somebody else right
/// then, each by himself.
async fn refresh(cx: &Cx, ids: &[String]) -> Result<(), StorageError> {
    let written = match together(cx, ids).await {
        Err(StorageError::Items(error)) if was_too_slow(&error) => false,
        answer => answer.map(|()| true)?,
    };
    if !written {
        for id in ids {
            alone(cx, id).await?;
        }
    }
    Ok(())
}

async fn alone(cx: &Cx, id: &str) -> Result<(), StorageError> {
    for _ in 0..8 {
        match together(cx, std::slice::from_ref(&id.to_owned())).await {
            Err(StorageError::Items(error)) if was_too_slow(&error) => {}
            answer => return answer,
        }
    }
    Err(tidings_kernel::StoreError::Conflict.into())
}

async fn together(cx: &Cx, ids: &[String]) -> Result<(), StorageError> {
    let (items, now) = (cx.items().await?, cx.now());
    let keys: Vec<Key> = ids.iter().map(|id| store::key(id)).collect();
    let found = items.batch_get(&tables::FEATURE, &keys).await?;
    let (mut txn, mut others) = (Txn::new(), Vec::new());
    for (id, item) in ids.iter().zip(&found) {
        // Of whom nothing was computed yet, nothing changes.
        let Some(item) = item else { continue };
        let mut kept = Kept::read(id, Some(item));
        if kept.is_being_rebuilt(now) {
            continue;
        }
        if kept.rebuilding_until.is_some() || !kept.is_current {
            rebuild(cx, id).await?;
        } else if kept.compute(by_time(), now) {
            let put = Txn::new().put(&tables::FEATURE, kept.to_item(now)?, kept.expect());
            txn = txn.and(put);
            others.push(id.as_str());
        }
    }
    if !txn.writes.is_empty() {
        items.transact(changed(cx, txn, &others).await?).await?;
    }
    Ok(())
}
