//! The outbox: messages that a transaction promised, as items of the main table until they are in their queues.
//!
//! A message lies under `OUTBOX#<shard>` and its id, which sorts by time. The relay sends what it finds and then
//! deletes it, so a crash in between repeats it, and so do two nodes that relay at the same time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::types::{DeleteRequest, WriteRequest};
use jiff::Timestamp;
use tidings_kernel::{
    Destination, Item, Key, MAX_DELAY, MAX_MESSAGES, Outbox, Outgoing, Put, Query, QueueEngine,
    QueueError, StoreError, Write, message_id, queues, tables::MAIN, topics,
};
use tracing::error;

use super::DynamoDb;
use super::retry::{PATIENCE, pause};
use super::store::Store;
use super::value::key_attributes;
use super::workspaces::{Round, Workspaces, in_any_order};
use crate::trouble::Trouble;

/// Spreads what is written over DynamoDB's partitions, and what is relayed over the nodes.
const SHARDS: usize = 4;
/// How many deletes one request can hold.
const DELETES: usize = 25;

/// Moves the messages of all workspaces to their queues.
pub struct DynamoOutbox {
    engine: Arc<DynamoDb>,
    workspaces: Arc<dyn Workspaces>,
}

impl DynamoOutbox {
    pub fn new(engine: Arc<DynamoDb>, workspaces: Arc<dyn Workspaces>) -> Self {
        Self { engine, workspaces }
    }
}

#[async_trait]
impl Outbox for DynamoOutbox {
    async fn relay(&self, to: &dyn QueueEngine, limit: usize) -> Result<usize, QueueError> {
        let mut round = Round::new();
        for workspace in in_any_order(&*self.workspaces).await.map_err(of_store)? {
            if round.count >= limit {
                break;
            }
            let relayed = match self.engine.open_store(&workspace).await {
                Ok(store) => store.relay(to, limit - round.count).await,
                Err(error) => Err(of_store(error)),
            };
            round.take(relayed);
        }
        round.end()
    }
}

/// A message that was found, and where.
struct Found {
    key: Key,
    message: Outgoing,
}

impl Store {
    pub(super) fn message_write(&self, message: Outgoing, now: Timestamp) -> Write {
        let id = message_id(now, self.messages.next(), fastrand::u32(..));
        let kind = match message.to {
            Destination::Queue(_) => "queue",
            Destination::Topic(_) => "topic",
        };
        let mut item = Item::new()
            .with("PK", partition(fastrand::usize(..SHARDS)))
            .with("SK", id)
            .with("kind", kind)
            .with("to", message.to.name())
            .with("body", message.body);
        if !message.delay.is_zero() {
            let visible_at = now.as_millisecond().saturating_add(message.delay.as_millis() as i64);
            item.set("visible_at", visible_at);
        }
        Write::Put(Put::new(&MAIN, item))
    }

    async fn relay(&self, to: &dyn QueueEngine, limit: usize) -> Result<usize, QueueError> {
        let first = fastrand::usize(..SHARDS);
        let mut round = Round::new();
        for shard in (first..first + SHARDS).map(|shard| shard % SHARDS) {
            if round.count < limit {
                let left = limit - round.count;
                self.relay_shard(shard, to, left, &mut round).await?;
            }
        }
        round.end()
    }

    /// What cannot be sent stays, and does not keep what is behind it from its own queue.
    async fn relay_shard(
        &self,
        shard: usize,
        to: &dyn QueueEngine,
        limit: usize,
        round: &mut Round<QueueError>,
    ) -> Result<(), QueueError> {
        let query = Query::new(&MAIN, partition(shard)).limit(limit.clamp(1, MAX_MESSAGES));
        let enough = round.count + limit;
        let mut cursor = None;
        loop {
            let page = self.query_page(&query.clone().after(cursor)).await.map_err(of_store)?;
            let found = page.items.iter().filter_map(|item| self.read_message(item));
            for group in by_destination(found.collect()) {
                round.take(self.hand_over(to, group).await);
            }
            cursor = page.cursor;
            if cursor.is_none() || round.count >= enough {
                return Ok(());
            }
        }
    }

    async fn hand_over(
        &self,
        to: &dyn QueueEngine,
        found: Vec<Found>,
    ) -> Result<usize, QueueError> {
        let (keys, messages): (Vec<Key>, Vec<Outgoing>) =
            found.into_iter().map(|found| (found.key, found.message)).unzip();
        to.send(messages).await?;
        for keys in keys.chunks(DELETES) {
            self.delete_batch(keys).await.map_err(of_store)?;
        }
        Ok(keys.len())
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

    /// A newer node may know a queue that this one does not: its messages are left to it.
    fn read_message(&self, item: &Item) -> Option<Found> {
        let message = message_of(item, self.clock.now());
        let key = MAIN.key_of(item).ok()?;
        if message.is_none() {
            error!(
                workspace = %self.workspace,
                message.id = key.sort,
                "A message in the outbox of {} has no destination that is known here",
                self.workspace
            );
        }
        Some(Found { key, message: message? })
    }
}

fn partition(shard: usize) -> String {
    format!("OUTBOX#{shard}")
}

fn message_of(item: &Item, now: Timestamp) -> Option<Outgoing> {
    let name = item.text("to")?;
    let to = match item.text("kind")? {
        "queue" => Destination::Queue(queues::by_name(name)?),
        "topic" => Destination::Topic(topics::by_name(name)?),
        _ => return None,
    };
    let delay = item.integer("visible_at").map_or(Duration::ZERO, |visible_at| {
        let left = visible_at.saturating_sub(now.as_millisecond());
        // A clock that jumped back must not hold a message back for longer than anybody asked for.
        Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(MAX_DELAY)
    });
    Some(Outgoing { to, body: item.text("body")?.to_owned(), delay })
}

fn by_destination(found: Vec<Found>) -> Vec<Vec<Found>> {
    let mut groups: Vec<Vec<Found>> = Vec::new();
    for found in found {
        match groups.iter_mut().find(|group| group[0].message.to == found.message.to) {
            Some(group) => group.push(found),
            None => groups.push(vec![found]),
        }
    }
    groups
}

fn of_store(error: StoreError) -> QueueError {
    match error {
        StoreError::Conflict | StoreError::Unavailable(_) | StoreError::Uncertain(_) => {
            QueueError::Unavailable(error.into())
        }
        StoreError::ConditionFailed { .. }
        | StoreError::Cancelled(_)
        | StoreError::Invalid(_)
        | StoreError::Failed(_)
        | StoreError::Corrupt(_) => QueueError::Failed(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::{Timestamp, ToSpan};
    use tidings_kernel::{Item, MAX_DELAY, Outgoing, queues::PROBE, topics::LEAD_EVENTS};

    use super::message_of;

    fn item(kind: &str, to: &str) -> Item {
        Item::new().with("kind", kind).with("to", to).with("body", "x")
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let now = Timestamp::UNIX_EPOCH;
        let read = |item: Item| message_of(&item, now);
        assert_eq!(read(item("queue", "probe")), Some(Outgoing::new(&PROBE, "x")));
        let published = Outgoing::publish(&LEAD_EVENTS, "x");
        assert_eq!(read(item("topic", "lead-events")), Some(published));
        assert_eq!(read(item("queue", "lead-events")), None);
        assert_eq!(read(item("queue", "of tomorrow")), None);
        assert_eq!(read(item("river", "probe")), None);
    }

    #[test]
    fn only_the_rest_of_a_delay_is_left() {
        let now: Timestamp = "2025-07-01T00:00:00Z".parse().unwrap();
        for (visible_at, seconds) in [
            (now + 60.seconds(), 60),
            (now, 0),
            (now - 60.seconds(), 0),
            (now + 10.hours(), MAX_DELAY.as_secs()),
        ] {
            let item = item("queue", "probe").with("visible_at", visible_at.as_millisecond());
            let delay = message_of(&item, now).unwrap().delay;
            assert_eq!(delay, Duration::from_secs(seconds), "{visible_at}");
        }
    }
}
