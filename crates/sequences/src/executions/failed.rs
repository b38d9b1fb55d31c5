//! Executions that could not go on: what is kept of them, and what can be done about it.

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{Cursor, Expect, Item, Key, Query, StoreError, Txn, tables};
use tidings_people::race;

use super::funnel::{Changes, What};
use super::list::MAX_PAGE;
use super::{Doing, Execution, ExecutionId, keys};

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

/// It goes on with the step that it failed at, with as much time as it had when it began.
pub async fn retry(cx: &Cx, sequence: &str, id: &ExecutionId) -> Result<Execution, RetryError> {
    let (key, failed) = find(cx, sequence, id).await?;
    let before = &failed.execution;
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
    let txn = again.begin(gone(Txn::new(), &key, &failed), None);
    let txn = changes.count(txn, &again.id, sequence).enqueue(again.message(cx.workspace()));
    match cx.items().await?.transact(txn).await {
        Ok(()) => Ok(again),
        Err(error) if race::lost(&error) => {
            find(cx, sequence, id).await?;
            Err(RetryError::InAgain)
        }
        Err(error) => Err(error.into()),
    }
}

/// Nothing is kept of it any more but its number.
pub async fn drop_failed(cx: &Cx, sequence: &str, id: &ExecutionId) -> Result<(), RetryError> {
    let (key, failed) = find(cx, sequence, id).await?;
    match cx.items().await?.transact(gone(Txn::new(), &key, &failed)).await {
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
