//! Connections that are kept for the next message, never more than a given number.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::connection::Connection;

/// Servers close what is idle for longer, and many take no more than a hundred messages on one connection.
const MAX_IDLE: Duration = Duration::from_secs(30);
const MAX_MESSAGES: u32 = 100;

pub(super) struct Pool {
    places: Semaphore,
    kept: Mutex<Vec<Kept>>,
}

struct Kept {
    connection: Connection,
    messages: u32,
    since: Instant,
}

/// The right to use one connection.
pub(super) struct Place<'a> {
    pool: &'a Pool,
    _permit: Option<SemaphorePermit<'a>>,
}

/// A connection in use. It is closed unless it is given back.
pub(super) struct Lease<'a> {
    pool: &'a Pool,
    connection: Connection,
    messages: u32,
}

impl Pool {
    pub(super) fn new(connections: usize) -> Self {
        Self { places: Semaphore::new(connections), kept: Mutex::new(Vec::new()) }
    }

    /// Waits until a connection is free.
    pub(super) async fn place(&self) -> Place<'_> {
        // It is closed by nobody.
        Place { pool: self, _permit: self.places.acquire().await.ok() }
    }
}

impl<'a> Place<'a> {
    /// The one that was used last, unless it is too old.
    pub(super) fn kept(&self) -> Option<Lease<'a>> {
        let mut kept = self.pool.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now = Instant::now();
        kept.retain(|one| now.duration_since(one.since) < MAX_IDLE);
        let Kept { connection, messages, .. } = kept.pop()?;
        Some(Lease { pool: self.pool, connection, messages })
    }

    pub(super) fn fresh(&self, connection: Connection) -> Lease<'a> {
        Lease { pool: self.pool, connection, messages: 0 }
    }
}

impl Lease<'_> {
    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Keeps it for the next message. One that has carried enough of them is returned instead.
    pub(super) fn give_back(self) -> Option<Connection> {
        let messages = self.messages + 1;
        if messages >= MAX_MESSAGES {
            return Some(self.connection);
        }
        let one = Kept { connection: self.connection, messages, since: Instant::now() };
        self.pool.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(one);
        None
    }
}
