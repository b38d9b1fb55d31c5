//! The outbox: messages that a transaction promised, as items of the main table until they are in their queues.
//!
//! A message lies under `OUTBOX#<destination>#<shard>` and its id, which sorts by time, so that what waits for one
//! queue does not stand before what is for another. A round of the relay first looks where something waits, in all
//! workspaces, and then gives each of these partitions its share. How one of them is handed on is in `partition`.

mod partition;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use tidings_kernel::{
    Destination, Item, MAX_DELAY, Outbox, Outgoing, Put, QueueEngine, QueueError, StoreError,
    Workspace, Write, message_id, queues, tables::MAIN, topics,
};

use super::DynamoDb;
use super::store::Store;
use super::workspaces::{Round, Workspaces, in_any_order};
use partition::{Failed, Partition, Turn};

/// How many workspaces are looked at, and how many partitions handed on, at the same time.
const AT_ONCE: usize = 8;

/// Moves the messages of all workspaces to their queues.
pub struct DynamoOutbox {
    engine: Arc<DynamoDb>,
    workspaces: Arc<dyn Workspaces>,
}

impl DynamoOutbox {
    pub fn new(engine: Arc<DynamoDb>, workspaces: Arc<dyn Workspaces>) -> Self {
        Self { engine, workspaces }
    }

    async fn waiting(
        &self,
        workspace: Workspace,
    ) -> Result<Vec<(Arc<Store>, Partition)>, StoreError> {
        let store = self.engine.open_store(&workspace).await?;
        let waiting = store.waiting().await?;
        Ok(waiting.into_iter().map(|partition| (Arc::clone(&store), partition)).collect())
    }
}

#[async_trait]
impl Outbox for DynamoOutbox {
    async fn relay(&self, to: &dyn QueueEngine, limit: usize) -> Result<usize, QueueError> {
        let mut round = Round::new();
        let workspaces = in_any_order(&*self.workspaces).await.map_err(of_store)?;
        let looks = workspaces.into_iter().map(|workspace| self.waiting(workspace));
        let looks: Vec<_> = stream::iter(looks).buffer_unordered(AT_ONCE).collect().await;
        let mut waiting = Vec::new();
        for look in looks {
            match look {
                Ok(found) => waiting.extend(found),
                Err(error) => round.fail(of_store(error)),
            }
        }
        // Every node goes through them in another order, so that they seldom meet.
        fastrand::shuffle(&mut waiting);
        let share = limit.div_ceil(waiting.len().max(1));
        let failed = Failed::default();
        let turns = waiting.into_iter().map(|(store, partition)| {
            Turn { store, partition, to, failed: &failed, round: Round::new() }.take(share)
        });
        let turns: Vec<_> = stream::iter(turns).buffer_unordered(AT_ONCE).collect().await;
        turns.into_iter().for_each(|turn| round.join(turn));
        round.end()
    }
}

impl Store {
    pub(super) fn message_write(&self, message: Outgoing, now: Timestamp) -> Write {
        let id = message_id(now, self.messages.next(), fastrand::u32(..));
        let kind = match message.to {
            Destination::Queue(_) => "queue",
            Destination::Topic(_) => "topic",
        };
        let mut item = Item::new()
            .with("PK", Partition::any_of(message.to).key())
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
