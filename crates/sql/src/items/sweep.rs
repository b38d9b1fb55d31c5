//! Removing what is past its TTL, in bounded batches, each removal on the stream where there is one.

use tidings_kernel::{ChangeKind, tables};

use super::changes::{self, NewChange};
use crate::database::{DatabaseError, Param, Tx};

/// Deletes up to `limit` expired items, the longest expired first, and tells how many.
pub(super) fn sweep(
    tx: &mut Tx<'_>,
    now: jiff::Timestamp,
    limit: usize,
) -> Result<usize, DatabaseError> {
    let mut swept = 0;
    let mut changes = Vec::new();
    for table in tables::ALL.into_iter().filter(|table| table.ttl.is_some()) {
        // Only a stream needs the items, and they may be large.
        let told = if table.stream { "workspace, item" } else { "workspace" };
        let sql = format!(
            "DELETE FROM items_{name} WHERE (workspace, pk, sk) IN (
                 SELECT workspace, pk, sk FROM items_{name} WHERE expires_at <= $1
                 ORDER BY expires_at LIMIT $2)
             RETURNING {told}",
            name = table.name
        );
        let params = [Param::Int(now.as_second()), Param::Int((limit - swept) as i64)];
        let removed = tx.query(&sql, &params)?;
        swept += removed.len();
        if !table.stream {
            continue;
        }
        for row in removed {
            changes.push(NewChange {
                workspace: row.text(0)?.to_owned(),
                table: table.name,
                kind: ChangeKind::Expired,
                old: Some(row.text(1)?.to_owned()),
                new: None,
            });
        }
    }
    changes::record(tx, &changes, now)?;
    Ok(swept)
}
