//! How somebody goes out of a sequence: at its end, because he is taken out, or because it cannot go on.
//!
//! Each is one transaction that takes the walk, its rows and its timer away and counts it. Whoever is taken out may have a
//! mail that is not sent yet; the same transaction asks a worker to take that back.

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{EmailAddress, Expect, Item, ItemStore, Query, StoreError, Txn, tables};
use tidings_people::keys::{subscriber, time};
use tidings_people::race;

use super::funnel::{Changes, What};
use super::{Execution, keys};
use crate::versions::Versions;

/// So many executions of one person are looked at.
const MOST: usize = 100;

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
            match leave(cx, items.as_ref(), &execution).await {
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

async fn leave(cx: &Cx, items: &dyn ItemStore, execution: &Execution) -> Result<(), StoreError> {
    let mut changes = Changes::default();
    counted(&mut changes, execution, What::Left);
    let txn = changes.count(execution.end(Txn::new()), &execution.id, &execution.sequence);
    items.transact(txn.enqueue(execution.stopped(cx.workspace()))).await
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
    let rows = items.query(query.limit(MOST)).await?.items;
    let ids = rows.iter().filter_map(|row| keys::id_of(row.text("executionArn")?));
    let wanted: Vec<_> = ids.map(|id| keys::state(&id)).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let found = items.batch_get(&tables::MAIN, &wanted).await?;
    found.iter().flatten().map(Execution::read).collect()
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
