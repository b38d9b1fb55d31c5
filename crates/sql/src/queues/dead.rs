//! Dead letters: messages that were given up, until somebody sends them again or throws them away.

use jiff::Timestamp;
use tidings_kernel::{DeadLetter, Delivery, Queue};

use super::rows::{Held, count_of, new_id, time_of};
use crate::database::{Database, DatabaseError, Param, Tx};

/// How many dead letters one transaction moves or deletes.
pub(super) const PART: usize = 500;
/// So long a dead letter is kept: it can name somebody, and nobody keeps that for ever.
const KEPT_MS: i64 = 90 * 24 * 60 * 60 * 1000;
/// Which dead letters are meant.
#[derive(Clone, Copy)]
pub(super) enum Chosen<'a> {
    /// A part of those that were dead at this time.
    DeadUntil(i64),
    Ids(&'a [String]),
}

/// Moves one delivery that is still held.
pub(super) fn bury(
    tx: &mut Tx<'_>,
    queue: &Queue,
    held: &Held,
    reason: &str,
    now: i64,
) -> Result<(), DatabaseError> {
    for (id, receives) in held.pairs() {
        let (name, id) = (Param::Text(queue.name), Param::Text(id));
        // Deleted first: whoever takes it between two statements must not find it dead as well.
        let sql = "DELETE FROM queue_messages WHERE queue = $1 AND id = $2 AND receives = $3
                   RETURNING receives - deferrals, enqueued_at, body";
        for row in tx.query(sql, &[name, id, Param::Int(receives)])? {
            let sql =
                "INSERT INTO dead_letters (queue, id, receives, enqueued_at, died_at, reason, body)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)";
            let (receives, enqueued_at) = (Param::Int(row.int(0)?), Param::Int(row.int(1)?));
            let (reason, body) = (Param::Text(reason), Param::Text(row.text(2)?));
            tx.execute(sql, &[name, id, receives, enqueued_at, Param::Int(now), reason, body])?;
        }
    }
    Ok(())
}

/// Moves messages that were just received once too often, and so are nobody's but ours. That last receive was never
/// delivered, and does not count.
pub(super) fn bury_worn_out(
    tx: &mut Tx<'_>,
    queue: &Queue,
    worn_out: &[Delivery],
    now: i64,
) -> Result<(), DatabaseError> {
    let never = format!("delivered {} times without an answer", queue.max_receives);
    for Delivery { id, .. } in worn_out {
        let sql =
            "INSERT INTO dead_letters (queue, id, receives, enqueued_at, died_at, reason, body)
             SELECT queue, id, receives - deferrals - 1, enqueued_at, $3, coalesce(last_error, $4), body
             FROM queue_messages WHERE queue = $1 AND id = $2";
        let (name, id) = (Param::Text(queue.name), Param::Text(id));
        tx.execute(sql, &[name, id, Param::Int(now), Param::Text(&never)])?;
        tx.execute("DELETE FROM queue_messages WHERE queue = $1 AND id = $2", &[name, id])?;
    }
    Ok(())
}

pub(super) fn list(
    tx: &mut Tx<'_>,
    queue: &Queue,
    after: &str,
    limit: usize,
) -> Result<Vec<DeadLetter>, DatabaseError> {
    let sql = "SELECT id, body, receives, enqueued_at, reason FROM dead_letters
               WHERE queue = $1 AND id > $2 ORDER BY id LIMIT $3";
    let params = [Param::Text(queue.name), Param::Text(after), Param::Int(limit as i64)];
    let letters = tx.query(sql, &params)?.into_iter().map(|row| {
        Ok(DeadLetter {
            id: row.text(0)?.to_owned(),
            body: row.text(1)?.to_owned(),
            receives: count_of(row.int(2)?),
            enqueued_at: time_of(row.int(3)?),
            reason: row.optional_text(4)?.map(str::to_owned),
        })
    });
    letters.collect()
}

/// Puts a part of them back, or those with these ids, and tells how many.
pub(super) fn replay(
    tx: &mut Tx<'_>,
    queue: &'static Queue,
    chosen: Chosen<'_>,
    now: Timestamp,
) -> Result<u64, DatabaseError> {
    let mut count = 0;
    for id in find(tx, queue, chosen)? {
        let (name, id) = (Param::Text(queue.name), Param::Text(&id));
        // A new message: who still has a receipt of the old one can settle nothing with it.
        let sql = "INSERT INTO queue_messages (queue, id, visible_at, enqueued_at, body)
                   SELECT queue, $4, $3, $3, body FROM dead_letters WHERE queue = $1 AND id = $2";
        let new = new_id(now);
        let params = [name, id, Param::Int(now.as_millisecond()), Param::Text(&new)];
        count += tx.execute(sql, &params)?;
        tx.execute("DELETE FROM dead_letters WHERE queue = $1 AND id = $2", &[name, id])?;
    }
    tx.wake(queue.name);
    Ok(count)
}

/// Deletes a part of them, or those with these ids, and tells how many.
pub(super) fn purge(
    tx: &mut Tx<'_>,
    queue: &Queue,
    chosen: Chosen<'_>,
) -> Result<u64, DatabaseError> {
    let mut count = 0;
    for id in find(tx, queue, chosen)? {
        let sql = "DELETE FROM dead_letters WHERE queue = $1 AND id = $2";
        count += tx.execute(sql, &[Param::Text(queue.name), Param::Text(&id)])?;
    }
    Ok(count)
}

/// Deletes those of any queue that nobody has looked after for a long time, so many at most. Tells how many.
pub async fn forget_dead_letters(
    database: &Database,
    now: Timestamp,
    batch: usize,
) -> Result<usize, DatabaseError> {
    let before = now.as_millisecond().saturating_sub(KEPT_MS);
    let batch = i64::try_from(batch).unwrap_or(i64::MAX);
    let forget = database.write_committed(move |tx| {
        let sql = "SELECT queue, id FROM dead_letters WHERE died_at < $1 ORDER BY died_at LIMIT $2";
        let rows = tx.query(sql, &[Param::Int(before), Param::Int(batch)])?;
        let mut count = 0;
        for row in &rows {
            let sql = "DELETE FROM dead_letters WHERE queue = $1 AND id = $2 AND died_at < $3";
            let (queue, id) = (Param::Text(row.text(0)?), Param::Text(row.text(1)?));
            count += tx.execute(sql, &[queue, id, Param::Int(before)])?;
        }
        Ok::<_, DatabaseError>(count)
    });
    Ok(usize::try_from(forget.await?).unwrap_or(usize::MAX))
}

/// Those that are meant and there.
fn find(tx: &mut Tx<'_>, queue: &Queue, chosen: Chosen<'_>) -> Result<Vec<String>, DatabaseError> {
    let lock = match tx.dialect() {
        crate::database::Dialect::Sqlite => "",
        // Two operators who press the button at once must not put a letter back twice.
        crate::database::Dialect::Postgres => "FOR UPDATE",
    };
    let name = Param::Text(queue.name);
    let mut found = Vec::new();
    match chosen {
        Chosen::DeadUntil(time) => {
            let sql = format!(
                "SELECT id FROM dead_letters WHERE queue = $1 AND died_at <= $3
                 ORDER BY id LIMIT $2 {lock}"
            );
            for row in tx.query(&sql, &[name, Param::Int(PART as i64), Param::Int(time)])? {
                found.push(row.text(0)?.to_owned());
            }
        }
        Chosen::Ids(ids) => {
            let sql = format!("SELECT id FROM dead_letters WHERE queue = $1 AND id = $2 {lock}");
            for id in ids {
                if !tx.query(&sql, &[name, Param::Text(id)])?.is_empty() {
                    found.push(id.clone());
                }
            }
        }
    }
    Ok(found)
}
