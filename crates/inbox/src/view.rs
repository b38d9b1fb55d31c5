//! What one user has of one inbox at one moment: his counts, the read-alls, and the public messages.
//!
//! Here: loading it, the first visit, and taking out receipts of public messages that were redacted, because whoever counts
//! has to have done both. Not here: taking out what has expired (`overdue`), the messages themselves (`read`), and marking them (`marks`).

use std::sync::Arc;

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{Condition, Expect, MAX_TXN_WRITES, StoreError, Txn, tables};

use crate::Inbox;
use crate::balance::Balance;
use crate::counting::{Counting, still};
use crate::damage::readable;
use crate::forgotten::{self, is_since};
use crate::horizon::NEVER;
use crate::ids::MessageId;
use crate::keys::{self, Category, InboxKey, UserId};
use crate::overdue;
use crate::public::Index;
use crate::race::{ATTEMPTS, lost};
use crate::records::{
    FORGOTTEN_AT, PublicStats, SETTLED, SOONEST, Stored, TenantSettings, UserStats,
};
use crate::rules::Difference;

/// So many receipts are taken out at once: with the counts of all categories they are one transaction.
const MAX_CLEANED: usize = 45;
/// So many receipts are looked for at once.
const LOOKED_FOR: usize = 500;

/// Who reads, and where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reader {
    pub inbox: InboxKey,
    pub uid: UserId,
    /// When he proved who he is. Nothing if he does so now: then he was forgotten by nobody since.
    pub let_in: Option<Timestamp>,
}

/// What can go wrong before anything is read or marked.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    #[error("the user was forgotten or signed out after he was let in")]
    Forgotten,
    #[error("others kept changing the inbox")]
    Busy,
    #[error("the inbox could not be read")]
    Store(#[from] StorageError),
}

impl From<StoreError> for LookError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}

#[derive(Debug)]
pub(crate) struct View {
    pub(crate) balance: Arc<Balance>,
    pub(crate) index: Arc<Index>,
}

/// What a user has, with his first visit made and nothing of his left of what was redacted or has expired. In an inbox that never
/// had a message he has nothing, and nothing is written: its name may be anything that somebody came up with.
pub(crate) async fn look(cx: &Cx, inbox: &Inbox, reader: &Reader) -> Result<View, LookError> {
    for _ in 0..ATTEMPTS {
        let view = load(cx, inbox, reader).await?;
        if is_since(view.balance.stats.forgotten, reader.let_in) {
            return Err(LookError::Forgotten);
        } else if view.balance.stats.since.is_none() {
            if !visit(cx, reader, &view).await? {
                return Ok(view);
            }
        } else if view.balance.stats.cleaned < view.index.stats.redactions {
            clean(cx, inbox, reader, &view).await?;
        } else if view.is_overdue(cx) {
            overdue::take_out(cx, inbox, reader, &view).await?;
        } else if view.balance.empty().next().is_some() {
            tidy(cx, inbox, reader, &view).await?;
        } else {
            return Ok(view);
        }
    }
    Err(LookError::Busy)
}

/// Two items are looked at, and no more if nothing has changed since the user was last here. His counts must not be younger than those of
/// everyone, or he might have marked a public message that is not known. Where a batch is not read at one moment, everyone's are read
/// again after his; counts from before are good with those of everyone that they have met, or later ones.
async fn load(cx: &Cx, inbox: &Inbox, reader: &Reader) -> Result<View, LookError> {
    let (items, partition) =
        (cx.items().await?, keys::user(cx.workspace(), &reader.inbox, &reader.uid));
    let public = keys::counts(&keys::public(cx.workspace(), &reader.inbox));
    let wanted = [keys::counts(&partition), public.clone()];
    let found = items.batch_get(&tables::INBOX, &wanted).await?;
    let (own, everyone) = match found.as_slice() {
        [own, everyone] => (own.as_ref(), everyone.as_ref()),
        _ => return Err(StoreError::Corrupt("a look at two items found others".into()).into()),
    };
    let stats = UserStats::read(own)?;
    let mut public_stats = PublicStats::read(everyone)?;
    let balance = match inbox.balances.get(cx.workspace(), reader, &stats) {
        _ if own.is_none() => Arc::default(),
        Some(balance) => {
            if public_stats.rev < balance.met {
                let found = items.get(&tables::INBOX, &public).await?;
                public_stats = PublicStats::read(found.as_ref())?;
            }
            balance
        }
        None => {
            let mut balance = Balance::load(cx, &partition).await?;
            if balance.stats.rev != stats.rev || !items.is_one_database() {
                let found = items.get(&tables::INBOX, &public).await?;
                public_stats = PublicStats::read(found.as_ref())?;
            }
            balance.met = public_stats.rev;
            let balance = Arc::new(balance);
            inbox.balances.keep(cx.workspace(), reader, &balance);
            balance
        }
    };
    let index = inbox.indexes.at(cx, &reader.inbox, public_stats).await?;
    Ok(View { balance, index })
}

/// From now on it is decided which public messages are from before the user came. Tells whether there is such an inbox: one that
/// nobody has published to is not noted, and an erasure would not find what is written there. Nobody comes who was forgotten after he
/// was let in, in the same transaction.
async fn visit(cx: &Cx, reader: &Reader, view: &View) -> Result<bool, LookError> {
    let items = cx.items().await?;
    let forgotten = forgotten::key(cx, &reader.uid).await?;
    let wanted = [
        keys::tenant_settings(cx.workspace()),
        keys::categories(cx.workspace(), &reader.inbox),
        forgotten.clone(),
    ];
    let found = items.batch_get(&tables::INBOX, &wanted).await?;
    let (settings, noted, forgotten_at) = match found.as_slice() {
        [settings, noted, at] => (settings.as_ref(), noted.as_ref(), forgotten::at(at.as_ref())),
        _ => return Err(StoreError::Corrupt("a look at three items found others".into()).into()),
    };
    if is_since(forgotten_at, reader.let_in) {
        return Err(LookError::Forgotten);
    }
    if noted.is_none() && !view.balance.exists {
        return Ok(false);
    }
    let look_back = TenantSettings::read(settings)?.look_back();
    let oldest = MessageId::first_of(look_back.before(cx.now()));
    let update = Counting::of_user(cx.workspace(), &reader.inbox, &reader.uid)
        .all()
        .set("since", view.index.latest_before(&oldest))
        .set("came", cx.now().as_millisecond())
        // He can have no receipts of what was redacted before.
        .set("cleaned", view.index.stats.redactions);
    let update = match forgotten_at {
        Some(at) => update.set(FORGOTTEN_AT, at),
        None => update,
    };
    let is_new = Condition::not_exists("since");
    let update = if view.balance.exists {
        // Unless he was forgotten meanwhile.
        update.expect(Expect::That(is_new.and(Condition::exists("rev"))))
    } else {
        // There is nothing that could expire. And what is told later of one of the same name who was forgotten, is not his.
        let update = update.set(SOONEST, NEVER).set(SETTLED, cx.now().as_second());
        update.expect(Expect::That(is_new.and(Condition::not_exists("rev"))))
    };
    let unforgotten = forgotten::still(cx, forgotten_at);
    let txn = Txn::new().update(update).check(&tables::INBOX, forgotten, unforgotten);
    match items.transact(txn).await {
        Ok(()) => Ok(true),
        Err(error) if lost(&error) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Takes out receipts of public messages that were redacted since it was last done, as many as one transaction holds.
async fn clean(cx: &Cx, inbox: &Inbox, reader: &Reader, view: &View) -> Result<(), LookError> {
    let items = cx.items().await?;
    let counting = Counting::of_user(cx.workspace(), &reader.inbox, &reader.uid);
    let mut redacted = view.index.redacted_after(view.balance.stats.cleaned);
    let mut cleaned = view.index.stats.redactions;
    if let Some((first_left, _)) = redacted.get(LOOKED_FOR) {
        cleaned = first_left - 1;
        redacted.truncate(LOOKED_FOR);
    }
    let key = |id: &MessageId| keys::message(&counting.partition, id);
    let wanted: Vec<_> = redacted.iter().map(|(_, id)| key(id)).collect();
    let found = items.batch_get(&tables::INBOX, &wanted).await?;
    let (mut txn, mut difference, mut count) = (Txn::new(), Difference::default(), 0);
    for ((number, id), item) in redacted.iter().zip(found) {
        let Some(item) = item else { continue };
        let Some(receipt) = readable(cx, &item).and_then(Stored::receipt) else { continue };
        if count == MAX_CLEANED {
            cleaned = number - 1;
            break;
        }
        count += 1;
        difference.add(receipt.category.as_ref(), 0, -view.balance.of_receipt(&receipt).counted());
        txn = txn.delete(&tables::INBOX, key(id), Expect::Present);
    }
    let unchanged = still("rev", view.balance.stats.rev);
    let all = counting.all().set("cleaned", cleaned).expect(Expect::That(unchanged));
    let txn = counting.add(txn, &difference, all, &view.balance.categories);
    match items.transact(txn).await {
        Ok(()) => {
            inbox.hints.changed(cx.workspace(), &reader.inbox, Some(&reader.uid));
            Ok(())
        }
        Err(error) if lost(&error) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Takes away counts of categories that came to nothing when two marked at the same time. They say nothing, so no change is counted.
async fn tidy(cx: &Cx, inbox: &Inbox, reader: &Reader, view: &View) -> Result<(), LookError> {
    let counting = Counting::of_user(cx.workspace(), &reader.inbox, &reader.uid);
    let empty = view.balance.empty().take(MAX_TXN_WRITES);
    let txn = empty.fold(Txn::new(), |txn, (name, stats)| counting.empty(txn, name, stats));
    match cx.items().await?.transact(txn).await {
        Ok(()) => {
            let tidied = Arc::new(view.balance.without_empty());
            inbox.balances.keep(cx.workspace(), reader, &tidied);
            Ok(())
        }
        Err(error) if lost(&error) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl View {
    /// Whether something that is counted may be past its time.
    fn is_overdue(&self, cx: &Cx) -> bool {
        self.balance.stats.soonest.is_none_or(|soonest| soonest <= self.second(cx))
    }

    /// From when on it may be otherwise although nobody changes anything, because something is past its time then.
    pub(crate) fn until(&self) -> Option<Timestamp> {
        let own = self.balance.stats.soonest.unwrap_or(NEVER);
        // No time is as late as never.
        Timestamp::from_second(own.min(self.index.until())).ok()
    }

    /// The second for which this is. Public messages may have been looked at by somebody whose request is a little younger.
    pub(crate) fn second(&self, cx: &Cx) -> i64 {
        cx.now().as_second().max(self.index.at)
    }

    /// Public messages up to this `seq` are from before the user came.
    pub(crate) fn since(&self) -> i64 {
        self.balance.stats.since.unwrap_or(0)
    }

    /// Whether there was ever a message of this category that the user could have.
    pub(crate) fn knows(&self, category: &Category) -> bool {
        self.balance.categories.contains_key(category) || self.index.knows(category)
    }

    /// Public messages of this category, or of none, up to this `seq` cannot be unread without a receipt.
    pub(crate) fn floor(&self, category: Option<&Category>) -> i64 {
        let all = self.balance.stats.all.as_ref().map_or(0, |mark| mark.seq);
        let category =
            category.and_then(|category| self.balance.categories.get(category)?.mark.as_ref());
        self.since().max(all).max(category.map_or(0, |mark| mark.seq))
    }
}
