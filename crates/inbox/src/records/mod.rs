//! Records: the items of seed 001 as typed values, and back.
//!
//! Here: what each item holds (`message`, `stats`, `expiring`, `settings`, `post`). Not here: JSON as an item keeps it (`kernel::plain`),
//! where items are (`keys`), and which changes of them go together.

pub use tidings_kernel::plain as json;
mod expiring;
mod message;
mod post;
mod settings;
mod stats;
#[cfg(test)]
mod tests;

pub use expiring::Expiring;
pub use message::{Content, Marks, Message, Own, Public, Receipt, Stored};
pub(crate) use post::FORGOTTEN;
pub use post::{Accepted, Audience, Post, State};
pub use settings::{Configuration, TenantSettings};
pub use stats::{
    Categories, CategoryStats, PublicStats, UserStats, Watermark, public_stamp, stamp,
};
pub(crate) use stats::{EARLY, FORGOTTEN_AT, HORIZON, SETTLED, SOONEST};

use jiff::Timestamp;
use tidings_kernel::{Item, StoreError, Value};

/// An item that was not written by us, or not whole.
pub fn damaged(what: &'static str, attribute: &str) -> StoreError {
    let told = format!("{what} has no readable {attribute}");
    StoreError::Corrupt(Box::new(std::io::Error::other(told)))
}

/// Reads the attributes of one kind of item.
#[derive(Clone, Copy)]
struct Reading<'a> {
    item: &'a Item,
    what: &'static str,
}

impl<'a> Reading<'a> {
    fn damaged(self, name: &str) -> StoreError {
        damaged(self.what, name)
    }

    fn text(self, name: &str) -> Result<&'a str, StoreError> {
        self.item.text(name).ok_or_else(|| self.damaged(name))
    }

    fn parsed<T: std::str::FromStr>(self, name: &str) -> Result<T, StoreError> {
        self.text(name)?.parse().map_err(|_| self.damaged(name))
    }

    fn owned(self, name: &str) -> Option<String> {
        self.item.text(name).map(ToOwned::to_owned)
    }

    fn number(self, name: &str) -> Result<i64, StoreError> {
        self.item.integer(name).ok_or_else(|| self.damaged(name))
    }

    /// A number that is 0 where it was never counted.
    fn count(self, name: &str) -> i64 {
        self.item.integer(name).unwrap_or(0)
    }

    fn at(self, name: &str) -> Result<Timestamp, StoreError> {
        Timestamp::from_millisecond(self.number(name)?).map_err(|_| self.damaged(name))
    }

    fn maybe_at(self, name: &str) -> Result<Option<Timestamp>, StoreError> {
        match self.item.integer(name) {
            Some(_) => self.at(name).map(Some),
            None => Ok(None),
        }
    }

    /// The attribute that the table takes for its TTL, in seconds.
    fn expiry(self) -> Result<Timestamp, StoreError> {
        let seconds = self.number(EXPIRY)?;
        Timestamp::from_second(seconds).map_err(|_| self.damaged(EXPIRY))
    }

    /// What is inside a map.
    fn inside(self, name: &str, key: &str) -> Option<&'a Value> {
        match self.item.get(name) {
            Some(Value::M(map)) => map.get(key),
            _ => None,
        }
    }
}

/// The attribute with the second from which an item is gone.
pub const EXPIRY: &str = "expiredat";

fn set_at(item: &mut Item, name: &str, at: Option<Timestamp>) {
    if let Some(at) = at {
        item.set(name, at.as_millisecond());
    }
}

fn set_text(item: &mut Item, name: &str, text: Option<&str>) {
    if let Some(text) = text {
        item.set(name, text);
    }
}

/// A map with these entries, without those that have no value.
fn map<const N: usize>(entries: [(&str, Option<Value>); N]) -> Value {
    let entries = entries.into_iter();
    let there = entries.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::M(there.collect())
}
