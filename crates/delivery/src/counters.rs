//! The numbers of messages: where they are kept, and adding to them.
//!
//! A number changes in the transaction that makes true what is counted, so that whatever comes again counts nothing. Here:
//! the items `STATS#…` and how to add to them. Not here: what an event counts, and the numbers that come out
//! (`signals::events`).

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
        if changes.is_empty() {
            return txn;
        }
        let update = |key: Key| {
            let update = Update::new(&tables::MAIN, key).set("updatedAt", people::time(now));
            changes.iter().fold(update, |update, (name, change)| update.add(*name, *change))
        };
        let day = self.at.to_zoned(TimeZone::UTC).date();
        let mut txn = txn.update(update(keys::day(day, keys::shard(self.id))));
        if let Some(key) = self.template_key {
            txn = txn.update(update(keys::template(key)).set("templateKey", key));
        }
        if let Some(id) = self.sequence_id {
            txn = txn.update(update(keys::sequence(id)).set("sequenceId", id));
        }
        txn
    }
}
