//! Strays: what came in and is about no message of any workspace. It is kept for a while, so that an operator can look.

use jiff::{SignedDuration, Timestamp};
use tidings_access::{Access, Limit, Page};
use tidings_sql::{Database, DatabaseError, Param, Row};

/// More of a body is not kept.
const MAX_BODY: usize = 64 * 1024;
/// For so long they are kept.
const KEPT: SignedDuration = SignedDuration::from_hours(90 * 24);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// What its sender calls it.
    pub id: String,
    pub event_type: String,
    /// Why it has no place.
    pub reason: String,
    pub received_at: Timestamp,
    /// What it said, without the people whom it named; of a mail only how long it was.
    pub body: String,
}

/// Keeps it, once.
pub(crate) async fn keep(database: &Database, stray: Stray) -> Result<(), DatabaseError> {
    let mut end = stray.body.len().min(MAX_BODY);
    while !stray.body.is_char_boundary(end) {
        end -= 1;
    }
    let keep = move |tx: &mut tidings_sql::Tx<'_>| {
        let sql =
            "INSERT INTO stray_events (provider_event_id, event_type, reason, received_at, body)
                   VALUES ($1, $2, $3, $4, $5) ON CONFLICT (provider_event_id) DO NOTHING";
        let at = stray.received_at.as_millisecond();
        let params = [
            Param::Text(&stray.id),
            Param::Text(&stray.event_type),
            Param::Text(&stray.reason),
            Param::Int(at),
            Param::Text(&stray.body[..end]),
        ];
        tx.execute(sql, &params).map(drop)
    };
    database.write_committed(keep).await
}

/// Deletes those whose time has come, so many at most. Tells how many those were.
pub async fn sweep(access: &Access, batch: usize) -> Result<usize, DatabaseError> {
    let kept = i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX);
    let old = access.now().as_millisecond().saturating_sub(kept);
    let batch = i64::try_from(batch).unwrap_or(i64::MAX);
    let sweep = access.database().write_committed(move |tx| {
        let sql = "DELETE FROM stray_events WHERE id IN (
                       SELECT id FROM stray_events WHERE received_at < $1 ORDER BY received_at LIMIT $2)";
        tx.execute(sql, &[Param::Int(old), Param::Int(batch)])
    });
    let swept: u64 = sweep.await?;
    Ok(usize::try_from(swept).unwrap_or(usize::MAX))
}

/// Newest first. A page goes on before the number of a row.
pub async fn list(
    database: &Database,
    before: Option<i64>,
    limit: Limit,
) -> Result<Page<Stray, i64>, DatabaseError> {
    let read = database.read(move |tx| {
        let sql =
            "SELECT id, provider_event_id, event_type, reason, received_at, body FROM stray_events
                   WHERE id < $1 ORDER BY id DESC LIMIT $2";
        let params = [Param::Int(before.unwrap_or(i64::MAX)), Param::Int(limit.and_one())];
        tx.query(sql, &params)?.iter().map(read).collect::<Result<Vec<_>, _>>()
    });
    let page = Page::cut(read.await?, limit, |(id, _)| *id);
    Ok(Page { items: page.items.into_iter().map(|(_, stray)| stray).collect(), next: page.next })
}

fn read(row: &Row) -> Result<(i64, Stray), DatabaseError> {
    let stray = Stray {
        id: row.text(1)?.to_owned(),
        event_type: row.text(2)?.to_owned(),
        reason: row.text(3)?.to_owned(),
        received_at: row.time(4)?,
        body: row.text(5)?.to_owned(),
    };
    Ok((row.int(0)?, stray))
}
