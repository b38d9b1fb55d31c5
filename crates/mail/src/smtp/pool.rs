//! Connections that are kept for the next message, never more than a given number.
//!
//! Campaigns never have all of them: a mail that somebody waits for finds one that no campaign can take. Even with a
//! single connection it waits for one message at most, because not more of them than that stand in line before it.

use std::sync::Mutex;
use std::time::Duration;

use tidings_kernel::Lane;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::connection::Connection;

/// Servers close what is idle for longer, and many take no more than a hundred messages on one connection.
const MAX_IDLE: Duration = Duration::from_secs(30);
const MAX_MESSAGES: u32 = 100;

/// One of so many connections is kept from campaigns, and at least one if there are several.
const RESERVED: usize = 4;

pub(super) struct Pool {
    places: Semaphore,
    /// The places that campaigns can have. Who has none of these does not stand in line for a place.
    for_campaigns: Semaphore,
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
    _permits: [Option<SemaphorePermit<'a>>; 2],
}

/// A connection in use. It is closed unless it is given back.
pub(super) struct Lease<'a> {
    pool: &'a Pool,
    connection: Connection,
    messages: u32,
}

impl Pool {
    pub(super) fn new(connections: usize) -> Self {
        let reserved = (connections / RESERVED).max(1);
        Self {
            places: Semaphore::new(connections),
            for_campaigns: Semaphore::new(connections.saturating_sub(reserved).max(1)),
            kept: Mutex::new(Vec::new()),
        }
    }

    /// Waits until a connection is free for the lane.
    pub(super) async fn place(&self, lane: Lane) -> Place<'_> {
        // They are closed by nobody.
        let of_lane = match lane {
            Lane::Transactional => None,
            Lane::Campaign => self.for_campaigns.acquire().await.ok(),
        };
        Place { pool: self, _permits: [of_lane, self.places.acquire().await.ok()] }
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
