//! Counting anew a little at a time, for as long as a server runs: so that a count that is wrong does not wait for somebody to ask.

use std::sync::Arc;

use tidings_access::{Access, Cx, Limit, StorageError, workspaces};
use tidings_kernel::{Cursor, Item, Key, Put, StoreError, Workspace, causes, tables};

use crate::Inbox;
use crate::keys::{self, Partition, UserId};
use crate::verify::{gauge, verify_some};

/// So much of each workspace is counted in one round at least, in pages of 500 items.
const PAGES: i64 = 10;
/// Of a pass that is long, this part of what was done so far: so a round is longer the more there is, and a pass ends after days.
const PART: i64 = 50;
/// And no more than this, whatever there is.
const MAX_PAGES: i64 = 2_000;

/// Goes through all workspaces, again and again. Where it is, is written down, so that it goes on there after a restart, on whichever
/// node that is. What one node has seen, another may see too: that is no harm.
pub struct Patrol {
    access: Access,
    inbox: Arc<Inbox>,
}

/// Where it is in a workspace.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Place {
    /// The item that was looked at last.
    last: Option<Key>,
    /// How many pages of the pass that is under way are done.
    done: i64,
    /// What was wrong in the pass that is under way, and in the one before.
    found: i64,
    before: i64,
}

impl Patrol {
    pub fn new(access: Access, inbox: Arc<Inbox>) -> Self {
        Self { access, inbox }
    }

    /// The next part of every workspace. Tells how many inboxes that were.
    pub async fn round(&mut self) -> Result<u64, StorageError> {
        let (mut count, mut after) = (0, None);
        loop {
            let page = workspaces::list(&self.access, after, Limit::MAX).await?;
            for workspace in page.items {
                count += self.look(workspace.name).await?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(count);
            }
        }
    }

    async fn look(&self, workspace: Workspace) -> Result<u64, StorageError> {
        let Some(cx) = self.access.working_in(&workspace).await? else { return Ok(0) };
        match self.go_on(&cx).await {
            Ok(inboxes) => Ok(inboxes),
            Err(error) => {
                // It goes on from the same place next time, and the others are looked at all the same.
                let error = causes(&error);
                tracing::warn!(%workspace, error, "Inboxes could not be counted anew");
                Ok(0)
            }
        }
    }

    async fn go_on(&self, cx: &Cx) -> Result<u64, StorageError> {
        let place = Place::load(cx).await?;
        let pages = (place.done / PART).clamp(PAGES, MAX_PAGES);
        let from = place.last.as_ref().and_then(after);
        let at_once = usize::try_from(pages).unwrap_or(1);
        let (verified, next) = verify_some(cx, &self.inbox, from, at_once).await?;
        let found = place.found + i64::try_from(verified.drifts).unwrap_or(i64::MAX);
        let next = match next {
            Some(next) => {
                let (last, _) = next.position(&tables::INBOX, None).map_err(StoreError::from)?;
                Place { last: Some(last), done: place.done + pages, found, ..place }
            }
            None => Place { before: found, ..Place::default() },
        };
        next.keep(cx).await?;
        gauge(cx, u64::try_from(next.found.max(next.before)).unwrap_or(0));
        Ok(verified.inboxes)
    }
}

/// Begins anew if it has come to this user, because his id is in the place.
pub(crate) async fn forget(cx: &Cx, user: &UserId) -> Result<(), StorageError> {
    let place = Place::load(cx).await?;
    let partition = place.last.and_then(|last| Partition::parse(cx.workspace(), &last.partition));
    if matches!(partition, Some(Partition::User { uid, .. }) if uid == *user) {
        Place::default().keep(cx).await?;
    }
    Ok(())
}

/// Everything was counted anew, and so many counts are wrong still: no more than these were found.
pub(crate) async fn has_been_verified(cx: &Cx, left: u64) -> Result<(), StorageError> {
    let (place, left) = (Place::load(cx).await?, i64::try_from(left).unwrap_or(i64::MAX));
    let found = place.found.min(left);
    if (place.found, place.before) != (found, left) {
        Place { found, before: left, ..place }.keep(cx).await?;
    }
    Ok(())
}

/// A place that nobody can read is the beginning.
fn after(last: &Key) -> Option<Cursor> {
    Cursor::after(&tables::INBOX, None, &tables::INBOX.bare_item(last)).ok()
}

impl Place {
    async fn load(cx: &Cx) -> Result<Self, StorageError> {
        let found = cx.items().await?.get(&tables::INBOX, &keys::patrol(cx.workspace())).await?;
        Ok(found.as_ref().map(Self::read).unwrap_or_default())
    }

    fn read(item: &Item) -> Self {
        let text = |name| item.text(name).map(ToOwned::to_owned);
        let number = |name| item.integer(name).unwrap_or(0).max(0);
        Self {
            last: text("partition").zip(text("sort")).map(|(pk, sk)| Key::new(pk, sk)),
            done: number("done"),
            found: number("found"),
            before: number("before"),
        }
    }

    async fn keep(&self, cx: &Cx) -> Result<(), StorageError> {
        let mut item = tables::INBOX.bare_item(&keys::patrol(cx.workspace()));
        item.set("kind", "patrol");
        if let Some(Key { partition, sort: Some(sort) }) = &self.last {
            item.set("partition", partition.as_str());
            item.set("sort", sort.as_str());
        }
        item.set("done", self.done);
        item.set("found", self.found);
        item.set("before", self.before);
        cx.items().await?.put(Put::new(&tables::INBOX, item)).await?;
        Ok(())
    }
}
