//! The statements on timers. Firing moves the message from the timer to its queue in one transaction, so a timer
//! fires once, whoever fires it and whenever he dies.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tidings_kernel::{Fired, Timer, TimerChange};

use super::rows::{self, NewRow, new_id, time_of};
use crate::database::{DatabaseError, Dialect, Param, Tx};

/// Who waits for timers.
pub(super) const WAKE: &str = "timers";

pub(crate) struct NewTimer<'a> {
    pub(crate) workspace: &'a str,
    pub(crate) change: &'a TimerChange,
}

/// Makes the changes. Of several for one timer the last counts.
pub(crate) fn change_all(tx: &mut Tx<'_>, changes: &[NewTimer<'_>]) -> Result<(), DatabaseError> {
    // In the order of their keys, so that two nodes cannot wait for each other.
    let last: BTreeMap<_, _> =
        changes.iter().map(|new| ((new.workspace, new.change.key()), new.change)).collect();
    let (mut armed, mut cancelled) = (Vec::new(), Vec::new());
    for ((workspace, key), change) in last {
        match change {
            TimerChange::Arm(timer) => armed.push((workspace, timer)),
            TimerChange::Cancel(_) => cancelled.push((workspace, key)),
        }
    }
    if !armed.is_empty() {
        tx.wake(WAKE);
        arm(tx, &armed)?;
    }
    if cancelled.is_empty() { Ok(()) } else { cancel(tx, &cancelled) }
}

fn arm(tx: &mut Tx<'_>, timers: &[(&str, &Timer)]) -> Result<(), DatabaseError> {
    let columns = "INSERT INTO timers (workspace, timer_key, due_at, queue, body)";
    let again = "ON CONFLICT (workspace, timer_key) DO UPDATE
                 SET due_at = excluded.due_at, queue = excluded.queue, body = excluded.body";
    match tx.dialect() {
        Dialect::Sqlite => {
            let sql = format!("{columns} VALUES ($1, $2, $3, $4, $5) {again}");
            for (workspace, timer) in timers {
                let params = [
                    Param::Text(workspace),
                    Param::Text(&timer.key),
                    Param::Int(timer.due.as_millisecond()),
                    Param::Text(timer.queue.name),
                    Param::Text(&timer.body),
                ];
                tx.execute(&sql, &params)?;
            }
            Ok(())
        }
        Dialect::Postgres => {
            let texts = |text: fn(&Timer) -> &str| {
                timers.iter().map(|(_, timer)| Some(text(timer))).collect::<Vec<_>>()
            };
            let workspaces: Vec<_> = timers.iter().map(|(workspace, _)| Some(*workspace)).collect();
            let due: Vec<_> =
                timers.iter().map(|(_, timer)| Some(timer.due.as_millisecond())).collect();
            let sql = format!(
                "{columns} SELECT * FROM
                 unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[]) {again}"
            );
            let params = [
                Param::Texts(&workspaces),
                Param::Texts(&texts(|timer| &timer.key)),
                Param::Ints(&due),
                Param::Texts(&texts(|timer| timer.queue.name)),
                Param::Texts(&texts(|timer| &timer.body)),
            ];
            tx.execute(&sql, &params).map(drop)
        }
    }
}

fn cancel(tx: &mut Tx<'_>, keys: &[(&str, &str)]) -> Result<(), DatabaseError> {
    match tx.dialect() {
        Dialect::Sqlite => {
            let sql = "DELETE FROM timers WHERE workspace = $1 AND timer_key = $2";
            for (workspace, key) in keys {
                tx.execute(sql, &[Param::Text(workspace), Param::Text(key)])?;
            }
            Ok(())
        }
        Dialect::Postgres => {
            let (workspaces, keys): (Vec<_>, Vec<_>) =
                keys.iter().map(|(workspace, key)| (Some(*workspace), Some(*key))).unzip();
            // Each is looked up by itself: a join might go through all timers.
            let sql = "DELETE FROM timers WHERE ctid = ANY (ARRAY(
                           SELECT (SELECT t.ctid FROM timers t WHERE t.workspace = gone.w AND t.timer_key = gone.k)
                           FROM unnest($1::text[], $2::text[]) AS gone (w, k)))";
            tx.execute(sql, &[Param::Texts(&workspaces), Param::Texts(&keys)]).map(drop)
        }
    }
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
