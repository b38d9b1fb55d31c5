//! How somebody goes out of a sequence: at its end, because he is taken out, or because it cannot go on.
//!
//! Each is one transaction that takes the walk, its rows and its timer away and counts it. Whoever is taken out may have a
//! mail that is not sent yet; the same transaction asks a worker to take that back. What somebody has been given before he came
//! to the end, or before his walk failed, is sent.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tidings_access::{Change, Cx, StorageError};
use tidings_kernel::{
    Condition, EmailAddress, Expect, Item, ItemStore, Query, StoreError, Txn, Update, tables,
};
use tidings_people::keys::{subscriber, time};
use tidings_people::race;

use super::funnel::{Changes, What};
use super::{Execution, keys, told};
use crate::versions::Versions;

/// So many executions of one person are looked at in one go.
const PAGE: usize = 100;
/// So long an exit is remembered: what was told before it has been worked on by then.
const EXIT_REMEMBERED: SignedDuration = SignedDuration::from_hours(7 * 24);
/// And so long where an execution has failed, which somebody may want to retry.
const EXIT_REMEMBERED_FOR_FAILED: SignedDuration = SignedDuration::from_hours(400 * 24);
const EXITED_AT: &str = "exitedAt";

/// Which of a person's executions end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    All,
    /// All but transactional ones.
    Marketing,
    /// Those of marketing that are part of an audience, for one client or for all.
    Audience {
        audience: String,
        client: Option<String>,
    },
    Sequence(String),
}

/// Why somebody is taken out, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Operator,
    Event,
    Unsubscribed,
    Suppressed,
}

/// Takes somebody out of one sequence. Tells whether he was in it.
pub async fn stop(
    cx: &Cx,
    versions: &Versions,
    email: &EmailAddress,
    sequence: &str,
) -> Result<bool, StorageError> {
    let which = Which::Sequence(sequence.to_owned());
    // Whenever it began: the clock of another node may be ahead of ours.
    let stop = stop_all(cx, versions, email, (&which, Cause::Operator), Timestamp::MAX);
    Ok(stop.await? > 0)
}

/// Takes somebody out of those that were told of by then: what is worked on late must not end what was told since. Tells of
/// how many.
pub async fn stop_all(
    cx: &Cx,
    versions: &Versions,
    email: &EmailAddress,
    (which, cause): (&Which, Cause),
    told_by: Timestamp,
) -> Result<usize, StorageError> {
    let items = cx.items().await?;
    let mut stopped = 0;
    for _ in 0..race::ATTEMPTS {
        let mut met = false;
        for execution in of(items.as_ref(), email).await? {
            if execution.told_at > told_by || !which.means(cx, versions, &execution).await? {
                continue;
            }
            match leave(cx, items.as_ref(), &execution, cause).await {
                Ok(()) => {
                    stopped += 1;
                    tracing::info!(
                        execution.id = %execution.id, sequence = execution.sequence, cause = ?cause,
                        "Execution {} was stopped", execution.id
                    );
                }
                Err(error) if race::lost(&error) => met = true,
                Err(error) => return Err(error.into()),
            }
        }
        if !met {
            return Ok(stopped);
        }
    }
    Err(StoreError::Conflict.into())
}

/// Remembers that somebody left a sequence, or would have if he had been in it: what lets him in may have been told before and
/// be worked on after.
pub(crate) async fn remember_exit(
    cx: &Cx,
    email: &EmailAddress,
    sequence: &str,
    told_at: Timestamp,
) -> Result<(), StorageError> {
    let items = cx.items().await?;
    let failed =
        Query::new(&tables::MAIN, subscriber(email)).begins_with(keys::all_failed(sequence));
    let has_failed = !items.query(failed.limit(1)).await?.items.is_empty();
    let long = if has_failed { EXIT_REMEMBERED_FOR_FAILED } else { EXIT_REMEMBERED };
    let until = cx.now().saturating_add(long).unwrap_or(Timestamp::MAX);
    let update = Update::new(&tables::MAIN, keys::exited(email, sequence))
        .set(EXITED_AT, time(told_at))
        .set("ttl", until.as_second())
        .expect(Expect::That(not_exited_since(told_at)));
    match items.update(update).await {
        Ok(_) => Ok(()),
        // He was told so later already.
        Err(error) if error.is_condition_failed() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Of the item of an exit: it was not told after this. Of two that were told at the same time nobody knows which was meant to be
/// the last.
pub(super) fn not_exited_since(at: Timestamp) -> Condition {
    Condition::not_exists(EXITED_AT).or(Condition::Le(EXITED_AT.into(), time(at).into()))
}

async fn leave(
    cx: &Cx,
    items: &dyn ItemStore,
    execution: &Execution,
    cause: Cause,
) -> Result<(), StoreError> {
    let mut changes = Changes::default();
    counted(&mut changes, execution, What::Left);
    let txn = changes.count(execution.end(Txn::new()), &execution.id, &execution.sequence);
    let txn = txn.enqueue(execution.happened(cx, told::EXITED, Some("stopped")));
    let mut txn = execution.take_back(txn, cx);
    // What somebody did himself, or an event did, is told elsewhere.
    if cause == Cause::Operator {
        let state = json!({ "sequence": execution.sequence, "step": execution.step });
        let change = Change::new("execution.stop", "execution", &execution.id).before(state);
        txn = txn.enqueue(cx.audited(&change));
    }
    items.transact(txn).await
}

/// Of the step where he is, and of the whole.
pub(super) fn counted(changes: &mut Changes, execution: &Execution, what: What) {
    changes.step(execution.version, &execution.step, what);
    changes.whole(execution.version, what);
}

/// The walks of a person.
pub(super) async fn of(
    items: &dyn ItemStore,
    email: &EmailAddress,
) -> Result<Vec<Execution>, StoreError> {
    let query = Query::new(&tables::MAIN, subscriber(email)).begins_with(keys::OF_SUBSCRIBER);
    let (mut walks, mut cursor) = (Vec::new(), None);
    loop {
        let page = items.query(query.clone().limit(PAGE).after(cursor)).await?;
        let ids = page.items.iter().filter_map(|row| keys::id_of(row.text("executionArn")?));
        let wanted: Vec<_> = ids.map(|id| keys::state(&id)).collect();
        if !wanted.is_empty() {
            for found in items.batch_get(&tables::MAIN, &wanted).await?.iter().flatten() {
                walks.push(Execution::read(found)?);
            }
        }
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(walks);
        }
    }
}

impl Which {
    async fn means(
        &self,
        cx: &Cx,
        versions: &Versions,
        execution: &Execution,
    ) -> Result<bool, StorageError> {
        Ok(match self {
            Self::All => true,
            Self::Marketing => !execution.transactional,
            Self::Sequence(sequence) => execution.sequence == *sequence,
            Self::Audience { audience, client } => {
                let program = versions.program(cx, &execution.sequence, execution.version).await?;
                program.is_some_and(|program| {
                    let definition = &program.definition;
                    let is_of =
                        definition.audience.as_ref().is_some_and(|of| of.as_str() == audience);
                    let by = client.as_deref().is_none_or(|one| one == definition.client.as_str());
                    !execution.transactional && is_of && by
                })
            }
        })
    }
}

/// What is kept of a walk that could not go on, in the transaction that ends it.
pub(super) fn kept(txn: Txn, execution: &Execution, reason: &str, at: Timestamp) -> Txn {
    let key = keys::failed(&execution.sequence, at, &execution.id);
    let mut item = tables::MAIN.bare_item(&key);
    execution.write(&mut item);
    item.set("failedAt", time(at));
    item.set("reason", reason);
    let partner: Item = tables::MAIN.bare_item(&keys::failed_of(
        &execution.email,
        &execution.sequence,
        at,
        &execution.id,
    ));
    let mut pointer = tables::MAIN.bare_item(&keys::failed_at(&execution.id));
    pointer.set("sequenceId", execution.sequence.as_str());
    pointer.set("failedAt", time(at));
    txn.put(&tables::MAIN, item, Expect::Anything)
        .put(&tables::MAIN, partner, Expect::Anything)
        .put(&tables::MAIN, pointer, Expect::Anything)
}
