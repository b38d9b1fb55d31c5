//! Queues and timers on SQL: rows that are taken with a lease, and moved when they are due.
//!
//! What a commit promises is in its own transaction (`Tx::enqueue`, `Tx::change_timer`, and a `Txn` of items), so it
//! happens exactly if the commit does. Here is the engine; the statements are in `rows`, `dead` and `timers`. Where
//! the queues are on SQS, the same rows are the outbox, and `relay` hands them on. Not here: what a body says.

mod dead;
mod relay;
mod rows;
mod schedules;
#[cfg(test)]
mod tests;
mod timers;
mod waiting;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_kernel::{
    BadMessage, Clock, DeadLetter, Delivery, Depth, Fired, Invalid, Outgoing, Postponement, Queue,
    QueueEngine, QueueError, Receipt, Receive, ScheduleEngine, StoreError, TimerChange,
    TimerEngine, Which, Workspace, check_count, check_lease,
};

use crate::database::{Database, DatabaseError, Tx};
use crate::items::store_error;
pub use dead::forget_dead_letters;
pub(crate) use rows::insert as insert_messages;
pub(crate) use timers::{NewTimer, change_all as change_timers};

const MAX_REASON: usize = 2_000;

/// The queue and timer engine on SQLite and PostgreSQL.
#[derive(Clone)]
pub struct SqlQueues {
    database: Database,
    clock: Arc<dyn Clock>,
    busy: Arc<waiting::Busy>,
    worn_out: Arc<waiting::WornOut>,
}

impl SqlQueues {
    pub fn new(database: Database, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock, busy: Arc::default(), worn_out: Arc::default() }
    }

    fn now(&self) -> i64 {
        self.clock.now().as_millisecond()
    }
}

impl Tx<'_> {
    /// Sends a message if this transaction is committed.
    pub fn enqueue(&mut self, message: &Outgoing, now: Timestamp) -> Result<(), EnqueueError> {
        message.validate()?;
        Ok(rows::insert(self, &[message], now)?)
    }

    /// The same for many, in their order.
    pub fn enqueue_all(
        &mut self,
        messages: &[Outgoing],
        now: Timestamp,
    ) -> Result<(), EnqueueError> {
        messages.iter().try_for_each(Outgoing::validate)?;
        Ok(rows::insert(self, &messages.iter().collect::<Vec<_>>(), now)?)
    }

    /// Arms or cancels a timer if this transaction is committed.
    pub fn change_timer(
        &mut self,
        workspace: &Workspace,
        change: &TimerChange,
    ) -> Result<(), EnqueueError> {
        self.change_timers(workspace, std::slice::from_ref(change))
    }

    /// The same for several.
    pub fn change_timers(
        &mut self,
        workspace: &Workspace,
        changes: &[TimerChange],
    ) -> Result<(), EnqueueError> {
        changes.iter().try_for_each(TimerChange::validate)?;
        let workspace = workspace.as_str();
        let changes: Vec<_> = changes.iter().map(|change| NewTimer { workspace, change }).collect();
        Ok(timers::change_all(self, &changes)?)
    }
}

/// Why a transaction cannot promise a message.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EnqueueError {
    #[error(transparent)]
    Invalid(#[from] BadMessage),
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// For those who put together what they send themselves: it is always something that a queue can carry.
impl From<EnqueueError> for DatabaseError {
    fn from(error: EnqueueError) -> Self {
        match error {
            EnqueueError::Database(error) => error,
            EnqueueError::Invalid(error) => Self::Statement(Arc::new(error)),
        }
    }
}

#[async_trait]
impl QueueEngine for SqlQueues {
    async fn send(&self, messages: Vec<Outgoing>) -> Result<(), QueueError> {
        check_count(messages.len())?;
        messages.iter().try_for_each(Outgoing::validate)?;
        let now = self.clock.now();
        let sent = self
            .database
            .write_committed(move |tx| rows::insert(tx, &messages.iter().collect::<Vec<_>>(), now));
        sent.await.map_err(queue_error)
    }

    async fn receive(
        &self,
        queue: &'static Queue,
        request: Receive,
    ) -> Result<Vec<Delivery>, QueueError> {
        request.validate()?;
        waiting::receive(self, queue, request).await
    }

    fn worn_out(&self, queue: &'static Queue) -> Vec<Delivery> {
        self.worn_out.take(queue)
    }

    async fn acknowledge(
        &self,
        queue: &'static Queue,
        receipts: &[Receipt],
    ) -> Result<usize, QueueError> {
        check_count(receipts.len())?;
        let held = rows::Held::parse(receipts.iter())?;
        let done = self.database.write_committed(move |tx| rows::delete(tx, queue, &held));
        done.await.map_err(queue_error)
    }

    async fn postpone(
        &self,
        queue: &'static Queue,
        postponements: &[Postponement],
    ) -> Result<usize, QueueError> {
        check_count(postponements.len())?;
        postponements.iter().try_for_each(|one| check_lease(one.lease))?;
        let held = rows::Held::parse(postponements.iter().map(|one| &one.receipt))?;
        let (now, mut postponements) = (self.now(), postponements.to_vec());
        for one in &mut postponements {
            one.reason = one.reason.as_deref().map(clean);
        }
        let done = self
            .database
            .write_committed(move |tx| rows::postpone(tx, queue, &held, &postponements, now));
        done.await.map_err(queue_error)
    }

    async fn defer(
        &self,
        queue: &'static Queue,
        delivery: &Delivery,
        lease: Duration,
        reason: &str,
    ) -> Result<(), QueueError> {
        check_lease(lease)?;
        let held = rows::Held::parse([&delivery.receipt])?;
        let postponement =
            Postponement { receipt: delivery.receipt.clone(), lease, reason: Some(clean(reason)) };
        let now = self.now();
        let done = self.database.write_committed(move |tx| {
            rows::excuse(tx, queue, &held)?;
            rows::postpone(tx, queue, &held, std::slice::from_ref(&postponement), now)
        });
        done.await.map(drop).map_err(queue_error)
    }

    async fn bury(
        &self,
        queue: &'static Queue,
        delivery: &Delivery,
        reason: &str,
    ) -> Result<(), QueueError> {
        let held = rows::Held::parse([&delivery.receipt])?;
        let (now, reason) = (self.now(), clean(reason));
        let done =
            self.database.write_committed(move |tx| dead::bury(tx, queue, &held, &reason, now));
        done.await.map_err(queue_error)
    }

    async fn depth(&self, queue: &'static Queue) -> Result<Depth, QueueError> {
        let now = self.now();
        self.database.read(move |tx| rows::depth(tx, queue, now)).await.map_err(queue_error)
    }

    async fn dead_letters(
        &self,
        queue: &'static Queue,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, QueueError> {
        check_count(limit)?;
        let after = after.unwrap_or_default().to_owned();
        let found = self.database.read(move |tx| dead::list(tx, queue, &after, limit)).await;
        found.map_err(queue_error)
    }

    async fn replay(&self, queue: &'static Queue, which: Which) -> Result<u64, QueueError> {
        let now = self.clock.now();
        self.in_parts(which, move |tx, chosen| dead::replay(tx, queue, chosen, now)).await
    }

    async fn purge(&self, queue: &'static Queue, which: Which) -> Result<u64, QueueError> {
        self.in_parts(which, move |tx, chosen| dead::purge(tx, queue, chosen)).await
    }
}

impl SqlQueues {
    /// Works on dead letters in transactions of bounded size, until none of those meant is left.
    async fn in_parts(
        &self,
        which: Which,
        work: impl Fn(&mut Tx<'_>, dead::Chosen<'_>) -> Result<u64, DatabaseError>
        + Clone
        + Send
        + 'static,
    ) -> Result<u64, QueueError> {
        let mut count = 0;
        // What dies again while this goes on is not meant, or it might never end.
        let until = self.now();
        match which {
            Which::All => loop {
                let work = work.clone();
                let chosen = dead::Chosen::DeadUntil(until);
                let part = self.database.write_committed(move |tx| work(tx, chosen)).await;
                match part.map_err(queue_error)? {
                    0 => return Ok(count),
                    some => count += some,
                }
            },
            Which::Only(ids) => {
                for part in ids.chunks(dead::PART) {
                    let (work, part) = (work.clone(), part.to_vec());
                    let done =
                        self.database.write_committed(move |tx| work(tx, dead::Chosen::Ids(&part)));
                    count += done.await.map_err(queue_error)?;
                }
                Ok(count)
            }
        }
    }
}

#[async_trait]
impl TimerEngine for SqlQueues {
    async fn fire(&self, limit: usize) -> Result<Fired, StoreError> {
        let now = self.clock.now();
        let next_due = self.database.glance(timers::next_due).await.map_err(store_error)?;
        // Looking costs no commit, and mostly nothing is due.
        if next_due.is_none_or(|due| due > now) {
            return Ok(Fired { count: 0, next_due });
        }
        let fired = self.database.write_committed(move |tx| timers::fire(tx, now, limit)).await;
        fired.map_err(store_error)
    }

    fn armed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let mut wakes = self.database.wakes(timers::WAKE);
        // The sender lives as long as the database.
        Box::pin(async move { drop(wakes.changed().await) })
    }
}

#[async_trait]
impl ScheduleEngine for SqlQueues {
    async fn last_begun(&self, name: &str) -> Result<Option<Timestamp>, StoreError> {
        let (name, now) = (name.to_owned(), self.clock.now());
        let begun = self.database.read(move |tx| schedules::last_begun(tx, &name, now)).await;
        begun.map_err(store_error)
    }

    async fn begin(
        &self,
        name: &str,
        occurrence: Timestamp,
        message: Outgoing,
    ) -> Result<bool, StoreError> {
        message.validate().map_err(Invalid::from)?;
        let (name, now) = (name.to_owned(), self.clock.now());
        let begun = self.database.write_committed(move |tx| {
            let first = schedules::begin(tx, &name, occurrence, now)?;
            if first {
                rows::insert(tx, &[&message], now)?;
            }
            Ok(first)
        });
        begun.await.map_err(store_error)
    }
}

/// A reason is for people, and PostgreSQL takes no U+0000.
fn clean(reason: &str) -> String {
    reason.chars().filter(|c| *c != '\0').take(MAX_REASON).collect()
}

fn queue_error(error: DatabaseError) -> QueueError {
    match error {
        DatabaseError::Statement(_)
        | DatabaseError::Constraint(_)
        | DatabaseError::Panicked
        | DatabaseError::Column { .. }
        | DatabaseError::NoRow
        | DatabaseError::Damaged(_) => QueueError::Failed(Box::new(error)),
        other => QueueError::Unavailable(Box::new(other)),
    }
}
