//! What a store answers to an operation, in a form that can be compared between engines.

use proptest::test_runner::TestCaseError;
use tidings_kernel::{
    Cancellation, Direction, Item, ItemStore, Key, Query, StoreError, tables::EMAIL_TRACKING,
};

use super::operation::Operation;

#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Done,
    Item(Option<Item>),
    Batch(Vec<Option<Item>>),
    Items(Vec<Item>),
    Count(u64),
    ConditionFailed(Option<Item>),
    Cancelled(Vec<Reason>),
    /// Why differs: DynamoDB finds some of the reasons itself, and says so in its own words.
    Invalid,
}

#[derive(Debug, PartialEq)]
pub(super) enum Reason {
    None,
    ConditionFailed(Option<Item>),
    Invalid,
    Conflict,
}

impl Answer {
    pub(super) async fn of(
        store: &dyn ItemStore,
        operation: &Operation,
    ) -> Result<Self, TestCaseError> {
        let answer = match operation {
            Operation::Put(put) => store.put(put.clone()).await.map(Answer::Item),
            Operation::Update(update) => store.update(update.clone()).await.map(Answer::Item),
            Operation::Delete(delete) => store.delete(delete.clone()).await.map(Answer::Item),
            Operation::Transact(txn) => store.transact(txn.clone()).await.map(|()| Answer::Done),
            Operation::Get(table, key) => store.get(table, key).await.map(Answer::Item),
            Operation::BatchGet(table, keys) => {
                store.batch_get(table, keys).await.map(Answer::Batch)
            }
            Operation::Query(query) => walk(store, query).await?.map(Answer::Items),
            Operation::Count(query) => store.count(query.clone()).await.map(Answer::Count),
            Operation::Pass(_) | Operation::Sweep => Ok(Answer::Done),
        };
        Ok(match answer {
            Ok(answer) => answer,
            Err(StoreError::ConditionFailed { current }) => {
                Answer::ConditionFailed(current.map(|item| *item))
            }
            Err(StoreError::Cancelled(reasons)) => {
                Answer::Cancelled(reasons.into_iter().map(Reason::from).collect())
            }
            Err(StoreError::Invalid(_)) => Answer::Invalid,
            Err(error) => {
                return Err(TestCaseError::fail(format!("{operation} failed: {error:?}")));
            }
        })
    }
}

impl From<Cancellation> for Reason {
    fn from(reason: Cancellation) -> Self {
        match reason {
            Cancellation::None => Reason::None,
            Cancellation::ConditionFailed { current } => Reason::ConditionFailed(current),
            Cancellation::Invalid(_) => Reason::Invalid,
            Cancellation::Conflict => Reason::Conflict,
        }
    }
}

/// All pages of a query. Each but the last must be full, and the order must be right; where several items have
/// the same place in an index, theirs is not defined and is made so.
pub(super) async fn walk(
    store: &dyn ItemStore,
    query: &Query,
) -> Result<Result<Vec<Item>, StoreError>, TestCaseError> {
    let mut items = Vec::new();
    let mut cursor = None;
    loop {
        let page = match store.query(query.clone().after(cursor)).await {
            Ok(page) => page,
            Err(error) => return Ok(Err(error)),
        };
        if page.cursor.is_some() && page.items.len() != query.limit {
            let found = page.items.len();
            return Err(TestCaseError::fail(format!("a page of {found} goes on: {query:?}")));
        }
        items.extend(page.items);
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    if query.index.is_some() {
        let places: Vec<_> = items.iter().map(place).collect();
        let in_order = match query.direction {
            Direction::Forward => places.is_sorted(),
            Direction::Backward => places.is_sorted_by(|a, b| a >= b),
        };
        if !in_order {
            return Err(TestCaseError::fail(format!("not in order: {places:?}")));
        }
        items.sort_by_cached_key(|item| (place(item), key(item)));
    }
    Ok(Ok(items))
}

fn place(item: &Item) -> String {
    item.text("GSI1SK").expect("an item of the index has its keys").to_owned()
}

fn key(item: &Item) -> Key {
    EMAIL_TRACKING.key_of(item).expect("an item of the table has its keys")
}
