//! The items of one workspace in DynamoDB: the kernel's port, handed on to what does the work.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodbstreams::Client as StreamsClient;
use tidings_kernel::{
    ChangeBatch, Clock, Delete, Item, ItemStore, Key, Page, Put, Query, Scan, StoreError, Table,
    Txn, Update, Workspace, Write,
};

use super::stream::Bookmarks;
use super::timers::NotedHours;

pub(super) struct Store {
    pub(super) client: Client,
    pub(super) streams: StreamsClient,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) prefix: String,
    pub(super) workspace: Workspace,
    /// The address of each table's stream, by the table's name.
    pub(super) stream_arns: HashMap<&'static str, String>,
    pub(super) bookmarks: Bookmarks,
    /// Numbers the messages of this process, to keep them in order.
    pub(super) messages: Counter,
    pub(super) hours: NotedHours,
}

#[derive(Default)]
pub(super) struct Counter(AtomicU32);

impl Counter {
    pub(super) fn next(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Dots stand between the parts, because neither a workspace's name nor a table's can have one: two workspaces
/// can never mean the same table.
pub(super) fn table_name(prefix: &str, workspace: &Workspace, table: &Table) -> String {
    format!("{prefix}.{workspace}.{}", table.name)
}

impl Store {
    pub(super) fn name(&self, table: &Table) -> String {
        table_name(&self.prefix, &self.workspace, table)
    }
}

#[async_trait]
impl ItemStore for Store {
    async fn get(&self, table: &'static Table, key: &Key) -> Result<Option<Item>, StoreError> {
        self.get_item(table, key).await
    }

    async fn batch_get(
        &self,
        table: &'static Table,
        keys: &[Key],
    ) -> Result<Vec<Option<Item>>, StoreError> {
        self.get_items(table, keys).await
    }

    async fn put(&self, put: Put) -> Result<Option<Item>, StoreError> {
        self.write(Write::Put(put)).await
    }

    async fn update(&self, update: Update) -> Result<Option<Item>, StoreError> {
        self.write(Write::Update(update)).await
    }

    async fn delete(&self, delete: Delete) -> Result<Option<Item>, StoreError> {
        self.write(Write::Delete(delete)).await
    }

    async fn transact(&self, txn: Txn) -> Result<(), StoreError> {
        self.commit(txn).await
    }

    async fn query(&self, query: Query) -> Result<Page, StoreError> {
        self.query_page(&query).await
    }

    async fn count(&self, query: Query) -> Result<u64, StoreError> {
        self.count_items(&query).await
    }

    async fn scan(&self, scan: Scan) -> Result<Page, StoreError> {
        self.scan_page(&scan).await
    }

    async fn changes(
        &self,
        table: &'static Table,
        consumer: &str,
        limit: usize,
    ) -> Result<ChangeBatch, StoreError> {
        self.read_changes(table, consumer, limit).await
    }

    async fn acknowledge(
        &self,
        table: &'static Table,
        consumer: &str,
        position: &str,
    ) -> Result<(), StoreError> {
        self.move_checkpoints(table, consumer, position).await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tidings_kernel::tables;

    use super::table_name;

    #[test]
    fn no_two_workspaces_share_a_table() {
        let names: HashSet<String> = ["acme", "acme-main", "acme-main-events", "main", "events"]
            .iter()
            .flat_map(|workspace| {
                let workspace = workspace.parse().unwrap();
                tables::ALL.map(|table| table_name("tidings", &workspace, table))
            })
            .collect();
        assert_eq!(names.len(), 5 * tables::ALL.len());
        assert!(names.contains("tidings.acme.main"));
    }
}
