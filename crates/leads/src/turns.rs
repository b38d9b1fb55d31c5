//! One at a time: whoever works on the same timeline in this process waits for his turn.
//!
//! Of two who count for the same person at once, one is too slow and has to begin anew; of many, most are. So those of one
//! process stand in a lane, and whoever is in front can take along what the others wait with. Those of other processes are
//! still met, and the stores decide between them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidings_access::Cx;
use tokio::sync::MutexGuard;

/// When there are more lanes than this, those are dropped in which nobody is.
const MANY: usize = 1_000;

/// The lanes of one worker.
#[derive(Debug)]
pub(crate) struct Turns<T>(Mutex<HashMap<String, Arc<Lane<T>>>>);

/// Where those stand who work on one timeline.
#[derive(Debug)]
pub(crate) struct Lane<T> {
    turn: tokio::sync::Mutex<()>,
    waiting: Mutex<Vec<T>>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Turns<T> {
    pub(crate) fn lane(&self, cx: &Cx, lead_organization_id: &str) -> Arc<Lane<T>> {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lanes.len() >= MANY {
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        let name = format!("{} {lead_organization_id}", cx.workspace_id().get());
        let new =
            || Arc::new(Lane { turn: tokio::sync::Mutex::default(), waiting: Mutex::default() });
        Arc::clone(lanes.entry(name).or_insert_with(new))
    }
}

impl<T> Lane<T> {
    /// Waits until nobody else in this lane is at it.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Leaves something for whoever is in front.
    pub(crate) fn leave(&self, this: T) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(this);
    }

    /// All that was left.
    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
