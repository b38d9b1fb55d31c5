//! Writes: one value that says what it assumes and what it does. A `Txn` is all of them or none.

use std::collections::HashSet;

use crate::item::Item;
use crate::queue::Outgoing;
use crate::rules::condition::Expect;
use crate::rules::limits::{Invalid, MAX_TXN_BYTES, MAX_TXN_WRITES, check_item, check_key};
use crate::rules::update::Update;
use crate::table::{Key, Table};
use crate::timer::{Timer, TimerChange};

/// Stores an item, in place of the one under its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    pub table: &'static Table,
    pub item: Item,
    pub expect: Expect,
}

/// Removes the item under a key; it is no error if there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    pub table: &'static Table,
    pub key: Key,
    pub expect: Expect,
}

/// Writes nothing, and stops its transaction if the expectation does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub table: &'static Table,
    pub key: Key,
    pub expect: Expect,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    Put(Put),
    Update(Update),
    Delete(Delete),
    Check(Check),
}

/// Up to 100 writes to different items that happen together or not at all, and what must happen later because of
/// them: it does if they do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Txn {
    pub writes: Vec<Write>,
    pub messages: Vec<Outgoing>,
    pub timers: Vec<TimerChange>,
}

/// Why one write of a transaction stood in its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancellation {
    /// This one did not.
    None,
    /// What it expected does not hold; this is what is there.
    ConditionFailed {
        current: Option<Item>,
    },
    Invalid(Invalid),
    /// Another transaction was writing the same item.
    Conflict,
}

impl Put {
    pub fn new(table: &'static Table, item: Item) -> Self {
        Self { table, item, expect: Expect::Anything }
    }

    #[must_use]
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }
}

impl Delete {
    pub fn new(table: &'static Table, key: Key) -> Self {
        Self { table, key, expect: Expect::Anything }
    }

    #[must_use]
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }
}

impl Write {
    pub fn table(&self) -> &'static Table {
        match self {
            Write::Put(put) => put.table,
            Write::Update(update) => update.table,
            Write::Delete(delete) => delete.table,
            Write::Check(check) => check.table,
        }
    }

    pub fn key(&self) -> Result<Key, Invalid> {
        match self {
            Write::Put(put) => put.table.key_of(&put.item),
            Write::Update(update) => Ok(update.key.clone()),
            Write::Delete(delete) => Ok(delete.key.clone()),
            Write::Check(check) => Ok(check.key.clone()),
        }
    }

    pub fn expectation(&self) -> &Expect {
        match self {
            Write::Put(put) => &put.expect,
            Write::Update(update) => &update.expect,
            Write::Delete(delete) => &delete.expect,
            Write::Check(check) => &check.expect,
        }
    }

    pub fn validate(&self) -> Result<(), Invalid> {
        self.expectation().validate()?;
        match self {
            Write::Put(put) => check_item(put.table, &put.item),
            Write::Update(update) => update.validate(),
            Write::Delete(delete) => check_key(delete.table, &delete.key),
            Write::Check(check) => check_key(check.table, &check.key),
        }
    }

    /// What stands under the key afterwards, given what stands there now.
    pub fn apply(&self, current: Option<&Item>) -> Result<Option<Item>, Invalid> {
        match self {
            Write::Put(put) => Ok(Some(put.item.clone())),
            Write::Update(update) => update.apply(current),
            Write::Delete(_) => Ok(None),
            Write::Check(_) => Ok(current.cloned()),
        }
    }

    fn size(&self) -> usize {
        match self {
            Write::Put(put) => put.item.size(),
            Write::Update(update) => update.size(),
            Write::Delete(_) | Write::Check(_) => 0,
        }
    }
}

impl Txn {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn put(self, table: &'static Table, item: Item, expect: Expect) -> Self {
        self.write(Write::Put(Put { table, item, expect }))
    }

    #[must_use]
    pub fn update(self, update: Update) -> Self {
        self.write(Write::Update(update))
    }

    #[must_use]
    pub fn delete(self, table: &'static Table, key: Key, expect: Expect) -> Self {
        self.write(Write::Delete(Delete { table, key, expect }))
    }

    #[must_use]
    pub fn check(self, table: &'static Table, key: Key, expect: Expect) -> Self {
        self.write(Write::Check(Check { table, key, expect }))
    }

    #[must_use]
    pub fn write(mut self, write: Write) -> Self {
        self.writes.push(write);
        self
    }

    /// Everything of both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.writes.extend(other.writes);
        self.messages.extend(other.messages);
        self.timers.extend(other.timers);
        self
    }

    /// Sends a message if the transaction is made.
    #[must_use]
    pub fn enqueue(mut self, message: Outgoing) -> Self {
        self.messages.push(message);
        self
    }

    /// Sets a timer, in place of the one with the same key.
    #[must_use]
    pub fn arm(mut self, timer: Timer) -> Self {
        self.timers.push(TimerChange::Arm(timer));
        self
    }

    #[must_use]
    pub fn cancel_timer(mut self, key: impl Into<String>) -> Self {
        self.timers.push(TimerChange::Cancel(key.into()));
        self
    }

    /// How many of DynamoDB's writes it is: a message is an item there, and a timer two.
    fn count(&self) -> usize {
        self.writes.len() + self.messages.len() + 2 * self.timers.len()
    }

    pub fn validate(&self) -> Result<(), Invalid> {
        if !(1..=MAX_TXN_WRITES).contains(&self.count()) {
            return Err(Invalid::TxnCount);
        }
        let mut keys = HashSet::new();
        for timer in &self.timers {
            timer.validate()?;
            if !keys.insert(timer.key()) {
                return Err(Invalid::TxnSameTimer);
            }
        }
        for message in &self.messages {
            message.validate()?;
        }
        let mut items = HashSet::new();
        for write in &self.writes {
            write.validate()?;
            // DynamoDB takes such an update alone, and refuses it in company.
            if matches!(write, Write::Update(update) if update.actions.is_empty()) {
                return Err(Invalid::TxnEmptyUpdate);
            }
            if !items.insert((write.table().name, write.key()?)) {
                return Err(Invalid::TxnSameItem);
            }
        }
        let bodies = self.messages.iter().map(|message| message.body.len());
        let timers = self.timers.iter().map(TimerChange::size);
        let size = self.writes.iter().map(Write::size).chain(bodies).chain(timers).sum::<usize>();
        if size > MAX_TXN_BYTES {
            return Err(Invalid::TxnTooLarge);
        }
        Ok(())
    }
}
