//! Who waits for what, so that nobody has to ask all the time.
//!
//! A unit of work says whom its commit concerns (`Tx::wake`). Those in this process are woken right after it; other
//! processes hear of it from PostgreSQL (`postgres::notify`), and on SQLite find out when they next look. A wake-up
//! is a hint: whoever needs to be certain looks now and then by himself.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

#[derive(Default)]
pub(super) struct Wakers(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: HashMap<&'static str, watch::Sender<()>>,
    /// What the other processes are still to be told, if anybody tells them.
    told: BTreeSet<&'static str>,
    teller: Option<async_channel::Sender<()>>,
    listener: Option<async_channel::Sender<()>>,
}

impl Wakers {
    /// The receiver sees every wake-up from now on.
    pub(super) fn subscribe(&self, name: &'static str) -> watch::Receiver<()> {
        let mut state = self.state();
        if let Some(listener) = &state.listener {
            let _ = listener.try_send(());
        }
        state.waiting.entry(name).or_default().subscribe()
    }

    /// Wakes those in this process, and has the others told.
    pub(super) fn wake(&self, names: &BTreeSet<&'static str>) {
        if names.is_empty() {
            return;
        }
        let mut state = self.state();
        for name in names {
            state.wake(name);
        }
        if let Some(teller) = state.teller.clone() {
            state.told.extend(names);
            // If it is full, the teller is about to look anyway.
            let _ = teller.try_send(());
        }
    }

    /// Wakes those in this process who wait for a name that another process has told.
    pub(super) fn wake_named(&self, name: &str) {
        self.state().wake(name);
    }

    /// Wakes everybody: something may have been missed.
    pub(super) fn wake_all(&self) {
        for waiting in self.state().waiting.values() {
            waiting.send_replace(());
        }
    }

    /// From now on `teller` gets a word when there is something to tell, and `listener` when somebody waits.
    pub(super) fn connect(
        &self,
        teller: async_channel::Sender<()>,
        listener: async_channel::Sender<()>,
    ) {
        let mut state = self.state();
        state.teller = Some(teller);
        state.listener = Some(listener);
    }

    /// What is to be told to the other processes, which from now on it is.
    pub(super) fn take_told(&self) -> BTreeSet<&'static str> {
        std::mem::take(&mut self.state().told)
    }

    /// Ends whoever tells and listens.
    pub(super) fn close(&self) {
        let mut state = self.state();
        for channel in [state.teller.take(), state.listener.take()].into_iter().flatten() {
            channel.close();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake(&self, name: &str) {
        if let Some(waiting) = self.waiting.get(name) {
            waiting.send_replace(());
        }
    }
}
