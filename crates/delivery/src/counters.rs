//! The numbers of messages: where they are kept, and adding to them.
//!
//! A number changes in the transaction that makes true what is counted, so that whatever comes again counts nothing. Here:
//! the items `STATS#…` and how to add to them. Not here: what an event counts, and the numbers that come out
//! (`signals::events`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tidings_kernel::{Key, Txn, Update, tables};
use tidings_people::keys as people;

/// Messages that a provider has taken: as many as there were lines of the send log.
pub const SENDS: &str = "sendCount";

/// Where the numbers are.
pub mod keys {
    use sha2::{Digest as _, Sha256};
    use tidings_kernel::Key;

    /// How many items the counters of a day are spread over, so that no single one is written by everybody.
    pub const SHARDS: u8 = 8;

    pub fn sequence(id: &str) -> Key {
        Key::new(format!("STATS#{id}"), "COUNTERS")
    }

    pub fn template(key: &str) -> Key {
        Key::new(format!("STATS#TEMPLATE#{key}"), "COUNTERS")
    }

    /// One of the items of a day in UTC.
    pub fn day(day: jiff::civil::Date, shard: u8) -> Key {
        Key::new(format!("STATS#DAY#{day}"), format!("COUNTERS#{shard}"))
    }

    pub(super) fn shard(id: &str) -> u8 {
        Sha256::digest(id)[0] % SHARDS
    }
}

/// What all is counted under that happened to a message.
#[derive(Debug, Clone, Copy)]
pub struct Under<'a> {
    /// Of what happened. It decides which of the items of its day has it.
    pub id: &'a str,
    pub at: Timestamp,
    pub template_key: Option<&'a str>,
    /// The sequence, or the campaign by its key.
    pub sequence_id: Option<&'a str>,
}

impl Under<'_> {
    /// Changes the numbers with these names, in the transaction.
    pub fn count(&self, txn: Txn, changes: &[(&'static str, i64)], now: Timestamp) -> Txn {
        let mut sums = Sums::default();
        sums.add(self, changes);
        sums.count(txn, now)
    }
}

/// What is counted of many messages together: each of the items changes once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums(BTreeMap<Key, Sum>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Sum {
    changes: BTreeMap<&'static str, i64>,
    /// What the item is about, by the name of its attribute.
    about: Option<(&'static str, String)>,
}

impl Sums {
    pub fn add(&mut self, under: &Under<'_>, changes: &[(&'static str, i64)]) {
        if changes.is_empty() {
            return;
        }
        for (key, about) in under.places() {
            let sum = self.0.entry(key).or_default();
            sum.about = about.map(|(name, value)| (name, value.to_owned()));
            for (name, change) in changes {
                *sum.changes.entry(name).or_default() += change;
            }
        }
    }

    /// How many items change.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Changes the numbers in the transaction.
    pub fn count(self, mut txn: Txn, now: Timestamp) -> Txn {
        for (key, Sum { changes, about }) in self.0 {
            let mut update = Update::new(&tables::MAIN, key).set("updatedAt", people::time(now));
            for (name, change) in changes {
                update = update.add(name, change);
            }
            if let Some((name, value)) = about {
                update = update.set(name, value);
            }
            txn = txn.update(update);
        }
        txn
    }
}

impl Under<'_> {
    /// The items, and what each is about.
    fn places(&self) -> impl Iterator<Item = (Key, Option<(&'static str, &str)>)> {
        let day = self.at.to_zoned(TimeZone::UTC).date();
        let of_day = (keys::day(day, keys::shard(self.id)), None);
        let template =
            self.template_key.map(|key| (keys::template(key), Some(("templateKey", key))));
        let sequence = self.sequence_id.map(|id| (keys::sequence(id), Some(("sequenceId", id))));
        [Some(of_day), template, sequence].into_iter().flatten()
    }
}
