//! The settings of tenants, kept in memory for what every request of a browser asks: which pages may ask.
//!
//! Whoever changes them tells the other nodes, and each forgets them then. A word can be lost, and not every store can tell: so nobody
//! keeps them for longer than two seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use tidings_access::{Cx, StorageError};
use tidings_kernel::Workspace;
use tidings_sql::{Database, Heard};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

use super::tenant;
use crate::records::TenantSettings;

/// What nodes tell each other of settings: the workspace.
pub(super) const TOPIC: &str = "inbox-settings";
const KEPT_FOR: SignedDuration = SignedDuration::from_secs(2);
/// So many are kept at a time.
const MAX: usize = 10_000;

/// Those that this node has.
#[derive(Debug, Default)]
pub struct Kept(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    settings: HashMap<Workspace, (Timestamp, Arc<TenantSettings>)>,
    /// How often any were forgotten.
    forgotten: u64,
    /// What other nodes say.
    heard: Option<Receiver<Heard>>,
}

/// When somebody began to read. What was read before any were forgotten may be what was to be forgotten.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

impl Kept {
    pub(crate) fn between_nodes(database: &Database) -> Self {
        let heard = Some(database.hear(TOPIC));
        Self(Mutex::new(State { heard, ..State::default() }))
    }

    /// The settings of the tenant.
    pub async fn tenant(&self, cx: &Cx) -> Result<Arc<TenantSettings>, StorageError> {
        let ticket = match self.known(cx) {
            Ok(known) => return Ok(known),
            Err(ticket) => ticket,
        };
        let settings = Arc::new(tenant(cx).await?);
        self.keep(cx, &ticket, &settings);
        Ok(settings)
    }

    /// They were changed on this node.
    pub fn forget(&self, workspace: &Workspace) {
        let mut state = self.state();
        state.forgotten += 1;
        state.settings.remove(workspace);
    }

    /// Those that are kept, or the ticket to keep them with once they are read.
    pub(super) fn known(&self, cx: &Cx) -> Result<Arc<TenantSettings>, Ticket> {
        let mut state = self.state();
        state.get(cx).ok_or(Ticket(state.forgotten))
    }

    pub(super) fn keep(&self, cx: &Cx, ticket: &Ticket, settings: &Arc<TenantSettings>) {
        let mut state = self.state();
        // What other nodes have said meanwhile.
        state.listen();
        if state.forgotten == ticket.0 {
            state.keep(cx, settings);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn get(&mut self, cx: &Cx) -> Option<Arc<TenantSettings>> {
        self.listen();
        let (at, known) = self.settings.get(cx.workspace())?;
        let is_fresh = *at <= cx.now() && cx.now().duration_since(*at) < KEPT_FOR;
        is_fresh.then(|| Arc::clone(known))
    }

    fn listen(&mut self) {
        let Some(heard) = &mut self.heard else { return };
        loop {
            match heard.try_recv() {
                Ok(Heard::Word(name)) => self.settings.retain(|known, _| known.as_str() != &*name),
                Ok(Heard::Missed) | Err(TryRecvError::Lagged(_)) => self.settings.clear(),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
            self.forgotten += 1;
        }
    }

    fn keep(&mut self, cx: &Cx, settings: &Arc<TenantSettings>) {
        if self.settings.len() >= MAX {
            self.settings.clear();
        }
        self.settings.insert(cx.workspace().clone(), (cx.now(), Arc::clone(settings)));
    }
}
