//! Who is calling: the one question that every request asks.

use std::sync::Arc;

use jiff::Timestamp;
use tidings_kernel::Workspace;
use tidings_sql::{Database, DatabaseError, Param, Row};

use crate::access::{Access, Cx};
use crate::audit::Actor;
use crate::keys::{self, ApiKey, Granter, PublicId, Rate, SecretHash};
use crate::last_use;
use crate::names::Slug;
use crate::recent::Recent;
use crate::rows::{ClientId, KeyId, WorkspaceId};
use crate::scopes::Scopes;

/// Somebody whose key is good, and what it is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub workspace: Workspace,
    pub workspace_id: WorkspaceId,
    pub client: Slug,
    pub client_id: ClientId,
    pub key_id: KeyId,
    pub public_id: PublicId,
    pub scopes: Scopes,
    pub rate: Rate,
    pub expires_at: Option<Timestamp>,
}

/// Why a key is refused. That is for the log: to the caller all but the last are one.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("it does not look like a key")]
    Malformed,
    #[error("there is no such key")]
    Unknown,
    #[error("its secret is wrong")]
    Wrong,
    #[error("it is revoked")]
    Revoked,
    #[error("it has expired")]
    Expired,
    #[error("its client is disabled")]
    ClientDisabled,
    #[error("its workspace is disabled")]
    WorkspaceDisabled,
    #[error("the key could not be looked up")]
    Store(#[from] DatabaseError),
}

/// Keys that were found good a moment ago.
pub(crate) type Callers = Recent<String, Arc<Found>>;

/// Finds out who presents a key. What is taken away through this process is gone with the next request, and what another one
/// takes away within a second.
pub async fn authenticate(access: &Access, presented: &str) -> Result<Arc<Caller>, AuthError> {
    let api_key: ApiKey = presented.parse().map_err(|_| AuthError::Malformed)?;
    let now = access.now();
    let public_id = api_key.public_id();
    let (found, ticket) = match access.callers.get(public_id.as_str(), now) {
        Ok(found) => (Some(found), None),
        Err(ticket) => (load(&access.database, public_id.clone()).await?, Some(ticket)),
    };
    let proven = api_key.proves(found.as_ref().map(|found| &found.secret_hash));
    let found = admit(found, proven, now)?;
    if let Some(ticket) = ticket {
        let kept = (now, Arc::clone(&found));
        access.callers.keep(&ticket, public_id.as_str().to_owned(), kept);
    }
    let (workspace, key) = (found.caller.workspace_id, found.caller.key_id);
    if access.last_use.is_due(key, found.last_used_at, now) {
        // A key is as good as it was if this cannot be written.
        if let Err(error) = last_use::write(&access.database, workspace, key, now).await {
            tracing::warn!(%error, key.id = key.get(), "The last use of a key was not written");
        }
    }
    Ok(Arc::clone(&found.caller))
}

/// The same caller some time after his key was proven, for what stays open for long: whether the key is still good, and what for.
pub async fn authenticate_again(
    access: &Access,
    public_id: &PublicId,
) -> Result<Arc<Caller>, AuthError> {
    let found = load(&access.database, public_id.clone()).await?;
    admit(found, true, access.now()).map(|found| Arc::clone(&found.caller))
}

impl Access {
    /// What a caller does is done inside his workspace, in his name.
    pub fn on_behalf_of(&self, caller: &Caller) -> Cx {
        let actor = Actor::Key(caller.public_id.clone());
        self.cx(caller.workspace_id, caller.workspace.clone(), actor)
    }
}

impl Caller {
    /// As one who gives keys to others.
    pub fn as_granter(&self) -> Granter {
        Granter::Key { scopes: self.scopes.clone(), rate: self.rate, expires_at: self.expires_at }
    }
}

impl AuthError {
    /// A word for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Wrong => "wrong_secret",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::ClientDisabled => "client_disabled",
            Self::WorkspaceDisabled => "workspace_disabled",
            Self::Store(_) => "store",
        }
    }
}

/// A row, before anything is decided.
pub(crate) struct Found {
    caller: Arc<Caller>,
    secret_hash: SecretHash,
    last_used_at: Option<Timestamp>,
    key_revoked: bool,
    client_disabled: bool,
    workspace_disabled: bool,
}

fn admit(found: Option<Arc<Found>>, proven: bool, now: Timestamp) -> Result<Arc<Found>, AuthError> {
    let found = found.ok_or(AuthError::Unknown)?;
    if !proven {
        return Err(AuthError::Wrong);
    }
    if found.key_revoked {
        return Err(AuthError::Revoked);
    }
    if found.caller.expires_at.is_some_and(|at| at <= now) {
        return Err(AuthError::Expired);
    }
    if found.client_disabled {
        return Err(AuthError::ClientDisabled);
    }
    if found.workspace_disabled {
        return Err(AuthError::WorkspaceDisabled);
    }
    Ok(found)
}

/// The only query that is not limited to a workspace: its answer says which one it is.
async fn load(
    database: &Database,
    public_id: PublicId,
) -> Result<Option<Arc<Found>>, DatabaseError> {
    let sql = "SELECT k.id, k.client_id, k.workspace_id, w.name, c.slug, k.public_id, k.scopes,
                      k.requests_per_second, k.burst, k.secret_hash, k.expires_at, k.last_used_at,
                      k.revoked_at, c.disabled_at, w.disabled_at
               FROM client_api_keys k
               JOIN clients c ON c.workspace_id = k.workspace_id AND c.id = k.client_id
               JOIN workspaces w ON w.id = k.workspace_id
               WHERE k.public_id = $1";
    let load = database.glance(move |tx| {
        let rows = tx.query(sql, &[Param::Text(public_id.as_str())])?;
        rows.first().map(|row| read(row).map(Arc::new)).transpose()
    });
    load.await
}

fn read(row: &Row) -> Result<Found, DatabaseError> {
    Ok(Found {
        caller: Arc::new(Caller {
            key_id: KeyId::from(row.int(0)?),
            client_id: ClientId::from(row.int(1)?),
            workspace_id: WorkspaceId(row.int(2)?),
            workspace: row.parsed(3, "the name of a workspace")?,
            client: row.parsed(4, "a slug")?,
            public_id: row.parsed(5, "a public id")?,
            scopes: keys::read_scopes(row, 6)?,
            rate: keys::read_rate(row, 7)?,
            expires_at: row.optional_time(10)?,
        }),
        secret_hash: SecretHash::stored(row.text(9)?),
        last_used_at: row.optional_time(11)?,
        key_revoked: row.optional_time(12)?.is_some(),
        client_disabled: row.optional_time(13)?.is_some(),
        workspace_disabled: row.optional_time(14)?.is_some(),
    })
}
