//! What is judged again: an open or a click that a machine turns out to have made, or a person after all.
//!
//! A judgment comes as the event does, with its number, and the highest one counts. So neither order nor repetition matters,
//! and one that comes before the event itself has stored it as it is judged. The transaction that changes the event asks for everything to be
//! derived again that may rest on it. Here: the event. Not here: why somebody thinks otherwise (`signals::events`).

use tidings_access::{Cx, StorageError};
use tidings_jobs::contracts::{Contract as _, LeadEvent, LeadIngestion};
use tidings_jobs::happened::{MACHINE, REVISION};
use tidings_jobs::orders;
use tidings_kernel::{Expect, Key, Outgoing, Path, StoreError, Txn, Update, tables, topics};
use tidings_people::race;

use super::OWN;
use crate::event::{self, StoredEvent, as_judged};

/// What is thought of an event.
pub(super) struct Judgment {
    revision: i64,
    is_machine: bool,
}

impl Judgment {
    /// Only ours are judged: what others have in a payload is theirs.
    pub(super) fn of(event: &LeadIngestion) -> Self {
        let payload = event.payload.as_ref().filter(|_| event.source == OWN);
        Self {
            revision: payload.map_or(0, event::revision),
            is_machine: payload.is_some_and(|said| said.get(MACHINE) == Some(&true.into())),
        }
    }
}

/// Changes an event that is there to what is thought of it now, unless something later is known. Who was erased has none.
pub(super) async fn again(cx: &Cx, place: &Key, judgment: &Judgment) -> Result<(), StorageError> {
    if judgment.revision == 0 {
        return Ok(());
    }
    let items = cx.items().await?;
    for _ in 0..race::ATTEMPTS {
        let found = items.get(&tables::EVENT, place).await?;
        let Some(known) = found.as_ref().and_then(StoredEvent::from_item) else { return Ok(()) };
        if event::revision(&known.payload) >= judgment.revision {
            return Ok(());
        }
        match items.transact(transaction(cx, place, (&known, judgment))?).await {
            Err(error) if race::lost(&error) => {}
            answer => return Ok(answer?),
        }
    }
    Err(StoreError::Conflict.into())
}

fn transaction(
    cx: &Cx,
    place: &Key,
    (known, judgment): (&StoredEvent, &Judgment),
) -> Result<Txn, StoreError> {
    let path = |name: &str| Path::of("payload").key(name);
    let update = Update::new(&tables::EVENT, place.clone())
        .set(path(REVISION), judgment.revision)
        .expect(Expect::That(as_judged(known)));
    let update = if judgment.is_machine {
        update.set(path(MACHINE), true)
    } else {
        update.remove(path(MACHINE))
    };
    let txn = Txn::new().update(update);
    if judgment.is_machine == known.is_by_machine() {
        return Ok(txn);
    }
    let message = LeadEvent {
        workspace: cx.workspace().clone(),
        lead_organization_id: known.lead_organization_id.clone(),
        event_id: known.id.clone(),
        event_type: orders::REVISED.to_owned(),
        occurred_at: known.occurred_at,
        source: Some(known.source.clone()),
        metadata: None,
    };
    let body = message.to_body().map_err(|error| StoreError::Failed(error.into()))?;
    Ok(txn.enqueue(Outgoing::publish(&topics::LEAD_EVENTS, body)))
}
