//! Demo data: a few people and what was sent to them, in a workspace of its own.
//!
//! Here: what `tidings serve --demo` puts into the workspace `demo`. The items are in `items.jsonl`, in the order
//! in which they would have come about.

use serde::Deserialize;
use tidings_kernel::{Expect, Item, Put, StoreError, Workspace, tables};

use crate::failure::Failure;
use crate::store::Store;

const ITEMS: &str = include_str!("items.jsonl");

#[derive(Deserialize)]
struct Line {
    table: String,
    item: Item,
}

/// Puts what is not there yet. What somebody has changed since stays as it is.
pub(crate) async fn fill(store: &Store) -> Result<usize, Failure> {
    let workspace: Workspace = "demo".parse().expect("it is a good name");
    let items = store.workspace(&workspace).await?;
    let mut added = 0;
    for line in lines() {
        let table = tables::by_name(&line.table).expect("the demo uses tables that exist");
        let put = Put::new(table, line.item).expect(Expect::Absent);
        match items.put(put).await {
            Ok(_) => added += 1,
            Err(StoreError::ConditionFailed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(added)
}

fn lines() -> impl Iterator<Item = Line> {
    ITEMS.lines().map(|line| serde_json::from_str(line).expect("the demo is well-formed"))
}

#[cfg(test)]
mod tests {
    use tidings_kernel::{Write, tables};

    use super::{Put, lines};

    #[test]
    fn every_line_is_an_item_that_a_store_takes() {
        for line in lines() {
            let table = tables::by_name(&line.table).expect(&line.table);
            Write::Put(Put::new(table, line.item)).validate().unwrap();
        }
    }
}
