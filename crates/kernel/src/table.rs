//! Tables: their keys, indexes, TTL and stream, and the seven tables of the product.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::item::{Item, Value};
use crate::rules::{Invalid, check_key};

/// What an engine must know of a table. Keys and index keys are strings. A table is known by its name.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    pub partition: &'static str,
    pub sort: Option<&'static str>,
    /// The attribute that holds the second (since 1970) from which the item is gone.
    pub ttl: Option<&'static str>,
    pub indexes: &'static [Index],
    /// Whether its changes are kept for consumers to read.
    pub stream: bool,
}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Table {}

impl Hash for Table {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// A secondary index. An item without one of its two attributes is not in it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Index {
    pub name: &'static str,
    pub partition: &'static str,
    pub sort: &'static str,
}

/// The key of one item: a sort key exactly if its table has one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub partition: String,
    pub sort: Option<String>,
}

impl Key {
    pub fn new(partition: impl Into<String>, sort: impl Into<String>) -> Self {
        Self { partition: partition.into(), sort: Some(sort.into()) }
    }

    /// A key of a table without a sort key.
    pub fn single(partition: impl Into<String>) -> Self {
        Self { partition: partition.into(), sort: None }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sort {
            Some(sort) => write!(f, "{} / {sort}", self.partition),
            None => f.write_str(&self.partition),
        }
    }
}

impl Table {
    pub fn index(&self, name: &str) -> Option<&'static Index> {
        self.indexes.iter().find(|index| index.name == name)
    }

    /// The key inside an item.
    pub fn key_of(&self, item: &Item) -> Result<Key, Invalid> {
        let part = |name: &'static str| match item.get(name) {
            Some(Value::S(text)) => Ok(text.clone()),
            Some(other) => {
                Err(Invalid::KeyType { attribute: name.to_owned(), found: other.kind() })
            }
            None => Err(Invalid::KeyMissing { attribute: name.to_owned() }),
        };
        Ok(Key { partition: part(self.partition)?, sort: self.sort.map(part).transpose()? })
    }

    /// Whether a key can be one of this table's.
    pub fn check_key(&self, key: &Key) -> Result<(), Invalid> {
        check_key(self, key)
    }

    /// An item with nothing but its key.
    pub fn bare_item(&self, key: &Key) -> Item {
        let mut item = Item::new().with(self.partition, key.partition.as_str());
        if let (Some(name), Some(sort)) = (self.sort, &key.sort) {
            item.set(name, sort.as_str());
        }
        item
    }

    pub(crate) fn is_key_attribute(&self, name: &str) -> bool {
        name == self.partition || Some(name) == self.sort
    }

    /// The second from which the item is gone. As in DynamoDB, only a number counts.
    pub fn expires_at(&self, item: &Item) -> Option<i64> {
        Some(item.get(self.ttl?)?.as_number()?.floor())
    }

    /// Whether the item is past its TTL. Readers must never see it then, swept or not.
    pub fn is_expired(&self, item: &Item, now: jiff::Timestamp) -> bool {
        self.expires_at(item).is_some_and(|second| second <= now.as_second())
    }
}

impl Index {
    /// The item's place in this index, if it is in it.
    pub fn key_of<'a>(&self, item: &'a Item) -> Option<(&'a str, &'a str)> {
        Some((item.text(self.partition)?, item.text(self.sort)?))
    }
}

/// The tables of the product. Keys inside them are the seeds', verbatim.
pub mod tables {
    use super::{Index, Table};

    /// Subscribers, executions, sends, suppressions, tags, broadcasts, counters.
    pub static MAIN: Table = Table {
        name: "main",
        partition: "PK",
        sort: Some("SK"),
        ttl: Some("ttl"),
        indexes: &[],
        stream: false,
    };

    /// Engagement events.
    pub static EVENTS: Table = Table {
        name: "events",
        partition: "PK",
        sort: Some("SK"),
        ttl: Some("ttl"),
        indexes: &[
            Index { name: "TemplateIndex", partition: "templateKey", sort: "SK" },
            Index { name: "SequenceIndex", partition: "sequenceId", sort: "SK" },
        ],
        stream: false,
    };

    /// Reminders: drafts, sent mails, templates.
    pub static EMAIL_TRACKING: Table = Table {
        name: "email_tracking",
        partition: "PK",
        sort: Some("SK"),
        ttl: Some("ttl"),
        indexes: &[Index { name: "GSI1", partition: "GSI1PK", sort: "GSI1SK" }],
        stream: false,
    };

    /// In-app messages, receipts, counters, settings.
    pub static INBOX: Table = Table {
        name: "inbox",
        partition: "PK",
        sort: Some("SK"),
        ttl: Some("expiredat"),
        indexes: &[],
        stream: true,
    };

    /// A lead's timeline.
    pub static EVENT: Table = Table {
        name: "event",
        partition: "lead_organization_id",
        sort: Some("occurred_at#id"),
        ttl: None,
        indexes: &[
            Index { name: "idempotency-index", partition: "source", sort: "external_event_id" },
            Index {
                name: "event-type-index",
                partition: "lead_organization_id",
                sort: "event_type#occurred_at",
            },
        ],
        stream: false,
    };

    /// What was derived from the timeline.
    pub static MEMORY: Table = Table {
        name: "memory",
        partition: "lead_organization_id",
        sort: Some("memory_type#key"),
        ttl: Some("expires_at"),
        indexes: &[],
        stream: false,
    };

    /// Numbers computed from the timeline, one item a lead.
    pub static FEATURE: Table = Table {
        name: "feature",
        partition: "lead_organization_id",
        sort: None,
        ttl: None,
        indexes: &[],
        stream: false,
    };

    pub static ALL: [&Table; 7] =
        [&MAIN, &EVENTS, &EMAIL_TRACKING, &INBOX, &EVENT, &MEMORY, &FEATURE];

    pub fn by_name(name: &str) -> Option<&'static Table> {
        ALL.into_iter().find(|table| table.name == name)
    }
}
