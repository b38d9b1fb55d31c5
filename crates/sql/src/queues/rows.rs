//! The statements on waiting messages: put in, take out with a lease, settle, count.
//!
//! A delivery is known by its id and the number of the receive: a later one has a higher number, so who lost his
//! lease can settle nothing.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tidings_kernel::{
    BadMessage, Delivery, Depth, Outgoing, Postponement, Queue, Receipt, message_id, queues,
};

use super::dead;
use super::waiting::LONGEST_PATIENCE;
use crate::database::{DatabaseError, Dialect, Param, Row, Tx};

/// Nobody reads a number of this size digit by digit, and counting further would take long.
const COUNTED: i64 = 100_000;

/// Materialized, so that no plan looks twice, and takes twice.
pub(super) const TAKE_ON_SQLITE: &str = "WITH taken AS MATERIALIZED (
         SELECT id AS taken_id FROM queue_messages WHERE queue = $1 AND visible_at <= $2
         ORDER BY visible_at, id LIMIT $3)
     UPDATE queue_messages SET visible_at = $4, receives = receives + 1
     FROM taken WHERE queue = $1 AND id = taken_id
     RETURNING id, body, receives, enqueued_at, deferrals";

/// What another node is taking is left to it. What we have locked stays where it is, and need not be looked up again
/// by its id, which would be a third of the work.
pub(super) const TAKE_ON_POSTGRES: &str =
    "UPDATE queue_messages SET visible_at = $4, receives = receives + 1
     WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM queue_messages WHERE queue = $1 AND visible_at <= $2
         ORDER BY visible_at, id LIMIT $3 FOR UPDATE SKIP LOCKED))
     RETURNING id, body, receives, enqueued_at, deferrals";

pub(super) const NEXT_VISIBLE: &str = "SELECT visible_at FROM queue_messages WHERE queue = $1
     ORDER BY visible_at, id LIMIT 1";

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// An id for a message that is sent now.
pub(super) fn new_id(now: Timestamp) -> String {
    message_id(now, COUNTER.fetch_add(1, Ordering::Relaxed), fastrand::u32(..))
}

pub(crate) fn insert(
    tx: &mut Tx<'_>,
    messages: &[&Outgoing],
    now: Timestamp,
) -> Result<(), DatabaseError> {
    let mut rows = Vec::new();
    for message in messages {
        for queue in message.to.queues() {
            let visible_at = now.as_millisecond() + millis(message.delay);
            rows.push((queue.name, new_id(now), visible_at, message.body.as_str()));
        }
    }
    insert_rows(tx, &rows, now.as_millisecond())
}

/// Queue, id, visible from, body.
pub(super) type NewRow<'a> = (&'a str, String, i64, &'a str);

pub(super) fn insert_rows(
    tx: &mut Tx<'_>,
    rows: &[NewRow<'_>],
    now: i64,
) -> Result<(), DatabaseError> {
    for queue in rows.iter().filter_map(|row| queues::by_name(row.0)) {
        tx.wake(queue.name);
    }
    match tx.dialect() {
        Dialect::Sqlite => {
            let sql = "INSERT INTO queue_messages (queue, id, visible_at, enqueued_at, body)
                       VALUES ($1, $2, $3, $4, $5)";
            let sets = rows.iter().map(|(queue, id, visible_at, body)| {
                vec![
                    Param::Text(queue),
                    Param::Text(id),
                    Param::Int(*visible_at),
                    Param::Int(now),
                    Param::Text(body),
                ]
            });
            tx.execute_each(sql, sets).map(drop)
        }
        Dialect::Postgres => {
            let queues: Vec<_> = rows.iter().map(|row| Some(row.0)).collect();
            let ids: Vec<_> = rows.iter().map(|row| Some(row.1.as_str())).collect();
            let visible: Vec<_> = rows.iter().map(|row| Some(row.2)).collect();
            let bodies: Vec<_> = rows.iter().map(|row| Some(row.3)).collect();
            let sql = "INSERT INTO queue_messages (queue, id, visible_at, enqueued_at, body)
                       SELECT q, i, v, $4, b
                       FROM unnest($1::text[], $2::text[], $3::bigint[], $5::text[]) AS r (q, i, v, b)";
            let params = [
                Param::Texts(&queues),
                Param::Texts(&ids),
                Param::Ints(&visible),
                Param::Int(now),
                Param::Texts(&bodies),
            ];
            tx.execute(sql, &params).map(drop)
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

/// What was received.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) deliveries: Vec<Delivery>,
    /// Those that came too often already. They are among the dead letters.
    pub(super) worn_out: Vec<Delivery>,
}

/// Takes what is visible, the longest waiting first. Those that came too often already go to the dead letters
/// instead.
pub(super) fn take(
    tx: &mut Tx<'_>,
    queue: &'static Queue,
    max: usize,
    lease: Duration,
    now: i64,
) -> Result<Taken, DatabaseError> {
    let mut deliveries = take_any(tx, queue, max, lease, now)?;
    let worn_out = deliveries.extract_if(.., |one| one.receives > queue.max_receives);
    let worn_out: Vec<_> = worn_out.collect();
    if !worn_out.is_empty() {
        dead::bury_worn_out(tx, queue, &worn_out, now)?;
    }
    Ok(Taken { deliveries, worn_out })
}

/// Takes what is visible, however often it came.
pub(super) fn take_any(
    tx: &mut Tx<'_>,
    queue: &'static Queue,
    max: usize,
    lease: Duration,
    now: i64,
) -> Result<Vec<Delivery>, DatabaseError> {
    let sql = match tx.dialect() {
        Dialect::Sqlite => TAKE_ON_SQLITE,
        Dialect::Postgres => TAKE_ON_POSTGRES,
    };
    let params = [
        Param::Text(queue.name),
        Param::Int(now),
        Param::Int(max as i64),
        Param::Int(now.saturating_add(millis(lease))),
    ];
    let deliveries = tx.query(sql, &params)?;
    let deliveries = deliveries.iter().map(delivery).collect::<Result<Vec<_>, _>>();
    // RETURNING promises no order.
    deliveries.map(|mut deliveries| {
        deliveries.sort_by(|a, b| a.id.cmp(&b.id));
        deliveries
    })
}

fn delivery(row: &Row) -> Result<Delivery, DatabaseError> {
    let (id, receives) = (row.text(0)?, row.int(2)?);
    Ok(Delivery {
        id: id.to_owned(),
        body: row.text(1)?.to_owned(),
        receives: count_of(receives - row.int(4)?),
        enqueued_at: time_of(row.int(3)?),
        receipt: Receipt(format!("{id} {receives}")),
    })
}

pub(super) fn count_of(receives: i64) -> u32 {
    u32::try_from(receives).unwrap_or(u32::MAX)
}

pub(super) fn time_of(millisecond: i64) -> Timestamp {
    Timestamp::from_millisecond(millisecond).unwrap_or_default()
}

/// When the next message becomes visible, if there is one.
pub(super) fn next_visible(tx: &mut Tx<'_>, queue: &Queue) -> Result<Option<i64>, DatabaseError> {
    tx.query(NEXT_VISIBLE, &[Param::Text(queue.name)])?.first().map(|row| row.int(0)).transpose()
}

/// Deliveries that somebody says he holds: their ids, and the number of the receive of each.
pub(super) struct Held {
    ids: Vec<String>,
    receives: Vec<i64>,
}

impl Held {
    pub(super) fn parse<'a>(
        receipts: impl IntoIterator<Item = &'a Receipt>,
    ) -> Result<Self, BadMessage> {
        let (mut ids, mut numbers) = (Vec::new(), Vec::new());
        for receipt in receipts {
            let (id, number) = receipt.0.split_once(' ').ok_or(BadMessage::Receipt)?;
            ids.push(id.to_owned());
            numbers.push(number.parse().map_err(|_| BadMessage::Receipt)?);
        }
        Ok(Self { ids, receives: numbers })
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, i64)> {
        self.ids.iter().map(String::as_str).zip(self.receives.iter().copied())
    }

    fn columns(&self) -> (Vec<Option<&str>>, Vec<Option<i64>>) {
        self.pairs().map(|(id, receives)| (Some(id), Some(receives))).unzip()
    }
}

pub(super) fn delete(tx: &mut Tx<'_>, queue: &Queue, held: &Held) -> Result<usize, DatabaseError> {
    let name = Param::Text(queue.name);
    match tx.dialect() {
        Dialect::Sqlite => {
            let sql = "DELETE FROM queue_messages WHERE queue = $1 AND id = $2 AND receives = $3";
            let sets = held
                .pairs()
                .map(|(id, receives)| vec![name, Param::Text(id), Param::Int(receives)]);
            Ok(tx.execute_each(sql, sets)?.into_iter().sum::<u64>() as usize)
        }
        Dialect::Postgres => {
            let (ids, receives) = held.columns();
            let sql = "DELETE FROM queue_messages
                       USING unnest($2::text[], $3::bigint[]) AS held (held_id, held_receives)
                       WHERE queue = $1 AND id = held_id AND receives = held_receives";
            let params = [name, Param::Texts(&ids), Param::Ints(&receives)];
            Ok(tx.execute(sql, &params)? as usize)
        }
    }
}

/// Takes back that a delivery counts, once. Its receipt stays good.
pub(super) fn excuse(tx: &mut Tx<'_>, queue: &Queue, held: &Held) -> Result<(), DatabaseError> {
    for (id, receives) in held.pairs() {
        let sql = "UPDATE queue_messages SET deferrals = deferrals + 1, last_deferred = receives
                   WHERE queue = $1 AND id = $2 AND receives = $3 AND last_deferred < receives";
        tx.execute(sql, &[Param::Text(queue.name), Param::Text(id), Param::Int(receives)])?;
    }
    Ok(())
}

pub(super) fn postpone(
    tx: &mut Tx<'_>,
    queue: &'static Queue,
    held: &Held,
    postponements: &[Postponement],
    now: i64,
) -> Result<usize, DatabaseError> {
    let visible = |one: &Postponement| now.saturating_add(millis(one.lease));
    // Sooner than those who wait would look by themselves.
    if postponements.iter().any(|one| one.lease < LONGEST_PATIENCE) {
        tx.wake(queue.name);
    }
    let name = Param::Text(queue.name);
    match tx.dialect() {
        Dialect::Sqlite => {
            let sql = "UPDATE queue_messages
                       SET visible_at = $4, last_error = coalesce($5, last_error)
                       WHERE queue = $1 AND id = $2 AND receives = $3";
            let mut count = 0;
            for ((id, receives), one) in held.pairs().zip(postponements) {
                let reason = one.reason.as_deref().map_or(Param::Null, Param::Text);
                let params =
                    [name, Param::Text(id), Param::Int(receives), Param::Int(visible(one)), reason];
                count += tx.execute(sql, &params)?;
            }
            Ok(count as usize)
        }
        Dialect::Postgres => {
            let (ids, receives) = held.columns();
            let times: Vec<_> = postponements.iter().map(|one| Some(visible(one))).collect();
            let reasons: Vec<_> = postponements.iter().map(|one| one.reason.as_deref()).collect();
            let sql = "UPDATE queue_messages
                       SET visible_at = new_visible, last_error = coalesce(reason, last_error)
                       FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::text[])
                           AS held (held_id, held_receives, new_visible, reason)
                       WHERE queue = $1 AND id = held_id AND receives = held_receives";
            let params = [
                name,
                Param::Texts(&ids),
                Param::Ints(&receives),
                Param::Ints(&times),
                Param::Texts(&reasons),
            ];
            Ok(tx.execute(sql, &params)? as usize)
        }
    }
}

pub(super) fn depth(tx: &mut Tx<'_>, queue: &Queue, now: i64) -> Result<Depth, DatabaseError> {
    let mut count = |source: &str, at: Option<i64>| {
        let sql = format!("SELECT count(*) FROM (SELECT 1 FROM {source} LIMIT $2) AS counted");
        let mut params = vec![Param::Text(queue.name), Param::Int(COUNTED)];
        params.extend(at.map(Param::Int));
        let rows = tx.query(&sql, &params)?;
        rows.first().ok_or(DatabaseError::NoRow)?.int(0).map(|count| count.max(0) as u64)
    };
    let ready = count("queue_messages WHERE queue = $1 AND visible_at <= $3", Some(now))?;
    let hidden = count("queue_messages WHERE queue = $1 AND visible_at > $3", Some(now))?;
    let dead = count("dead_letters WHERE queue = $1", None)?;
    let sql = "SELECT enqueued_at FROM queue_messages WHERE queue = $1 ORDER BY id LIMIT 1";
    let oldest = tx.query(sql, &[Param::Text(queue.name)])?;
    let oldest = oldest.first().map(|row| row.int(0)).transpose()?;
    let oldest_age = oldest.map(|at| Duration::from_millis((now - at).max(0) as u64));
    Ok(Depth { ready, hidden, dead, oldest_age })
}
