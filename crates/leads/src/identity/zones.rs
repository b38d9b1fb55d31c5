//! The time zone of two who are one: that of the one who stays, or the other one's if he has none, as long as they are one.
//!
//! Each keeps his own in his row. With a merge it is only kept that the zone was taken over, so that nothing of anybody outlives
//! him there. Not here: setting and reading the zone of a contact (`people::contacts`).

use serde_json::{Value as Json, json};
use tidings_access::Cx;
use tidings_people::contacts::ContactId;
use tidings_sql::{DatabaseError, Param, Tx};

use super::merge::Merge;

/// What it is called in the provenance of a merge.
pub(super) const TAKEN: &str = "zone_taken";

/// Whoever stays takes over the zone of the other one, if he has none. Tells whether he did.
pub(super) fn absorb(
    tx: &mut Tx<'_>,
    cx: &Cx,
    winner: ContactId,
    loser: ContactId,
) -> Result<bool, DatabaseError> {
    let sql =
        "UPDATE leads SET timezone = (SELECT timezone FROM leads WHERE id = $2), updated_at = $3
               WHERE id = $1 AND timezone IS NULL
                 AND EXISTS (SELECT 1 FROM leads WHERE id = $2 AND timezone IS NOT NULL)";
    let params = [Param::Int(winner.get()), Param::Int(loser.get()), Param::from(cx.now())];
    Ok(tx.execute(sql, &params)? > 0)
}

/// Whoever took over the zone of the one who left has it no more, nor he into whom he was merged since. Where another zone was
/// said meanwhile, that one stays; the same one, said once more, cannot be told from it. The caller has written down that the merge is undone.
pub(super) fn release(tx: &mut Tx<'_>, cx: &Cx, merge: &Merge) -> Result<(), DatabaseError> {
    let sql = "SELECT timezone FROM leads WHERE id = $1";
    let rows = tx.query(sql, &[Param::Int(merge.loser.get())])?;
    let zone = rows.first().map(|row| row.optional_text(0)).transpose()?.flatten();
    let Some(zone) = zone.map(ToOwned::to_owned) else { return Ok(()) };
    let (mut id, mut winner) = (merge.id.get(), merge.winner);
    while was_taken(tx, id)? {
        let sql =
            "UPDATE leads SET timezone = NULL, updated_at = $3 WHERE id = $1 AND timezone = $2";
        let params = [Param::Int(winner.get()), Param::Text(&zone), Param::from(cx.now())];
        if tx.execute(sql, &params)? == 0 {
            return Ok(());
        }
        take(tx, id, false)?;
        // One of those who are still with him may have one, too.
        let sql = "SELECT id, loser_id FROM lead_merges
                   WHERE winner_id = $1 AND undone_at IS NULL ORDER BY id LIMIT 1000";
        for row in &tx.query(sql, &[Param::Int(winner.get())])? {
            if absorb(tx, cx, winner, row.int(1)?.into())? {
                take(tx, row.int(0)?, true)?;
            }
        }
        let sql = "SELECT id, winner_id FROM lead_merges WHERE loser_id = $1 AND undone_at IS NULL";
        let rows = tx.query(sql, &[Param::Int(winner.get())])?;
        let Some(up) = rows.first() else { return Ok(()) };
        (id, winner) = (up.int(0)?, up.int(1)?.into());
    }
    Ok(())
}

fn provenance(tx: &mut Tx<'_>, id: i64) -> Result<Json, DatabaseError> {
    let sql = "SELECT CAST(provenance AS TEXT) FROM lead_merges WHERE id = $1";
    let rows = tx.query(sql, &[Param::Int(id)])?;
    let text = rows.first().ok_or(DatabaseError::NoRow)?.text(0)?;
    let damaged = |_| DatabaseError::damaged(0, "the provenance of a merge");
    serde_json::from_str(text).map_err(damaged)
}

fn was_taken(tx: &mut Tx<'_>, id: i64) -> Result<bool, DatabaseError> {
    Ok(provenance(tx, id)?.get(TAKEN) == Some(&Json::Bool(true)))
}

fn take(tx: &mut Tx<'_>, id: i64, taken: bool) -> Result<(), DatabaseError> {
    let mut provenance = provenance(tx, id)?;
    if let Some(object) = provenance.as_object_mut() {
        object.insert(TAKEN.to_owned(), json!(taken));
    }
    let sql = "UPDATE lead_merges SET provenance = $2 WHERE id = $1";
    tx.execute(sql, &[Param::Int(id), Param::Text(&provenance.to_string())]).map(drop)
}
