//! Ids of rows, and what the statements share.

use jiff::Timestamp;
use tidings_jobs::contracts::{Contract as _, WebhookDelivery};
use tidings_kernel::{Outgoing, queues};
use tidings_sql::{DatabaseError, EnqueueError, Param, Tx};

tidings_access::row_ids! {
    EndpointId
    DeliveryId
}

/// So many endpoints a workspace can have: every event looks at all of them.
pub(crate) const MAX_ENDPOINTS: i64 = 20;

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

pub(crate) fn time(at: Option<Timestamp>) -> Param<'static> {
    at.map_or(Param::Null, |at| Param::Int(at.as_millisecond()))
}

pub(crate) fn text(value: Option<&str>) -> Param<'_> {
    value.map_or(Param::Null, Param::Text)
}

/// What is in the column is not what this crate writes there.
pub(crate) fn damaged(column: usize, expected: &'static str) -> DatabaseError {
    DatabaseError::Column { column, found: "something else", expected }
}
