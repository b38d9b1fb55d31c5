//! The first workspace, its first client and its first key, which can do everything.

use tidings_kernel::Workspace;
use tidings_sql::DatabaseError;

use crate::access::Access;
use crate::audit::Actor;
use crate::clients::{self, Client};
use crate::keys::{self, ApiKey, Granter, Issued, Rate};
use crate::names::{DisplayName, Slug};
use crate::scopes::Scopes;
use crate::workspaces::{self, Registration};

#[derive(Debug, Clone)]
pub struct Bootstrap {
    pub workspace: Workspace,
    pub client: Slug,
}

#[derive(Debug)]
pub struct Bootstrapped {
    pub workspace: Registration,
    pub client: Client,
    pub issued: Issued,
}

#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    #[error("this was done before: there is already a workspace, {0}")]
    Done(Workspace),
    #[error("the first workspace could not be saved")]
    Store(#[from] DatabaseError),
}

/// Makes all three, or nothing. Who loses the key does not come here again: an operator makes another one.
pub async fn bootstrap(access: &Access, cmd: Bootstrap) -> Result<Bootstrapped, BootstrapError> {
    let at = access.clone();
    let api_key = ApiKey::generate();
    let (public_id, hash) = (api_key.public_id().clone(), api_key.hash());
    let made = access.database.write(move |tx| {
        let sql = "SELECT name FROM workspaces ORDER BY id LIMIT 1";
        if let Some(row) = tx.query(sql, &[])?.first() {
            return Err(BootstrapError::Done(row.parsed(0, "a workspace's name")?));
        }
        let workspace = workspaces::insert(tx, &cmd.workspace, at.now())?;
        let workspace = workspace.ok_or(BootstrapError::Done(cmd.workspace.clone()))?;
        let cx = at.inside(&workspace, Actor::Operator);
        let name = DisplayName::from(&cmd.client);
        let create = clients::Create { slug: cmd.client.clone(), name };
        let client = clients::insert(tx, &cx, &create)?.ok_or(DatabaseError::NoRow)?;
        let create = keys::Create {
            client: client.slug.clone(),
            name: "bootstrap".parse().expect("it is a good name"),
            scopes: Scopes::all(),
            rate: Rate::default(),
            expires_at: None,
            granted_by: Granter::Operator,
        };
        let key = keys::insert(tx, &cx, (client.id, &public_id, &hash), &create)?;
        Ok((workspace, client, key.ok_or(DatabaseError::NoRow)?))
    });
    let (workspace, client, key) = made.await?;
    Ok(Bootstrapped { workspace, client, issued: Issued { key, api_key } })
}
