//! Clients: the applications of a workspace that send. A key belongs to a client.

use jiff::Timestamp;
use serde_json::json;
use tidings_sql::{DatabaseError, Param, Row, Tx};

use crate::access::Cx;
use crate::audit::Change;
use crate::names::{DisplayName, Slug};
use crate::page::{Limit, Page};
use crate::rows::ClientId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    pub id: ClientId,
    pub slug: Slug,
    pub name: DisplayName,
    /// Since when its keys are refused.
    pub disabled_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct Create {
    pub slug: Slug,
    pub name: DisplayName,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("there is already a client {0}")]
    Taken(Slug),
    #[error("the client could not be saved")]
    Store(#[from] DatabaseError),
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("there is no client {0}")]
    Missing(Slug),
    #[error("the client could not be reached")]
    Store(#[from] DatabaseError),
}

pub async fn create(cx: &Cx, cmd: Create) -> Result<Client, CreateError> {
    let within = cx.clone();
    let create = cx.database.write(move |tx| match insert(tx, &within, &cmd)? {
        Some(client) => Ok(client),
        None => Err(CreateError::Taken(cmd.slug.clone())),
    });
    create.await
}

/// In the order of their slugs.
pub async fn list(
    cx: &Cx,
    after: Option<Slug>,
    limit: Limit,
) -> Result<Page<Client, Slug>, DatabaseError> {
    let workspace = cx.workspace;
    let list = cx.database.read(move |tx| {
        let sql = format!("{SELECT} WHERE workspace_id = $1 AND slug > $2 ORDER BY slug LIMIT $3");
        let after = after.as_ref().map_or("", Slug::as_str);
        let params = [Param::Int(workspace.get()), Param::Text(after), Param::Int(limit.and_one())];
        let found = tx.query(&sql, &params)?.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Page::cut(found, limit, |client: &Client| client.slug.clone()))
    });
    list.await
}

pub async fn find(cx: &Cx, slug: Slug) -> Result<Client, FindError> {
    let within = cx.clone();
    cx.database.read(move |tx| load(tx, &within, &slug)).await
}

/// From the next request on, every key of the client is refused; by other nodes within a second. Doing it again changes nothing.
pub async fn disable(cx: &Cx, slug: Slug) -> Result<Client, FindError> {
    let sql = "UPDATE clients SET disabled_at = $3
               WHERE workspace_id = $1 AND slug = $2 AND disabled_at IS NULL";
    let within = cx.clone();
    let disable = cx.database.write(move |tx| {
        let params = [
            Param::Int(within.workspace.get()),
            Param::Text(slug.as_str()),
            Param::Int(within.now.as_millisecond()),
        ];
        let changed = tx.execute(sql, &params)? > 0;
        changed_to(tx, &within, &slug, changed.then_some("client.disable"))
    });
    let disabled = disable.await;
    cx.callers.forget();
    disabled
}

/// Its keys work again as before. Doing it again changes nothing.
pub async fn enable(cx: &Cx, slug: Slug) -> Result<Client, FindError> {
    let sql = "UPDATE clients SET disabled_at = NULL
               WHERE workspace_id = $1 AND slug = $2 AND disabled_at IS NOT NULL";
    let within = cx.clone();
    let enable = cx.database.write(move |tx| {
        let params = [Param::Int(within.workspace.get()), Param::Text(slug.as_str())];
        let changed = tx.execute(sql, &params)? > 0;
        changed_to(tx, &within, &slug, changed.then_some("client.enable"))
    });
    enable.await
}

const SELECT: &str = "SELECT id, slug, name, disabled_at, created_at FROM clients";

/// `None` if the slug is taken.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    cx: &Cx,
    cmd: &Create,
) -> Result<Option<Client>, DatabaseError> {
    let sql = "INSERT INTO clients (workspace_id, slug, name, created_at) VALUES ($1, $2, $3, $4)
               ON CONFLICT (workspace_id, slug) DO NOTHING RETURNING id";
    let params = [
        Param::Int(cx.workspace.get()),
        Param::Text(cmd.slug.as_str()),
        Param::Text(cmd.name.as_str()),
        Param::Int(cx.now.as_millisecond()),
    ];
    let rows = tx.query(sql, &params)?;
    let Some(row) = rows.first() else { return Ok(None) };
    let state = json!({ "name": cmd.name.as_str(), "enabled": true });
    cx.record_change(tx, &Change::new("client.create", "client", &cmd.slug).after(state))?;
    Ok(Some(Client {
        id: ClientId::from(row.int(0)?),
        slug: cmd.slug.clone(),
        name: cmd.name.clone(),
        disabled_at: None,
        created_at: cx.now,
    }))
}

fn changed_to(
    tx: &mut Tx<'_>,
    cx: &Cx,
    slug: &Slug,
    action: Option<&'static str>,
) -> Result<Client, FindError> {
    if let Some(action) = action {
        let enabled = action == "client.enable";
        let change = Change::new(action, "client", slug)
            .between(json!({ "enabled": !enabled }), json!({ "enabled": enabled }));
        cx.record_change(tx, &change)?;
    }
    load(tx, cx, slug)
}

pub(crate) fn load(tx: &mut Tx<'_>, cx: &Cx, slug: &Slug) -> Result<Client, FindError> {
    let sql = format!("{SELECT} WHERE workspace_id = $1 AND slug = $2");
    let rows = tx.query(&sql, &[Param::Int(cx.workspace.get()), Param::Text(slug.as_str())])?;
    let row = rows.first().ok_or_else(|| FindError::Missing(slug.clone()))?;
    Ok(read(row)?)
}

fn read(row: &Row) -> Result<Client, DatabaseError> {
    Ok(Client {
        id: ClientId::from(row.int(0)?),
        slug: row.parsed(1, "a slug")?,
        name: row.parsed(2, "a display name")?,
        disabled_at: row.optional_time(3)?,
        created_at: row.time(4)?,
    })
}
