//! Short reads on the thread of whoever asks. Handing one over to a thread of the database and being woken by it costs several
//! times what it takes SQLite to find a few rows.

use std::sync::{Mutex, TryLockError};

use rusqlite::Connection;

use super::sqlite::read_one;
use super::unit::Unit;

/// Connections that a caller may use for as long as one look takes. There are none for PostgreSQL, where whoever asks
/// would have to wait for an answer.
#[derive(Default)]
pub(super) struct Glances {
    connections: Vec<Mutex<Option<Connection>>>,
}

impl Glances {
    pub(super) fn new(connections: Vec<Connection>) -> Self {
        Self { connections: connections.into_iter().map(|one| Mutex::new(Some(one))).collect() }
    }

    /// Runs the unit and answers it. If no connection is free, the unit comes back.
    pub(super) fn run(&self, mut unit: Box<dyn Unit>) -> Option<Box<dyn Unit>> {
        for connection in &self.connections {
            let connection = match connection.try_lock() {
                Ok(connection) => connection,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            let Some(open) = connection.as_ref() else { continue };
            let outcome = read_one(open, &mut *unit);
            drop(connection);
            unit.finish(outcome);
            return None;
        }
        Some(unit)
    }

    /// Waits for those who look right now. What comes later is given back.
    pub(super) fn close(&self) {
        for connection in &self.connections {
            match connection.lock() {
                Ok(mut connection) => drop(connection.take()),
                Err(poisoned) => drop(poisoned.into_inner().take()),
            }
        }
    }
}
