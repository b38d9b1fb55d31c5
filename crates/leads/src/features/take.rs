//! One event more, or several at once: each is added to the state once, and what they touch is computed again.

use std::sync::Arc;

use tidings_access::{Cx, StorageError};
use tidings_jobs::contracts::LeadEvent;
use tidings_kernel::{Condition, Expect, Item, Key, StoreError, Txn, Update, tables};
use tokio::sync::oneshot;

use super::registry::ALL;
use super::state::day_of;
use super::store::{self, Kept};
use super::{changed, erase, rebuild, upkeep};
use crate::event::{self, StoredEvent};
use crate::identity;
use crate::turns::{Lane, Turns};

/// The attribute of an event that says when it was counted.
pub(super) const MARK: &str = "features_at";
/// So often others may be faster before it is left for later.
const ATTEMPTS: usize = 8;
/// So many events are counted at once. A transaction has at most 100 writes.
const AT_ONCE: usize = 50;

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It counts.
    Counted,
    /// It was counted before.
    Before,
    /// There is no such event any more, or nobody it is about.
    Gone,
    /// Everything is being counted anew; it has to come again.
    Busy,
}

/// An event that waits for whoever is in front to count it too.
type Waiting = (Key, oneshot::Sender<Taken>);

/// Events that come for one person at the same time are counted by one of those who were sent them.
#[derive(Debug, Default)]
pub(super) struct Counting(Turns<Waiting>);

impl Counting {
    /// Counts an event, perhaps with others of the same timeline.
    pub(super) async fn take(&self, cx: &Cx, message: &LeadEvent) -> Result<Taken, StorageError> {
        let lane: Arc<Lane<Waiting>> = self.0.lane(cx, &message.lead_organization_id);
        let (tell, mut told) = oneshot::channel();
        let mine = key_of(message);
        lane.leave((mine.clone(), tell));
        let _turn = lane.turn().await;
        if let Ok(taken) = told.try_recv() {
            return Ok(taken);
        }
        // Whoever counted it before us and failed tells nobody but his own: each tries his again.
        let waiting = lane.take();
        let mut keys = vec![mine];
        for (key, _) in &waiting {
            if !keys.contains(key) && keys.len() < AT_ONCE {
                keys.push(key.clone());
            }
        }
        let taken = take_all(cx, &message.lead_organization_id, &keys).await?;
        for (key, tell) in waiting {
            let place = keys.iter().position(|one| *one == key);
            if let Some(taken) = place.and_then(|place| taken.get(place)) {
                // Who is gone needs no answer.
                let _ = tell.send(*taken);
            }
        }
        taken.first().copied().ok_or_else(|| StoreError::Conflict.into())
    }
}

fn key_of(message: &LeadEvent) -> Key {
    event::key(&message.lead_organization_id, message.occurred_at, &message.event_id)
}

/// Counts an event, once. However long the timeline is, it reads the event and the features, and nothing else.
pub async fn take(cx: &Cx, message: &LeadEvent) -> Result<Taken, StorageError> {
    let taken = take_all(cx, &message.lead_organization_id, &[key_of(message)]).await?;
    taken.first().copied().ok_or_else(|| StoreError::Conflict.into())
}

/// The same of several events of one timeline, each of them once. What became of each is in their order.
async fn take_all(cx: &Cx, partition: &str, events: &[Key]) -> Result<Vec<Taken>, StorageError> {
    for _ in 0..ATTEMPTS {
        let Some(owner) = identity::owner(cx, partition).await? else {
            return Ok(vec![Taken::Gone; events.len()]);
        };
        match once(cx, &owner.lead_organization_id, events).await {
            Err(StorageError::Items(error)) if was_too_slow(&error) => {}
            Err(error) => return Err(error),
            Ok(taken) => {
                if taken.contains(&Taken::Counted) {
                    settle(cx, partition, &owner.lead_organization_id).await?;
                }
                return Ok(taken);
            }
        }
    }
    Err(StoreError::Conflict.into())
}

/// Whose it is can change between our look and our write: then it counts for somebody whose it is not. So we look once more:
/// either he who took them apart has still to count both anew, or we find that he did, and ask for it again. Whoever was
/// erased meanwhile keeps nothing; if he was taken apart before, the other one is still there and loses only what was his.
async fn settle(cx: &Cx, partition: &str, counted_for: &str) -> Result<(), StorageError> {
    match identity::owner(cx, partition).await? {
        None if identity::owner(cx, counted_for).await?.is_none() => erase(cx, counted_for).await,
        None => upkeep::ask_for_rebuild(cx, counted_for).await,
        Some(now) if now.lead_organization_id == counted_for => Ok(()),
        Some(now) => {
            upkeep::ask_for_rebuild(cx, counted_for).await?;
            upkeep::ask_for_rebuild(cx, &now.lead_organization_id).await
        }
    }
}

async fn once(cx: &Cx, owner: &str, events: &[Key]) -> Result<Vec<Taken>, StorageError> {
    let items = cx.items().await?;
    let found = match events {
        [one] => vec![items.get(&tables::EVENT, one).await?],
        several => items.batch_get(&tables::EVENT, several).await?,
    };
    let (mut taken, new) = sort(events, &found);
    if new.is_empty() {
        return Ok(taken);
    }
    let mut all = |becomes: Taken| {
        let counted = taken.iter_mut().filter(|one| **one == Taken::Counted);
        counted.for_each(|one| *one = becomes);
        std::mem::take(&mut taken)
    };
    let item = items.get(&tables::FEATURE, &store::key(owner)).await?;
    let mut kept = Kept::read(owner, item.as_ref());
    if kept.is_being_rebuilt(cx.now()) {
        return Ok(all(Taken::Busy));
    }
    // Whoever counted anew has died on the way, or the item is of another version of this program.
    if kept.rebuilding_until.is_some() || !kept.is_current {
        let rebuilt = rebuild::rebuild(cx, owner).await?;
        let is_busy = rebuilt == rebuild::Rebuilt::Busy;
        return Ok(all(if is_busy { Taken::Busy } else { Taken::Counted }));
    }
    let mut txn = Txn::new();
    for (key, stored) in &new {
        kept.state.add(stored, day_of(cx.now()));
        txn = txn.update(mark((*key).clone(), cx).expect(Expect::That(
            Condition::exists("event_type").and(Condition::not_exists(MARK)),
        )));
    }
    if kept.is_new {
        kept.compute(ALL.iter(), cx.now());
    } else {
        let touched =
            |feature: &&super::Feature| new.iter().any(|(_, event)| feature.is_touched_by(event));
        kept.compute(ALL.iter().filter(touched), cx.now());
    }
    let txn = txn.put(&tables::FEATURE, kept.to_item(cx.now())?, kept.expect());
    items.transact(changed(cx, txn, &[owner]).await?).await?;
    Ok(all(Taken::Counted))
}

/// What is to be said of each event if all goes well, and those that are to be counted.
fn sort<'a>(keys: &'a [Key], found: &[Option<Item>]) -> (Vec<Taken>, Vec<(&'a Key, StoredEvent)>) {
    let (mut taken, mut new) = (Vec::new(), Vec::new());
    for (key, item) in keys.iter().zip(found) {
        let stored = item.as_ref().and_then(StoredEvent::from_item);
        let is_marked = item.as_ref().is_some_and(|item| item.get(MARK).is_some());
        taken.push(match stored {
            _ if is_marked => Taken::Before,
            None => Taken::Gone,
            Some(stored) => {
                new.push((key, stored));
                Taken::Counted
            }
        });
    }
    (taken, new)
}

/// Says of an event that it counts.
pub(super) fn mark(event: Key, cx: &Cx) -> Update {
    Update::new(&tables::EVENT, event).set(MARK, event::time(cx.now()))
}

/// Whether what was read has changed meanwhile.
pub(super) fn was_too_slow(error: &StoreError) -> bool {
    error.is_condition_failed() || matches!(error, StoreError::Conflict | StoreError::Cancelled(_))
}
