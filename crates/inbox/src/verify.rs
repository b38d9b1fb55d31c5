//! Counting anew: whether the counts are what the items amount to, and putting right those that are not.
//!
//! What is stored is walked over partition by partition, and nothing but the sums of one is held. What has expired is still
//! counted until it is counted out, so it is walked over too.
//!
//! A store may have removed something of which its stream tells only later. So where all is not one database, counts that seem wrong are
//! looked at again before they are told. And what is told after counts were put right would be counted out of counts that are without
//! it: so they are put right without all that has expired, and say since when (`settled`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tidings_access::{Change, Cx, StorageError};
use tidings_jobs::wait;
use tidings_kernel::{Cursor, Expect, Query, Scan, Txn, Update, tables};

use crate::Inbox;
use crate::balance::{Balance, category_of};
use crate::counting::{Counting, still};
use crate::damage::{passed_over, readable};
use crate::expiry::count_out;
use crate::keys::{self, Category, InboxKey, Partition, UserId};
use crate::patrol;
use crate::race::lost;
use crate::records::{CategoryStats, HORIZON, SETTLED, SOONEST};

/// How many of a workspace's counts were wrong when they were last looked at.
pub const DRIFT_METRIC: &str = "tidings_inbox_drift";

const PAGE: usize = 500;
/// So often a partition is walked over again that was changed meanwhile.
const TRIES: usize = 10;
/// So often what seems wrong is looked at again, with a pause before each time but the first. Streams are behind by a second or so.
const LOOKS_AGAIN: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// So many are remembered for that; of more, something else is wrong.
const MAX_SUSPECTS: usize = 10_000;

/// What to do about counts that are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Tell,
    Repair,
}

/// A count that is not what the items amount to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    pub inbox: InboxKey,
    /// Nobody's, if it is the count of what is for everyone.
    pub uid: Option<UserId>,
    /// The count of this category, or of all.
    pub category: Option<Category>,
    pub stored: Sums,
    pub counted: Sums,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    pub published: i64,
    pub read: i64,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verified {
    /// Users' inboxes, and those of everyone.
    pub inboxes: u64,
    /// Messages and receipts.
    pub items: u64,
    /// Counts that were wrong.
    pub drifts: u64,
    /// Those of them that are right now.
    pub repaired: u64,
    /// Inboxes that changed each time they were looked at, so that nothing can be said of them.
    pub unsettled: u64,
    /// Inboxes whose counts cannot be read.
    pub unreadable: u64,
}

impl Verified {
    /// Counts that are wrong still.
    pub fn left(&self) -> u64 {
        self.drifts.saturating_sub(self.repaired)
    }
}

/// Counts everything of a workspace anew, and tells of each count that is wrong.
pub async fn verify(
    cx: &Cx,
    inbox: &Inbox,
    then: Then,
    tell: &mut (dyn FnMut(Drift) + Send),
) -> Result<Verified, StorageError> {
    count_out(cx, inbox).await?;
    let mut verifying = Verifying::new(cx, inbox, then, tell);
    let mut from = None;
    loop {
        from = verifying.some(from, 1).await?;
        if from.is_none() {
            break;
        }
    }
    let verified = verifying.end().await?;
    patrol::has_been_verified(cx, verified.left()).await?;
    gauge(cx, verified.left());
    Ok(verified)
}

/// Tells how many counts of a workspace are known to be wrong.
pub(crate) fn gauge(cx: &Cx, drifts: u64) {
    let workspace = cx.workspace().as_str().to_owned();
    metrics::gauge!(DRIFT_METRIC, "workspace" => workspace).set(drifts as f64);
}

/// Counts a part of a workspace anew: as much as is on so many pages of its items from a place on. Tells where to go on.
pub(crate) async fn verify_some(
    cx: &Cx,
    inbox: &Inbox,
    from: Option<Cursor>,
    pages: usize,
) -> Result<(Verified, Option<Cursor>), StorageError> {
    count_out(cx, inbox).await?;
    let mut log = |drift: Drift| {
        // The id of a user is whatever the app calls him by, so it is not logged.
        let category = drift.category.as_ref().map_or("*", |category| category.as_str());
        let (inbox, stored, counted) = (drift.inbox.as_str(), drift.stored, drift.counted);
        tracing::error!(
            inbox,
            category,
            ?stored,
            ?counted,
            "A count of an inbox is wrong; `tidings inbox verify --repair` puts it right"
        );
    };
    let mut verifying = Verifying::new(cx, inbox, Then::Tell, &mut log);
    let next = verifying.some(from, pages).await?;
    Ok((verifying.end().await?, next))
}

/// The same for one user, or for everyone, in one inbox.
pub async fn verify_partition(
    cx: &Cx,
    inbox: &Inbox,
    partition: &Partition,
    then: Then,
    tell: &mut (dyn FnMut(Drift) + Send),
) -> Result<Verified, StorageError> {
    count_out(cx, inbox).await?;
    let mut verifying = Verifying::new(cx, inbox, then, tell);
    verifying.one(partition).await?;
    verifying.end().await
}

struct Verifying<'a> {
    cx: &'a Cx,
    inbox: &'a Inbox,
    then: Then,
    tell: &'a mut (dyn FnMut(Drift) + Send),
    verified: Verified,
    /// The partition that was met last.
    last: String,
    /// What seemed wrong, and may be so only because the stream is behind.
    suspects: Vec<Partition>,
}

/// What a look at a partition finds.
enum Looked {
    /// With so many items.
    Right(u64),
    Wrong(Recount),
    /// It changed each time.
    Unsettled,
    /// Its counts cannot be read.
    Unreadable,
}

impl<'a> Verifying<'a> {
    fn new(
        cx: &'a Cx,
        inbox: &'a Inbox,
        then: Then,
        tell: &'a mut (dyn FnMut(Drift) + Send),
    ) -> Self {
        let (verified, last, suspects) = (Verified::default(), String::new(), Vec::new());
        Self { cx, inbox, then, tell, verified, last, suspects }
    }

    async fn some(
        &mut self,
        mut from: Option<Cursor>,
        pages: usize,
    ) -> Result<Option<Cursor>, StorageError> {
        let items = self.cx.items().await?;
        for _ in 0..pages {
            let page = items.scan(Scan::new(&tables::INBOX).limit(PAGE).after(from)).await?;
            for item in &page.items {
                let Some(partition) = item.text(tables::INBOX.partition) else { continue };
                // All of a partition come one after the other.
                if partition == self.last {
                    continue;
                }
                partition.clone_into(&mut self.last);
                if let Some(partition) = Partition::parse(self.cx.workspace(), partition) {
                    self.one(&partition).await?;
                }
            }
            from = page.cursor;
            if from.is_none() {
                break;
            }
        }
        Ok(from)
    }

    async fn one(&mut self, partition: &Partition) -> Result<(), StorageError> {
        self.verified.inboxes += 1;
        let is_behind = !self.cx.items().await?.is_one_database();
        let looked = look(self.cx, self.inbox, partition).await?;
        self.verified.items += match &looked {
            Looked::Right(items) => *items,
            Looked::Wrong(recount) => recount.items,
            Looked::Unsettled | Looked::Unreadable => 0,
        };
        if matches!(looked, Looked::Wrong(_)) && is_behind && self.suspects.len() < MAX_SUSPECTS {
            self.suspects.push(partition.clone());
            return Ok(());
        }
        self.deal_with(partition, looked).await
    }

    /// Looks again at what seemed wrong, until it is right or has been wrong for so long that no stream can be so far behind.
    async fn end(mut self) -> Result<Verified, StorageError> {
        for again in 0..=LOOKS_AGAIN {
            if self.suspects.is_empty() {
                break;
            }
            if again > 0 {
                wait(PAUSE).await;
            }
            count_out(self.cx, self.inbox).await?;
            for suspect in std::mem::take(&mut self.suspects) {
                match look(self.cx, self.inbox, &suspect).await? {
                    Looked::Wrong(_) if again < LOOKS_AGAIN => self.suspects.push(suspect),
                    looked => self.deal_with(&suspect, looked).await?,
                }
            }
        }
        Ok(self.verified)
    }

    /// Tells what is wrong, and puts it right if that is wanted.
    async fn deal_with(
        &mut self,
        partition: &Partition,
        mut looked: Looked,
    ) -> Result<(), StorageError> {
        let mut told = None;
        for _ in 0..TRIES {
            let recount = match looked {
                Looked::Wrong(recount) => recount,
                Looked::Right(_) => {
                    self.verified.repaired += told.unwrap_or(0);
                    return Ok(());
                }
                Looked::Unsettled => break,
                Looked::Unreadable => {
                    self.verified.unreadable += 1;
                    return Ok(());
                }
            };
            // Once: what is wrong besides, after somebody was faster, goes with it.
            let told = *told.get_or_insert_with(|| {
                let drifts = recount.drifts(partition);
                let count = drifts.len() as u64;
                drifts.into_iter().for_each(&mut *self.tell);
                self.verified.drifts += count;
                count
            });
            if self.then == Then::Tell {
                return Ok(());
            }
            match self.cx.items().await?.transact(recount.repair(self.cx, partition)).await {
                Ok(()) => {
                    self.verified.repaired += told;
                    return Ok(());
                }
                Err(error) if lost(&error) => looked = look(self.cx, self.inbox, partition).await?,
                Err(error) => return Err(error.into()),
            }
        }
        self.verified.unsettled += 1;
        Ok(())
    }
}

async fn look(cx: &Cx, inbox: &Inbox, partition: &Partition) -> Result<Looked, StorageError> {
    for _ in 0..TRIES {
        let counted = Recount::of(cx, partition).await;
        let Some(counted) = passed_over(cx, counted)? else { return Ok(Looked::Unreadable) };
        let Some(recount) = counted else { continue };
        if recount.drifts(partition).is_empty() {
            return Ok(Looked::Right(recount.items));
        }
        // Something may have been removed while we looked, which is counted out only now.
        if count_out(cx, inbox).await?.expired == 0 {
            return Ok(Looked::Wrong(recount));
        }
    }
    Ok(Looked::Unsettled)
}

/// The counts of a partition, stored and counted anew, at one revision.
struct Recount {
    rev: i64,
    categories: BTreeMap<Category, CategoryStats>,
    stored: BTreeMap<Option<Category>, Sums>,
    counted: BTreeMap<Option<Category>, Sums>,
    /// The same without what has expired.
    lasting: BTreeMap<Option<Category>, Sums>,
    items: u64,
}

impl Recount {
    /// `None` if something changed while it was counted.
    async fn of(cx: &Cx, partition: &Partition) -> Result<Option<Self>, StorageError> {
        let key = partition.key(cx.workspace());
        let before = Balance::load(cx, &key).await?;
        let mut counted: BTreeMap<Option<Category>, Sums> = BTreeMap::new();
        let mut lasting = counted.clone();
        let (mut count, mut cursor) = (0, None);
        let items = cx.items().await?;
        loop {
            let query = Query::new(&tables::INBOX, &key).begins_with(keys::MESSAGES).and_expired();
            let page = items.query(query.limit(PAGE).after(cursor)).await?;
            for item in &page.items {
                count += 1;
                // It was counted once, so the counts are told to be wrong.
                let Some(stored) = readable(cx, item) else { continue };
                let (published, read) = before.added(&stored);
                let lasts = stored.expires().as_second() > cx.now().as_second();
                for of in BTreeSet::from([None, category_of(&stored).cloned()]) {
                    let last = lasts.then(|| lasting.entry(of.clone()).or_default());
                    for sums in last.into_iter().chain([counted.entry(of).or_default()]) {
                        sums.published += published;
                        sums.read += read;
                    }
                }
            }
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
        let after = Balance::load(cx, &key).await?;
        let Balance { stats, categories, .. } = before;
        if after.stats.rev != stats.rev {
            return Ok(None);
        }
        let mut stored =
            BTreeMap::from([(None, Sums { published: stats.published, read: stats.read })]);
        for (category, stats) in &categories {
            let CategoryStats { published, read, .. } = *stats;
            stored.insert(Some(category.clone()), Sums { published, read });
        }
        Ok(Some(Self { rev: stats.rev, categories, stored, counted, lasting, items: count }))
    }

    fn drifts(&self, partition: &Partition) -> Vec<Drift> {
        let (inbox, uid) = match partition {
            Partition::User { inbox, uid } => (inbox, Some(uid)),
            Partition::Public { inbox } => (inbox, None),
        };
        let of: BTreeSet<_> = self.stored.keys().chain(self.counted.keys()).collect();
        let drifts = of.into_iter().filter_map(|category| {
            let sums = |of: &BTreeMap<_, Sums>| of.get(category).copied().unwrap_or_default();
            let (stored, counted) = (sums(&self.stored), sums(&self.counted));
            let (inbox, uid, category) = (inbox.clone(), uid.cloned(), category.clone());
            (stored != counted).then_some(Drift { inbox, uid, category, stored, counted })
        });
        drifts.collect()
    }

    /// Puts all of them right, if nothing has changed.
    fn repair(&self, cx: &Cx, partition: &Partition) -> Txn {
        let counting = Counting::of(cx.workspace(), partition);
        let set = |update: Update, sums: Sums| {
            let update = update.set("published", sums.published);
            match partition {
                Partition::User { .. } => update.set("read", sums.read),
                Partition::Public { .. } => update,
            }
        };
        let right = |of: &Option<Category>| self.lasting.get(of).copied().unwrap_or_default();
        let all = set(counting.all(), right(&None)).set(SETTLED, cx.now().as_second());
        // What was not counted may not be known to expire. Whoever looks next finds out.
        let all = all.remove(SOONEST).remove(HORIZON);
        let all = all.expect(Expect::That(still("rev", self.rev)));
        let named: BTreeSet<_> = self.stored.keys().chain(self.counted.keys()).collect();
        let wrong = named.into_iter().filter(|of| self.stored.get(*of) != Some(&right(of)));
        let txn = wrong.filter_map(Option::as_ref).fold(Txn::new().update(all), |txn, category| {
            match (self.categories.get(category), right(&Some(category.clone()))) {
                (Some(before), Sums { published: 0, read: 0 }) => {
                    counting.empty(txn, category, before)
                }
                (_, sums) => txn.update(set(counting.category(category), sums)),
            }
        });
        let told = cx.audited(&self.told(partition));
        txn.enqueue(told)
    }

    /// For the audit log. The id of a user is whatever the app calls him by, so it is not told.
    fn told(&self, partition: &Partition) -> Change {
        let (inbox, of) = match partition {
            Partition::User { inbox, .. } => (inbox, "a user"),
            Partition::Public { inbox } => (inbox, "everyone"),
        };
        let sums = |all: &BTreeMap<Option<Category>, Sums>| {
            let named = all.iter().map(|(category, sums)| {
                let name = category.as_ref().map_or("*", |category| category.as_str());
                (name.to_owned(), json!({ "published": sums.published, "read": sums.read }))
            });
            json!({ "of": of, "counts": named.collect::<serde_json::Map<String, Value>>() })
        };
        let change = Change::new("inbox.repair", "inbox", inbox);
        change.before(sums(&self.stored)).after(sums(&self.lasting))
    }
}
