//! A batch of transactions, decided in memory one after the other and stored together.
//!
//! All rows that any of them names are loaded once. Each transaction sees what the ones before it did; one that
//! is refused leaves no trace. In the end every row that changed is written once, however often it changed.

use std::collections::HashMap;
use std::sync::Arc;

use tidings_kernel::{
    Cancellation, ChangeKind, Item, Returns, StoreError, Table, Workspace, Write,
};

use super::changes::{self, NewChange};
use super::rows::{self, RowBody, RowKey};
use crate::database::{DatabaseError, Tx};

/// Writes that happen together, with all that can be prepared before the database is asked.
pub(super) struct Transaction {
    writes: Vec<(RowKey, Prepared)>,
    answer: Answer,
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
        writes: Vec<Write>,
        answer: Answer,
    ) -> Result<Self, StoreError> {
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
        Ok(Self { writes: writes.collect::<Result<_, StoreError>>()?, answer })
    }
}

pub(super) type Outcome = Result<Option<Item>, StoreError>;

/// Decides and stores all transactions. The outcomes hold once the transaction of the database is committed.
pub(super) fn run(
    tx: &mut Tx<'_>,
    transactions: &[&Transaction],
    now: jiff::Timestamp,
) -> Result<Vec<Outcome>, DatabaseError> {
    let mut state = State::load(tx, transactions)?;
    let mut changes = Vec::new();
    let outcomes: Vec<_> =
        transactions.iter().map(|transaction| state.apply(transaction, &mut changes)).collect();
    state.store(tx)?;
    changes::record(tx, &changes, now)?;
    Ok(outcomes)
}

struct State<'a> {
    slots: HashMap<&'a RowKey, Slot>,
}

struct Slot {
    current: Option<Stored>,
    changed: bool,
}

impl<'a> State<'a> {
    fn load(tx: &mut Tx<'_>, transactions: &[&'a Transaction]) -> Result<Self, DatabaseError> {
        let mut slots = HashMap::new();
        for (key, _) in transactions.iter().flat_map(|transaction| &transaction.writes) {
            slots.entry(key).or_insert(Slot { current: None, changed: false });
        }
        for (table, keys) in by_table(slots.keys().copied()) {
            let found = rows::load(tx, table, &keys)?;
            for (key, json) in keys.into_iter().zip(found) {
                let Some(json) = json else { continue };
                let item = rows::from_json(&json).map_err(corrupt)?;
                let stored = Stored { item: Arc::new(item), json: Some(json.into()) };
                slots.insert(key, Slot { current: Some(stored), changed: false });
            }
        }
        Ok(Self { slots })
    }

    fn apply(&mut self, transaction: &'a Transaction, changes: &mut Vec<NewChange>) -> Outcome {
        let decided: Vec<_> = transaction.writes.iter().map(|write| self.decide(write)).collect();
        if decided.iter().any(Result::is_err) {
            let reasons = decided.into_iter().map(|one| one.err().unwrap_or(Cancellation::None));
            return Err(StoreError::Cancelled(reasons.collect()));
        }
        let mut answer = None;
        for ((key, prepared), new) in transaction.writes.iter().zip(decided.into_iter().flatten()) {
            if matches!(prepared.write, Write::Check(_)) {
                continue;
            }
            let slot = self.slots.get_mut(key).expect("every key was given a slot");
            let old = std::mem::replace(&mut slot.current, new.clone());
            slot.changed = true;
            answer = match transaction.answer {
                Answer::Nothing => None,
                Answer::Old => old.as_ref().map(|stored| Item::clone(&stored.item)),
                Answer::New => new.as_ref().map(|stored| Item::clone(&stored.item)),
            };
            if key.table.stream {
                changes.extend(change(key, old, new));
            }
        }
        Ok(answer)
    }

    /// What stands under the key afterwards, or why it cannot be.
    fn decide(&self, (key, prepared): &(RowKey, Prepared)) -> Result<Option<Stored>, Cancellation> {
        let slot = self.slots.get(key).expect("every key was given a slot");
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

    fn store(self, tx: &mut Tx<'_>) -> Result<(), DatabaseError> {
        let mut slots = self.slots;
        slots.retain(|_, slot| slot.changed);
        let (kept, removed): (HashMap<_, _>, HashMap<_, _>) =
            slots.into_iter().partition(|(_, slot)| slot.current.is_some());
        for (table, keys) in by_table(removed.into_keys()) {
            rows::remove(tx, table, &keys)?;
        }
        for (table, keys) in by_table(kept.keys().copied()) {
            let bodies = keys.into_iter().filter_map(|key| {
                let stored = kept.get(key)?.current.as_ref()?;
                let json = match &stored.json {
                    Some(json) => json.to_string(),
                    None => rows::to_json(&stored.item),
                };
                Some((key, RowBody::new(table, &stored.item, json)))
            });
            rows::store(tx, table, &bodies.collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

/// The keys of each table, sorted: every node then locks rows in the same order.
fn by_table<'a>(keys: impl Iterator<Item = &'a RowKey>) -> Vec<(&'static Table, Vec<&'a RowKey>)> {
    let mut tables: Vec<(&'static Table, Vec<&RowKey>)> = Vec::new();
    for key in keys {
        match tables.iter_mut().find(|(table, _)| *table == key.table) {
            Some((_, keys)) => keys.push(key),
            None => tables.push((key.table, vec![key])),
        }
    }
    tables.sort_by_key(|(table, _)| table.name);
    for (_, keys) in &mut tables {
        keys.sort_by(|a, b| (&a.workspace, &a.pk, &a.sk).cmp(&(&b.workspace, &b.pk, &b.sk)));
    }
    tables
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

fn corrupt(error: StoreError) -> DatabaseError {
    DatabaseError::Statement(Arc::new(error))
}
