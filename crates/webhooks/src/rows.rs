//! Ids of rows, and what the statements share.

use jiff::Timestamp;
use tidings_jobs::contracts::{Contract as _, WebhookDelivery};
use tidings_kernel::{Outgoing, queues};
use tidings_sql::{DatabaseError, EnqueueError, Param, Tx};

use crate::event_type::EventTypes;

tidings_access::row_ids! {
    EndpointId
    DeliveryId
}

/// So many endpoints a workspace can have: every event looks at all of them.
pub(crate) const MAX_ENDPOINTS: i64 = 20;

/// The endpoints that are told what happens, and of what. Those that were deleted, however many, are not in its index.
pub(crate) const LISTENING: &str = "SELECT id, event_types FROM webhook_endpoints
    WHERE workspace_id = $1 AND deleted_at IS NULL AND disabled_at IS NULL ORDER BY id LIMIT $2";

pub(crate) fn listening(
    tx: &mut Tx<'_>,
    workspace: i64,
) -> Result<Vec<(EndpointId, EventTypes)>, DatabaseError> {
    let rows = tx.query(LISTENING, &[Param::Int(workspace), Param::Int(MAX_ENDPOINTS)])?;
    let read = rows.iter().map(|row| {
        let types = EventTypes::from_json(row.text(1)?);
        let types = types.ok_or_else(|| DatabaseError::damaged(1, "event types"))?;
        Ok((EndpointId::from(row.int(0)?), types))
    });
    read.collect()
}

/// Makes a message go out with the transaction.
pub(crate) fn enqueue(
    tx: &mut Tx<'_>,
    message: &Outgoing,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    tx.enqueue(message, now).map_err(bounded)
}

/// The body that asks for one try of a delivery.
pub(crate) fn ask_for(workspace_id: i64, delivery: DeliveryId) -> String {
    let message = WebhookDelivery { workspace_id, delivery_id: delivery.get() };
    message.to_body().expect("ids of rows are positive")
}

pub(crate) fn enqueue_delivery(
    tx: &mut Tx<'_>,
    workspace_id: i64,
    delivery: DeliveryId,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let message = Outgoing::new(&queues::WEBHOOK_DELIVERY, ask_for(workspace_id, delivery));
    enqueue(tx, &message, now)
}

/// What this crate sends is never more than a queue carries.
pub(crate) fn bounded(error: EnqueueError) -> DatabaseError {
    match error {
        EnqueueError::Database(error) => error,
        EnqueueError::Invalid(error) => unreachable!("every message is bounded, yet {error}"),
    }
}
