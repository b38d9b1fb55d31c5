//! How events come in: checked, resolved to a person, stored once, and told on.
//!
//! The relations are written first (who it is, when he was seen), and can be written again. Then one transaction of items
//! stores the event, its guard and the message to all who derive something from events. A process that dies anywhere
//! leaves the message in its queue, and a repeat ends where one call would have ended.
//!
//! Here: `accept` (durable before it is answered), `ingest`, and the worker of `lead-ingestion`. Not here: who is who
//! (`identity`), and what our own parts tell (`jobs::happened`).

mod accept;
mod check;
mod judged;
#[cfg(test)]
pub(crate) mod tests;
mod worker;

use tidings_access::{Cx, StorageError, in_millis};
use tidings_jobs::contracts::{Contract as _, LeadEvent, LeadIngestion};
use tidings_kernel::{Expect, ItemStore, Key, Outgoing, StoreError, Txn, tables, topics};
use tidings_people::contacts::ContactId;
use tidings_people::race;
use tidings_sql::{DatabaseError, Param};

pub use accept::{AcceptError, Accepted, MAX_EVENTS, NewEvent, accept};
pub(crate) use check::can_be_called;
pub use check::{Fault, MAX_IDENTITIES, MAX_PAYLOAD};
pub use worker::handler;

use crate::event::{self, StoredEvent};
use crate::identity::{Resolve, Resolved, Unknown, resolve};
use judged::Judgment;

/// The source, and the type of source, of what this product tells of itself.
pub const OWN: &str = tidings_jobs::happened::SOURCE;

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ingested {
    /// It is on the timeline.
    Stored { event_id: String, resolved: Resolved },
    /// It was there before. If it was judged again, it is as that says now.
    Duplicate { event_id: String },
    /// It was ours, and is about nobody whom we know.
    Nobody,
    /// Whom it is about was erased meanwhile. It was not kept.
    Erased,
}

#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    #[error("the event is not as it must be: {}", fields(.0))]
    Invalid(Vec<Fault>),
    #[error("the event could not be stored")]
    Store(#[from] StorageError),
}

/// Which fields, without what is in them.
fn fields(faults: &[Fault]) -> String {
    let fields = faults.iter().map(|fault| format!("{} ({})", fault.field, fault.message));
    fields.collect::<Vec<_>>().join(", ")
}

impl From<DatabaseError> for IngestError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

/// Puts an event on the timeline of whoever it is about, and tells it on. The same event of the same source again changes
/// nothing, but for one of ours that was judged again.
pub async fn ingest(cx: &Cx, event: LeadIngestion) -> Result<Ingested, IngestError> {
    let identities = check::check(&event, cx.now()).map_err(IngestError::Invalid)?;
    let items = cx.items().await?;
    let items = items.as_ref();
    let guard = event::guard(&event.source, &event.external_event_id);
    let event_id = event::id_of(&event.source, &event.external_event_id);
    if let Some(place) = guarded(items, &guard).await? {
        judged::again(cx, &place, &Judgment::of(&event)).await?;
        return Ok(settle(cx, items, (&place, &guard), Ingested::Duplicate { event_id }).await?);
    }
    let judgment = Judgment::of(&event);
    let unknown = if event.source == OWN { Unknown::Ignore } else { Unknown::Make };
    // What claims to come later than now was not seen later than now.
    let at = event.occurred_at.min(cx.now());
    let cmd = Resolve {
        identities,
        at: in_millis(at),
        received_at: in_millis(event.received_at),
        event_id: event_id.clone(),
        unknown,
    };
    let Some(resolved) = resolve(cx, cmd).await? else {
        let is_ours = unknown == Unknown::Ignore;
        return Ok(if is_ours { Ingested::Nobody } else { Ingested::Erased });
    };
    let stored = to_store(event, &resolved);
    let txn = Txn::new()
        .put(&tables::EVENT, stored.to_guard(), Expect::Absent)
        .put(&tables::EVENT, stored.to_item(), Expect::Absent)
        .enqueue(told_on(cx, &stored));
    for _ in 0..race::ATTEMPTS {
        match items.transact(txn.clone()).await {
            Ok(()) => {
                let done = Ingested::Stored { event_id, resolved };
                return Ok(settle(cx, items, (&stored.key(), &guard), done).await?);
            }
            Err(error) if race::lost(&error) => {}
            Err(error) => return Err(StorageError::from(error).into()),
        }
        if let Some(place) = guarded(items, &guard).await? {
            judged::again(cx, &place, &judgment).await?;
            let before = Ingested::Duplicate { event_id };
            return Ok(settle(cx, items, (&place, &guard), before).await?);
        }
    }
    Err(StorageError::from(StoreError::Conflict).into())
}

async fn guarded(items: &dyn ItemStore, guard: &Key) -> Result<Option<Key>, StorageError> {
    let found = items.get(&tables::EVENT, guard).await?;
    Ok(found.as_ref().and_then(event::guarded))
}

fn to_store(told: LeadIngestion, resolved: &Resolved) -> StoredEvent {
    StoredEvent {
        lead_organization_id: resolved.lead_organization_id.clone(),
        id: event::id_of(&told.source, &told.external_event_id),
        event_type: told.event_type,
        occurred_at: in_millis(told.occurred_at),
        received_at: in_millis(told.received_at),
        source_type: told.source_type,
        source: told.source,
        external_event_id: told.external_event_id,
        object_id: told.object_id,
        object_id_ref: told.object_id_ref,
        payload: told.payload.unwrap_or_default(),
        raw_payload: told.raw_payload,
    }
}

/// To all who derive something from events.
fn told_on(cx: &Cx, event: &StoredEvent) -> Outgoing {
    let told = LeadEvent {
        workspace: cx.workspace().clone(),
        lead_organization_id: event.lead_organization_id.clone(),
        event_id: event.id.clone(),
        event_type: event.event_type.clone(),
        occurred_at: event.occurred_at,
        source: Some(event.source.clone()),
        metadata: None,
    };
    let body = told.to_body().expect("every field was checked");
    let body = body.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    Outgoing::publish(&topics::LEAD_EVENTS, body)
}

/// Whoever is erased between our look and our write has an event more than the erasure saw. So we look once more: either
/// the erasure finds the event, or we find the erasure.
async fn settle(
    cx: &Cx,
    items: &dyn ItemStore,
    (place, guard): (&Key, &Key),
    done: Ingested,
) -> Result<Ingested, StorageError> {
    if !is_erased(cx, &place.partition).await? {
        return Ok(done);
    }
    let txn = Txn::new().delete(&tables::EVENT, place.clone(), Expect::Anything).delete(
        &tables::EVENT,
        guard.clone(),
        Expect::Anything,
    );
    items.transact(txn).await?;
    Ok(Ingested::Erased)
}

async fn is_erased(cx: &Cx, partition: &str) -> Result<bool, DatabaseError> {
    let Ok(partition) = partition.parse::<i64>() else { return Ok(false) };
    let workspace = cx.workspace_id().get();
    let look = cx.database().read(move |tx| {
        let sql = "SELECT l.erased_at FROM lead_organizations o JOIN leads l ON l.id = o.lead_id
                   WHERE o.workspace_id = $1 AND o.id = $2";
        let rows = tx.query(sql, &[Param::Int(workspace), Param::Int(partition)])?;
        rows.first().map_or(Ok(false), |row| Ok(row.optional_int(0)?.is_some()))
    });
    look.await
}

impl Ingested {
    /// Who it is about, where the event is new.
    pub fn lead(&self) -> Option<ContactId> {
        match self {
            Self::Stored { resolved, .. } => Some(resolved.lead_id),
            Self::Duplicate { .. } | Self::Nobody | Self::Erased => None,
        }
    }
}
