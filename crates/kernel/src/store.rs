//! The two ports of an item engine, and what can go wrong behind them.

use std::sync::Arc;

use async_trait::async_trait;

use crate::item::Item;
use crate::rules::{
    Cancellation, ChangeBatch, Delete, Invalid, Page, Put, Query, Scan, Txn, Update,
};
use crate::table::{Key, Table};
use crate::workspace::Workspace;

/// Where items live: a file, PostgreSQL, or DynamoDB.
#[async_trait]
pub trait ItemEngine: Send + Sync {
    /// The items of one workspace. What its tables need is made where it is missing.
    async fn open(&self, workspace: &Workspace) -> Result<Arc<dyn ItemStore>, StoreError>;

    /// Deletes up to `limit` items past their TTL, in all workspaces, and tells how many. Always 0 on
    /// DynamoDB, which does it itself.
    async fn sweep(&self, limit: usize) -> Result<usize, StoreError>;

    /// Which workspaces have changes of a table that this consumer has not acknowledged. `None` if the engine cannot tell
    /// without looking at each of them.
    async fn behind(
        &self,
        _table: &'static Table,
        _consumer: &str,
    ) -> Result<Option<Vec<Workspace>>, StoreError> {
        Ok(None)
    }

    /// Whether the engine answers.
    async fn ping(&self) -> Result<(), StoreError>;
}

/// The items of one workspace. It cannot name another one's.
///
/// Reads of a table see every write that was answered before; an index may lag on DynamoDB. No read returns
/// an item past its TTL, but a query that asks for those too. Writes, as in DynamoDB, still meet such an item until it is swept.
#[async_trait]
pub trait ItemStore: Send + Sync {
    /// Whether all of it is one database: then a batch is read at one moment, and the change stream tells of a removal from that
    /// moment on. Elsewhere the items of a batch are read one by one, in any order, and the stream is behind.
    fn is_one_database(&self) -> bool {
        false
    }

    async fn get(&self, table: &'static Table, key: &Key) -> Result<Option<Item>, StoreError>;

    /// What is there under each key, in the order of the keys. A snapshot only where all is one database.
    async fn batch_get(
        &self,
        table: &'static Table,
        keys: &[Key],
    ) -> Result<Vec<Option<Item>>, StoreError>;

    /// Answers with the item that was there before.
    async fn put(&self, put: Put) -> Result<Option<Item>, StoreError>;

    /// Answers with what the update asks for.
    async fn update(&self, update: Update) -> Result<Option<Item>, StoreError>;

    /// Answers with the item that was there before.
    async fn delete(&self, delete: Delete) -> Result<Option<Item>, StoreError>;

    async fn transact(&self, txn: Txn) -> Result<(), StoreError>;

    /// A page is full (by its limit or 1 MB), or it is the last one.
    async fn query(&self, query: Query) -> Result<Page, StoreError>;

    /// How many items a query finds in all, after its cursor and whatever its limit. It reads them all to tell.
    async fn count(&self, query: Query) -> Result<u64, StoreError>;

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError>;

    /// Up to `limit` changes after what this consumer has acknowledged, or from the oldest that is kept.
    /// They come again until they are acknowledged.
    async fn changes(
        &self,
        table: &'static Table,
        consumer: &str,
        limit: usize,
    ) -> Result<ChangeBatch, StoreError>;

    /// Moves a consumer's checkpoint to the position of a batch.
    async fn acknowledge(
        &self,
        table: &'static Table,
        consumer: &str,
        position: &str,
    ) -> Result<(), StoreError>;
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("what the write expected does not hold")]
    ConditionFailed { current: Option<Box<Item>> },
    #[error("the transaction was cancelled: {}", describe(.0))]
    Cancelled(Vec<Cancellation>),
    #[error("other writers kept changing the same items")]
    Conflict,
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("the store does not answer")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Asking again will not help: the program or the schema is wrong.
    #[error("the store cannot do what it was asked")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The write may or may not have happened.
    #[error("the store did not say whether it made the write")]
    Uncertain(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the store holds what it should not")]
    Corrupt(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    pub fn is_condition_failed(&self) -> bool {
        match self {
            StoreError::ConditionFailed { .. } => true,
            StoreError::Cancelled(reasons) => {
                reasons.iter().any(|r| matches!(r, Cancellation::ConditionFailed { .. }))
            }
            StoreError::Conflict
            | StoreError::Invalid(_)
            | StoreError::Unavailable(_)
            | StoreError::Failed(_)
            | StoreError::Uncertain(_)
            | StoreError::Corrupt(_) => false,
        }
    }
}

/// Which writes stood in the way, without their contents.
fn describe(reasons: &[Cancellation]) -> String {
    let told = reasons.iter().enumerate().filter_map(|(position, reason)| {
        let why = match reason {
            Cancellation::None => return None,
            Cancellation::ConditionFailed { .. } => "what it expected does not hold".to_owned(),
            Cancellation::Invalid(invalid) => invalid.to_string(),
            Cancellation::Conflict => "another transaction was writing it".to_owned(),
        };
        Some(format!("write {}: {why}", position + 1))
    });
    told.collect::<Vec<_>>().join("; ")
}
