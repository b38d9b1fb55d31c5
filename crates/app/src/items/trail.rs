//! What is done to items by hand, in the audit log: before it is done, so that nothing is gone without a trace.
//!
//! Items are people's, and an entry stays for good: so it tells the table, the kind of the key and the names of the attributes,
//! and nothing of what is in them.

use std::sync::Arc;

use serde_json::{Value, json};
use tidings_access::workspaces::{self, FindError};
use tidings_access::{Access, Actor, Change};
use tidings_kernel::{Item, Key, SystemClock, Table, Workspace};

use crate::failure::Failure;
use crate::store::Store;

pub(super) struct Trail {
    /// Where there are no relations there is no log.
    access: Option<Access>,
    workspace: Workspace,
}

impl Trail {
    pub(super) fn new(store: &Store, workspace: Workspace) -> Self {
        let access = store.database.as_ref().map(|database| {
            Access::new(database.clone(), Arc::clone(&store.engine), Arc::new(SystemClock))
        });
        Self { access, workspace }
    }

    pub(super) async fn put(
        &self,
        table: &Table,
        key: &Key,
        before: Option<&Item>,
        item: &Item,
    ) -> Result<(), Failure> {
        let change = self.change("items.put", table).after(told(key, item));
        let before = before.map(|before| told(key, before));
        self.write_down(Change { before, ..change }).await
    }

    /// One entry for all of them, as an import leaves one.
    pub(super) async fn put_many(&self, table: &Table) -> Result<(), Failure> {
        let change = self.change("items.put", table).after(json!({ "from": "stdin" }));
        self.write_down(change).await
    }

    pub(super) async fn delete(
        &self,
        table: &Table,
        key: &Key,
        item: &Item,
    ) -> Result<(), Failure> {
        self.write_down(self.change("items.delete", table).before(told(key, item))).await
    }

    fn change(&self, action: &'static str, table: &Table) -> Change {
        Change::new(action, "table", format!("{}/{}", self.workspace, table.name))
    }

    /// In the log of the workspace; or in that of the installation, where somebody keeps items without one.
    async fn write_down(&self, change: Change) -> Result<(), Failure> {
        let Some(access) = self.access.clone() else { return Ok(()) };
        let cx = match workspaces::find(&access, self.workspace.clone()).await {
            Ok(found) => Some(access.inside(&found, Actor::Operator)),
            Err(FindError::Missing(_)) => None,
            Err(error @ FindError::Store(_)) => return Err(error.into()),
        };
        let database = access.database().clone();
        let write = database.write(move |tx| match &cx {
            Some(cx) => cx.record_change(tx, &change),
            None => access.record_change(tx, &change),
        });
        Ok(write.await?)
    }
}

fn told(key: &Key, item: &Item) -> Value {
    let attributes: Vec<_> = item.iter().map(|(name, _)| name).collect();
    let sort = key.sort.as_deref().map(kind);
    json!({ "partition": kind(&key.partition), "sort": sort, "attributes": attributes, "bytes": item.size() })
}

/// Up to its first number sign a key says what it is, and then whose.
fn kind(key: &str) -> String {
    let is_word = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    match key.split_once('#') {
        Some((kind, _)) => format!("{kind}#…"),
        None if key.chars().all(is_word) => key.to_owned(),
        None => "…".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::kind;

    #[test]
    fn a_key_tells_what_it_is_and_not_whose() {
        for (key, told) in [
            ("SUB#ada@example.org", "SUB#…"),
            ("PROFILE", "PROFILE"),
            ("t#defaultU#ada#app", "t#…"),
            ("preference#colour", "preference#…"),
            ("7", "7"),
            ("ada@example.org", "…"),
            ("ada", "…"),
        ] {
            assert_eq!(kind(key), told);
        }
    }
}
