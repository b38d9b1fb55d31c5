//! Which occurrence of each schedule was begun last.

use jiff::Timestamp;

use super::rows::time_of;
use crate::database::{DatabaseError, Param, Tx};

pub(super) fn last_begun(tx: &mut Tx<'_>, name: &str) -> Result<Option<Timestamp>, DatabaseError> {
    let sql = "SELECT begun_for FROM schedules WHERE name = $1";
    let rows = tx.query(sql, &[Param::Text(name)])?;
    Ok(rows.first().map(|row| row.int(0)).transpose()?.map(time_of))
}

/// Whether nobody has begun this occurrence or a later one before. From now on somebody has.
pub(super) fn begin(
    tx: &mut Tx<'_>,
    name: &str,
    occurrence: Timestamp,
) -> Result<bool, DatabaseError> {
    let sql = "INSERT INTO schedules (name, begun_for) VALUES ($1, $2)
               ON CONFLICT (name) DO UPDATE SET begun_for = excluded.begun_for
               WHERE schedules.begun_for < excluded.begun_for";
    let params = [Param::Text(name), Param::Int(occurrence.as_millisecond())];
    Ok(tx.execute(sql, &params)? > 0)
}
