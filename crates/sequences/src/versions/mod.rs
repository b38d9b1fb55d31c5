//! The sequences of a workspace, and every version of what they are.
//!
//! A version never changes: whoever walks through one walks through what it was when he began. Here: putting a version,
//! which one is active, whether people come in, and which events matter to which sequence. What a definition names has to
//! be there when it is put (`check`). Not here: the definition itself (`crate::definition`), and what an event does
//! (`crate::events`).

mod check;
mod compiled;
mod look;
mod store;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use tidings_access::{ClientId, Cx, Slug, StorageError};
use tidings_delivery::canonical;
use tidings_delivery::templates::TemplateKey;
use tidings_sql::DatabaseError;

use crate::definition::{Definition, Fault, to_json};

pub use compiled::{Active, Versions};
pub use look::{List, Shown, VersionSummary, definition_of, list, show, versions};
pub(crate) use look::{Listener, Role, listeners};

/// A sequence, as a list has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// What it is called by everybody else.
    pub id: String,
    pub name: Option<String>,
    pub client: ClientId,
    /// What the client is called.
    pub client_slug: String,
    pub transactional: bool,
    /// The event with which people come in.
    pub trigger: Option<String>,
    pub version: i64,
    pub status: Status,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Whether people come into a sequence. Whoever is in it goes on, whatever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Active,
    Paused,
    /// Put away: it does nothing until it is put again.
    Archived,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use one of active, paused, archived")]
pub struct StatusError;

/// What a put did, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Created,
    /// There is a new version, or what was put away is active again.
    Changed,
    Unchanged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Put {
    pub change: Change,
    /// The one that is active now.
    pub version: i64,
    pub status: Status,
}

/// What a put would do.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    pub change: Change,
    /// The one that would be active.
    pub version: i64,
    /// What is active.
    pub before: Option<Value>,
}

/// What will be there when a definition is put: others write it first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coming {
    pub templates: BTreeSet<TemplateKey>,
    pub audiences: BTreeSet<Slug>,
    pub topics: BTreeSet<Slug>,
    pub segments: BTreeSet<Slug>,
}

#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error("the definition names what is not there")]
    Faults(Vec<Fault>),
    #[error("the sequence could not be saved")]
    Store(#[from] StorageError),
}

impl From<DatabaseError> for PutError {
    fn from(error: DatabaseError) -> Self {
        Self::Store(error.into())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SetStatusError {
    #[error("there is no sequence {0}")]
    Missing(String),
    #[error("the sequence could not be changed")]
    Store(#[from] DatabaseError),
}

/// Makes a definition the active one. The same again changes nothing; whoever is in the sequence stays with his version.
pub async fn put(cx: &Cx, definition: Definition) -> Result<Put, PutError> {
    let put = put_unless_of_another(cx, &definition, None).await?;
    Ok(put.ok_or(StorageError::from(DatabaseError::NoRow))?)
}

/// The same on behalf of one client: what another client has under this id stays as it is. `None` says so.
pub async fn put_of(
    cx: &Cx,
    client: ClientId,
    definition: &Definition,
) -> Result<Option<Put>, PutError> {
    put_unless_of_another(cx, definition, Some(client)).await
}

async fn put_unless_of_another(
    cx: &Cx,
    definition: &Definition,
    only_of: Option<ClientId>,
) -> Result<Option<Put>, PutError> {
    let named = check::check(cx, definition, &Coming::default()).await?;
    let new = Arc::new(store::New::of(definition, named));
    let within = cx.clone();
    let write = cx.database().write(move |tx| store::put(tx, &within, &new, only_of));
    write.await
}

/// Says what a put would do, and writes nothing. The templates that come with it count as if they were there.
pub async fn compare(
    cx: &Cx,
    definition: &Definition,
    coming: &BTreeSet<TemplateKey>,
) -> Result<Compared, PutError> {
    let coming = Coming { templates: coming.clone(), ..Coming::default() };
    compare_with(cx, definition, &coming).await
}

/// The same where audiences and topics come with it, too.
pub async fn compare_with(
    cx: &Cx,
    definition: &Definition,
    coming: &Coming,
) -> Result<Compared, PutError> {
    check::check(cx, definition, coming).await?;
    let hash = canonical::hash(&to_json(definition));
    let Some(Shown { sequence, definition: before, hash: active }) =
        show(cx, definition.id.as_str()).await.map_err(StorageError::from)?
    else {
        return Ok(Compared { change: Change::Created, version: 1, before: None });
    };
    let (change, version) = if active != hash {
        let last = look::last_version(cx, definition.id.as_str()).await;
        (Change::Changed, last.map_err(StorageError::from)? + 1)
    } else if sequence.status == Status::Archived {
        (Change::Changed, sequence.version)
    } else {
        (Change::Unchanged, sequence.version)
    };
    Ok(Compared { change, version, before: Some(before) })
}

/// Lets people in again, lets nobody in, or puts a sequence away. Doing it twice changes nothing.
pub async fn set_status(cx: &Cx, id: &str, status: Status) -> Result<Sequence, SetStatusError> {
    let (within, slug) = (cx.clone(), id.to_owned());
    let change = cx.database().write(move |tx| store::set_status(tx, &within, &slug, status));
    let known: bool = change.await?;
    let missing = || SetStatusError::Missing(id.to_owned());
    if !known {
        return Err(missing());
    }
    look::find(cx, id).await?.ok_or_else(missing)
}

impl Status {
    pub const ALL: [Self; 3] = [Self::Active, Self::Paused, Self::Archived];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Archived => "archived",
        }
    }
}

impl FromStr for Status {
    type Err = StatusError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or(StatusError)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Change {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
        }
    }
}
