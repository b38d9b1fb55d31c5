//! Counting out what has expired.
//!
//! The store removes what is past its time and tells it in the change stream, with the item as it was. From there follows
//! what it had added to the counts, and one transaction takes that back and leaves a mark that it did. So each is counted
//! out once, however often the stream tells of it and however many nodes listen.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt as _, stream};
use jiff::ToSpan as _;
use tidings_access::{Access, Cx, Limit, StorageError, workspaces};
use tidings_kernel::{
    Cancellation, Change, ChangeKind, Condition, Expect, ItemEngine, StoreError, Txn, Workspace,
    causes, tables,
};

use crate::Inbox;
use crate::balance::{Balance, category_of};
use crate::counting::{Counting, still};
use crate::damage::{passed_over, readable};
use crate::ids::MessageId;
use crate::keys::{self, Partition, Sort};
use crate::race::{ATTEMPTS, lost};
use crate::records::{EXPIRY, Stored};
use crate::rules::Difference;
use crate::timeline::{self, Fate};

/// Who reads the stream.
pub const CONSUMER: &str = "inbox-expiry";
/// So many changes are dealt with before they are acknowledged.
const BATCH: usize = 200;
/// So many batches of a workspace are read before others have their turn.
const MAX_BATCHES: usize = 500;
/// So many partitions are dealt with at once.
const AT_ONCE: usize = 16;
/// So many that expired in one partition are counted out at once, with a mark for each, and perhaps a category and a word to
/// the timeline for each.
const TOGETHER: usize = 30;
/// Longer than any stream tells a thing again.
const MARKED_DAYS: i64 = 7;
/// A workspace with nothing to tell is looked at once in so many rounds, where that has to be found out by looking.
const MAX_REST: u32 = 16;

/// Listens to the streams of all workspaces.
pub struct Rounds {
    access: Access,
    engine: Arc<dyn ItemEngine>,
    inbox: Arc<Inbox>,
    /// Workspaces that had nothing to tell: how many rounds they rest, and how many of those are left.
    resting: Mutex<HashMap<Workspace, (u32, u32)>>,
}

impl Rounds {
    pub fn new(access: Access, engine: Arc<dyn ItemEngine>, inbox: Arc<Inbox>) -> Self {
        Self { access, engine, inbox, resting: Mutex::default() }
    }

    /// Counts out what has expired in all workspaces, and tells how many messages and receipts that were. A workspace in
    /// trouble does not stop the others.
    pub async fn once(&self) -> Result<usize, StorageError> {
        let mut count = 0;
        for workspace in self.workspaces().await? {
            let Some(cx) = self.access.working_in(&workspace).await? else { continue };
            match count_out(&cx, &self.inbox).await {
                Ok(Counted { changes, expired }) => {
                    count += expired;
                    self.rest(workspace, changes == 0);
                }
                Err(error) => {
                    let error = causes(&error);
                    tracing::warn!(%workspace, error, "What has expired could not be counted out; it is tried again");
                }
            }
        }
        Ok(count)
    }

    /// Those that have something to tell, or might have.
    async fn workspaces(&self) -> Result<Vec<Workspace>, StorageError> {
        if let Some(behind) = self.engine.behind(&tables::INBOX, CONSUMER).await? {
            return Ok(behind);
        }
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = workspaces::list(&self.access, after, Limit::MAX).await?;
            found.extend(page.items.into_iter().map(|one| one.name));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        found.retain(|workspace| match resting.get_mut(workspace) {
            Some((_, left)) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => true,
        });
        Ok(found)
    }

    fn rest(&self, workspace: Workspace, is_quiet: bool) {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = match resting.get(&workspace) {
            _ if !is_quiet => 0,
            Some((rest, _)) => (rest * 2).clamp(1, MAX_REST),
            None => 1,
        };
        resting.insert(workspace, (rest, rest));
    }
}

/// What the stream of a workspace had to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    pub changes: usize,
    /// Messages and receipts that expired.
    pub expired: usize,
}

/// Counts out what has expired in one workspace, as far as its stream tells.
pub async fn count_out(cx: &Cx, inbox: &Inbox) -> Result<Counted, StorageError> {
    let items = cx.items().await?;
    let mut counted = Counted::default();
    for _ in 0..MAX_BATCHES {
        let batch = items.changes(&tables::INBOX, CONSUMER, BATCH).await?;
        let Some(position) = batch.position else { break };
        counted.changes += batch.changes.len();
        let gone = gone(cx, batch.changes);
        counted.expired += gone.values().map(|(_, gone)| gone.len()).sum::<usize>();
        let work = gone.values().map(|(partition, gone)| settle(cx, inbox, partition, gone));
        let mut work = stream::iter(work.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        while let Some(done) = work.next().await {
            passed_over(cx, done)?;
        }
        items.acknowledge(&tables::INBOX, CONSUMER, &position).await?;
    }
    Ok(counted)
}

/// A message or a receipt that has expired.
#[derive(Debug, Clone)]
struct Gone {
    id: MessageId,
    stored: Stored,
}

type ByPartition = BTreeMap<String, (Partition, Vec<Gone>)>;

/// What has expired of what is counted, by partition.
fn gone(cx: &Cx, changes: Vec<Change>) -> ByPartition {
    let mut gone = ByPartition::new();
    for change in changes.into_iter().filter(|change| change.kind == ChangeKind::Expired) {
        let sort = change.key.sort.as_deref().and_then(Sort::parse);
        let (Some(Sort::Message(id)), Some(old)) = (sort, change.old) else { continue };
        let partition = change.key.partition;
        let Some(of) = Partition::parse(cx.workspace(), &partition) else { continue };
        let Some(stored) = readable(cx, &old) else { continue };
        // What was redacted was counted out by that.
        if matches!(&stored, Stored::Public(public) if public.redacted.is_some()) {
            continue;
        }
        let (_, of_partition) = gone.entry(partition).or_insert_with(|| (of, Vec::new()));
        of_partition.push(Gone { id, stored });
    }
    gone
}

async fn settle(
    cx: &Cx,
    inbox: &Inbox,
    partition: &Partition,
    gone: &[Gone],
) -> Result<(), StorageError> {
    for together in gone.chunks(TOGETHER) {
        settle_together(cx, partition, together.to_vec()).await?;
    }
    let (key, uid) = match partition {
        Partition::User { inbox, uid } => (inbox, Some(uid)),
        Partition::Public { inbox } => (inbox, None),
    };
    inbox.hints.changed(cx.workspace(), key, uid);
    Ok(())
}

async fn settle_together(
    cx: &Cx,
    partition: &Partition,
    mut gone: Vec<Gone>,
) -> Result<(), StorageError> {
    let items = cx.items().await?;
    let counting = Counting::of(cx.workspace(), partition);
    let told_to = match partition {
        Partition::User { inbox, uid } if timeline::is_known(cx, uid).await? => Some((inbox, uid)),
        Partition::User { .. } | Partition::Public { .. } => None,
    };
    for _ in 0..ATTEMPTS {
        let balance = Balance::load(cx, &counting.partition).await?;
        if !balance.exists {
            // There is nothing to count out of.
            return Ok(());
        }
        let mut difference = Difference::default();
        for gone in &gone {
            let (published, read) = balance.added(&gone.stored);
            difference.add(category_of(&gone.stored), -published, -read);
        }
        let marks = gone.iter().map(|gone| keys::counted_out(&counting.partition, &gone.id));
        let until = (cx.now() + (24 * MARKED_DAYS).hours()).as_second();
        let txn = marks.fold(Txn::new(), |txn, key| {
            let mark = tables::INBOX.bare_item(&key).with(EXPIRY, until);
            txn.put(&tables::INBOX, mark, Expect::Absent)
        });
        let there = Condition::exists("kind").and(still("rev", balance.stats.rev));
        let all = counting.all().expect(Expect::That(there));
        let txn = counting.add(txn, &difference, all, &balance.categories);
        let told = told_to.into_iter().flat_map(|to| {
            let unread = gone.iter().filter_map(|gone| balance.unread(&gone.stored));
            unread.map(move |message| timeline::befell(cx, to, message, Fate::Expired))
        });
        match items.transact(told.fold(txn, Txn::enqueue)).await {
            Ok(()) => return Ok(()),
            // Those whose marks are there were counted out before.
            Err(StoreError::Cancelled(reasons)) if lost_some(&reasons) => {
                let mut reasons = reasons.into_iter();
                gone.retain(|_| {
                    !matches!(reasons.next(), Some(Cancellation::ConditionFailed { .. }))
                });
                if gone.is_empty() {
                    return Ok(());
                }
            }
            Err(error) if lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}

fn lost_some(reasons: &[Cancellation]) -> bool {
    reasons.iter().any(|reason| {
        matches!(reason, Cancellation::ConditionFailed { .. } | Cancellation::Conflict)
    })
}
