//! The rules of workspaces as a worker has them at hand: read again only when they have changed.
//!
//! Whoever changes rules counts the workspace's revision up in the same transaction. Every event looks at that one item, so what it
//! is held against is what counts on every node, and the sets themselves (up to 3 MB) are not read for each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidings_access::{Cx, StorageError};

use super::RuleSet;
use super::kept::{self, Kept};

/// With more workspaces, or more bytes of rules as they are written, all others are forgotten.
const MOST_WORKSPACES: usize = 1_000;
const MOST_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Default)]
pub(in crate::memory) struct Known(Mutex<HashMap<i64, Read>>);

#[derive(Debug, Clone)]
struct Read {
    revision: i64,
    sets: Arc<[RuleSet]>,
    bytes: usize,
}

impl Known {
    /// The rules that events of this workspace are held against now.
    pub(in crate::memory) async fn of(&self, cx: &Cx) -> Result<Arc<[RuleSet]>, StorageError> {
        // Read first: what changes after it has another revision for the next event.
        let revision = kept::revision(cx).await?;
        let workspace = cx.workspace_id().get();
        if let Some(read) = self.read_at(workspace, revision) {
            return Ok(read);
        }
        let sets: Arc<[RuleSet]> =
            kept::list(cx).await?.into_iter().map(|Kept { set, .. }| set).collect();
        let bytes = sets.iter().map(|set| set.to_json().to_string().len()).sum();
        self.keep(workspace, Read { revision, sets: Arc::clone(&sets), bytes });
        Ok(sets)
    }

    fn read_at(&self, workspace: i64, revision: i64) -> Option<Arc<[RuleSet]>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = all.get(&workspace).filter(|read| read.revision == revision)?;
        Some(Arc::clone(&read.sets))
    }

    fn keep(&self, workspace: i64, read: Read) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(workspace, read);
        let bytes: usize = all.values().map(|read| read.bytes).sum();
        if all.len() > MOST_WORKSPACES || bytes > MOST_BYTES {
            all.retain(|known, _| *known == workspace);
        }
    }
}
