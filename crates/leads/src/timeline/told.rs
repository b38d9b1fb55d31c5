//! One event, by what the system that told it calls it.

use tidings_access::{Cx, StorageError};
use tidings_kernel::tables;

use crate::event::{self, StoredEvent};
use crate::identity::{Owner, owner};
use crate::ingestion::can_be_called;

/// The event that a source told under an id of its own, and whose it is now. `None` if there is none, or none any more.
/// Without what the source sent.
pub async fn told_as(
    cx: &Cx,
    source: &str,
    external_event_id: &str,
) -> Result<Option<(Owner, StoredEvent)>, StorageError> {
    if !can_be_called(source, external_event_id) {
        return Ok(None);
    }
    let items = cx.items().await?;
    let guard = items.get(&tables::EVENT, &event::guard(source, external_event_id)).await?;
    let Some(place) = guard.as_ref().and_then(event::guarded) else { return Ok(None) };
    let item = items.get(&tables::EVENT, &place).await?;
    let Some(event) = item.as_ref().and_then(StoredEvent::from_item) else { return Ok(None) };
    let owner = owner(cx, &event.lead_organization_id).await?;
    Ok(owner.map(|owner| (owner, StoredEvent { raw_payload: None, ..event })))
}
