//! What the gate of delivery asks: all that is kept in items against writing to an address, in one look.

use jiff::Timestamp;
use tidings_access::{Cx, StorageError};
use tidings_kernel::{Delete, EmailAddress, Expect, Item, Key, MAX_BATCH_GET, Update, tables};
use tidings_sql::{DatabaseError, Tx};

use super::memory::{Memory, Secret};
use super::record::Suppression;
use crate::contacts::profile::says;
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

/// Whether somebody has read a profile already.
#[derive(Debug, Clone, PartialEq)]
pub enum Loaded {
    NotYet,
    /// What he found, which may be nothing.
    Profile(Option<Item>),
}

/// One of many, and what was found of him.
#[derive(Debug, Clone, PartialEq)]
pub struct Looked {
    pub email: EmailAddress,
    pub against: Against,
    pub profile: Option<Item>,
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
        let (profile, current) = (item(0), item(1));
        let current = current.map(|item| Suppression::read(email.clone(), item));
        let memory = item(2).map(|item| Memory::read(email, item)).unwrap_or_default();
        let flag = |name| profile.is_some_and(|item| says(item, name));
        Against {
            suppression: current.or(memory.suppression),
            flagged: flag("suppressed"),
            unsubscribed: flag("unsubscribed") || memory.unsubscribed_at.is_some(),
            unsubscribed_at: memory.unsubscribed_at,
        }
    }

    pub async fn look(&self, cx: &Cx, email: &EmailAddress) -> Result<Against, StorageError> {
        let found = cx.items().await?.batch_get(&tables::MAIN, &self.keys(email)).await?;
        Ok(self.read(email, &found))
    }

    /// The same for many, in their order and with their profiles. A profile that somebody has is not read again.
    pub async fn look_all(
        &self,
        cx: &Cx,
        people: Vec<(EmailAddress, Loaded)>,
    ) -> Result<Vec<Looked>, StorageError> {
        let items = cx.items().await?;
        let mut looked = Vec::with_capacity(people.len());
        // Whose profile is known has a key less.
        let all_loaded = people.iter().all(|(_, loaded)| *loaded != Loaded::NotYet);
        let keys = 2 + usize::from(self.0.is_some()) - usize::from(all_loaded);
        let mut people = people.into_iter().peekable();
        while people.peek().is_some() {
            let some: Vec<_> = people.by_ref().take(MAX_BATCH_GET / keys).collect();
            let mut wanted = Vec::new();
            for (email, loaded) in &some {
                let skipped = usize::from(matches!(loaded, Loaded::Profile(_)));
                wanted.extend(self.keys(email).into_iter().skip(skipped));
            }
            let mut found = items.batch_get(&tables::MAIN, &wanted).await?.into_iter();
            for (email, loaded) in some {
                let profile = match loaded {
                    Loaded::NotYet => found.next().flatten(),
                    Loaded::Profile(profile) => profile,
                };
                let mut held = vec![profile];
                held.extend(found.by_ref().take(1 + usize::from(self.0.is_some())));
                let against = self.read(&email, &held);
                looked.push(Looked { email, against, profile: held.swap_remove(0) });
            }
        }
        Ok(looked)
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
