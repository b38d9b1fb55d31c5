//! The public messages of inboxes, kept in memory for as long as their counts say that nothing has changed.
//!
//! Here: which indexes this node has, how one is loaded and brought up to date, and how much memory they may take. Not
//! here: what an index knows (`index`).

mod index;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidings_access::{Cx, StorageError};
use tidings_kernel::{Query, Workspace, tables};

pub(crate) use self::index::{Index, Known};
use crate::damage::readable;
use crate::keys::{self, InboxKey};
use crate::records::{Public, PublicStats, Stored};

/// How many messages all indexes of a node may hold together, at some 70 bytes each.
const MAX_MESSAGES: usize = 300_000;
/// What an inbox costs beside its messages, in messages.
const COST: usize = 16;
const PAGE: usize = 500;
/// So many that came since are looked for among the newest; for more, all are read.
const FEW: i64 = 100;

type Name = (Workspace, InboxKey);

/// The indexes that this node has.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    slots: HashMap<Name, Slot>,
    /// Counts uses, so that the one that was not used for longest can be told.
    uses: u64,
}

#[derive(Debug, Default)]
struct Slot {
    index: Arc<Index>,
    used: u64,
    /// Held by whoever loads it, so that the others wait instead of loading it too.
    loading: Arc<tokio::sync::Mutex<()>>,
}

impl Indexes {
    /// The public messages of an inbox at these counts or later ones.
    pub(crate) async fn at(
        &self,
        cx: &Cx,
        inbox: &InboxKey,
        stats: PublicStats,
    ) -> Result<Arc<Index>, StorageError> {
        // Nothing was ever published to everyone.
        if stats == PublicStats::default() {
            return Ok(Arc::default());
        }
        let name = (cx.workspace().clone(), inbox.clone());
        let (index, loading) = self.slot(&name);
        if index.stats.rev == stats.rev {
            return Ok(self.in_time(cx, &name, index));
        }
        let _alone = loading.lock().await;
        let (index, _) = self.slot(&name);
        if index.stats.rev == stats.rev {
            return Ok(self.in_time(cx, &name, index));
        }
        // Somebody may have loaded a later one meanwhile. Read once more, so that none is taken for later that is not.
        let partition = keys::public(cx.workspace(), inbox);
        let items = cx.items().await?;
        let counts = items.get(&tables::INBOX, &keys::counts(&partition)).await?;
        let stats = PublicStats::read(counts.as_ref())?;
        if index.stats.rev == stats.rev {
            return Ok(self.in_time(cx, &name, index));
        }
        let index = match newest(cx, &partition, &index, &stats).await? {
            Some(index) => index,
            None => Index::new(stats, every(cx, &partition).await?, cx.now()),
        };
        Ok(self.keep(&name, Arc::new(index)))
    }

    fn slot(&self, name: &Name) -> (Arc<Index>, Arc<tokio::sync::Mutex<()>>) {
        let mut kept = self.kept();
        kept.uses += 1;
        let used = kept.uses;
        let slot = kept.slots.entry(name.clone()).or_default();
        slot.used = used;
        (Arc::clone(&slot.index), Arc::clone(&slot.loading))
    }

    /// Without what has expired since it was made.
    fn in_time(&self, cx: &Cx, name: &Name, index: Arc<Index>) -> Arc<Index> {
        match index.at(cx.now()) {
            Some(later) => self.keep(name, Arc::new(later)),
            None => index,
        }
    }

    fn keep(&self, name: &Name, index: Arc<Index>) -> Arc<Index> {
        let mut kept = self.kept();
        let slot = kept.slots.entry(name.clone()).or_default();
        slot.index = Arc::clone(&index);
        kept.make_room(MAX_MESSAGES);
        index
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Forgets those that were not used for longest. Who uses one keeps it for as long as he does.
    fn make_room(&mut self, max: usize) {
        let mut size: usize = self.slots.values().map(|slot| slot.index.len() + COST).sum();
        while size > max {
            let oldest = self.slots.iter().min_by_key(|(_, slot)| slot.used);
            let Some((name, gone)) = oldest.map(|(name, slot)| (name.clone(), slot.index.len()))
            else {
                return;
            };
            self.slots.remove(&name);
            size -= gone + COST;
        }
    }
}

/// The index with what came since, if that is little and among the newest: ids follow the clocks of those who published, and `seq` the
/// order in which they did.
async fn newest(
    cx: &Cx,
    partition: &str,
    index: &Index,
    stats: &PublicStats,
) -> Result<Option<Index>, StorageError> {
    let known = &index.stats;
    let came = stats.issued - known.issued;
    if known.rev == 0 || !(0..=FEW).contains(&came) || stats.redactions != known.redactions {
        return Ok(None);
    }
    let mut found = Vec::new();
    if came > 0 {
        let query = Query::new(&tables::INBOX, partition).begins_with(keys::MESSAGES).backward();
        let limit = usize::try_from(came).unwrap_or_default() + 10;
        let page = cx.items().await?.query(query.limit(limit)).await?;
        for item in &page.items {
            found.extend(readable(cx, item).and_then(Stored::public));
        }
    }
    Ok(index.and(stats.clone(), found, cx.now()))
}

/// All that is stored.
async fn every(cx: &Cx, partition: &str) -> Result<Vec<Public>, StorageError> {
    let items = cx.items().await?;
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let query = Query::new(&tables::INBOX, partition).begins_with(keys::MESSAGES);
        let page = items.query(query.limit(PAGE).after(cursor)).await?;
        for item in &page.items {
            let public = readable(cx, item).and_then(Stored::public);
            // The contents may be large, and there may be many of them.
            found.extend(public.map(|mut public| {
                public.message.content = None;
                public
            }));
        }
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(found);
        }
    }
}
