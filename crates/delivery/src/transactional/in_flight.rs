//! Requests that this node is working on, so that the second of two with one key is told so instead of waiting.
//!
//! Only a courtesy: two nodes, or a node that started again, meet at the unique key of the ledger.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidings_access::ClientId;

#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<HashSet<(ClientId, String)>>>);

/// While it is there, nobody else on this node works on the same key.
#[derive(Debug)]
pub(super) struct Turn {
    all: InFlight,
    key: (ClientId, String),
}

impl InFlight {
    /// `None` if somebody has it.
    pub(super) fn take(&self, client: ClientId, key: &str) -> Option<Turn> {
        let key = (client, key.to_owned());
        self.lock().insert(key.clone()).then(|| Turn { all: self.clone(), key })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<(ClientId, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    pub(super) fn is_for(&self, client: ClientId, key: &str) -> bool {
        self.key.0 == client && self.key.1 == key
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.all.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use tidings_access::ClientId;

    use super::InFlight;

    #[test]
    fn a_key_is_free_again_when_its_turn_is_over() {
        let all = InFlight::default();
        let (shop, other) = (ClientId::from(1), ClientId::from(2));
        let turn = all.take(shop, "k").unwrap();
        assert!(all.take(shop, "k").is_none());
        assert!(all.take(shop, "l").is_some());
        assert!(all.take(other, "k").is_some());
        assert!(turn.is_for(shop, "k"));
        drop(turn);
        assert!(all.take(shop, "k").is_some());
    }
}
