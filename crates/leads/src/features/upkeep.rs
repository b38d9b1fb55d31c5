//! Work on everybody, a page at a time: how far it is, is an item, and each page is a message.
//!
//! A page is done before the item moves on, and the item moves on in the transaction that sends the next message. So a page that
//! was cut off is done again, and one that comes twice goes on once.

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_jobs::contracts::{Contract as _, LeadEvent, LeadUpkeep, UpkeepTask};
use tidings_jobs::orders;
use tidings_kernel::{
    Condition, Expect, Item, Key, Outgoing, StoreError, Txn, Update, queues, tables, topics,
};
use tidings_sql::{DatabaseError, Param, Row};

use crate::event;

/// So many people one page of a rebuild has: as many messages fit into a transaction.
const REBUILD_PAGE: i64 = 90;

/// How far a work on everybody is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Which time it is.
    pub at: Timestamp,
    /// So many people are done.
    pub done: i64,
    pub finished_at: Option<Timestamp>,
}

fn key(task: UpkeepTask) -> Key {
    let name = match task {
        UpkeepTask::Daily => "daily",
        UpkeepTask::Rebuild => "rebuild",
    };
    Key::new("LEADS", format!("UPKEEP#{name}"))
}

/// The last time that it was begun.
pub async fn progress(cx: &Cx, task: UpkeepTask) -> Result<Option<Progress>, StorageError> {
    let item = cx.items().await?.get(&tables::MAIN, &key(task)).await?;
    Ok(item.as_ref().and_then(|item| {
        let time = |name: &str| item.text(name).and_then(|at| at.parse().ok());
        let done = item.integer("done").unwrap_or_default();
        Some(Progress { at: time("at")?, done, finished_at: time("finished_at") })
    }))
}

/// Derives memory and features of everybody in the workspace again, page by page. Tells whether it was begun now.
pub async fn rebuild_all(cx: &Cx) -> Result<bool, StorageError> {
    begin(cx, UpkeepTask::Rebuild, cx.now()).await
}

/// Lets the workers derive memory and features of one person again.
pub async fn ask_for_rebuild(cx: &Cx, lead_organization_id: &str) -> Result<(), StorageError> {
    let message = rebuild_message(cx, lead_organization_id)?;
    cx.items().await?.transact(Txn::new().enqueue(message)).await?;
    Ok(())
}

/// The messages that ask for memory and features of one person to be derived again.
pub fn rebuild_message(cx: &Cx, lead_organization_id: &str) -> Result<Outgoing, StoreError> {
    let message = LeadEvent {
        workspace: cx.workspace().clone(),
        lead_organization_id: lead_organization_id.to_owned(),
        event_id: format!("rebuild-{}", cx.now().as_millisecond()),
        event_type: orders::REBUILD.to_owned(),
        occurred_at: cx.now(),
        source: None,
        metadata: None,
    };
    let body = message.to_body().map_err(|error| StoreError::Failed(error.into()))?;
    Ok(Outgoing::publish(&topics::LEAD_EVENTS, body))
}

/// Begins a work in this workspace, unless it was begun for this time or a later one.
pub(super) async fn begin(cx: &Cx, task: UpkeepTask, at: Timestamp) -> Result<bool, StorageError> {
    let item = tables::MAIN
        .bare_item(&key(task))
        .with("at", event::time(at))
        .with("after", "")
        .with("done", 0);
    let earlier = Condition::Lt("at".into(), event::time(at).into());
    let expect = Expect::That(Condition::not_exists("at").or(earlier));
    let first = message(cx, task, at, "")?;
    let txn = Txn::new().put(&tables::MAIN, item, expect).enqueue(first);
    match cx.items().await?.transact(txn).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_condition_failed() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether this page is the one that is due.
pub(super) async fn is_due(cx: &Cx, page: &LeadUpkeep) -> Result<bool, StorageError> {
    let item = cx.items().await?.get(&tables::MAIN, &key(page.task)).await?;
    Ok(item.as_ref().is_some_and(|item| stands_at(item, page)))
}

fn stands_at(item: &Item, page: &LeadUpkeep) -> bool {
    item.text("at") == Some(&event::time(page.at))
        && item.text("after") == Some(page.after.as_deref().unwrap_or_default())
        && item.get("finished_at").is_none()
}

/// A page is done: the next one is sent, or that was all. `with` is what has to happen with it.
pub(super) async fn go_on(
    cx: &Cx,
    page: &LeadUpkeep,
    (done, next): (i64, Option<String>),
    with: Txn,
) -> Result<(), StorageError> {
    let here = page.after.as_deref().unwrap_or_default();
    let expect = Condition::eq("at", event::time(page.at))
        .and(Condition::eq("after", here))
        .and(Condition::not_exists("finished_at"));
    let moved =
        Update::new(&tables::MAIN, key(page.task)).add("done", done).expect(Expect::That(expect));
    let txn = match next {
        Some(next) => {
            let message = message(cx, page.task, page.at, &next)?;
            with.update(moved.set("after", next)).enqueue(message)
        }
        None => with.update(moved.set("finished_at", event::time(cx.now()))),
    };
    match cx.items().await?.transact(txn).await {
        // Somebody else has done the same page and gone on.
        Err(error) if error.is_condition_failed() => Ok(()),
        answer => Ok(answer?),
    }
}

fn message(cx: &Cx, task: UpkeepTask, at: Timestamp, after: &str) -> Result<Outgoing, StoreError> {
    let message = LeadUpkeep {
        task,
        at,
        workspace: Some(cx.workspace().clone()),
        after: Some(after.to_owned()).filter(|after| !after.is_empty()),
    };
    let body = message.to_body().map_err(|error| StoreError::Failed(error.into()))?;
    Ok(Outgoing::new(&queues::FEATURE_PROCESSING, body))
}

/// Asks for a rebuild of the next people.
pub(super) async fn rebuild_page(cx: &Cx, page: &LeadUpkeep) -> Result<(), StorageError> {
    let after = page.after.as_deref().and_then(|after| after.parse::<i64>().ok()).unwrap_or(0);
    let workspace = cx.workspace_id().get();
    let read = cx.database().read(move |tx| {
        let sql = "SELECT id FROM lead_organizations
                   WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT $3";
        let params = [Param::Int(workspace), Param::Int(after), Param::Int(REBUILD_PAGE)];
        let rows = tx.query(sql, &params)?;
        rows.iter().map(|row: &Row| row.int(0)).collect::<Result<Vec<_>, DatabaseError>>()
    });
    let ids = read.await?;
    let is_last = (ids.len() as i64) < REBUILD_PAGE;
    let next = ids.last().filter(|_| !is_last).map(ToString::to_string);
    let mut txn = Txn::new();
    for id in &ids {
        txn = txn.enqueue(rebuild_message(cx, &id.to_string())?);
    }
    go_on(cx, page, (ids.len() as i64, next), txn).await
}
