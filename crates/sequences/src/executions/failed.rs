//! Executions that could not go on: what is kept of them, and what can be done about it.

use jiff::Timestamp;
use serde_json::json;
use tidings_access::{Change, Cx, StorageError};
use tidings_delivery::eligibility::{Kind, Reason};
use tidings_kernel::{Cursor, Expect, Item, Key, Query, StoreError, Txn, tables};
use tidings_people::race;

use super::funnel::{Changes, What};
use super::list::MAX_PAGE;
use super::{Doing, Execution, ExecutionId, enter, keys, leave};
use crate::versions::Versions;

#[derive(Debug, Clone, PartialEq)]
pub struct Failed {
    pub execution: Execution,
    pub reason: String,
    pub failed_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FailedPage {
    pub failed: Vec<Failed>,
    pub next: Option<Cursor>,
}

#[derive(Debug, thiserror::Error)]
pub enum RetryError {
    #[error("there is no failed execution {0}")]
    Missing(ExecutionId),
    #[error("this person is in the sequence again, with another execution")]
    InAgain,
    #[error("this person may not come in again: {}", .0.as_str())]
    Refused(Reason),
    #[error("this person was to leave the sequence since")]
    Left,
    #[error("the failed execution could not be changed")]
    Store(#[from] StorageError),
}

impl From<StoreError> for RetryError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}

/// The failed executions of a sequence, the last first.
pub async fn list_failed(
    cx: &Cx,
    sequence: &str,
    after: Option<Cursor>,
    limit: usize,
) -> Result<FailedPage, StorageError> {
    let query = Query::new(&tables::MAIN, keys::failed_partition(sequence));
    let query = query.backward().after(after).limit(limit.clamp(1, MAX_PAGE));
    let page = cx.items().await?.query(query).await?;
    let failed = page.items.iter().map(read).collect::<Result<_, _>>()?;
    Ok(FailedPage { failed, next: page.cursor })
}

/// It goes on with the step that it failed at, with as much time as it had when it began. Whoever may not be written to by
/// now, or has met an exit of the sequence since he came, stays outside.
pub async fn retry(
    cx: &Cx,
    versions: &Versions,
    sequence: &str,
    id: &ExecutionId,
) -> Result<Execution, RetryError> {
    let (key, failed) = find(cx, sequence, id).await?;
    let before = &failed.execution;
    may_come(cx, versions, before).await?;
    let mut again = before.clone();
    again.doing = Doing::Going;
    again.tries = 0;
    again.last_error = None;
    again.since = cx.now();
    again.rev += 1;
    let time = before.deadline.duration_since(before.started_at);
    again.deadline = cx.now().saturating_add(time).unwrap_or(Timestamp::MAX);
    let mut changes = Changes::default();
    // What was counted as failed is on its way again.
    changes.undo(before.version, &before.step, What::Failed);
    let txn = again.begin(gone(Txn::new(), &key, &failed), None).check(
        &tables::MAIN,
        keys::exited(&before.email, sequence),
        Expect::That(leave::not_exited_since(before.told_at)),
    );
    let txn = changes.count(txn, &again.id, sequence).enqueue(again.message(cx.workspace()));
    let told = |state: &str| json!({ "sequence": sequence, "step": before.step, "state": state });
    let change =
        Change::new("execution.retry", "execution", id).before(told("failed")).after(told("going"));
    let txn = txn.enqueue(cx.audited(&change));
    match cx.items().await?.transact(txn).await {
        Ok(()) => Ok(again),
        Err(error) if race::lost(&error) => {
            find(cx, sequence, id).await?;
            may_come(cx, versions, before).await?;
            Err(RetryError::InAgain)
        }
        Err(error) => Err(error.into()),
    }
}

/// The same gate as for those who come in for the first time, but for a pause: he was in before it.
async fn may_come(cx: &Cx, versions: &Versions, before: &Execution) -> Result<(), RetryError> {
    let exit = keys::exited(&before.email, &before.sequence);
    if let Some(exit) = cx.items().await?.get(&tables::MAIN, &exit).await?
        && !leave::not_exited_since(before.told_at).holds(&exit)
    {
        return Err(RetryError::Left);
    }
    let active = versions.active(cx, &before.sequence).await?;
    let active = active.ok_or_else(|| RetryError::Missing(before.id.clone()))?;
    let mut mailing = enter::mailing(&active);
    // Each mail is asked about again before it goes; here it is only whether he comes in.
    mailing.kind = if before.transactional { Kind::Transactional } else { Kind::Sequence };
    match enter::refused(cx, mailing, &before.email).await? {
        Some(reason) => Err(RetryError::Refused(reason)),
        None => Ok(()),
    }
}

/// Nothing is kept of it any more but its number.
pub async fn drop_failed(cx: &Cx, sequence: &str, id: &ExecutionId) -> Result<(), RetryError> {
    let (key, failed) = find(cx, sequence, id).await?;
    let told = json!({ "sequence": sequence, "step": failed.execution.step, "state": "failed" });
    let change = Change::new("execution.drop", "execution", id).before(told);
    let txn = gone(Txn::new(), &key, &failed).enqueue(cx.audited(&change));
    match cx.items().await?.transact(txn).await {
        Ok(()) => Ok(()),
        Err(error) if race::lost(&error) => Err(RetryError::Missing(id.clone())),
        Err(error) => Err(error.into()),
    }
}

fn gone(txn: Txn, key: &Key, failed: &Failed) -> Txn {
    let Failed { execution, failed_at, .. } = failed;
    let partner = keys::failed_of(&execution.email, &execution.sequence, *failed_at, &execution.id);
    txn.delete(&tables::MAIN, key.clone(), Expect::Present)
        .delete(&tables::MAIN, partner, Expect::Anything)
        .delete(&tables::MAIN, keys::failed_at(&execution.id), Expect::Anything)
}

async fn find(cx: &Cx, sequence: &str, id: &ExecutionId) -> Result<(Key, Failed), RetryError> {
    let items = cx.items().await?;
    let missing = || RetryError::Missing(id.clone());
    let pointer = items.get(&tables::MAIN, &keys::failed_at(id)).await?.ok_or_else(missing)?;
    let at = pointer.text("failedAt").and_then(|at| at.parse().ok()).ok_or_else(missing)?;
    let key = keys::failed(sequence, at, id);
    let item = items.get(&tables::MAIN, &key).await?.ok_or_else(missing)?;
    Ok((key, read(&item)?))
}

fn read(item: &Item) -> Result<Failed, StoreError> {
    let failed_at = item.text("failedAt").and_then(|at| at.parse().ok());
    Ok(Failed {
        execution: Execution::read(item)?,
        reason: item.text("reason").unwrap_or_default().to_owned(),
        failed_at: failed_at.unwrap_or_default(),
    })
}
