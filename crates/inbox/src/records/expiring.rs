//! What expires, and when: so that it is found when its time is over without looking at everything else.
//!
//! As text it is the second and the sort key. Counts have a few of them (`early`), and the list of what expires next has many.

use std::collections::BTreeSet;

use jiff::Timestamp;
use tidings_kernel::{Item, StoreError, Value, tables};

use super::{EXPIRY, Reading};
use crate::ids::MessageId;
use crate::keys::{self, MESSAGES};

/// The attribute of the list.
const EXPIRING: &str = "expiring";

/// A message or a receipt of a user, before all that is gone later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiring {
    /// From which it is gone.
    pub second: i64,
    /// Its sort key.
    pub sort: String,
}

impl Expiring {
    pub(crate) fn new(id: &MessageId, at: Timestamp) -> Self {
        Self { second: at.as_second(), sort: format!("{MESSAGES}{id}") }
    }

    /// A set of at least one.
    pub(crate) fn to_value<'a>(all: impl IntoIterator<Item = &'a Self>) -> Value {
        Value::texts(all.into_iter().map(|Self { second, sort }| format!("{second} {sort}")))
    }

    pub(super) fn read(from: Reading<'_>, name: &str) -> Result<BTreeSet<Self>, StoreError> {
        let parse = |text: &String| {
            let (second, sort) = text.split_once(' ')?;
            Some(Self { second: second.parse().ok()?, sort: sort.to_owned() })
        };
        match from.item.get(name) {
            None => Ok(BTreeSet::new()),
            Some(Value::Ss(all)) => {
                let all: Option<_> = all.iter().map(parse).collect();
                all.ok_or_else(|| from.damaged(name))
            }
            Some(_) => Err(from.damaged(name)),
        }
    }

    /// The list of a partition, if there is anything to list. It goes with the last of them.
    pub(crate) fn to_list(partition: &str, all: &BTreeSet<Self>) -> Option<Item> {
        let list = tables::INBOX.bare_item(&keys::expiring(partition));
        let last = all.last()?.second;
        Some(list.with(EXPIRING, Self::to_value(all)).with(EXPIRY, last))
    }

    pub(crate) fn read_list(item: &Item) -> Result<BTreeSet<Self>, StoreError> {
        let from = Reading { item, what: "the list of what expires next" };
        // There is none with nothing on it.
        let all = Self::read(from, EXPIRING)?;
        if all.is_empty() { Err(from.damaged(EXPIRING)) } else { Ok(all) }
    }
}
