//! Items on DynamoDB, or on any server with its API.
//!
//! A workspace's tables are made when it is first opened (`tables`). Typed operations become expressions
//! (`expression`), errors become words that decide what to do (`trouble`), and only what certainly did nothing
//! is tried again (`retry`). The change stream is DynamoDB Streams, with checkpoints in the main table
//! (`stream`), and so are the messages (`outbox`) and timers (`timers`) of transactions. DynamoDB deletes by TTL in its own time; reads leave out what it has not got to.

mod expression;
mod get;
mod outbox;
mod page;
mod retry;
mod store;
mod stream;
mod tables;
mod timers;
mod transact;
mod value;
mod workspaces;
mod write;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodbstreams::Client as StreamsClient;
use tidings_kernel::{Clock, ItemEngine, ItemStore, StoreError, Workspace};
use tokio::sync::OnceCell;

use crate::connection::{self, Missing, Settings};
use crate::trouble::Trouble;
pub use outbox::DynamoOutbox;
use store::{Counter, Store};
use stream::Bookmarks;
pub use stream::TRIMMED_METRIC;
pub use timers::DynamoTimers;
use timers::NotedHours;
pub use workspaces::Workspaces;

const PATIENCE_FOR_AN_ANSWER: Duration = Duration::from_secs(20);

/// The item engine on DynamoDB.
pub struct DynamoDb {
    client: Client,
    streams: StreamsClient,
    clock: Arc<dyn Clock>,
    prefix: String,
    missing: Missing,
    /// The workspaces whose tables are known to be there. The cell makes those who open one at the same time
    /// wait for the first.
    opened: Mutex<HashMap<Workspace, Arc<OnceCell<Arc<Store>>>>>,
}

impl DynamoDb {
    /// Region, credentials and endpoint come from where the SDK looks for them. Nothing is asked of the server.
    pub async fn connect(settings: Settings, clock: Arc<dyn Clock>) -> Self {
        let config = connection::load(PATIENCE_FOR_AN_ANSWER).await;
        Self::new(&config, settings, clock)
    }

    /// With a configuration of the SDK that the caller has made.
    pub fn new(config: &SdkConfig, settings: Settings, clock: Arc<dyn Clock>) -> Self {
        let config = connection::to_endpoint(config, settings.endpoint);
        Self {
            client: Client::new(&config),
            streams: StreamsClient::new(&config),
            clock,
            prefix: settings.prefix,
            missing: settings.missing,
            opened: Mutex::default(),
        }
    }

    async fn open_store(&self, workspace: &Workspace) -> Result<Arc<Store>, StoreError> {
        let cell = {
            let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(opened.entry(workspace.clone()).or_default())
        };
        let store = cell.get_or_try_init(|| self.make(workspace)).await?;
        Ok(Arc::clone(store))
    }

    async fn make(&self, workspace: &Workspace) -> Result<Arc<Store>, StoreError> {
        let stream_arns = match self.missing {
            Missing::Create => tables::ensure(&self.client, &self.prefix, workspace).await?,
            Missing::Refuse => tables::find(&self.client, &self.prefix, workspace).await?,
        };
        Ok(Arc::new(Store {
            client: self.client.clone(),
            streams: self.streams.clone(),
            clock: Arc::clone(&self.clock),
            prefix: self.prefix.clone(),
            workspace: workspace.clone(),
            stream_arns,
            bookmarks: Bookmarks::default(),
            messages: Counter::default(),
            hours: NotedHours::default(),
        }))
    }
}

#[async_trait]
impl ItemEngine for DynamoDb {
    async fn open(&self, workspace: &Workspace) -> Result<Arc<dyn ItemStore>, StoreError> {
        let store = self.open_store(workspace).await?;
        Ok(store)
    }

    async fn sweep(&self, _limit: usize) -> Result<usize, StoreError> {
        Ok(0)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        let answer = self.client.list_tables().limit(1).send().await;
        answer.map(drop).map_err(|error| Trouble::new(error).of_read())
    }
}
