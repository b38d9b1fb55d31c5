//! Who did what: one row for each change, written in the transaction that makes it.

use std::fmt;

use jiff::Timestamp;
use tidings_sql::{DatabaseError, Param, Tx};

use crate::keys::PublicId;
use crate::rows::WorkspaceId;

/// On whose behalf something is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    Key(PublicId),
    /// Somebody with access to the machine, by the command line.
    Operator,
    /// A worker, by itself: because of a message in a queue or of the time.
    Worker,
}

/// As the audit log has it.
impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => write!(f, "key:{id}"),
            Self::Operator => f.write_str("operator"),
            Self::Worker => f.write_str("worker"),
        }
    }
}

pub(crate) struct Entry<'a> {
    pub(crate) workspace: WorkspaceId,
    pub(crate) actor: &'a Actor,
    pub(crate) action: &'static str,
    pub(crate) target_type: &'static str,
    pub(crate) target_id: &'a str,
    pub(crate) at: Timestamp,
}

pub(crate) fn record(tx: &mut Tx<'_>, entry: &Entry<'_>) -> Result<(), DatabaseError> {
    let actor = entry.actor.to_string();
    let sql =
        "INSERT INTO audit_log (workspace_id, actor, action, target_type, target_id, happened_at)
               VALUES ($1, $2, $3, $4, $5, $6)";
    let params = [
        Param::Int(entry.workspace.get()),
        Param::Text(&actor),
        Param::Text(entry.action),
        Param::Text(entry.target_type),
        Param::Text(entry.target_id),
        Param::Int(entry.at.as_millisecond()),
    ];
    tx.execute(sql, &params).map(drop)
}
