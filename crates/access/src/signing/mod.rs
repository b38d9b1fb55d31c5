//! Signing: the keys under which we prove later that something was made by us.
//!
//! Here: `SigningKeys`, which knows the keys and follows what other nodes do with them. A key that has signed once
//! proves until it is revoked. `rotate` makes a new one that signs from then on; `revoke` is for a key that somebody
//! else may have. Not here: what is signed (the links of our mails in `delivery`, the tokens of the inbox).

mod keys;

use std::sync::{Arc, PoisonError, RwLock};

use jiff::{SignedDuration, Timestamp};
use tidings_kernel::causes;
use tidings_sql::{Database, DatabaseError};

pub use keys::{Keyring, RevokeError, SigningKey, list, revoke, rotate, unhex};

/// How long a node goes on signing with what was the newest key, and how often it looks for a key that it does not know.
const STALE_AFTER: SignedDuration = SignedDuration::from_secs(60);
const LOOK_EVERY: SignedDuration = SignedDuration::from_secs(1);

/// Why something is not taken for ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It may have been made after we last looked.
    UnknownKey,
    Invalid,
}

#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    #[error("this was not signed by us")]
    Invalid,
    #[error("the keys that prove signatures could not be read")]
    Store(#[from] DatabaseError),
}

/// The keys as this node knows them. Clones share them.
#[derive(Clone)]
pub struct SigningKeys {
    database: Database,
    cache: Arc<RwLock<Cache>>,
}

struct Cache {
    keys: Arc<Keyring>,
    loaded_at: Timestamp,
}

impl SigningKeys {
    /// Loads the keys, and makes the first if there is none.
    pub async fn load(database: &Database, now: Timestamp) -> Result<Self, DatabaseError> {
        let keys = keys::load_or_make(database, now).await?;
        let cache = Cache { keys: Arc::new(keys), loaded_at: now };
        Ok(Self { database: database.clone(), cache: Arc::new(RwLock::new(cache)) })
    }

    /// The keys to sign with.
    pub fn current(&self) -> Arc<Keyring> {
        Arc::clone(&self.cache.read().unwrap_or_else(PoisonError::into_inner).keys)
    }

    /// Signs with the newest key from now on, if another node has made one more than a minute ago. For whoever signs
    /// much: before each batch.
    pub async fn refresh(&self, now: Timestamp) -> Result<(), DatabaseError> {
        if self.is_older_than(STALE_AFTER, now) {
            self.reload(now).await?;
        }
        Ok(())
    }

    /// Reads something that is signed. `read` may be asked twice: once more if another node knows a key that we do not.
    pub async fn prove<T>(
        &self,
        now: Timestamp,
        read: impl Fn(&Keyring) -> Result<T, Refused>,
    ) -> Result<T, ProveError> {
        // A key may have been revoked. While the store does not answer, those that we know go on proving.
        if let Err(error) = self.refresh(now).await {
            tracing::warn!(error = %causes(&error), "The signing keys could not be read again");
        }
        match read(&self.current()) {
            Err(Refused::UnknownKey) if self.look_again(now).await? => {
                read(&self.current()).map_err(|_| ProveError::Invalid)
            }
            read => read.map_err(|_| ProveError::Invalid),
        }
    }

    /// Another node may have made a key that we do not know. Whoever invents keys makes us look once a second at most.
    async fn look_again(&self, now: Timestamp) -> Result<bool, DatabaseError> {
        let looks = self.is_older_than(LOOK_EVERY, now);
        if looks {
            self.reload(now).await?;
        }
        Ok(looks)
    }

    async fn reload(&self, now: Timestamp) -> Result<(), DatabaseError> {
        // Before it is done: whoever comes meanwhile must not look as well.
        self.cache.write().unwrap_or_else(PoisonError::into_inner).loaded_at = now;
        let keys = Arc::new(keys::load_or_make(&self.database, now).await?);
        self.cache.write().unwrap_or_else(PoisonError::into_inner).keys = keys;
        Ok(())
    }

    fn is_older_than(&self, age: SignedDuration, now: Timestamp) -> bool {
        let loaded_at = self.cache.read().unwrap_or_else(PoisonError::into_inner).loaded_at;
        now.duration_since(loaded_at) >= age
    }
}
