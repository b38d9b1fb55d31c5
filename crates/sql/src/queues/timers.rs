//! The statements on timers. Firing moves the message from the timer to its queue in one transaction, so a timer
//! fires once, whoever fires it and whenever he dies.

use jiff::Timestamp;
use tidings_kernel::{Fired, TimerChange};

use super::rows::{self, NewRow, new_id, time_of};
use crate::database::{DatabaseError, Dialect, Param, Tx};

/// Who waits for timers.
pub(super) const WAKE: &str = "timers";

pub(crate) struct NewTimer<'a> {
    pub(crate) workspace: &'a str,
    pub(crate) change: &'a TimerChange,
}

/// Makes the changes in their order.
pub(crate) fn change_all(tx: &mut Tx<'_>, changes: &[NewTimer<'_>]) -> Result<(), DatabaseError> {
    for NewTimer { workspace, change } in changes {
        match change {
            TimerChange::Arm(timer) => {
                let sql = "INSERT INTO timers (workspace, timer_key, due_at, queue, body)
                           VALUES ($1, $2, $3, $4, $5)
                           ON CONFLICT (workspace, timer_key) DO UPDATE
                           SET due_at = excluded.due_at, queue = excluded.queue, body = excluded.body";
                let params = [
                    Param::Text(workspace),
                    Param::Text(&timer.key),
                    Param::Int(timer.due.as_millisecond()),
                    Param::Text(timer.queue.name),
                    Param::Text(&timer.body),
                ];
                tx.execute(sql, &params)?;
                tx.wake(WAKE);
            }
            TimerChange::Cancel(key) => {
                let sql = "DELETE FROM timers WHERE workspace = $1 AND timer_key = $2";
                tx.execute(sql, &[Param::Text(workspace), Param::Text(key)])?;
            }
        }
    }
    Ok(())
}

/// Moves up to `limit` messages that are due, the longest due first.
pub(super) fn fire(tx: &mut Tx<'_>, now: Timestamp, limit: usize) -> Result<Fired, DatabaseError> {
    let lock = match tx.dialect() {
        Dialect::Sqlite => "",
        // What another node is firing is left to it.
        Dialect::Postgres => "FOR UPDATE SKIP LOCKED",
    };
    let millisecond = now.as_millisecond();
    let sql = format!(
        "DELETE FROM timers WHERE (workspace, timer_key) IN (
             WITH due AS MATERIALIZED (
                 SELECT workspace, timer_key FROM timers WHERE due_at <= $1
                 ORDER BY due_at LIMIT $2 {lock})
             SELECT workspace, timer_key FROM due)
         RETURNING queue, body"
    );
    let due = tx.query(&sql, &[Param::Int(millisecond), Param::Int(limit as i64)])?;
    // A newer version may know queues that we do not; the message waits there for it.
    let messages = due.iter().map(|row| Ok((row.text(0)?, new_id(now), millisecond, row.text(1)?)));
    let messages: Vec<NewRow<'_>> = messages.collect::<Result<_, DatabaseError>>()?;
    if !messages.is_empty() {
        rows::insert_rows(tx, &messages, millisecond)?;
    }
    Ok(Fired { count: due.len(), next_due: next_due(tx)? })
}

pub(super) fn next_due(tx: &mut Tx<'_>) -> Result<Option<Timestamp>, DatabaseError> {
    let next = tx.query("SELECT due_at FROM timers ORDER BY due_at LIMIT 1", &[])?;
    Ok(next.first().map(|row| row.int(0)).transpose()?.map(time_of))
}
