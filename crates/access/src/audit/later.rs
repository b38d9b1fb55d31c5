//! Changes of items: the entry travels through the queue `audit-entries`, in the transaction of the change, and its row
//! is written once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tidings_jobs::contracts::{AuditEntry, Contract as _, Object};
use tidings_jobs::{Handler, Outcome, Work, for_contract};
use tidings_kernel::{Outgoing, hex, queues};
use tidings_sql::DatabaseError;

use super::{Change, Entry, insert, kept, kept_after};
use crate::access::{Access, Cx};

/// How long an entry waits while the database cannot be used.
const STORE_PAUSE: Duration = Duration::from_secs(15);

/// The message that a transaction takes with it.
pub(crate) fn outgoing(cx: &Cx, change: &Change) -> Outgoing {
    let mut id = [0; 16];
    getrandom::fill(&mut id).expect("the system gives random numbers");
    let entry = AuditEntry {
        workspace: cx.workspace().clone(),
        entry_id: hex(&id),
        actor: cx.actor().to_string(),
        action: change.action.to_owned(),
        target_type: change.target_type.to_owned(),
        target_id: change.target(),
        before: kept(change.before.as_ref()).and_then(object),
        after: kept_after(change, cx.said_by.as_deref()).and_then(object),
        happened_at: cx.now(),
    };
    let body = entry.to_body().expect("every field is bounded above");
    Outgoing::new(&queues::AUDIT_ENTRIES, body)
}

fn object(state: Value) -> Option<Object> {
    match state {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// Who works on the queue `audit-entries`.
pub fn handler(access: Access) -> Arc<dyn Handler> {
    for_contract(Writer(access))
}

struct Writer(Access);

#[async_trait]
impl Work<AuditEntry> for Writer {
    async fn work(&self, entry: AuditEntry) -> Outcome {
        match self.write(entry).await {
            Ok(true) => Outcome::Done,
            Ok(false) => Outcome::dead("there is no such workspace"),
            Err(error) => {
                let why = format!("the entry could not be written: {error}");
                // A database that is away is no fault of the entry, and uses up none of its tries.
                if error.is_passing() {
                    Outcome::wait(why, STORE_PAUSE)
                } else {
                    Outcome::retry(why)
                }
            }
        }
    }
}

impl Writer {
    /// Whether there is such a workspace. An entry that is there already is left as it is.
    async fn write(&self, entry: AuditEntry) -> Result<bool, DatabaseError> {
        let Some(cx) = self.0.working_in(&entry.workspace).await? else { return Ok(false) };
        let workspace = cx.workspace_id();
        let write = self.0.database.write(move |tx| {
            let row = Entry {
                workspace: Some(workspace),
                actor: &entry.actor,
                action: &entry.action,
                target_type: &entry.target_type,
                target_id: &entry.target_id,
                before: entry.before.clone().map(Value::Object),
                after: entry.after.clone().map(Value::Object),
                at: entry.happened_at,
                entry_id: Some(&entry.entry_id),
            };
            insert(tx, &row)
        });
        let _new: bool = write.await?;
        Ok(true)
    }
}
