//! Who waits for what, so that nobody has to ask all the time.
//!
//! A unit of work says whom its commit concerns (`Tx::wake`). Those in this process are woken right after it; other
//! processes hear of it from PostgreSQL (`postgres::notify`), and on SQLite find out when they next look. A wake-up
//! is a hint: whoever needs to be certain looks now and then by himself.
//!
//! Words are hints that say what they are about: a feature tells them after its commit (`Database::tell`), and the other
//! processes hear them (`Database::hear`). Those in the same process know without.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{broadcast, watch};

/// So many words wait to be told. Whoever has more says only that there were some.
const UNTOLD: usize = 10_000;
/// So many words wait for one who hears, before he is told that he missed some.
const UNHEARD: usize = 4_096;

/// What another process said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    Word(Arc<str>),
    /// Something may have been said that did not arrive.
    Missed,
}

/// What is to be told to the other processes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) names: BTreeSet<&'static str>,
    pub(super) words: BTreeSet<(&'static str, String)>,
    /// The topics of which words were left out.
    pub(super) missed: BTreeSet<&'static str>,
}

#[derive(Default)]
pub(super) struct Wakers(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: HashMap<&'static str, watch::Sender<()>>,
    hearing: HashMap<&'static str, broadcast::Sender<Heard>>,
    /// What the other processes are still to be told, if anybody tells them.
    told: Told,
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
            state.told.names.extend(names);
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
        let state = self.state();
        for waiting in state.waiting.values() {
            waiting.send_replace(());
        }
        for hearing in state.hearing.values() {
            // An error means that nobody hears any more.
            drop(hearing.send(Heard::Missed));
        }
    }

    /// The receiver hears what other processes say about the topic from now on.
    pub(super) fn hear(&self, topic: &'static str) -> broadcast::Receiver<Heard> {
        let mut state = self.state();
        if let Some(listener) = &state.listener {
            let _ = listener.try_send(());
        }
        let hearing = state.hearing.entry(topic);
        hearing.or_insert_with(|| broadcast::Sender::new(UNHEARD)).subscribe()
    }

    /// Has the other processes told, if anybody tells them.
    pub(super) fn tell(&self, topic: &'static str, word: &str) {
        let mut state = self.state();
        let Some(teller) = state.teller.clone() else { return };
        if state.told.words.len() < UNTOLD {
            state.told.words.insert((topic, word.to_owned()));
        } else {
            state.told.missed.insert(topic);
        }
        let _ = teller.try_send(());
    }

    /// Passes on what another process has said.
    pub(super) fn heard(&self, topic: &str, heard: Heard) {
        if let Some(hearing) = self.state().hearing.get(topic) {
            drop(hearing.send(heard));
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
    pub(super) fn take_told(&self) -> Told {
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
