//! What wakes a walk before its time: the event that it waits for, or a person who does not want to wait.

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_access::{Change, Cx, StorageError};
use tidings_kernel::{EmailAddress, StoreError, Txn};
use tidings_people::race;

use super::super::funnel::Changes;
use super::super::{Doing, Execution, ExecutionId, keys, leave, list};
use crate::definition::{Op, Program};
use crate::versions::Versions;

/// What happened, to those who wait for it.
pub(crate) struct Heard<'a> {
    pub(crate) event: &'a str,
    pub(crate) data: &'a Value,
    /// What is told late does not wake what began to wait since.
    pub(crate) at: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum SkipError {
    #[error("there is no execution {0}")]
    Missing(ExecutionId),
    #[error("execution {0} does not wait")]
    NotWaiting(ExecutionId),
    #[error("the execution could not be moved on")]
    Store(#[from] StorageError),
}

/// Wakes those of a person's walks that wait for this. Tells how many.
pub(crate) async fn hear(
    cx: &Cx,
    versions: &Versions,
    email: &EmailAddress,
    heard: &Heard<'_>,
) -> Result<usize, StorageError> {
    let items = cx.items().await?;
    let mut woken = 0;
    for _ in 0..race::ATTEMPTS {
        let mut met = false;
        for execution in leave::of(items.as_ref(), email).await? {
            let waits = matches!(execution.doing, Doing::WaitingFor { .. });
            if !waits || execution.since > heard.at {
                continue;
            }
            let program = versions.program(cx, &execution.sequence, execution.version).await?;
            let place = program.as_ref().and_then(|program| program.place(execution.at));
            let (Some(program), Some(place)) = (&program, place) else { continue };
            let Op::WaitFor { came, .. } = place.op else { continue };
            if !place.op.is_waiting_for(heard.event, heard.data) {
                continue;
            }
            match go(cx, program, &execution, (came, None)).await {
                Ok(()) => woken += 1,
                Err(error) if race::lost(&error) => met = true,
                Err(error) => return Err(error.into()),
            }
        }
        if !met {
            return Ok(woken);
        }
    }
    Err(StoreError::Conflict.into())
}

/// Lets an execution go on that waits. What it waits for counts as not having come.
pub async fn skip_wait(
    cx: &Cx,
    versions: &Versions,
    id: &ExecutionId,
) -> Result<Execution, SkipError> {
    for _ in 0..race::ATTEMPTS {
        let execution = list::show(cx, id).await?.ok_or_else(|| SkipError::Missing(id.clone()))?;
        let program = versions.program(cx, &execution.sequence, execution.version).await?;
        let program = program.ok_or_else(|| SkipError::Missing(id.clone()))?;
        if execution.doing == Doing::Going {
            return Err(SkipError::NotWaiting(id.clone()));
        }
        let to = match program.places.get(execution.at).map(|place| &place.op) {
            Some(Op::Wait { next, .. }) => *next,
            Some(Op::WaitFor { late, .. }) => *late,
            // It waits to try again, or for its window to open, and is to try now.
            _ => execution.at,
        };
        let told = json!({ "sequence": execution.sequence, "step": execution.step });
        let change = Change::new("execution.skip", "execution", id).before(told);
        match go(cx, &program, &execution, (to, Some(&change))).await {
            Ok(()) => {
                let moved = list::show(cx, id).await?;
                return Ok(moved.unwrap_or(execution));
            }
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(StorageError::from(error).into()),
        }
    }
    Err(StorageError::from(StoreError::Conflict).into())
}

/// Moves a waiting walk, and makes a worker look at it.
async fn go(
    cx: &Cx,
    program: &Program,
    execution: &Execution,
    (to, change): (usize, Option<&Change>),
) -> Result<(), StoreError> {
    let (mut moved, mut changes) = (execution.clone(), Changes::default());
    moved.doing = Doing::Going;
    if to != execution.at {
        moved.move_to(program, to, cx.now(), &mut changes);
    }
    let txn = moved.go_on(Txn::new()).cancel_timer(keys::timer(&execution.id));
    let txn = changes
        .count(txn, &execution.id, &execution.sequence)
        .enqueue(execution.message(cx.workspace()));
    let txn = change.into_iter().fold(txn, |txn, change| txn.enqueue(cx.audited(change)));
    match cx.items().await {
        Ok(items) => items.transact(txn).await,
        Err(StorageError::Items(error)) => Err(error),
        Err(StorageError::Relations(error)) => Err(StoreError::Unavailable(Box::new(error))),
    }
}
