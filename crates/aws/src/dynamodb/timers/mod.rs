//! Timers as items of the main table, in hours of their due times.
//!
//! The pointer of a timer (`TIMER#<key>`) is the truth: when it is due, and which entry stands for it. The entry
//! lies in the hour of the due time (`TIMERS#<hour>#<shard>`), sorted by it, with what is to be sent. Both are put
//! in the transaction that arms the timer, without a look at what is there: an entry that its pointer does not
//! name was moved or cancelled, and is deleted when its time comes. A timer fires in one transaction that deletes
//! pointer and entry and puts the message into the outbox, so one node moves it however many try.
//!
//! Which hours have entries is noted before they get one (`hours`), so that after a long sleep nobody has to look
//! through all the empty ones. Firing is in `fire`.

mod fire;
mod hours;

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use tidings_kernel::{
    Delete, Fired, Item, Key, Put, StoreError, Timer, TimerChange, TimerEngine, Write, tables::MAIN,
};

use super::DynamoDb;
use super::store::Store;
use super::workspaces::{Round, Workspaces, in_any_order};
use hours::Hour;
pub(super) use hours::NotedHours;

/// Spreads the timers of an hour over DynamoDB's partitions.
const SHARDS: u64 = 4;
/// How many hours are noted, or timers fired, at the same time.
const AT_ONCE: usize = 8;

/// Fires the timers of all workspaces.
pub struct DynamoTimers {
    engine: Arc<DynamoDb>,
    workspaces: Arc<dyn Workspaces>,
}

impl DynamoTimers {
    pub fn new(engine: Arc<DynamoDb>, workspaces: Arc<dyn Workspaces>) -> Self {
        Self { engine, workspaces }
    }
}

#[async_trait]
impl TimerEngine for DynamoTimers {
    async fn fire(&self, limit: usize) -> Result<Fired, StoreError> {
        let mut round = Round::new();
        let mut next_due: Option<Timestamp> = None;
        for workspace in in_any_order(&*self.workspaces).await? {
            if round.count >= limit {
                // There may be more in those that had no turn.
                next_due = Some(self.engine.clock.now());
                break;
            }
            let fired = match self.engine.open_store(&workspace).await {
                Ok(store) => store.fire(limit - round.count).await,
                Err(error) => Err(error),
            };
            if let Ok(Fired { next_due: Some(due), .. }) = &fired {
                next_due = Some(next_due.map_or(*due, |next| next.min(*due)));
            }
            round.take(fired.map(|fired| fired.count));
        }
        Ok(Fired { count: round.end()?, next_due })
    }
}

impl Store {
    /// Must be done before the timers are written: an hour that nobody knows of is not looked at.
    pub(super) async fn note_hours(
        &self,
        timers: &[TimerChange],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let armed = timers.iter().filter_map(|change| match change {
            TimerChange::Arm(timer) => Some(hour_of(timer, now)),
            TimerChange::Cancel(_) => None,
        });
        let hours = self.hours.unknown(armed, now);
        let noted = hours.into_iter().map(|hour| self.note_hour(hour));
        stream::iter(noted).buffer_unordered(AT_ONCE).try_collect().await
    }
}

/// What a change of a timer writes.
pub(super) fn timer_writes(change: TimerChange, now: Timestamp) -> Vec<Write> {
    let pointer = pointer_key(change.key());
    let timer = match change {
        TimerChange::Arm(timer) => timer,
        TimerChange::Cancel(_) => return vec![Write::Delete(Delete::new(&MAIN, pointer))],
    };
    let nonce = fastrand::u64(..);
    let name = format!("{nonce:016x}");
    let due = timer.due.as_millisecond();
    let entry = MAIN
        .bare_item(&entry_key(hour_of(&timer, now), nonce % SHARDS, due, &name))
        .with("entry", name.as_str())
        .with("key", timer.key)
        .with("queue", timer.queue.name)
        .with("body", timer.body);
    let pointer: Item = MAIN.bare_item(&pointer).with("due", due).with("entry", name);
    vec![Write::Put(Put::new(&MAIN, pointer)), Write::Put(Put::new(&MAIN, entry))]
}

/// The hour of the due time. What is already due goes into the present one, which is always looked at.
fn hour_of(timer: &Timer, now: Timestamp) -> Hour {
    Hour::of(timer.due.max(now))
}

fn pointer_key(key: &str) -> Key {
    Key::new(format!("TIMER#{key}"), "TIMER")
}

fn entry_key(hour: Hour, shard: u64, due: i64, name: &str) -> Key {
    Key::new(entry_partition(hour, shard), format!("{}#{name}", sort_of(due)))
}

fn entry_partition(hour: Hour, shard: u64) -> String {
    format!("TIMERS#{hour}#{shard}")
}

/// Sorts as the milliseconds do, until the year 9999.
fn sort_of(due: i64) -> String {
    format!("{:015}", due.max(0))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tidings_kernel::{Timer, TimerChange, Write, queues::PROBE};

    use super::timer_writes;

    /// Where an entry lies, but for what is random.
    fn entry(due: &str, now: &str) -> String {
        let timer = Timer {
            key: "k".to_owned(),
            due: due.parse().unwrap(),
            queue: &PROBE,
            body: "x".to_owned(),
        };
        let writes = timer_writes(TimerChange::Arm(timer), now.parse().unwrap());
        let key = writes[1].key().unwrap();
        let (hour, _) = key.partition.rsplit_once('#').unwrap();
        let (due, _) = key.sort.as_ref().unwrap().split_once('#').unwrap();
        format!("{hour} {due}")
    }

    #[test]
    fn an_entry_lies_in_the_hour_of_its_due_time_but_never_in_the_past() {
        let now = "2026-11-16T06:30:00Z";
        let check = |due: &str, expected: &str| assert_eq!(entry(due, now), expected);
        check("2026-11-16T06:59:59.999Z", "TIMERS#2026-11-16T06 001794812399999");
        check("2026-11-16T07:00:00Z", "TIMERS#2026-11-16T07 001794812400000");
        check("2026-11-16T05:00:00Z", "TIMERS#2026-11-16T06 001794805200000");
        check("1969-01-01T00:00:00Z", "TIMERS#2026-11-16T06 000000000000000");
        check("9999-12-30T00:00:00Z", "TIMERS#9999-12-30T00 253402128000000");
    }

    #[test]
    fn a_pointer_names_its_entry_and_is_all_that_a_cancellation_touches() {
        let now = Timestamp::UNIX_EPOCH;
        let timer = Timer { key: "k".to_owned(), due: now, queue: &PROBE, body: "x".to_owned() };
        let writes = timer_writes(TimerChange::Arm(timer), now);
        let [Write::Put(pointer), Write::Put(entry)] = &writes[..] else { panic!("{writes:?}") };
        assert_eq!(pointer.item.text("entry"), entry.item.text("entry"));
        let cancelled = timer_writes(TimerChange::Cancel("k".to_owned()), now);
        assert_eq!(cancelled.len(), 1);
        assert_eq!(cancelled[0].key().unwrap(), writes[0].key().unwrap());
    }
}
