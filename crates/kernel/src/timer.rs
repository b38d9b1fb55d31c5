//! Timers: a message that goes to its queue at its time, days or months from now.
//!
//! A timer is armed and cancelled in the commit that makes it necessary (`Txn::arm`). It has a key of the caller's
//! own: arming the same key again moves it. When it is due, its message is moved to the queue; what happens then
//! is the queue's matter. Not here: when periodic work is due (`jobs::schedule`).

use std::pin::Pin;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::queue::{BadMessage, Outgoing, Queue};
use crate::store::StoreError;

/// The longest key, in bytes.
pub const MAX_TIMER_KEY: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timer {
    /// Names it within its workspace: `sequence/welcome/ada@example.org`.
    pub key: String,
    pub due: Timestamp,
    pub queue: &'static Queue,
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimerChange {
    Arm(Timer),
    /// It is no error if there is no such timer, or none any more.
    Cancel(String),
}

impl TimerChange {
    pub fn key(&self) -> &str {
        match self {
            Self::Arm(timer) => &timer.key,
            Self::Cancel(key) => key,
        }
    }

    /// In bytes, roughly.
    pub fn size(&self) -> usize {
        match self {
            Self::Arm(timer) => timer.key.len() + timer.body.len(),
            Self::Cancel(key) => key.len(),
        }
    }

    pub fn validate(&self) -> Result<(), BadMessage> {
        let key = self.key();
        if key.is_empty() || key.len() > MAX_TIMER_KEY || key.contains('\0') {
            return Err(BadMessage::TimerKey);
        }
        match self {
            Self::Arm(timer) => crate::queue::check_body(&timer.body),
            Self::Cancel(_) => Ok(()),
        }
    }
}

/// What is waiting for its time, in all workspaces.
#[async_trait]
pub trait TimerEngine: Send + Sync {
    /// Moves the messages of up to `limit` due timers to their queues. Several nodes may do it at once: each timer
    /// is moved by one of them. An error only if nothing could be done.
    async fn fire(&self, limit: usize) -> Result<Fired, StoreError>;

    /// Is over when a timer was armed since the call, as far as the engine notices. A hint, not a promise.
    fn armed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

/// Which occurrences of periodic work were begun, so that of all nodes one begins each.
#[async_trait]
pub trait ScheduleEngine: Send + Sync {
    async fn last_begun(&self, name: &str) -> Result<Option<Timestamp>, StoreError>;

    /// Sends the message, unless this occurrence or a later one was begun before. Tells whether it did.
    async fn begin(
        &self,
        name: &str,
        occurrence: Timestamp,
        message: Outgoing,
    ) -> Result<bool, StoreError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fired {
    pub count: usize,
    /// When the next one is due, as far as the engine knows. Another may be armed for before that.
    pub next_due: Option<Timestamp>,
}
