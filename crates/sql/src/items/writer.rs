//! Gathers the writes of all callers into batches, and hands each batch to the database as one unit.
//!
//! While a batch is being committed the next one forms. So a counter that a thousand callers add to at once
//! costs one row a batch, and on PostgreSQL they do not run into each other.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use tidings_kernel::{Clock, StoreError, Txn, Workspace};
use tokio::sync::oneshot;

use super::batch::{self, Answer, Outcome, Transaction};
use super::{Streams, store_error};
use crate::database::{Database, DatabaseError, Tx, Unit, Verdict};

/// How many transactions one batch may hold.
const MAX_BATCH: usize = 1024;
/// And how many bytes, so that a thousand large ones do not fill the memory.
const MAX_BATCH_BYTES: usize = 16 << 20;
/// How many may wait. More make their callers wait.
const QUEUE: usize = 4096;

#[derive(Clone)]
pub(super) struct Writer {
    queue: async_channel::Sender<Pending>,
    streams: Streams,
}

struct Pending {
    transaction: Transaction,
    /// The transaction goes back with the outcome: its memory is freed by the caller, not by the one writer.
    reply: oneshot::Sender<(Outcome, Transaction)>,
}

impl Writer {
    /// The thread ends with the last clone of the writer.
    pub(super) fn start(database: Database, clock: Arc<dyn Clock>, streams: Streams) -> Self {
        let (queue, pending) = async_channel::bounded(QUEUE);
        std::thread::Builder::new()
            .name("items-write".into())
            .spawn(move || gather(&database, &clock, &pending))
            .expect("the machine has room for one more thread");
        Self { queue, streams }
    }

    pub(super) async fn write(&self, workspace: &Workspace, txn: Txn, answer: Answer) -> Outcome {
        let transaction = Transaction::new(workspace, txn, answer, self.streams)?;
        let (reply, outcome) = oneshot::channel();
        let closed = || StoreError::Unavailable(Box::new(DatabaseError::Closed));
        self.queue.send(Pending { transaction, reply }).await.map_err(|_| closed())?;
        outcome.await.map_or_else(|_| Err(closed()), |(outcome, _)| outcome)
    }
}

fn gather(database: &Database, clock: &Arc<dyn Clock>, pending: &async_channel::Receiver<Pending>) {
    // One at a time: two batches would be two transactions on PostgreSQL, which meet on the same rows, and on
    // SQLite half as many callers for each fsync.
    let (finished, previous) = sync_channel(1);
    while let Ok(first) = pending.recv_blocking() {
        let mut bytes = first.transaction.bytes();
        let mut batch = vec![first];
        while batch.len() < MAX_BATCH && bytes < MAX_BATCH_BYTES {
            let Ok(next) = pending.try_recv() else { break };
            bytes += next.transaction.bytes();
            batch.push(next);
        }
        metrics::histogram!("tidings_items_batch_transactions").record(batch.len() as f64);
        let (clock, finished) = (Arc::clone(clock), finished.clone());
        database.submit(Box::new(Batch { pending: batch, outcomes: None, clock, finished }));
        if previous.recv().is_err() {
            return;
        }
    }
}

struct Batch {
    pending: Vec<Pending>,
    outcomes: Option<Result<Vec<Outcome>, DatabaseError>>,
    clock: Arc<dyn Clock>,
    finished: SyncSender<()>,
}

impl Unit for Batch {
    fn run(&mut self, tx: &mut Tx<'_>) -> Verdict {
        let transactions: Vec<_> = self.pending.iter().map(|one| &one.transaction).collect();
        let outcomes = batch::run(tx, &transactions, self.clock.now());
        let verdict = if outcomes.is_ok() { Verdict::Commit } else { Verdict::RollBack };
        self.outcomes = Some(outcomes);
        verdict
    }

    fn weight(&self) -> usize {
        self.pending.len()
    }

    fn finish(self: Box<Self>, outcome: Result<(), DatabaseError>) {
        let Self { pending, outcomes, finished, .. } = *self;
        // The next batch forms while these are told. The channel has room for this one word.
        let _ = finished.send(());
        let ran = outcome.and_then(|()| outcomes.unwrap_or(Err(DatabaseError::Panicked)));
        match ran {
            Ok(outcomes) => {
                for (one, outcome) in pending.into_iter().zip(outcomes) {
                    drop(one.reply.send((outcome, one.transaction)));
                }
            }
            Err(error) => {
                for one in pending {
                    let outcome = Err(store_error(error.clone()));
                    drop(one.reply.send((outcome, one.transaction)));
                }
            }
        }
    }
}
