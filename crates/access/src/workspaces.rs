//! Workspaces: the owners of everything. Only an operator makes and stops them; no key can.

use jiff::Timestamp;
use serde_json::json;
use tidings_kernel::Workspace;
use tidings_sql::{DatabaseError, Param, Row, Tx};

use crate::access::Access;
use crate::audit::{self, Change, Who};
use crate::page::{Limit, Page};
use crate::rows::WorkspaceId;

/// What is known of a workspace besides its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    pub id: WorkspaceId,
    pub name: Workspace,
    /// Since when its keys are refused.
    pub disabled_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("there is already a workspace {0}")]
    Taken(Workspace),
    #[error("the workspace could not be saved")]
    Store(#[from] DatabaseError),
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("there is no workspace {0}")]
    Missing(Workspace),
    #[error("the workspace could not be reached")]
    Store(#[from] DatabaseError),
}

pub async fn create(access: &Access, name: Workspace) -> Result<Registration, CreateError> {
    let now = access.now();
    let create = access.database.write(move |tx| match insert(tx, &name, now)? {
        Some(made) => Ok(made),
        None => Err(CreateError::Taken(name.clone())),
    });
    create.await
}

/// In the order of their names.
pub async fn list(
    access: &Access,
    after: Option<Workspace>,
    limit: Limit,
) -> Result<Page<Registration, Workspace>, DatabaseError> {
    let after = after.map_or_else(String::new, String::from);
    let list = access.database.read(move |tx| {
        let sql = format!("{SELECT} WHERE name > $1 ORDER BY name LIMIT $2");
        let rows = tx.query(&sql, &[Param::Text(&after), Param::Int(limit.and_one())])?;
        let found = rows.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Page::cut(found, limit, |one: &Registration| one.name.clone()))
    });
    list.await
}

pub async fn find(access: &Access, name: Workspace) -> Result<Registration, FindError> {
    access.database.read(move |tx| load(tx, &name)).await
}

/// From the next request on, every key of the workspace is refused; by other nodes within a second. Doing it again changes nothing.
pub async fn disable(access: &Access, name: Workspace) -> Result<Registration, FindError> {
    let now = access.now();
    let sql = "UPDATE workspaces SET disabled_at = $2 WHERE name = $1 AND disabled_at IS NULL";
    let disable = access.database.write(move |tx| {
        let params = [Param::Text(name.as_str()), Param::Int(now.as_millisecond())];
        let changed = tx.execute(sql, &params)? > 0;
        changed_to(tx, &name, changed.then_some(("workspace.disable", now)))
    });
    let disabled = disable.await;
    access.forget_open();
    disabled
}

/// Its keys work again as before. Doing it again changes nothing.
pub async fn enable(access: &Access, name: Workspace) -> Result<Registration, FindError> {
    let now = access.now();
    let sql =
        "UPDATE workspaces SET disabled_at = NULL WHERE name = $1 AND disabled_at IS NOT NULL";
    let enable = access.database.write(move |tx| {
        let changed = tx.execute(sql, &[Param::Text(name.as_str())])? > 0;
        changed_to(tx, &name, changed.then_some(("workspace.enable", now)))
    });
    enable.await
}

const SELECT: &str = "SELECT id, name, disabled_at, created_at FROM workspaces";

/// `None` if the name is taken.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    name: &Workspace,
    now: Timestamp,
) -> Result<Option<Registration>, DatabaseError> {
    let sql = "INSERT INTO workspaces (name, created_at) VALUES ($1, $2)
               ON CONFLICT (name) DO NOTHING RETURNING id";
    let params = [Param::Text(name.as_str()), Param::Int(now.as_millisecond())];
    let rows = tx.query(sql, &params)?;
    let Some(row) = rows.first() else { return Ok(None) };
    let made = Registration {
        id: WorkspaceId(row.int(0)?),
        name: name.clone(),
        disabled_at: None,
        created_at: now,
    };
    let change =
        Change::new("workspace.create", "workspace", name).after(json!({ "enabled": true }));
    record(tx, &made, &change, now)?;
    Ok(Some(made))
}

fn changed_to(
    tx: &mut Tx<'_>,
    name: &Workspace,
    change: Option<(&'static str, Timestamp)>,
) -> Result<Registration, FindError> {
    let workspace = load(tx, name)?;
    if let Some((action, now)) = change {
        let enabled = workspace.disabled_at.is_none();
        let change = Change::new(action, "workspace", name)
            .between(json!({ "enabled": !enabled }), json!({ "enabled": enabled }));
        record(tx, &workspace, &change, now)?;
    }
    Ok(workspace)
}

fn record(
    tx: &mut Tx<'_>,
    workspace: &Registration,
    change: &Change,
    at: Timestamp,
) -> Result<(), DatabaseError> {
    audit::record(tx, (Some(workspace.id), Who::OPERATOR, at), change)
}

fn load(tx: &mut Tx<'_>, name: &Workspace) -> Result<Registration, FindError> {
    let rows = tx.query(&format!("{SELECT} WHERE name = $1"), &[Param::Text(name.as_str())])?;
    let row = rows.first().ok_or_else(|| FindError::Missing(name.clone()))?;
    Ok(read(row)?)
}

fn read(row: &Row) -> Result<Registration, DatabaseError> {
    Ok(Registration {
        id: WorkspaceId(row.int(0)?),
        name: row.parsed(1, "the name of a workspace")?,
        disabled_at: row.optional_time(2)?,
        created_at: row.time(3)?,
    })
}
