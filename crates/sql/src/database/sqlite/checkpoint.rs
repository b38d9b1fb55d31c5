//! Copies the write-ahead log into the file, beside the commits and not between them.
//!
//! A passive checkpoint runs while the writer goes on. Only the last bit, what was written meanwhile, is copied
//! with the writer held, so that the log starts anew instead of growing for ever under a steady load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::{SqliteOptions, spawn};
use crate::database::DatabaseError;

const PAGE_BYTES: usize = 4096;
/// Below this many pages left, holding the writer is cheaper than another round beside it.
const SMALL_REST: i64 = 1024;
const MAX_ROUNDS: usize = 4;

/// What the writer holds while it writes, and the checkpointer while it copies the last bit. A plain lock would
/// not do: a busy writer takes it again before anybody else wakes up.
#[derive(Default)]
pub(super) struct Gate {
    held: Mutex<()>,
    wanted: AtomicBool,
    free: Condvar,
}

impl Gate {
    /// For the writer: lets the checkpointer go first if it waits.
    pub(super) fn enter(&self) -> MutexGuard<'_, ()> {
        let mut held = self.held.lock().expect("nobody panics while holding the gate");
        while self.wanted.load(Ordering::Acquire) {
            held = self.free.wait(held).expect("nobody panics while holding the gate");
        }
        held
    }

    fn hold<T>(&self, work: impl FnOnce() -> T) -> T {
        self.wanted.store(true, Ordering::Release);
        let held = self.held.lock().expect("nobody panics while holding the gate");
        let done = work();
        self.wanted.store(false, Ordering::Release);
        drop(held);
        self.free.notify_all();
        done
    }
}

pub(super) struct Checkpointer {
    wake: SyncSender<()>,
    threshold: usize,
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    pub(super) fn start(
        connection: Connection,
        options: &SqliteOptions,
        gate: Arc<Gate>,
    ) -> Result<Self, DatabaseError> {
        let (wake, woken) = sync_channel(1);
        let stopping = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stopping);
        let thread = spawn("sqlite-checkpoint", move || run(&connection, &woken, &gate, &seen))?;
        Ok(Self { wake, threshold: options.checkpoint_bytes / PAGE_BYTES, stopping, thread })
    }

    /// Wakes the checkpointer when a commit leaves the log long.
    pub(super) fn watch(&self, writer: &mut Connection) -> Result<(), DatabaseError> {
        let (wake, threshold) = (self.wake.clone(), self.threshold);
        let hook = move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            if pages as usize >= threshold {
                // Full means that it is awake already.
                let _ = wake.try_send(());
            }
            Ok(())
        };
        Ok(writer.wal_hook(Some(hook))?)
    }

    pub(super) fn stop(self) {
        self.stopping.store(true, Ordering::Release);
        // Full means that it is awake already.
        let _ = self.wake.try_send(());
        if self.thread.join().is_err() {
            tracing::error!("The checkpoint thread ended in a panic");
        }
    }
}

fn run(connection: &Connection, woken: &Receiver<()>, gate: &Gate, stopping: &AtomicBool) {
    while woken.recv().is_ok() && !stopping.load(Ordering::Acquire) {
        if let Err(error) = fold(connection, gate) {
            tracing::error!(%error, "The write-ahead log could not be copied into the database file");
        }
    }
}

fn fold(connection: &Connection, gate: &Gate) -> Result<(), DatabaseError> {
    for _ in 0..MAX_ROUNDS {
        if passive(connection)? < SMALL_REST {
            break;
        }
    }
    gate.hold(|| passive(connection)).map(drop)
}

/// The pages of the log that are not in the file yet.
fn passive(connection: &Connection) -> Result<i64, DatabaseError> {
    let sql = "PRAGMA wal_checkpoint(PASSIVE)";
    let (logged, copied): (i64, i64) =
        connection.query_row(sql, [], |row| Ok((row.get(1)?, row.get(2)?)))?;
    Ok(logged - copied)
}
