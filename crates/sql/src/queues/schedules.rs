//! Which occurrence of each schedule was begun last.

use jiff::Timestamp;

use super::rows::time_of;
use crate::database::{DatabaseError, Param, Tx};

const A_DAY: i64 = 24 * 60 * 60 * 1000;

/// As if there were none, if it lies days ahead.
pub(super) fn last_begun(
    tx: &mut Tx<'_>,
    name: &str,
    now: Timestamp,
) -> Result<Option<Timestamp>, DatabaseError> {
    let sql = "SELECT begun_for FROM schedules WHERE name = $1";
    let rows = tx.query(sql, &[Param::Text(name)])?;
    let begun = rows.first().map(|row| row.int(0)).transpose()?;
    Ok(begun.filter(|begun| *begun <= now.as_millisecond() + A_DAY).map(time_of))
}

/// Whether nobody has begun this occurrence or a later one before. From now on somebody has. One that lies days ahead
/// was noted by a node with a wrong clock, and does not count.
pub(super) fn begin(
    tx: &mut Tx<'_>,
    name: &str,
    occurrence: Timestamp,
    now: Timestamp,
) -> Result<bool, DatabaseError> {
    let sql = "INSERT INTO schedules (name, begun_for) VALUES ($1, $2)
               ON CONFLICT (name) DO UPDATE SET begun_for = excluded.begun_for
               WHERE schedules.begun_for < excluded.begun_for OR schedules.begun_for > $3";
    let params = [
        Param::Text(name),
        Param::Int(occurrence.as_millisecond()),
        Param::Int(now.as_millisecond() + A_DAY),
    ];
    Ok(tx.execute(sql, &params)? > 0)
}
