//! Compiled versions, kept between mails. They never change, so nothing has to be thrown away but for room.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tidings_access::{Cx, StorageError, WorkspaceId};

use super::key::TemplateKey;
use super::read::load;
use super::store::{Stored, current};

/// How many versions are kept.
const KEPT: usize = 200;

type Place = (WorkspaceId, TemplateKey, i64);

/// The templates of all workspaces. A clone shares what is kept.
#[derive(Clone, Default)]
pub struct Templates {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    versions: HashMap<Place, Arc<Stored>>,
    /// The oldest first.
    order: VecDeque<Place>,
}

impl Templates {
    /// The active version: one read of the store when it was used before. `None` if nothing is active under this key.
    pub async fn active(
        &self,
        cx: &Cx,
        key: &TemplateKey,
    ) -> Result<Option<Arc<Stored>>, StorageError> {
        let items = cx.items().await?;
        let version = current(items.as_ref(), key).await?.and_then(|current| current.active);
        match version {
            Some(version) => self.version(cx, key, version).await,
            None => Ok(None),
        }
    }

    /// A version, active or not: what was promised to go out.
    pub async fn version(
        &self,
        cx: &Cx,
        key: &TemplateKey,
        version: i64,
    ) -> Result<Option<Arc<Stored>>, StorageError> {
        let place = (cx.workspace_id(), key.clone(), version);
        if let Some(kept) = self.lock().versions.get(&place) {
            return Ok(Some(Arc::clone(kept)));
        }
        let items = cx.items().await?;
        let Some(stored) = load(items.as_ref(), key, version).await? else { return Ok(None) };
        let stored = Arc::new(stored);
        let mut kept = self.lock();
        if kept.versions.insert(place.clone(), Arc::clone(&stored)).is_none() {
            kept.order.push_back(place);
        }
        while kept.order.len() > KEPT {
            if let Some(oldest) = kept.order.pop_front() {
                kept.versions.remove(&oldest);
            }
        }
        Ok(Some(stored))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
