//! The rules of the item model: what a write assumes and does, what a query asks, what is too much.
//!
//! All of it is values and pure functions. The SQL engine decides with these functions; DynamoDB is sent the
//! same values as expressions and decides for itself.

mod change;
mod condition;
mod limits;
mod query;
mod update;
mod write;

pub use change::{Change, ChangeBatch, ChangeKind, check_consumer};
pub use condition::{Condition, Expect};
pub(crate) use limits::check_key;
pub use limits::{
    Invalid, MAX_BATCH_GET, MAX_ITEM_BYTES, MAX_PAGE_BYTES, MAX_TXN_BYTES, MAX_TXN_WRITES,
};
pub use query::{Cursor, Direction, Page, Query, Scan, SortRange};
pub use update::{Action, Returns, Update};
pub use write::{Cancellation, Check, Delete, Put, Txn, Write};
