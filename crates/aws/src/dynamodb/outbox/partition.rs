//! A partition of the outbox: what waits for one destination, in the order in which it was promised.
//!
//! It is handed on in groups of one request, and each group is deleted once it is sent, so that a crash in between
//! repeats one group. Of several nodes one does it at a time: it takes a lease (`OUTBOX-LEASES`), which ends by
//! itself if the node does. A lease only saves doubles; who works without one loses nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::types::{DeleteRequest, WriteRequest};
use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use tidings_kernel::{
    Condition, Delete, Destination, Expect, Item, Key, MAX_BODY_BYTES, Outgoing, Path, Put, Query,
    QueueEngine, QueueError, StoreError, Write, queues, tables::MAIN, topics,
};
use tracing::error;

use super::{message_of, of_store};
use crate::dynamodb::retry::{PATIENCE, pause};
use crate::dynamodb::store::Store;
use crate::dynamodb::value::key_attributes;
use crate::dynamodb::workspaces::Round;
use crate::trouble::Trouble;

/// Spreads what is written for one destination over DynamoDB's partitions. Each is looked at in every round.
const SHARDS: usize = 2;
/// How many partitions of a workspace are looked at at the same time.
const LOOKS_AT_ONCE: usize = 6;
/// What one request to SQS can carry, in messages and in bytes.
const GROUP: usize = 10;
const GROUP_BYTES: usize = MAX_BODY_BYTES;
/// After so many pages of which nothing was taken, the rest of a partition waits for the next round.
const REFUSED_PAGES: usize = 3;

const LEASES: &str = "OUTBOX-LEASES";
/// Longer than a share takes. A node that dies keeps its partition from others for so long.
const LEASE: SignedDuration = SignedDuration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Partition {
    to: Destination,
    shard: usize,
}

impl Partition {
    /// One of those of a destination.
    pub(super) fn any_of(to: Destination) -> Self {
        Self { to, shard: fastrand::usize(..SHARDS) }
    }

    /// All that this node knows. A newer one may know a queue that this one does not: what waits for it is left to
    /// that one.
    fn all() -> impl Iterator<Item = Self> {
        let queues = queues::ALL.into_iter().map(Destination::Queue);
        let to = queues.chain(topics::ALL.into_iter().map(Destination::Topic));
        to.flat_map(|to| (0..SHARDS).map(move |shard| Self { to, shard }))
    }

    /// No queue has the name of a topic.
    pub(super) fn key(self) -> String {
        format!("OUTBOX#{}#{}", self.to.name(), self.shard)
    }

    fn query(self, limit: usize) -> Query {
        Query::new(&MAIN, self.key()).limit(limit)
    }

    fn lease_key(self) -> Key {
        Key::new(LEASES, format!("{}#{}", self.to.name(), self.shard))
    }
}

/// Destinations that failed in this round: what else waits for them is not tried in it.
#[derive(Default)]
pub(super) struct Failed(Mutex<HashSet<&'static str>>);

impl Failed {
    fn add(&self, to: Destination) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(to.name());
    }

    fn has(&self, to: Destination) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(to.name())
    }
}

/// A message that was found, and where.
struct Found {
    key: Key,
    message: Outgoing,
}

impl Store {
    /// The partitions that have something.
    pub(super) async fn waiting(&self) -> Result<Vec<Partition>, StoreError> {
        let looks = Partition::all().map(|partition| async move {
            let page = self.query_page(&partition.query(1)).await?;
            Ok::<_, StoreError>((!page.items.is_empty()).then_some(partition))
        });
        let looks = stream::iter(looks).buffer_unordered(LOOKS_AT_ONCE);
        looks.try_filter_map(|found| async move { Ok(found) }).try_collect().await
    }

    /// Whether nobody else has the partition. A lease that ends later than any can was taken by a clock that is
    /// wrong.
    async fn take_lease(&self, partition: Partition, holder: &str) -> Result<bool, StoreError> {
        let now = self.clock.now();
        let until = Path::of("until");
        let free = Condition::AnyOf(vec![
            Condition::NotExists(until.clone()),
            Condition::Lt(until.clone(), now.as_millisecond().into()),
            Condition::Gt(until, end_of(now, 2 * LEASE).into()),
        ]);
        let lease = MAIN.bare_item(&partition.lease_key()).with("holder", holder);
        let mut put = Put::new(&MAIN, lease.with("until", end_of(now, LEASE)));
        put.expect = Expect::That(free);
        match self.write(Write::Put(put)).await {
            Ok(_) => Ok(true),
            Err(StoreError::ConditionFailed { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// It is no error if another has it by now.
    async fn return_lease(&self, partition: Partition, holder: &str) -> Result<(), StoreError> {
        let mut delete = Delete::new(&MAIN, partition.lease_key());
        delete.expect = Expect::That(Condition::eq("holder", holder));
        match self.write(Write::Delete(delete)).await {
            Ok(_) | Err(StoreError::ConditionFailed { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Up to 25 items of the main table. What the server leaves for later is asked for again.
    async fn delete_batch(&self, keys: &[Key]) -> Result<(), StoreError> {
        let name = self.name(&MAIN);
        let deletes = keys.iter().map(|key| {
            let delete = DeleteRequest::builder().set_key(Some(key_attributes(&MAIN, key)));
            let delete = delete.build().expect("the key is set");
            WriteRequest::builder().delete_request(delete).build()
        });
        let mut left = HashMap::from([(name, deletes.collect::<Vec<_>>())]);
        for tries in 1..=PATIENCE {
            let request = self.client.batch_write_item().set_request_items(Some(left));
            let answer = request.send().await.map_err(|error| Trouble::new(error).of_read())?;
            left = answer.unprocessed_items.unwrap_or_default();
            if left.values().all(Vec::is_empty) {
                return Ok(());
            }
            pause(tries).await;
        }
        Err(StoreError::Unavailable("a batch was never processed".into()))
    }

    fn read_message(&self, item: &Item) -> Option<Found> {
        let message = message_of(item, self.clock.now());
        let key = MAIN.key_of(item).ok()?;
        if message.is_none() {
            error!(
                workspace = %self.workspace,
                message.id = key.sort,
                "A message in the outbox of {} cannot be read", self.workspace
            );
        }
        Some(Found { key, message: message? })
    }
}

fn end_of(now: Timestamp, lease: SignedDuration) -> i64 {
    now.as_millisecond().saturating_add(lease.as_millis() as i64)
}

/// A partition's turn in a round.
pub(super) struct Turn<'r> {
    pub(super) store: Arc<Store>,
    pub(super) partition: Partition,
    pub(super) to: &'r dyn QueueEngine,
    pub(super) failed: &'r Failed,
    pub(super) round: Round<QueueError>,
}

impl Turn<'_> {
    /// Hands on up to so many messages, unless another node is at it.
    pub(super) async fn take(mut self, share: usize) -> Round<QueueError> {
        let holder = format!("{:016x}", fastrand::u64(..));
        match self.store.take_lease(self.partition, &holder).await {
            Ok(true) => {
                let relayed = self.relay(share).await;
                // What is not given back ends by itself.
                let returned = self.store.return_lease(self.partition, &holder).await;
                let outcome = relayed.and(returned);
                outcome.unwrap_or_else(|error| self.round.fail(of_store(error)));
            }
            Ok(false) => {}
            Err(error) => self.round.fail(of_store(error)),
        }
        self.round
    }

    async fn relay(&mut self, share: usize) -> Result<(), StoreError> {
        let (mut cursor, mut refused) = (None, 0);
        while self.round.count < share && !self.failed.has(self.partition.to) {
            let query = self.partition.query(GROUP.min(share - self.round.count));
            let page = self.store.query_page(&query.after(cursor)).await?;
            let found = page.items.iter().filter_map(|item| self.store.read_message(item));
            let before = self.round.count;
            for group in groups(found.collect()) {
                if !self.failed.has(self.partition.to) {
                    self.hand_over(group).await?;
                }
            }
            if self.round.count == before {
                refused += 1;
            }
            cursor = page.cursor;
            if cursor.is_none() || refused == REFUSED_PAGES {
                break;
            }
        }
        Ok(())
    }

    /// What is refused stays. A group is refused for one of its messages, so each is then tried alone: the others
    /// must not be repeated with it for ever.
    async fn hand_over(&mut self, group: Vec<Found>) -> Result<(), StoreError> {
        let (keys, messages): (Vec<Key>, Vec<Outgoing>) =
            group.into_iter().map(|found| (found.key, found.message)).unzip();
        if self.send(messages.clone()).await {
            self.store.delete_batch(&keys).await?;
            self.round.count += keys.len();
        } else if keys.len() > 1 {
            for (key, message) in keys.into_iter().zip(messages) {
                if !self.failed.has(self.partition.to) && self.send(vec![message]).await {
                    self.store.delete_batch(&[key]).await?;
                    self.round.count += 1;
                }
            }
        }
        Ok(())
    }

    /// Whether they were taken. A destination that does not answer has failed for this round.
    async fn send(&mut self, messages: Vec<Outgoing>) -> bool {
        let Err(error) = self.to.send(messages).await else { return true };
        if matches!(error, QueueError::Unavailable(_)) {
            self.failed.add(self.partition.to);
        }
        self.round.fail(error);
        false
    }
}

/// As many in one as a request can carry.
fn groups(found: Vec<Found>) -> Vec<Vec<Found>> {
    let mut groups: Vec<Vec<Found>> = Vec::new();
    let mut bytes = 0;
    for one in found {
        bytes += one.message.body.len();
        match groups.last_mut() {
            Some(group) if group.len() < GROUP && bytes <= GROUP_BYTES => group.push(one),
            _ => {
                bytes = one.message.body.len();
                groups.push(vec![one]);
            }
        }
    }
    groups
}
