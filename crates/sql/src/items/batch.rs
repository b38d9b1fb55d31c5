//! A batch of transactions, decided in memory one after the other and stored together.
//!
//! What only adds new rows is stored at once (`fresh`). All rows that any of the others names are loaded once. Each transaction sees what the ones before it did; one that
//! is refused leaves no trace. In the end every row that changed is written once, however often it changed.

use std::collections::HashMap;
use std::sync::Arc;

use tidings_kernel::{
    Cancellation, ChangeKind, Expect, Item, Outgoing, Returns, StoreError, Table, TimerChange, Txn,
    Workspace, Write,
};

use super::changes::{self, NewChange};
use super::rows::{self, RowBody, RowKey};
use super::{Streams, fresh};
use crate::database::{DatabaseError, Tx};
use crate::queues::{NewTimer, change_timers, insert_messages};

/// Writes that happen together, with all that can be prepared before the database is asked.
pub(super) struct Transaction {
    writes: Vec<(RowKey, Prepared)>,
    answer: Answer,
    later: Option<Box<Later>>,
    streams: Streams,
}

/// What must happen later if the transaction is made.
struct Later {
    workspace: String,
    messages: Vec<Outgoing>,
    timers: Vec<TimerChange>,
}

/// What a single write answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Nothing,
    Old,
    New,
}

impl From<Returns> for Answer {
    fn from(returns: Returns) -> Self {
        match returns {
            Returns::Nothing => Answer::Nothing,
            Returns::Old => Answer::Old,
            Returns::New => Answer::New,
        }
    }
}

struct Prepared {
    write: Write,
    /// A put's item is known beforehand, so that its JSON is made outside of the writing thread.
    put: Option<Stored>,
}

/// An item, and its JSON if that is known.
#[derive(Clone)]
struct Stored {
    item: Arc<Item>,
    json: Option<Arc<str>>,
}

impl Transaction {
    pub(super) fn new(
        workspace: &Workspace,
        txn: Txn,
        answer: Answer,
        streams: Streams,
    ) -> Result<Self, StoreError> {
        let Txn { writes, messages, timers } = txn;
        let later = (!messages.is_empty() || !timers.is_empty()).then(|| {
            Box::new(Later { workspace: workspace.as_str().to_owned(), messages, timers })
        });
        let writes = writes.into_iter().map(|write| {
            let key = RowKey::new(write.table(), workspace.as_str(), &write.key()?);
            let put = match &write {
                Write::Put(put) => Some(Stored {
                    json: Some(rows::to_json(&put.item).into()),
                    item: Arc::new(put.item.clone()),
                }),
                Write::Update(_) | Write::Delete(_) | Write::Check(_) => None,
            };
            Ok((key, Prepared { write, put }))
        });
        Ok(Self { writes: writes.collect::<Result<_, StoreError>>()?, answer, later, streams })
    }

    /// Every row that it names.
    pub(super) fn keys(&self) -> impl Iterator<Item = &RowKey> {
        self.writes.iter().map(|(key, _)| key)
    }

    /// Whether it writes rows only where there are none, and nobody has to be told of them. It may want others to be
    /// absent, too.
    pub(super) fn only_adds(&self) -> bool {
        let adds = |(key, prepared): &(RowKey, Prepared)| {
            (prepared.put.is_some() || matches!(prepared.write, Write::Check(_)))
                && !self.streams.keep_writes_to(key.table)
                && matches!(prepared.write.expectation(), Expect::Absent)
        };
        !self.writes.is_empty() && self.writes.iter().all(adds)
    }

    /// The rows that it wants to be absent and does not write.
    pub(super) fn checked(&self) -> impl Iterator<Item = &RowKey> {
        let checked = self.writes.iter().filter(|(_, one)| matches!(one.write, Write::Check(_)));
        checked.map(|(key, _)| key)
    }

    /// The rows of what it puts.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&RowKey, RowBody)> {
        self.writes.iter().filter_map(|(key, prepared)| {
            let put = prepared.put.as_ref()?;
            let json = put.json.clone()?;
            Some((key, RowBody::new(key.table, &put.item, json)))
        })
    }

    /// What it answers with if nothing was there before.
    fn answer_if_fresh(&self) -> Option<Item> {
        let new = (self.answer == Answer::New).then(|| self.writes.last()?.1.put.as_ref());
        new.flatten().map(|stored| Item::clone(&stored.item))
    }

    /// What it brings along, in bytes, roughly.
    pub(super) fn bytes(&self) -> usize {
        let put = |prepared: &Prepared| prepared.put.as_ref()?.json.as_ref().map(|json| json.len());
        let later = self.later.iter().map(|later| {
            let messages = later.messages.iter().map(|message| message.body.len());
            messages.chain(later.timers.iter().map(TimerChange::size)).sum::<usize>()
        });
        self.writes.iter().filter_map(|(_, prepared)| put(prepared)).chain(later).sum()
    }
}

pub(super) type Outcome = Result<Option<Item>, StoreError>;

/// Decides and stores all transactions. The outcomes hold once the transaction of the database is committed.
pub(super) fn run(
    tx: &mut Tx<'_>,
    transactions: &[&Transaction],
    now: jiff::Timestamp,
) -> Result<Vec<Outcome>, DatabaseError> {
    let is_stored = fresh::store(tx, transactions)?;
    let others: Vec<_> = transactions
        .iter()
        .zip(&is_stored)
        .filter_map(|(transaction, stored)| (!stored).then_some(*transaction))
        .collect();
    let mut state = State::load(tx, &others)?;
    let mut changes = Vec::new();
    let mut places = std::mem::take(&mut state.places).into_iter();
    let outcomes: Vec<_> = transactions
        .iter()
        .zip(&is_stored)
        .map(|(transaction, stored)| {
            if *stored {
                return Ok(transaction.answer_if_fresh());
            }
            let places: Vec<usize> = places.by_ref().take(transaction.writes.len()).collect();
            state.apply(transaction, &places, &mut changes)
        })
        .collect();
    state.store(tx)?;
    changes::record(tx, &changes, now)?;
    let made = transactions.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
    promise(tx, made.filter_map(|(transaction, _)| transaction.later.as_deref()), now)?;
    Ok(outcomes)
}

/// Stores what the transactions that were made want to happen later.
fn promise<'a>(
    tx: &mut Tx<'_>,
    made: impl Iterator<Item = &'a Later>,
    now: jiff::Timestamp,
) -> Result<(), DatabaseError> {
    let (mut messages, mut timers) = (Vec::new(), Vec::new());
    for later in made {
        messages.extend(&later.messages);
        let workspace = later.workspace.as_str();
        timers.extend(later.timers.iter().map(|change| NewTimer { workspace, change }));
    }
    if !messages.is_empty() {
        insert_messages(tx, &messages, now)?;
    }
    change_timers(tx, &timers)
}

/// The rows that a batch is about, as they are while it is decided.
struct State<'a> {
    slots: Vec<Slot<'a>>,
    /// For every write of every transaction, one after the other, its slot.
    places: Vec<usize>,
}

struct Slot<'a> {
    key: &'a RowKey,
    current: Option<Stored>,
    changed: bool,
    /// The row cannot be read: whoever names it is refused, and nobody else.
    damaged: bool,
}

impl<'a> State<'a> {
    fn load(tx: &mut Tx<'_>, transactions: &[&'a Transaction]) -> Result<Self, DatabaseError> {
        let mut slots: Vec<Slot<'a>> = Vec::new();
        let mut known: HashMap<&RowKey, usize> = HashMap::new();
        let mut places = Vec::new();
        for (key, _) in transactions.iter().flat_map(|transaction| &transaction.writes) {
            places.push(*known.entry(key).or_insert_with(|| {
                slots.push(Slot { key, current: None, changed: false, damaged: false });
                slots.len() - 1
            }));
        }
        let mut order: Vec<&mut Slot<'a>> = slots.iter_mut().collect();
        for (table, slots) in by_table(&mut order) {
            let keys: Vec<_> = slots.iter().map(|slot| slot.key).collect();
            for (slot, json) in slots.iter_mut().zip(rows::load(tx, table, &keys)?) {
                let Some(json) = json else { continue };
                match rows::from_json(&json) {
                    Ok(item) => {
                        let item = Arc::new(item);
                        slot.current = Some(Stored { item, json: Some(json.into()) });
                    }
                    Err(_) => slot.damaged = true,
                }
            }
        }
        Ok(Self { slots, places })
    }

    fn apply(
        &mut self,
        transaction: &Transaction,
        places: &[usize],
        changes: &mut Vec<NewChange>,
    ) -> Outcome {
        if let Some(slot) = places.iter().map(|place| &self.slots[*place]).find(|slot| slot.damaged)
        {
            let what = format!("a row of items_{} is not an item", slot.key.table.name);
            return Err(StoreError::Corrupt(what.into()));
        }
        let writes = || transaction.writes.iter().map(|(_, write)| write).zip(places);
        let decided: Vec<_> =
            writes().map(|(write, place)| decide(write, &self.slots[*place])).collect();
        if decided.iter().any(Result::is_err) {
            let reasons = decided.into_iter().map(|one| one.err().unwrap_or(Cancellation::None));
            return Err(StoreError::Cancelled(reasons.collect()));
        }
        let mut answer = None;
        for ((prepared, place), new) in writes().zip(decided.into_iter().flatten()) {
            if matches!(prepared.write, Write::Check(_)) {
                continue;
            }
            let slot = &mut self.slots[*place];
            let old = std::mem::replace(&mut slot.current, new.clone());
            slot.changed = true;
            answer = match transaction.answer {
                Answer::Nothing => None,
                Answer::Old => old.as_ref().map(|stored| Item::clone(&stored.item)),
                Answer::New => new.as_ref().map(|stored| Item::clone(&stored.item)),
            };
            if transaction.streams.keep_writes_to(slot.key.table) {
                changes.extend(change(slot.key, old, new));
            }
        }
        Ok(answer)
    }

    fn store(mut self, tx: &mut Tx<'_>) -> Result<(), DatabaseError> {
        let mut changed: Vec<_> = self.slots.iter_mut().filter(|slot| slot.changed).collect();
        for (table, slots) in by_table(&mut changed) {
            let gone = slots.iter().filter(|slot| slot.current.is_none());
            let gone: Vec<_> = gone.map(|slot| slot.key).collect();
            if !gone.is_empty() {
                rows::remove(tx, table, &gone)?;
            }
            let kept = slots.iter_mut().filter_map(|slot| {
                let stored = slot.current.as_mut()?;
                let json = stored.json.take().unwrap_or_else(|| rows::to_json(&stored.item).into());
                Some((slot.key, RowBody::new(table, &stored.item, json)))
            });
            let kept: Vec<_> = kept.collect();
            if !kept.is_empty() {
                rows::store(tx, table, &kept)?;
            }
        }
        Ok(())
    }
}

/// What stands under the key afterwards, or why it cannot be.
fn decide(prepared: &Prepared, slot: &Slot<'_>) -> Result<Option<Stored>, Cancellation> {
    let current = slot.current.as_ref().map(|stored| &*stored.item);
    if !prepared.write.expectation().holds(current) {
        return Err(Cancellation::ConditionFailed { current: current.cloned() });
    }
    if prepared.put.is_some() {
        return Ok(prepared.put.clone());
    }
    let new = prepared.write.apply(current).map_err(Cancellation::Invalid)?;
    Ok(new.map(|item| Stored { item: Arc::new(item), json: None }))
}

/// Splits rows by their tables, each part in the order of its keys: every node then locks rows in the same
/// order, and neighbours in the tree are written together.
fn by_table<'s, 'v, 'a>(
    slots: &'s mut [&'v mut Slot<'a>],
) -> impl Iterator<Item = (&'static Table, &'s mut [&'v mut Slot<'a>])> {
    slots.sort_by(|a, b| a.key.cmp(b.key));
    let parts = slots.chunk_by_mut(|a, b| a.key.table == b.key.table);
    parts.map(|part| (part[0].key.table, part))
}

fn change(key: &RowKey, old: Option<Stored>, new: Option<Stored>) -> Option<NewChange> {
    let kind = match (&old, &new) {
        (None, None) => return None,
        // As in DynamoDB, writing what is there already is no change.
        (Some(old), Some(new)) if old.item == new.item => return None,
        (None, Some(_)) => ChangeKind::Inserted,
        (Some(_), Some(_)) => ChangeKind::Modified,
        (Some(_), None) => ChangeKind::Deleted,
    };
    let json = |stored: Stored| match stored.json {
        Some(json) => json.to_string(),
        None => rows::to_json(&stored.item),
    };
    Some(NewChange {
        workspace: key.workspace.clone(),
        table: key.table.name,
        kind,
        old: old.map(json),
        new: new.map(json),
    })
}
