//! What the gate of delivery asks: all that is kept in items against writing to an address, in one look.

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{Delete, EmailAddress, Expect, Item, Key, Update, tables};
use tidings_sql::{DatabaseError, Tx};

use super::memory::{Memory, Secret};
use super::record::Suppression;
use crate::contacts::profile::Profile;
use crate::keys;

/// Knows where to look.
pub struct Gate(Option<Secret>);

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Against {
    pub suppression: Option<Suppression>,
    /// The profile says so, and nobody knows why any more.
    pub flagged: bool,
    /// The profile, or what is remembered of somebody who was erased, says that he left everything.
    pub unsubscribed: bool,
    pub unsubscribed_at: Option<Timestamp>,
}

/// In the transaction that reads the relations.
pub fn gate(tx: &mut Tx<'_>, cx: &Cx) -> Result<Gate, DatabaseError> {
    Secret::find(tx, cx).map(Gate)
}

impl Gate {
    /// The items that tell, for one `batch_get` of the main table.
    pub fn keys(&self, email: &EmailAddress) -> Vec<Key> {
        let mut wanted = vec![keys::profile(email), keys::suppression(email)];
        wanted.extend(self.0.as_ref().map(|secret| secret.key(email)));
        wanted
    }

    /// What those say, in the order of `keys`.
    pub fn read(&self, email: &EmailAddress, found: &[Option<Item>]) -> Against {
        let item = |place: usize| found.get(place).and_then(Option::as_ref);
        let profile = item(0).cloned().map(Profile::from).unwrap_or_default();
        let current = item(1).map(|item| Suppression::read(email.clone(), item));
        let memory = item(2).map(|item| Memory::read(email, item)).unwrap_or_default();
        Against {
            suppression: current.or(memory.suppression),
            flagged: profile.suppressed(),
            unsubscribed: profile.unsubscribed() || memory.unsubscribed_at.is_some(),
            unsubscribed_at: memory.unsubscribed_at,
        }
    }

    pub async fn look(&self, cx: &Cx, email: &EmailAddress) -> Result<Against, StorageError> {
        let found = cx.items().await?.batch_get(&tables::MAIN, &self.keys(email)).await?;
        Ok(self.read(email, &found))
    }

    /// Somebody who was erased and had left everything came back by himself: that he left is forgotten, and nothing else.
    pub(crate) async fn came_back(
        &self,
        cx: &Cx,
        email: &EmailAddress,
    ) -> Result<(), StorageError> {
        let Some(key) = self.0.as_ref().map(|secret| secret.key(email)) else { return Ok(()) };
        let items = cx.items().await?;
        let Some(item) = items.get(&tables::MAIN, &key).await? else { return Ok(()) };
        let done = if Memory::read(email, &item).suppression.is_some() {
            let update = Update::new(&tables::MAIN, key).remove("unsubscribedAt");
            items.update(update.expect(Expect::Present)).await
        } else {
            // A suppression that came in between has another type.
            let same = tidings_kernel::Condition::eq("type", "Unsubscribed");
            items.delete(Delete::new(&tables::MAIN, key).expect(Expect::That(same))).await
        };
        match done {
            Ok(_) => Ok(()),
            Err(error) if error.is_condition_failed() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Against {
    pub fn is_suppressed(&self) -> bool {
        self.suppression.is_some() || self.flagged
    }
}
