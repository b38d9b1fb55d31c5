//! The numbers of a campaign in parts: by hour, domain, variant, link and kind of bounce.
//!
//! They stand beside `STATS#<campaign key>` / `COUNTERS` in the same partition, and change in the same transaction. Here:
//! where they are, adding to them, and reading what a sort key says. Not here: the totals (`counters`), and which numbers an
//! event changes (`signals::events`).

use jiff::Timestamp;
use tidings_kernel::{Condition, Expect, Key, Txn, Update, tables};
use tidings_people::keys as people;

use crate::ledger::tallies::hour;

/// So many links of a campaign have numbers of their own. What is written into links about a person would make one for
/// each who clicks; from then on they are counted together.
pub const MAX_LINKS: i64 = 500;
/// The links that are counted together.
pub const OTHER: &str = "other";
/// How many links have numbers of their own.
pub const LINK_COUNT: &str = "linkCount";
/// Where a link leads to.
pub const URL: &str = "url";

/// Where the parts are.
pub mod keys {
    use sha2::{Digest as _, Sha256};
    use tidings_kernel::Key;

    /// Everything that is counted of a campaign (or a sequence).
    pub fn partition(campaign: &str) -> String {
        format!("STATS#{campaign}")
    }

    /// An hour in UTC: `2026-04-02T10`.
    pub fn hour(campaign: &str, hour: &str) -> Key {
        Key::new(partition(campaign), format!("HOUR#{hour}"))
    }

    pub fn domain(campaign: &str, domain: &str) -> Key {
        Key::new(partition(campaign), format!("DOMAIN#{domain}"))
    }

    /// A variant, by its place.
    pub fn arm(campaign: &str, arm: i64) -> Key {
        Key::new(partition(campaign), format!("ARM#{arm}"))
    }

    pub fn link(campaign: &str, label: &str) -> Key {
        Key::new(partition(campaign), format!("LINK#{label}"))
    }

    /// How many links there are. It sorts after all of them.
    pub fn links(campaign: &str) -> Key {
        Key::new(partition(campaign), "LINKS")
    }

    /// A class and a subtype: `hard/General`.
    pub fn bounce(campaign: &str, kind: &str) -> Key {
        Key::new(partition(campaign), format!("BOUNCE#{kind}"))
    }

    /// What a link is called in keys.
    pub fn label(url: &str) -> String {
        tidings_kernel::hex(&Sha256::digest(url))[..16].to_owned()
    }
}

/// What the numbers of an item in the partition are about, by its sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    Total,
    Hour(&'a str),
    Domain(&'a str),
    Arm(i64),
    Link(&'a str),
    Bounce { class: &'a str, subtype: &'a str },
}

impl<'a> Part<'a> {
    pub fn of(sort: &'a str) -> Option<Self> {
        if sort == "COUNTERS" {
            return Some(Self::Total);
        }
        let (kind, name) = sort.split_once('#')?;
        match kind {
            "HOUR" => Some(Self::Hour(name)),
            "DOMAIN" => Some(Self::Domain(name)),
            "ARM" => name.parse().ok().map(Self::Arm),
            "LINK" => Some(Self::Link(name)),
            "BOUNCE" => {
                let (class, subtype) = name.split_once('/')?;
                Some(Self::Bounce { class, subtype })
            }
            _ => None,
        }
    }
}

/// A link that is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Of [`keys::label`], or [`OTHER`].
    pub label: String,
    /// Where it leads to, if it has numbers of its own.
    pub url: Option<String>,
    /// Whether it has none yet, and shall have.
    pub is_new: bool,
}

/// Where in its campaign something belongs that happened to a message.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub campaign: &'a str,
    pub at: Timestamp,
    pub domain: &'a str,
    pub arm: Option<i64>,
    /// The kind of bounce, if it was one: class and subtype.
    pub bounce: Option<&'a str>,
}

/// Numbers and by how much they change.
pub type Changes = [(&'static str, i64)];

impl Place<'_> {
    /// Changes the numbers with these names, in the transaction.
    pub fn count(&self, mut txn: Txn, changes: &Changes, now: Timestamp) -> Txn {
        if changes.is_empty() {
            return txn;
        }
        // Of a message that was opened in two hours each had one open, and none of them is the one where it was unique:
        // a verdict that is revised would have to be taken from the other.
        let of_hour: Vec<_> =
            changes.iter().filter(|(name, _)| !name.starts_with("unique")).copied().collect();
        if !of_hour.is_empty() {
            let key = keys::hour(self.campaign, &hour(self.at));
            txn = txn.update(changed(key, &of_hour, now));
        }
        txn = txn.update(changed(keys::domain(self.campaign, self.domain), changes, now));
        if let Some(arm) = self.arm {
            txn = txn.update(changed(keys::arm(self.campaign, arm), changes, now));
        }
        if let Some(kind) = self.bounce {
            let of_bounce: Vec<_> =
                changes.iter().filter(|(name, _)| *name == "bounceCount").copied().collect();
            txn = txn.update(changed(keys::bounce(self.campaign, kind), &of_bounce, now));
        }
        txn
    }
}

impl Link {
    /// Changes the numbers of a link. The transaction is refused if it was thought to be new and is not, or if there are
    /// too many by now: whoever counts looks again.
    pub fn count(&self, txn: Txn, campaign: &str, changes: &Changes, now: Timestamp) -> Txn {
        if changes.is_empty() {
            return txn;
        }
        let mut update = changed(keys::link(campaign, &self.label), changes, now);
        if let Some(url) = &self.url {
            update = update.set_if_absent(URL, url.as_str());
        }
        if !self.is_new {
            return txn.update(update);
        }
        let room = Condition::not_exists(LINK_COUNT)
            .or(Condition::Lt(LINK_COUNT.into(), MAX_LINKS.into()));
        let count = Update::new(&tables::MAIN, keys::links(campaign)).add(LINK_COUNT, 1);
        txn.update(update.expect(Expect::Absent)).update(count.expect(Expect::That(room)))
    }
}

fn changed(key: Key, changes: &Changes, now: Timestamp) -> Update {
    let update = Update::new(&tables::MAIN, key).set("updatedAt", people::time(now));
    changes.iter().fold(update, |update, (name, change)| update.add(*name, *change))
}

#[cfg(test)]
mod tests {
    use tidings_kernel::Key;

    use super::{Part, keys};

    #[test]
    fn what_was_written_into_a_key_is_read_from_it() {
        let check = |key: Key, part: Part<'_>| {
            let text = key.to_string();
            let sort = text.strip_prefix("STATS#spring / ").unwrap();
            assert_eq!(Part::of(sort), Some(part), "{sort}");
        };
        check(crate::counters::keys::sequence("spring"), Part::Total);
        check(keys::hour("spring", "2026-04-02T10"), Part::Hour("2026-04-02T10"));
        check(keys::domain("spring", "gmail.com"), Part::Domain("gmail.com"));
        check(keys::arm("spring", 12), Part::Arm(12));
        check(keys::link("spring", "0123456789abcdef"), Part::Link("0123456789abcdef"));
        let bounce = Part::Bounce { class: "hard", subtype: "No/Email" };
        check(keys::bounce("spring", "hard/No/Email"), bounce);
        for sort in ["LINKS", "", "ARM#x", "BOUNCE#hard", "SUB#ada@example.org"] {
            assert_eq!(Part::of(sort), None, "{sort}");
        }
    }

    #[test]
    fn a_link_is_called_by_the_hash_of_where_it_leads() {
        assert_eq!(keys::label("https://example.org/"), "8198d1bac40a1033");
    }
}
