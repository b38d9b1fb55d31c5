//! What is too much, too deep or not allowed: DynamoDB's limits, checked before any engine is asked.

use crate::item::{Item, NumberError, Value};
use crate::queue::BadMessage;
use crate::table::{Key, Table};

pub const MAX_ITEM_BYTES: usize = 400 * 1024;
pub const MAX_TXN_WRITES: usize = 100;
pub const MAX_TXN_BYTES: usize = 4 * 1024 * 1024;
/// A page ends once it holds this much, full or not.
pub const MAX_PAGE_BYTES: usize = 1024 * 1024;
/// What one `batch_get` may ask for. Engines split it as they must.
pub const MAX_BATCH_GET: usize = 1_000;
const MAX_PARTITION_BYTES: usize = 2048;
const MAX_SORT_BYTES: usize = 1024;
const MAX_DEPTH: usize = 32;
const MAX_NAME_BYTES: usize = 64 * 1024;
const MAX_LIMIT: usize = 10_000;

/// Why a request was refused as it stands. Sending it again cannot help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("the key attribute {attribute} is missing")]
    KeyMissing { attribute: String },
    #[error("the key attribute {attribute} must be a string, not {found}")]
    KeyType { attribute: String, found: &'static str },
    #[error("the key attribute {attribute} must not be empty")]
    KeyEmpty { attribute: String },
    #[error("the key attribute {attribute} must not exceed {limit} bytes")]
    KeyTooLong { attribute: String, limit: usize },
    #[error("the key attribute {attribute} must not contain the character U+0000")]
    KeyNul { attribute: String },
    #[error("table {table} has {expected} key attributes")]
    KeyShape { table: &'static str, expected: usize },
    #[error("an item must not exceed 400 KB")]
    ItemTooLarge,
    #[error("a set must not be empty")]
    EmptySet,
    #[error("a set must not have an empty member")]
    EmptyMember,
    #[error("values can be nested at most 32 deep")]
    TooDeep,
    #[error("an attribute name must have 1 to 65,536 bytes")]
    BadName,
    #[error("a transaction can hold 1 to 100 writes; a message counts as one, and a timer as two")]
    TxnCount,
    #[error("a transaction can arm or cancel a timer only once")]
    TxnSameTimer,
    #[error(transparent)]
    Message(#[from] BadMessage),
    #[error("a transaction can hold at most 4 MB")]
    TxnTooLarge,
    #[error("a transaction can touch an item only once")]
    TxnSameItem,
    #[error("an update in a transaction must change something")]
    TxnEmptyUpdate,
    #[error("{path} is part of the key and cannot be updated")]
    UpdatesKey { path: String },
    #[error("{first} and {second} overlap, and an update can touch a place only once")]
    Overlap { first: String, second: String },
    #[error("there is no place for {path} in the item")]
    NoSuchPlace { path: String },
    #[error("{path} is {found}, and the update needs {expected}")]
    WrongType { path: String, found: &'static str, expected: &'static str },
    #[error("{name} needs a set")]
    NotASet { name: String },
    #[error(transparent)]
    Number(#[from] NumberError),
    #[error("table {table} has no index {index}")]
    NoIndex { table: &'static str, index: String },
    #[error("a range must not end before it begins")]
    EmptyRange,
    #[error(
        "a condition orders strings, numbers or bytes of one kind, looks for strings or bytes at the beginning, and compares with 1 to 100 values"
    )]
    BadCondition,
    #[error("{attribute} is part of the key, and a query filters on other attributes")]
    FilterOnKey { attribute: String },
    #[error("a page can hold 1 to 10,000 items")]
    BadLimit,
    #[error(
        "segment {segment} of {of} does not exist: segments count from 0, and there can be at most 1,024"
    )]
    BadSegment { segment: u32, of: u32 },
    #[error("table {table} keeps no change stream")]
    NoStream { table: &'static str },
    #[error("a consumer's name must have 1 to 64 letters, digits, hyphens or underscores")]
    BadConsumer,
    #[error("the cursor does not belong to this query")]
    BadCursor,
    #[error("a batch can ask for at most 1,000 items")]
    BatchTooLarge,
    /// A refusal that only DynamoDB itself can give.
    #[error("DynamoDB refused the request: {0}")]
    Refused(String),
}

pub(crate) fn check_key(table: &Table, key: &Key) -> Result<(), Invalid> {
    if key.sort.is_some() != table.sort.is_some() {
        let expected = 1 + usize::from(table.sort.is_some());
        return Err(Invalid::KeyShape { table: table.name, expected });
    }
    check_key_text(table.partition, &key.partition, MAX_PARTITION_BYTES)?;
    match (table.sort, &key.sort) {
        (Some(name), Some(sort)) => check_key_text(name, sort, MAX_SORT_BYTES),
        _ => Ok(()),
    }
}

/// What a query says of a partition key.
pub(super) fn check_partition(attribute: &str, text: &str) -> Result<(), Invalid> {
    check_key_text(attribute, text, MAX_PARTITION_BYTES)
}

/// What a query says of a sort key.
pub(super) fn check_sort(attribute: &str, text: &str) -> Result<(), Invalid> {
    check_key_text(attribute, text, MAX_SORT_BYTES)
}

fn check_key_text(attribute: &str, text: &str, limit: usize) -> Result<(), Invalid> {
    let attribute = || attribute.to_owned();
    if text.is_empty() {
        return Err(Invalid::KeyEmpty { attribute: attribute() });
    }
    if text.len() > limit {
        return Err(Invalid::KeyTooLong { attribute: attribute(), limit });
    }
    // DynamoDB would take it, PostgreSQL cannot, and no key of ours needs it.
    if text.contains('\0') {
        return Err(Invalid::KeyNul { attribute: attribute() });
    }
    Ok(())
}

/// A whole item, as it would be stored.
pub(super) fn check_item(table: &Table, item: &Item) -> Result<(), Invalid> {
    check_key(table, &table.key_of(item)?)?;
    for (name, value) in item.iter() {
        check_name(name)?;
        check_index_key(table, name, value)?;
        check_value(value)?;
    }
    if item.size() > MAX_ITEM_BYTES {
        return Err(Invalid::ItemTooLarge);
    }
    Ok(())
}

/// An attribute that is a key of an index has to be fit for one.
pub(super) fn check_index_key(table: &Table, name: &str, value: &Value) -> Result<(), Invalid> {
    for index in table.indexes {
        for (key, limit) in [(index.partition, MAX_PARTITION_BYTES), (index.sort, MAX_SORT_BYTES)] {
            match value {
                _ if key != name => {}
                Value::S(text) => check_key_text(name, text, limit)?,
                other => {
                    let attribute = name.to_owned();
                    return Err(Invalid::KeyType { attribute, found: other.kind() });
                }
            }
        }
    }
    Ok(())
}

pub(super) fn check_name(name: &str) -> Result<(), Invalid> {
    if (1..=MAX_NAME_BYTES).contains(&name.len()) { Ok(()) } else { Err(Invalid::BadName) }
}

pub(super) fn check_value(value: &Value) -> Result<(), Invalid> {
    // The innermost value is a level too: 31 lists or maps can lie around a string, not 32.
    fn check(value: &Value, depth: usize) -> Result<(), Invalid> {
        match value {
            _ if depth == MAX_DEPTH => Err(Invalid::TooDeep),
            Value::Ss(set) if set.is_empty() => Err(Invalid::EmptySet),
            Value::Ns(set) if set.is_empty() => Err(Invalid::EmptySet),
            Value::Bs(set) if set.is_empty() => Err(Invalid::EmptySet),
            Value::Ss(set) if set.contains("") => Err(Invalid::EmptyMember),
            Value::Bs(set) if set.contains(&[][..]) => Err(Invalid::EmptyMember),
            Value::M(map) => map.iter().try_for_each(|(name, value)| {
                check_name(name)?;
                check(value, depth + 1)
            }),
            Value::L(list) => list.iter().try_for_each(|value| check(value, depth + 1)),
            Value::S(_)
            | Value::N(_)
            | Value::B(_)
            | Value::Bool(_)
            | Value::Null
            | Value::Ss(_)
            | Value::Ns(_)
            | Value::Bs(_) => Ok(()),
        }
    }
    check(value, 0)
}

pub(super) fn check_limit(limit: usize) -> Result<(), Invalid> {
    if (1..=MAX_LIMIT).contains(&limit) { Ok(()) } else { Err(Invalid::BadLimit) }
}
