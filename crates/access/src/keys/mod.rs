//! API keys: how a client proves who it is. A client can have several, so that one can be replaced while the
//! other still works.
//!
//! Here: how keys are made, listed and revoked. Not here: who is calling (`authenticate`).

mod granter;
mod rate;
mod secret;

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_sql::{DatabaseError, Param, Row, Tx};

use crate::access::Cx;
use crate::audit::Change;
use crate::clients;
use crate::names::{DisplayName, Slug};
use crate::page::{Limit, Page};
use crate::rows::{ClientId, KeyId, in_millis};
use crate::scopes::{Scope, Scopes};

pub use granter::{Excess, Granter};
pub use rate::{Rate, RateError};
pub(crate) use secret::SecretHash;
pub use secret::{ApiKey, MalformedKey, PublicId};

/// What is known of a key. Its secret is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub id: KeyId,
    pub public_id: PublicId,
    pub client: Slug,
    pub name: DisplayName,
    pub scopes: Scopes,
    pub rate: Rate,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// To the minute.
    pub last_used_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

/// A new key with its secret, which nobody can read again.
#[derive(Debug)]
pub struct Issued {
    pub key: Key,
    pub api_key: ApiKey,
}

#[derive(Debug, Clone)]
pub struct Create {
    pub client: Slug,
    pub name: DisplayName,
    pub scopes: Scopes,
    pub rate: Rate,
    pub expires_at: Option<Timestamp>,
    /// Whoever asks: nobody can give what he does not have.
    pub granted_by: Granter,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("there is no client {0}")]
    ClientMissing(Slug),
    #[error(
        "the client {client} already has a key named {name:?}; revoke it first, or choose another name"
    )]
    Taken { client: Slug, name: String },
    #[error("a key cannot give what it does not have itself: {0}")]
    Beyond(Scopes),
    #[error("a key cannot give more than it has itself: {}", listed(.0))]
    Excessive(Vec<Excess>),
    #[error("the key would be expired already")]
    ExpiryPast,
    #[error("the key could not be saved")]
    Store(#[from] DatabaseError),
}

#[derive(Debug, thiserror::Error)]
pub enum RevokeError {
    #[error("there is no key {0}")]
    Missing(PublicId),
    #[error("the key could not be revoked")]
    Store(#[from] DatabaseError),
}

/// Makes a key. It works at once, and the answer is the only place that ever has its secret: who loses the answer
/// revokes the key, by its name, and makes another.
pub async fn create(cx: &Cx, mut cmd: Create) -> Result<Issued, CreateError> {
    cmd.expires_at = cmd.expires_at.map(in_millis);
    granter::check(&cmd)?;
    if cmd.expires_at.is_some_and(|at| at <= cx.now) {
        return Err(CreateError::ExpiryPast);
    }
    let within = cx.clone();
    let api_key = ApiKey::generate();
    let (public_id, hash) = (api_key.public_id().clone(), api_key.hash());
    let create = cx.database.write(move |tx| {
        let client = clients::load(tx, &within, &cmd.client).map_err(|error| match error {
            clients::FindError::Missing(slug) => CreateError::ClientMissing(slug),
            clients::FindError::Store(error) => CreateError::Store(error),
        })?;
        let key = insert(tx, &within, (client.id, &public_id, &hash), &cmd)?;
        key.ok_or_else(|| CreateError::Taken {
            client: cmd.client.clone(),
            name: cmd.name.as_str().to_owned(),
        })
    });
    Ok(Issued { key: create.await?, api_key })
}

/// The keys of a client in the order in which they were made, revoked ones too.
pub async fn list(
    cx: &Cx,
    client: Slug,
    after: Option<KeyId>,
    limit: Limit,
) -> Result<Page<Key, KeyId>, clients::FindError> {
    let within = cx.clone();
    let list = cx.database.read(move |tx| {
        let client = clients::load(tx, &within, &client)?;
        let sql = format!(
            "{SELECT} WHERE k.workspace_id = $1 AND k.client_id = $2 AND k.id > $3 ORDER BY k.id LIMIT $4"
        );
        let params = [
            Param::Int(within.workspace.get()),
            Param::Int(client.id.get()),
            Param::Int(after.map_or(0, KeyId::get)),
            Param::Int(limit.and_one()),
        ];
        let found = tx.query(&sql, &params)?.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Page::cut(found, limit, |key: &Key| key.id))
    });
    list.await
}

/// From the next request on, the key is refused, for ever; by other nodes within a second. Doing it again changes nothing.
pub async fn revoke(cx: &Cx, public_id: PublicId) -> Result<Key, RevokeError> {
    let within = cx.clone();
    let revoke = cx.database.write(move |tx| {
        let sql = "UPDATE client_api_keys SET revoked_at = $3
                   WHERE workspace_id = $1 AND public_id = $2 AND revoked_at IS NULL";
        let (workspace, id) = (Param::Int(within.workspace.get()), Param::Text(public_id.as_str()));
        let now = Param::Int(within.now.as_millisecond());
        let revoked = tx.execute(sql, &[workspace, id, now])? > 0;
        let sql = format!("{SELECT} WHERE k.workspace_id = $1 AND k.public_id = $2");
        let rows = tx.query(&sql, &[workspace, id])?;
        let row = rows.first().ok_or_else(|| RevokeError::Missing(public_id.clone()))?;
        let key = read(row)?;
        if revoked {
            let change = Change::new("key.revoke", "key", &public_id)
                .before(told(&key, false))
                .after(told(&key, true));
            within.record_change(tx, &change)?;
        }
        Ok(key)
    });
    let revoked = revoke.await;
    cx.callers.forget();
    revoked
}

const SELECT: &str =
    "SELECT k.id, k.public_id, c.slug, k.name, k.scopes, k.requests_per_second, k.burst,
                             k.expires_at, k.revoked_at, k.last_used_at, k.created_at
                      FROM client_api_keys k
                      JOIN clients c ON c.workspace_id = k.workspace_id AND c.id = k.client_id";

/// `None` if the client has a key of that name that is not revoked.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (client, public_id, hash): (ClientId, &PublicId, &SecretHash),
    cmd: &Create,
) -> Result<Option<Key>, DatabaseError> {
    let sql = "INSERT INTO client_api_keys (workspace_id, client_id, public_id, secret_hash, name, scopes,
                   requests_per_second, burst, expires_at, created_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
               ON CONFLICT (client_id, name) WHERE revoked_at IS NULL DO NOTHING RETURNING id";
    let scopes = cmd.scopes.to_json();
    let params = [
        Param::Int(cx.workspace.get()),
        Param::Int(client.get()),
        Param::Text(public_id.as_str()),
        Param::Text(hash.as_str()),
        Param::Text(cmd.name.as_str()),
        Param::Text(&scopes),
        Param::Int(cmd.rate.per_second().into()),
        Param::Int(cmd.rate.burst().into()),
        cmd.expires_at.map_or(Param::Null, |at| Param::Int(at.as_millisecond())),
        Param::Int(cx.now.as_millisecond()),
    ];
    let rows = tx.query(sql, &params)?;
    let Some(row) = rows.first() else { return Ok(None) };
    let key = Key {
        id: KeyId::from(row.int(0)?),
        public_id: public_id.clone(),
        client: cmd.client.clone(),
        name: cmd.name.clone(),
        scopes: cmd.scopes.clone(),
        rate: cmd.rate,
        expires_at: cmd.expires_at,
        revoked_at: None,
        last_used_at: None,
        created_at: cx.now,
    };
    let change = Change::new("key.create", "key", public_id).after(told(&key, false));
    cx.record_change(tx, &change)?;
    Ok(Some(key))
}

/// As the audit log has it. It has no secret.
fn told(key: &Key, revoked: bool) -> Value {
    json!({
        "client": key.client.as_str(),
        "name": key.name.as_str(),
        "scopes": key.scopes.iter().map(Scope::as_str).collect::<Vec<_>>(),
        "requests_per_second": key.rate.per_second(),
        "burst": key.rate.burst(),
        "expires_at": key.expires_at.map(|at| at.to_string()),
        "revoked": revoked,
    })
}

fn listed(excess: &[Excess]) -> String {
    excess.iter().map(Excess::to_string).collect::<Vec<_>>().join("; ")
}

fn read(row: &Row) -> Result<Key, DatabaseError> {
    Ok(Key {
        id: KeyId::from(row.int(0)?),
        public_id: row.parsed(1, "a public id")?,
        client: row.parsed(2, "a slug")?,
        name: row.parsed(3, "a display name")?,
        scopes: read_scopes(row, 4)?,
        rate: read_rate(row, 5)?,
        expires_at: row.optional_time(7)?,
        revoked_at: row.optional_time(8)?,
        last_used_at: row.optional_time(9)?,
        created_at: row.time(10)?,
    })
}

pub(crate) fn read_scopes(row: &Row, column: usize) -> Result<Scopes, DatabaseError> {
    Scopes::from_json(row.text(column)?)
        .ok_or_else(|| DatabaseError::damaged(column, "a list of scopes"))
}

/// Out of two columns, beside each other.
pub(crate) fn read_rate(row: &Row, column: usize) -> Result<Rate, DatabaseError> {
    let rate = Rate::new(row.int(column)?, row.int(column + 1)?);
    rate.map_err(|_| DatabaseError::damaged(column, "a rate"))
}
