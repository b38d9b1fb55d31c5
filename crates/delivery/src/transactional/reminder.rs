//! A message that is a reminder tells the draft it was made from what becomes of it, in the commit that makes it true.
//! Not here: what the draft makes of it (`reminders`).

use jiff::Timestamp;
use tidings_jobs::contracts::{Contract as _, ReminderStep, ReminderTask};
use tidings_kernel::{Outgoing, queues};
use tidings_sql::{DatabaseError, Param, Tx};

use super::store::Sendable;

/// Nothing is done for a message that is no reminder.
pub(crate) fn tell(
    tx: &mut Tx<'_>,
    workspace: i64,
    (message, reminder): (i64, Option<&str>),
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let Some(reminder) = reminder else { return Ok(()) };
    let rows = tx.query("SELECT name FROM workspaces WHERE id = $1", &[Param::Int(workspace)])?;
    let name = rows.first().ok_or(DatabaseError::NoRow)?.parsed(0, "the name of a workspace")?;
    let mut step = ReminderStep::new(name, ReminderTask::Outcome);
    step.draft = Some(reminder.to_owned());
    step.message_id = Some(message);
    let body = step.to_body();
    let body = body.map_err(|error| DatabaseError::Statement(std::sync::Arc::new(error)))?;
    Ok(tx.enqueue(&Outgoing::new(&queues::REMINDER_STEPS, body), now)?)
}

pub(super) fn tell_of(
    tx: &mut Tx<'_>,
    row: &Sendable,
    now: Timestamp,
) -> Result<(), DatabaseError> {
    tell(tx, row.workspace, (row.id.get(), row.purpose.reminder.as_deref()), now)
}
