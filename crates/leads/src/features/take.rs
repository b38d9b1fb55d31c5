//! One event more: it is added to the state once, and what it touches is computed again.

use tidings_access::{Cx, StorageError};
use tidings_jobs::contracts::LeadEvent;
use tidings_kernel::{Condition, Expect, Key, StoreError, Txn, Update, tables};

use super::registry::{ALL, affected};
use super::state::day_of;
use super::store::{self, Kept};
use super::{changed, rebuild};
use crate::event::{self, StoredEvent};
use crate::identity;

/// The attribute of an event that says when it was counted.
pub(super) const MARK: &str = "features_at";
/// So often others may be faster before it is left for later.
const ATTEMPTS: usize = 8;

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It counts.
    Counted,
    /// It was counted before.
    Before,
    /// There is no such event any more, or nobody it is about.
    Gone,
    /// Everything is being counted anew; it has to come again.
    Busy,
}

/// Counts an event, once. However long the timeline is, it reads the event and the features, and nothing else.
pub async fn take(cx: &Cx, message: &LeadEvent) -> Result<Taken, StorageError> {
    let partition = message.lead_organization_id.as_str();
    let key = event::key(partition, message.occurred_at, &message.event_id);
    for _ in 0..ATTEMPTS {
        let Some(owner) = identity::owner(cx, partition).await? else { return Ok(Taken::Gone) };
        match once(cx, &owner.lead_organization_id, &key).await {
            Err(StorageError::Items(error)) if was_too_slow(&error) => {}
            answer => return answer,
        }
    }
    Err(StoreError::Conflict.into())
}

async fn once(cx: &Cx, owner: &str, event: &Key) -> Result<Taken, StorageError> {
    let items = cx.items().await?;
    let Some(found) = items.get(&tables::EVENT, event).await? else { return Ok(Taken::Gone) };
    if found.get(MARK).is_some() {
        return Ok(Taken::Before);
    }
    let Some(stored) = StoredEvent::from_item(&found) else { return Ok(Taken::Gone) };
    let item = items.get(&tables::FEATURE, &store::key(owner)).await?;
    let mut kept = Kept::read(owner, item.as_ref())?;
    if kept.is_being_rebuilt(cx.now()) {
        return Ok(Taken::Busy);
    }
    // Whoever counted anew has died on the way, or the item is of another version of this program.
    if kept.rebuilding_until.is_some() || !kept.is_current {
        let rebuilt = rebuild::rebuild(cx, owner).await?;
        return Ok(if rebuilt == rebuild::Rebuilt::Busy { Taken::Busy } else { Taken::Counted });
    }
    kept.state.add(&stored, day_of(cx.now()));
    if kept.is_new {
        kept.compute(ALL.iter(), cx.now());
    } else {
        kept.compute(affected(&stored.event_type), cx.now());
    }
    let txn = Txn::new()
        .put(&tables::FEATURE, kept.to_item(cx.now())?, kept.expect())
        .update(mark(event.clone(), cx).expect(Expect::That(
            Condition::exists("event_type").and(Condition::not_exists(MARK)),
        )));
    items.transact(changed(cx, txn, &[owner]).await?).await?;
    Ok(Taken::Counted)
}

/// Says of an event that it counts.
pub(super) fn mark(event: Key, cx: &Cx) -> Update {
    Update::new(&tables::EVENT, event).set(MARK, event::time(cx.now()))
}

/// Whether what was read has changed meanwhile.
pub(super) fn was_too_slow(error: &StoreError) -> bool {
    error.is_condition_failed() || matches!(error, StoreError::Conflict | StoreError::Cancelled(_))
}
