//! What this process has read within the last second, so that not every request asks the database the same.
//!
//! What this process changes itself it forgets at once; what another one changes is known here within a second. Not here:
//! what is kept (`caller`, `access`).

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

/// For so long a process may take for good what another one has revoked or disabled.
pub const KNOWN_WITHIN: Duration = Duration::from_secs(1);

/// Of more than so many, those are let go whose second is over, or all.
const MOST: usize = 4096;

pub(crate) struct Recent<K, V>(Mutex<Kept<K, V>>);

struct Kept<K, V> {
    /// How often everything was forgotten.
    forgotten: u64,
    by_key: HashMap<K, (Timestamp, V)>,
}

/// When somebody began to read. What was read before everything was forgotten may be what was to be forgotten.
pub(crate) struct Ticket(u64);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Kept { forgotten: 0, by_key: HashMap::new() }))
    }
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    /// What was read, or the ticket to keep it with once it is.
    pub(crate) fn get<Q>(&self, key: &Q, now: Timestamp) -> Result<V, Ticket>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let kept = self.lock();
        match kept.by_key.get(key) {
            Some((at, value)) if is_recent(*at, now) => Ok(value.clone()),
            _ => Err(Ticket(kept.forgotten)),
        }
    }

    /// Keeps what was read at or after `at`.
    pub(crate) fn keep(&self, ticket: &Ticket, key: K, (at, value): (Timestamp, V)) {
        let mut kept = self.lock();
        if kept.forgotten != ticket.0 {
            return;
        }
        if kept.by_key.len() >= MOST {
            kept.by_key.retain(|_, (read_at, _)| is_recent(*read_at, at));
        }
        if kept.by_key.len() >= MOST {
            kept.by_key.clear();
        }
        kept.by_key.insert(key, (at, value));
    }

    /// Everything is read anew from now on.
    pub(crate) fn forget(&self) {
        let mut kept = self.lock();
        kept.forgotten += 1;
        kept.by_key.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Kept<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    at <= now && now.duration_since(at).unsigned_abs() < KNOWN_WITHIN
}

#[cfg(test)]
mod tests {
    use jiff::{Timestamp, ToSpan as _};

    use super::{MOST, Recent};

    fn start() -> Timestamp {
        Timestamp::from_second(1_000_000).unwrap()
    }

    #[test]
    fn what_was_read_counts_for_a_second() {
        let recent: Recent<i64, &str> = Recent::default();
        let ticket = recent.get(&1, start()).unwrap_err();
        recent.keep(&ticket, 1, (start(), "open"));
        for (milliseconds, known) in [(0, true), (999, true), (1_000, false), (-1, false)] {
            let now = start() + i64::from(milliseconds).milliseconds();
            assert_eq!(recent.get(&1, now).ok(), known.then_some("open"), "at {milliseconds}");
        }
    }

    #[test]
    fn what_was_read_before_it_was_to_be_forgotten_is_not_kept() {
        let recent: Recent<i64, &str> = Recent::default();
        let ticket = recent.get(&1, start()).unwrap_err();
        recent.forget();
        recent.keep(&ticket, 1, (start(), "open"));
        assert!(recent.get(&1, start()).is_err());
    }

    #[test]
    fn the_memory_does_not_grow() {
        let recent: Recent<usize, ()> = Recent::default();
        for number in 0..3 * MOST {
            let ticket = recent.get(&number, start()).unwrap_err();
            recent.keep(&ticket, number, (start(), ()));
        }
        assert!(recent.lock().by_key.len() <= MOST);
    }
}
