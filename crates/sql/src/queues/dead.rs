//! Dead letters: messages that were given up, until somebody sends them again or throws them away.

use tidings_kernel::{DeadLetter, Queue};

use super::rows::{Held, count_of, time_of};
use crate::database::{DatabaseError, Param, Tx};

/// How many dead letters one transaction moves or deletes.
pub(super) const PART: usize = 500;
/// A reason is for people.
const MAX_REASON: usize = 2_000;

/// Moves one delivery that is still held.
pub(super) fn bury(
    tx: &mut Tx<'_>,
    queue: &Queue,
    held: &Held,
    reason: &str,
    now: i64,
) -> Result<(), DatabaseError> {
    let reason: String = reason.chars().filter(|c| *c != '\0').take(MAX_REASON).collect();
    for (id, receives) in held.pairs() {
        let sql =
            "INSERT INTO dead_letters (queue, id, receives, enqueued_at, died_at, reason, body)
             SELECT queue, id, receives, enqueued_at, $4, $5, body FROM queue_messages
             WHERE queue = $1 AND id = $2 AND receives = $3";
        let (name, id) = (Param::Text(queue.name), Param::Text(id));
        let params = [name, id, Param::Int(receives), Param::Int(now), Param::Text(&reason)];
        if tx.execute(sql, &params)? > 0 {
            let sql = "DELETE FROM queue_messages WHERE queue = $1 AND id = $2";
            tx.execute(sql, &[name, id])?;
        }
    }
    Ok(())
}

/// Moves messages that were just received once too often, and so are nobody's but ours. That last receive was never
/// delivered, and does not count.
pub(super) fn bury_worn_out(
    tx: &mut Tx<'_>,
    queue: &Queue,
    ids: &[String],
    now: i64,
) -> Result<(), DatabaseError> {
    let never = format!("delivered {} times without an answer", queue.max_receives);
    for id in ids {
        let sql =
            "INSERT INTO dead_letters (queue, id, receives, enqueued_at, died_at, reason, body)
             SELECT queue, id, receives - 1, enqueued_at, $3, coalesce(last_error, $4), body
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
    ids: Option<&[String]>,
    now: i64,
) -> Result<u64, DatabaseError> {
    let mut count = 0;
    for id in chosen(tx, queue, ids)? {
        let (name, id) = (Param::Text(queue.name), Param::Text(&id));
        let sql = "INSERT INTO queue_messages (queue, id, visible_at, enqueued_at, body)
                   SELECT queue, id, $3, $3, body FROM dead_letters WHERE queue = $1 AND id = $2
                   ON CONFLICT (queue, id) DO NOTHING";
        count += tx.execute(sql, &[name, id, Param::Int(now)])?;
        tx.execute("DELETE FROM dead_letters WHERE queue = $1 AND id = $2", &[name, id])?;
    }
    tx.wake(queue.name);
    Ok(count)
}

/// Deletes a part of them, or those with these ids, and tells how many.
pub(super) fn purge(
    tx: &mut Tx<'_>,
    queue: &Queue,
    ids: Option<&[String]>,
) -> Result<u64, DatabaseError> {
    let mut count = 0;
    for id in chosen(tx, queue, ids)? {
        let sql = "DELETE FROM dead_letters WHERE queue = $1 AND id = $2";
        count += tx.execute(sql, &[Param::Text(queue.name), Param::Text(&id)])?;
    }
    Ok(count)
}

/// Those that are meant and there.
fn chosen(
    tx: &mut Tx<'_>,
    queue: &Queue,
    ids: Option<&[String]>,
) -> Result<Vec<String>, DatabaseError> {
    let lock = match tx.dialect() {
        crate::database::Dialect::Sqlite => "",
        // Two operators who press the button at once must not put a letter back twice.
        crate::database::Dialect::Postgres => "FOR UPDATE",
    };
    let name = Param::Text(queue.name);
    let mut found = Vec::new();
    match ids {
        None => {
            let sql =
                format!("SELECT id FROM dead_letters WHERE queue = $1 ORDER BY id LIMIT $2 {lock}");
            for row in tx.query(&sql, &[name, Param::Int(PART as i64)])? {
                found.push(row.text(0)?.to_owned());
            }
        }
        Some(ids) => {
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
