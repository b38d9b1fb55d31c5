//! Whether a client is one of the workspace.

use tidings_access::{ClientId, Cx};
use tidings_sql::{DatabaseError, Param, Tx};

pub(super) fn exists(tx: &mut Tx<'_>, cx: &Cx, client: ClientId) -> Result<bool, DatabaseError> {
    let sql = "SELECT id FROM clients WHERE workspace_id = $1 AND id = $2";
    let params = [Param::Int(cx.workspace_id().get()), Param::Int(client.get())];
    Ok(!tx.query(sql, &params)?.is_empty())
}
