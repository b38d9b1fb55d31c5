//! What a table's change stream tells.

use crate::item::Item;
use crate::rules::limits::Invalid;
use crate::table::{Key, Table};

/// One change of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub key: Key,
    pub kind: ChangeKind,
    pub old: Option<Item>,
    pub new: Option<Item>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    Inserted,
    Modified,
    /// Deleted by a write.
    Deleted,
    /// Deleted because its TTL had passed.
    Expired,
}

/// The changes after a consumer's checkpoint, in the order of each key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeBatch {
    pub changes: Vec<Change>,
    /// What to acknowledge once the changes are dealt with. `None` if there is nothing new.
    pub position: Option<String>,
}

/// Whether a consumer of this name can read this table's stream.
pub fn check_consumer(table: &Table, consumer: &str) -> Result<(), Invalid> {
    if !table.stream {
        return Err(Invalid::NoStream { table: table.name });
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=64).contains(&consumer.len()) && consumer.chars().all(allowed) {
        Ok(())
    } else {
        Err(Invalid::BadConsumer)
    }
}
