//! Who did what: one row for each change, written in the transaction that makes it.

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

pub(crate) struct Entry<'a> {
    pub(crate) workspace: WorkspaceId,
    pub(crate) actor: &'a Actor,
    pub(crate) action: &'static str,
    pub(crate) target_type: &'static str,
    pub(crate) target_id: &'a str,
    pub(crate) at: Timestamp,
}

pub(crate) fn record(tx: &mut Tx<'_>, entry: &Entry<'_>) -> Result<(), DatabaseError> {
    let actor = match entry.actor {
        Actor::Key(id) => format!("key:{id}"),
        Actor::Operator => "operator".to_owned(),
        Actor::Worker => "worker".to_owned(),
    };
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
