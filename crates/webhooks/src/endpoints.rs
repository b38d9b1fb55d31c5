//! Endpoints: whom a workspace has told what happens, and of what.
//!
//! Here: how they are made, changed, switched off and forgotten, and their secrets. Not here: what they are told
//! (`deliveries`), and where they may be (`Targets`).

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidings_access::{Change, Cx, Limit, Page};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use crate::event_type::EventTypes;
use crate::rows::{EndpointId, MAX_ENDPOINTS};
use crate::secret::Secret;
use crate::target::{EndpointUrl, TargetError, Targets};

/// For so long both secrets sign after one was made in the place of the other.
const OVERLAP: SignedDuration = SignedDuration::from_hours(24);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub id: EndpointId,
    pub url: String,
    pub description: Option<String>,
    pub event_types: EventTypes,
    pub disabled: Option<Disabled>,
    /// How many attempts have failed in a row, whatever they were about.
    pub failures: i64,
    /// The time of the first of them.
    pub failing_since: Option<Timestamp>,
    /// Until when the secret before this one signs as well.
    pub previous_secret_until: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disabled {
    pub at: Timestamp,
    /// `manual`, `failing` or `gone`.
    pub reason: String,
}

/// An endpoint whose secret is new. It is shown now and never again.
#[derive(Debug, Clone)]
pub struct Issued {
    pub endpoint: Endpoint,
    pub secret: Secret,
}

/// A few words on what an endpoint is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("use 1 to 200 characters, and no control characters")]
pub struct DescriptionError;

#[derive(Debug, Clone)]
pub struct Create {
    pub url: EndpointUrl,
    pub description: Option<Description>,
    pub event_types: EventTypes,
}

/// What is `None` stays as it is.
#[derive(Debug, Clone, Default)]
pub struct Update {
    pub url: Option<EndpointUrl>,
    /// The inner `None` takes the description away.
    pub description: Option<Option<Description>>,
    pub event_types: Option<EventTypes>,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("the URL cannot be posted to")]
    Target(#[from] TargetError),
    #[error("a workspace has at most {MAX_ENDPOINTS} endpoints")]
    Full,
    #[error("the endpoint could not be saved")]
    Store(#[from] DatabaseError),
}

#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    #[error("there is no webhook {0}")]
    Missing(EndpointId),
    #[error("the URL cannot be posted to")]
    Target(#[from] TargetError),
    #[error("the endpoint could not be saved")]
    Store(#[from] DatabaseError),
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("there is no webhook {0}")]
    Missing(EndpointId),
    #[error("the endpoint could not be reached")]
    Store(#[from] DatabaseError),
}

/// From now on it is told what happens.
pub async fn create(cx: &Cx, targets: &Targets, cmd: Create) -> Result<Issued, CreateError> {
    targets.check(&cmd.url).await?;
    let within = cx.clone();
    let secret = Secret::generate();
    cx.database().write(move |tx| insert(tx, &within, &cmd, &secret)).await
}

/// In the order in which they were made.
pub async fn list(
    cx: &Cx,
    after: Option<EndpointId>,
    limit: Limit,
) -> Result<Page<Endpoint, EndpointId>, DatabaseError> {
    let workspace = cx.workspace_id().get();
    let list = cx.database().read(move |tx| {
        let sql = format!("{SELECT} AND id > $2 ORDER BY id LIMIT $3");
        let after = after.map_or(0, EndpointId::get);
        let params = [Param::Int(workspace), Param::Int(after), Param::Int(limit.and_one())];
        let found = tx.query(&sql, &params)?.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Page::cut(found, limit, |endpoint: &Endpoint| endpoint.id))
    });
    list.await
}

pub async fn find(cx: &Cx, id: EndpointId) -> Result<Endpoint, FindError> {
    let within = cx.clone();
    cx.database().read(move |tx| load(tx, &within, id)).await
}

/// What is still to be told goes to the new URL.
pub async fn update(
    cx: &Cx,
    targets: &Targets,
    id: EndpointId,
    cmd: Update,
) -> Result<Endpoint, UpdateError> {
    if let Some(url) = &cmd.url {
        targets.check(url).await?;
    }
    let within = cx.clone();
    let update = cx.database().write(move |tx| change(tx, &within, id, &cmd));
    update.await.map_err(|error: FindError| match error {
        FindError::Missing(id) => UpdateError::Missing(id),
        FindError::Store(error) => UpdateError::Store(error),
    })
}

/// A new secret. For a day the one before signs as well, so that the receiver can change over; one before that does not
/// any more.
pub async fn rotate_secret(cx: &Cx, id: EndpointId) -> Result<Issued, FindError> {
    let sql = "UPDATE webhook_endpoints
               SET previous_secret = secret, previous_secret_until = $4, secret = $3, updated_at = $5
               WHERE workspace_id = $1 AND id = $2 AND deleted_at IS NULL";
    let within = cx.clone();
    let secret = Secret::generate();
    let rotate = cx.database().write(move |tx| {
        let now = within.now();
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Int(id.get()),
            Param::Text(secret.expose()),
            Param::Int(now.as_millisecond() + OVERLAP.as_millis() as i64),
            Param::Int(now.as_millisecond()),
        ];
        let before = load(tx, &within, id)?;
        tx.execute(sql, &params)?;
        let endpoint = changed_to(tx, &within, &before, "webhook.rotate_secret")?;
        Ok(Issued { endpoint, secret: secret.clone() })
    });
    rotate.await
}

/// It is told nothing, and what happens meanwhile is not kept for it. Doing it again changes nothing.
pub async fn disable(cx: &Cx, id: EndpointId) -> Result<Endpoint, FindError> {
    let sql = "UPDATE webhook_endpoints
               SET disabled_at = $3, disabled_reason = 'manual', updated_at = $3
               WHERE workspace_id = $1 AND id = $2 AND deleted_at IS NULL AND disabled_at IS NULL";
    switch(cx, id, sql, "webhook.disable").await
}

/// It is told again what happens from now on, and what it missed can be replayed as far as it was kept.
pub async fn enable(cx: &Cx, id: EndpointId) -> Result<Endpoint, FindError> {
    let sql = "UPDATE webhook_endpoints
               SET disabled_at = NULL, disabled_reason = NULL, failures = 0, failing_since = NULL, updated_at = $3
               WHERE workspace_id = $1 AND id = $2 AND deleted_at IS NULL AND disabled_at IS NOT NULL";
    switch(cx, id, sql, "webhook.enable").await
}

/// It is gone, with its secrets. What it was told stays as long as ever.
pub async fn delete(cx: &Cx, id: EndpointId) -> Result<(), FindError> {
    let sql = "UPDATE webhook_endpoints
               SET deleted_at = $3, disabled_at = COALESCE(disabled_at, $3),
                   disabled_reason = COALESCE(disabled_reason, 'manual'), secret = '',
                   previous_secret = NULL, previous_secret_until = NULL, updated_at = $3
               WHERE workspace_id = $1 AND id = $2 AND deleted_at IS NULL";
    let within = cx.clone();
    let delete = cx.database().write(move |tx| {
        let before = load(tx, &within, id)?;
        tx.execute(sql, &[ours(&within), Param::Int(id.get()), now(&within)])?;
        let change = Change::new("webhook.delete", "webhook", id).before(told(&before));
        Ok(within.record_change(tx, &change)?)
    });
    delete.await
}

async fn switch(
    cx: &Cx,
    id: EndpointId,
    sql: &'static str,
    action: &'static str,
) -> Result<Endpoint, FindError> {
    let within = cx.clone();
    let switch = cx.database().write(move |tx| {
        let before = load(tx, &within, id)?;
        if tx.execute(sql, &[ours(&within), Param::Int(id.get()), now(&within)])? == 0 {
            return Ok(before);
        }
        changed_to(tx, &within, &before, action)
    });
    switch.await
}

fn insert(tx: &mut Tx<'_>, cx: &Cx, cmd: &Create, secret: &Secret) -> Result<Issued, CreateError> {
    let count =
        "SELECT COUNT(*) FROM webhook_endpoints WHERE workspace_id = $1 AND deleted_at IS NULL";
    let rows = tx.query(count, &[ours(cx)])?;
    if rows.first().ok_or(DatabaseError::NoRow)?.int(0)? >= MAX_ENDPOINTS {
        return Err(CreateError::Full);
    }
    let sql = "INSERT INTO webhook_endpoints
                   (workspace_id, url, description, event_types, secret, created_at, updated_at)
               VALUES ($1, $2, $3, $4, $5, $6, $6) RETURNING id";
    let params = [
        ours(cx),
        Param::Text(cmd.url.as_str()),
        cmd.description.as_ref().map(Description::as_str).into(),
        Param::Text(&cmd.event_types.to_json()),
        Param::Text(secret.expose()),
        now(cx),
    ];
    let inserted = tx.query(sql, &params)?;
    let id = EndpointId::from(inserted.first().ok_or(DatabaseError::NoRow)?.int(0)?);
    let endpoint = Endpoint {
        id,
        url: cmd.url.to_string(),
        description: cmd.description.as_ref().map(Description::to_string),
        event_types: cmd.event_types.clone(),
        disabled: None,
        failures: 0,
        failing_since: None,
        previous_secret_until: None,
        created_at: cx.now(),
        updated_at: cx.now(),
    };
    let change = Change::new("webhook.create", "webhook", id).after(told(&endpoint));
    cx.record_change(tx, &change)?;
    Ok(Issued { endpoint, secret: secret.clone() })
}

fn change(tx: &mut Tx<'_>, cx: &Cx, id: EndpointId, cmd: &Update) -> Result<Endpoint, FindError> {
    let found = load(tx, cx, id)?;
    let url = cmd.url.as_ref().map_or(found.url.as_str(), EndpointUrl::as_str);
    let description = match &cmd.description {
        Some(description) => description.as_ref().map(Description::as_str),
        None => found.description.as_deref(),
    };
    let is_same = url == found.url
        && description == found.description.as_deref()
        && cmd.event_types.as_ref().is_none_or(|types| *types == found.event_types);
    if is_same {
        return Ok(found);
    }
    let types = cmd.event_types.as_ref().unwrap_or(&found.event_types).to_json();
    let sql = "UPDATE webhook_endpoints
               SET url = $3, description = $4, event_types = $5, updated_at = $6
               WHERE workspace_id = $1 AND id = $2";
    let params = [
        ours(cx),
        Param::Int(id.get()),
        Param::Text(url),
        description.into(),
        Param::Text(&types),
        now(cx),
    ];
    tx.execute(sql, &params)?;
    changed_to(tx, cx, &found, "webhook.update")
}

fn changed_to(
    tx: &mut Tx<'_>,
    cx: &Cx,
    before: &Endpoint,
    action: &'static str,
) -> Result<Endpoint, FindError> {
    let after = load(tx, cx, before.id)?;
    let change = Change::new(action, "webhook", before.id).between(told(before), told(&after));
    cx.record_change(tx, &change)?;
    Ok(after)
}

/// As the audit log has it, without its secrets.
fn told(endpoint: &Endpoint) -> Value {
    json!({
        "url": endpoint.url,
        "description": endpoint.description,
        "event_types": serde_json::from_str::<Value>(&endpoint.event_types.to_json()).ok(),
        "disabled": endpoint.disabled.as_ref().map(|disabled| disabled.reason.as_str()),
        "previous_secret_until": endpoint.previous_secret_until.map(|at| at.to_string()),
    })
}

const SELECT: &str =
    "SELECT id, url, description, event_types, disabled_at, disabled_reason, failures,
    failing_since, previous_secret_until, created_at, updated_at
    FROM webhook_endpoints WHERE workspace_id = $1 AND deleted_at IS NULL";

pub(crate) fn load(tx: &mut Tx<'_>, cx: &Cx, id: EndpointId) -> Result<Endpoint, FindError> {
    let rows = tx.query(&format!("{SELECT} AND id = $2"), &[ours(cx), Param::Int(id.get())])?;
    let row = rows.first().ok_or(FindError::Missing(id))?;
    Ok(read(row)?)
}

fn read(row: &Row) -> Result<Endpoint, DatabaseError> {
    let disabled = match (row.optional_time(4)?, row.optional_text(5)?) {
        (Some(at), Some(reason)) => Some(Disabled { at, reason: reason.to_owned() }),
        _ => None,
    };
    let types = EventTypes::from_json(row.text(3)?);
    Ok(Endpoint {
        id: EndpointId::from(row.int(0)?),
        url: row.text(1)?.to_owned(),
        description: row.optional_text(2)?.map(str::to_owned),
        event_types: types.ok_or_else(|| DatabaseError::damaged(3, "event types"))?,
        disabled,
        failures: row.int(6)?,
        failing_since: row.optional_time(7)?,
        previous_secret_until: row.optional_time(8)?,
        created_at: row.time(9)?,
        updated_at: row.time(10)?,
    })
}

fn ours(cx: &Cx) -> Param<'static> {
    Param::Int(cx.workspace_id().get())
}

fn now(cx: &Cx) -> Param<'static> {
    Param::Int(cx.now().as_millisecond())
}

impl Description {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Description {
    type Err = DescriptionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let length = text.chars().count();
        if (1..=200).contains(&length) && !text.chars().any(char::is_control) {
            Ok(Self(text.to_owned()))
        } else {
            Err(DescriptionError)
        }
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
