//! The audit log: who changed what, when, from what to what. One row for each change, which nobody can alter.
//!
//! Here: who it can be, what is told of a change, and how its row comes into the transaction that makes it. A change of
//! relations writes its row itself (`Cx::record_change`). A change of items cannot: it takes a message for the queue
//! `audit-entries` into its transaction (`Cx::audited`), and a worker writes the row, once (`later`). Reading is in
//! `list`. Not here: what is worth telling of each thing; whoever changes it knows that.
//!
//! What is told names ids, states and settings, and never a person: no address, no subject, no text.

mod later;
mod list;
#[cfg(test)]
mod tests;

use std::fmt;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tidings_kernel::hex;
use tidings_sql::{DatabaseError, Param, Tx};

use crate::keys::PublicId;
use crate::rows::WorkspaceId;

pub use later::handler;
pub(crate) use later::outgoing;
pub use list::{Filter, Listed, Position, list, list_of_installation};

/// On whose behalf something is done.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Actor {
    Key(PublicId),
    /// Somebody with access to the machine, by the command line.
    Operator,
    /// A worker, by itself: because of a message in a queue or of the time.
    Worker,
    /// Somebody who uses an app, by a token of his inbox.
    User,
}

/// As the audit log has it.
impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => write!(f, "key:{id}"),
            Self::Operator => f.write_str("operator"),
            Self::Worker => f.write_str("worker"),
            Self::User => f.write_str("user"),
        }
    }
}

/// One change: what was done to what, and what it was before and is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// `<area>.<verb>`, in lower-case letters and underscores: `client.disable`.
    pub action: &'static str,
    pub target_type: &'static str,
    pub target_id: String,
    /// An object. Nothing, if there was no such thing before, or nothing is to be told.
    pub before: Option<Value>,
    /// The same, of what there is now.
    pub after: Option<Value>,
}

impl Change {
    /// The most bytes of a state, as JSON. Of a longer one only its size and its hash are kept.
    pub const MAX_STATE_BYTES: usize = 16 * 1024;
    const MAX_TARGET: usize = 255;

    pub fn new(
        action: &'static str,
        target_type: &'static str,
        target_id: impl fmt::Display,
    ) -> Self {
        Self { action, target_type, target_id: target_id.to_string(), before: None, after: None }
    }

    #[must_use]
    pub fn before(self, state: Value) -> Self {
        Self { before: Some(state), ..self }
    }

    #[must_use]
    pub fn after(self, state: Value) -> Self {
        Self { after: Some(state), ..self }
    }

    /// Only what is not the same in both, which is what a reader looks for. What was the same in both stays where
    /// nothing differs, so that the entry says something.
    #[must_use]
    pub fn between(self, before: Value, after: Value) -> Self {
        let (Value::Object(mut old), Value::Object(mut new)) = (before.clone(), after.clone())
        else {
            return self.before(before).after(after);
        };
        if old == new {
            return self.before(before).after(after);
        }
        old.retain(|name, value| after.get(name) != Some(value));
        new.retain(|name, value| before.get(name) != Some(value));
        self.before(Value::Object(old)).after(Value::Object(new))
    }

    /// What the column and the queue can hold.
    fn target(&self) -> String {
        let fits = self.target_id.chars().count() <= Self::MAX_TARGET;
        if fits && !self.target_id.trim().is_empty() {
            return self.target_id.clone();
        }
        format!("sha256:{}", hex(&Sha256::digest(&self.target_id)))
    }
}

/// A state as it is kept: bounded, an object, and of characters that every queue can carry.
fn kept(state: Option<&Value>) -> Option<Value> {
    let state = state?;
    let object = if state.is_object() { state.clone() } else { json!({ "value": state }) };
    let text = object.to_string();
    if text.len() > Change::MAX_STATE_BYTES {
        return Some(json!({ "bytes": text.len(), "sha256": hex(&Sha256::digest(&text)) }));
    }
    let uncarried = ['\u{fffe}', '\u{ffff}'];
    if text.contains(uncarried) {
        return serde_json::from_str(&text.replace(uncarried, "\u{fffd}")).ok();
    }
    Some(object)
}

/// Who does something, as the log tells it.
#[derive(Clone, Copy)]
pub(crate) struct Who<'a> {
    pub(crate) actor: &'a Actor,
    /// Whose name the caller gives it.
    pub(crate) said_by: Option<&'a str>,
}

impl Who<'_> {
    pub(crate) const OPERATOR: Self = Self { actor: &Actor::Operator, said_by: None };
}

/// What there is now as it is kept, and in whose name it was made so.
fn kept_after(change: &Change, said_by: Option<&str>) -> Option<Value> {
    let after = kept(change.after.as_ref());
    let Some(Value::Object(by)) = said_by.and_then(|who| kept(Some(&json!({ "by": who })))) else {
        return after;
    };
    let mut after = match after {
        Some(Value::Object(after)) => after,
        _ => Map::new(),
    };
    after.extend(by);
    Some(Value::Object(after))
}

/// A row on its way into the log.
pub(crate) struct Entry<'a> {
    /// Nothing, if it concerns the whole installation.
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) actor: &'a str,
    pub(crate) action: &'a str,
    pub(crate) target_type: &'a str,
    pub(crate) target_id: &'a str,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
    pub(crate) at: Timestamp,
    /// Makes it once, however often its message comes. What is written in its own transaction needs none.
    pub(crate) entry_id: Option<&'a str>,
}

/// Writes down who did what, in the transaction that does it.
pub(crate) fn record(
    tx: &mut Tx<'_>,
    (workspace, who, at): (Option<WorkspaceId>, Who<'_>, Timestamp),
    change: &Change,
) -> Result<(), DatabaseError> {
    let (actor, target) = (who.actor.to_string(), change.target());
    let entry = Entry {
        workspace,
        actor: &actor,
        action: change.action,
        target_type: change.target_type,
        target_id: &target,
        before: kept(change.before.as_ref()),
        after: kept_after(change, who.said_by),
        at,
        entry_id: None,
    };
    insert(tx, &entry).map(drop)
}

/// Whether it is new.
fn insert(tx: &mut Tx<'_>, entry: &Entry<'_>) -> Result<bool, DatabaseError> {
    let sql = "INSERT INTO audit_log (workspace_id, actor, action, target_type, target_id, state_before, state_after,
                   happened_at, entry_id)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (entry_id) DO NOTHING";
    let before = entry.before.as_ref().map(Value::to_string);
    let after = entry.after.as_ref().map(Value::to_string);
    let params = [
        entry.workspace.map_or(Param::Null, |id| Param::Int(id.get())),
        Param::Text(entry.actor),
        Param::Text(entry.action),
        Param::Text(entry.target_type),
        Param::Text(entry.target_id),
        before.as_deref().map_or(Param::Null, Param::Text),
        after.as_deref().map_or(Param::Null, Param::Text),
        Param::Int(entry.at.as_millisecond()),
        entry.entry_id.map_or(Param::Null, Param::Text),
    ];
    Ok(tx.execute(sql, &params)? > 0)
}
