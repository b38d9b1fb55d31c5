//! A mail of a sequence that is not sent tells the walk it is part of, in the commit that makes it true.
//! Not here: what the sequence makes of it (`sequences`).

use tidings_access::Cx;
use tidings_jobs::contracts::{Contract as _, SequenceStep, SequenceTask};
use tidings_kernel::{Outgoing, queues};
use tidings_sql::{DatabaseError, Tx};

use super::MessageId;
use super::purpose::Purpose;

/// Nothing is done for a message that is no step of a walk.
pub(super) fn tell_skipped(
    tx: &mut Tx<'_>,
    cx: &Cx,
    purpose: &Purpose,
    message: MessageId,
) -> Result<(), DatabaseError> {
    let (Some(execution), Some(_)) = (&purpose.execution, &purpose.step) else { return Ok(()) };
    let mut step = SequenceStep::new(cx.workspace().clone(), SequenceTask::Skipped, execution);
    step.message_id = Some(message.get());
    let body = step.to_body();
    let body = body.map_err(|error| DatabaseError::Statement(std::sync::Arc::new(error)))?;
    Ok(tx.enqueue(&Outgoing::new(&queues::SEQUENCE_STEPS, body), cx.now())?)
}
