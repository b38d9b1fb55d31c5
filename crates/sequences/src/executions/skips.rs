//! Mails that are not sent, for a reason that their row has: the funnel counts them at their step.
//!
//! Whether somebody may get a mail is asked when it is accepted and again when it is to go, which can be after his walk is at
//! its end. So it is not the walk that counts: the message tells of it in the commit that makes it true, once, and what is told
//! twice leaves a mark the first time.

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_delivery::transactional::{self, Find, FindError, MessageId, Status};
use tidings_kernel::{Expect, StoreError, Txn, tables};
use tidings_people::keys::STOP_REMEMBERED;
use tidings_people::race;

use super::funnel::{Changes, What};
use super::{Execution, ExecutionId, keys};

/// The step of a mail, as its message knows it.
pub(super) fn named(execution: &Execution) -> String {
    format!("{}/{}", execution.version, execution.step)
}

fn read(named: &str) -> Option<(i64, &str)> {
    let (version, step) = named.split_once('/')?;
    Some((version.parse().ok()?, step))
}

/// Counts a mail at its step, if that is not done yet.
pub(super) async fn count(
    cx: &Cx,
    id: &ExecutionId,
    message: MessageId,
) -> Result<(), StorageError> {
    let mail = match transactional::show(cx, Find { id: message, client: None }).await {
        Ok(found) => found.message,
        Err(FindError::Missing(_)) => return Ok(()),
        Err(FindError::Store(error)) => return Err(error.into()),
    };
    let step = mail.sequence_step.as_deref().and_then(read);
    let (Some(sequence), Some((version, step))) = (&mail.sequence_id, step) else { return Ok(()) };
    if mail.status != Status::Skipped || mail.execution_id.as_deref() != Some(id.as_str()) {
        return Ok(());
    }
    let (items, key) = (cx.items().await?, keys::skipped(id, message));
    let until = cx.now().saturating_add(STOP_REMEMBERED).unwrap_or(Timestamp::MAX);
    let mark = tables::MAIN.bare_item(&key).with("ttl", until.as_second());
    let mut changes = Changes::default();
    changes.step(version, step, What::Skipped);
    let txn = Txn::new().put(&tables::MAIN, mark, Expect::Absent);
    let txn = changes.count(txn, id, sequence);
    for _ in 0..race::ATTEMPTS {
        match items.transact(txn.clone()).await {
            Err(error) if race::lost(&error) => {
                // It is counted, or many count at the same step.
                if items.get(&tables::MAIN, &key).await?.is_some() {
                    return Ok(());
                }
            }
            done => return Ok(done?),
        }
    }
    Err(StoreError::Conflict.into())
}
