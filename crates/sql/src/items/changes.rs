//! The change stream: what the writes record, what consumers read, how far they have come.
//!
//! Changes are numbered, and read in the order of their numbers. On PostgreSQL several nodes write at once, so
//! whoever records changes of a stream holds that stream's lock until his commit: a lower number is never
//! committed after a higher one, and a reader cannot pass over it.

use std::collections::BTreeSet;

use tidings_kernel::{
    Change, ChangeBatch, ChangeKind, Invalid, StoreError, Table, Workspace, tables,
};

use super::reads::Reader;
use super::rows::from_json;
use super::store_error;
use crate::database::{Cell, DatabaseError, Dialect, Param, Tx};

/// How many changes one batch holds at most: each may carry two whole items.
const MAX_CHANGES: usize = 200;

pub(super) struct NewChange {
    pub(super) workspace: String,
    pub(super) table: &'static str,
    pub(super) kind: ChangeKind,
    pub(super) old: Option<String>,
    pub(super) new: Option<String>,
}

/// A place in the stream: the number of the last change that was read.
pub(super) fn parse_position(text: &str) -> Result<i64, Invalid> {
    match text.parse() {
        Ok(seq) if seq >= 0 => Ok(seq),
        _ => Err(Invalid::BadCursor),
    }
}

fn name_of(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Inserted => "inserted",
        ChangeKind::Modified => "modified",
        ChangeKind::Deleted => "deleted",
        ChangeKind::Expired => "expired",
    }
}

fn kind_of(name: &str) -> Option<ChangeKind> {
    [ChangeKind::Inserted, ChangeKind::Modified, ChangeKind::Deleted, ChangeKind::Expired]
        .into_iter()
        .find(|kind| name_of(*kind) == name)
}

pub(super) fn record(
    tx: &mut Tx<'_>,
    changes: &[NewChange],
    now: jiff::Timestamp,
) -> Result<(), DatabaseError> {
    lock_streams(tx, changes)?;
    let sql =
        "INSERT INTO item_changes (workspace, table_name, kind, changed_at, old_item, new_item)
               VALUES ($1, $2, $3, $4, $5, $6)";
    for change in changes {
        let params = [
            Param::Text(&change.workspace),
            Param::Text(change.table),
            Param::Text(name_of(change.kind)),
            Param::Int(now.as_second()),
            change.old.as_deref().map_or(Param::Null, Param::Text),
            change.new.as_deref().map_or(Param::Null, Param::Text),
        ];
        tx.execute(sql, &params)?;
    }
    Ok(())
}

fn lock_streams(tx: &mut Tx<'_>, changes: &[NewChange]) -> Result<(), DatabaseError> {
    if tx.dialect() == Dialect::Sqlite {
        return Ok(());
    }
    // Sorted, so that two nodes cannot wait for each other.
    let streams: BTreeSet<_> =
        changes.iter().map(|change| format!("{}/{}", change.workspace, change.table)).collect();
    for stream in streams {
        let sql = "SELECT 1 FROM pg_advisory_xact_lock(hashtextextended($1, 0))";
        tx.query(sql, &[Param::Text(&stream)])?;
    }
    Ok(())
}

/// What comes after the consumer's checkpoint, or nothing if nobody knows the consumer yet.
pub(super) fn after(
    reader: &mut Reader<'_, '_>,
    table: &'static Table,
    consumer: &str,
    limit: usize,
) -> Result<Option<ChangeBatch>, StoreError> {
    let place = [Param::Text(reader.workspace), Param::Text(table.name), Param::Text(consumer)];
    let sql = "SELECT seq FROM item_consumers
               WHERE workspace = $1 AND table_name = $2 AND consumer = $3";
    let checkpoint = reader.tx.query(sql, &place).map_err(store_error)?;
    let Some(checkpoint) = checkpoint.first() else { return Ok(None) };
    let read = checkpoint.int(0).map_err(store_error)?;
    let sql = "SELECT seq, kind, old_item, new_item FROM item_changes
               WHERE workspace = $1 AND table_name = $2 AND seq > $3 ORDER BY seq LIMIT $4";
    let params = [
        Param::Text(reader.workspace),
        Param::Text(table.name),
        Param::Int(read),
        Param::Int(limit.clamp(1, MAX_CHANGES) as i64),
    ];
    let mut batch = ChangeBatch::default();
    for row in reader.tx.query(sql, &params).map_err(store_error)? {
        let image = |column: usize| {
            let json = row.optional_text(column).map_err(store_error)?;
            json.map(from_json).transpose()
        };
        let kind = row.text(1).map_err(store_error)?;
        let kind = kind_of(kind).ok_or_else(|| unknown_kind(kind))?;
        let (old, new) = (image(2)?, image(3)?);
        let item =
            new.as_ref().or(old.as_ref()).ok_or_else(|| unknown_kind("a change of nothing"))?;
        batch.changes.push(Change { key: table.key_of(item)?, kind, old, new });
        batch.position = Some(row.int(0).map_err(store_error)?.to_string());
    }
    Ok(Some(batch))
}

fn unknown_kind(what: &str) -> StoreError {
    StoreError::Corrupt(format!("the change stream holds {what:?}").into())
}

/// Moves a checkpoint forward, never back.
pub(super) fn acknowledge(
    tx: &mut Tx<'_>,
    workspace: &str,
    table: &Table,
    consumer: &str,
    position: i64,
) -> Result<(), DatabaseError> {
    let sql =
        "INSERT INTO item_consumers (workspace, table_name, consumer, seq) VALUES ($1, $2, $3, $4)
               ON CONFLICT (workspace, table_name, consumer) DO UPDATE SET seq = excluded.seq
               WHERE excluded.seq > item_consumers.seq";
    let params = [
        Param::Text(workspace),
        Param::Text(table.name),
        Param::Text(consumer),
        Param::Int(position),
    ];
    tx.execute(sql, &params).map(drop)
}

/// Removes changes that are older than a day and that every consumer has passed, up to `limit` of each stream,
/// and tells how many went from the fullest. DynamoDB drops them after a day, read or not; a machine that was off
/// over the weekend must not lose what it has not read.
pub(super) fn trim(
    tx: &mut Tx<'_>,
    now: jiff::Timestamp,
    limit: usize,
) -> Result<usize, DatabaseError> {
    let a_day_ago = now.as_second() - 24 * 60 * 60;
    let mut most = 0;
    for workspace in workspaces(tx)? {
        for table in tables::ALL.into_iter().filter(|table| table.stream) {
            let stream = [Param::Text(&workspace), Param::Text(table.name)];
            let sql =
                "SELECT min(seq) FROM item_consumers WHERE workspace = $1 AND table_name = $2";
            let passed = match tx.query(sql, &stream)?.first().map(|row| row.cell(0).clone()) {
                Some(Cell::Int(seq)) => seq,
                _ => i64::MAX,
            };
            // The inner limit bounds what is looked at, not only what is deleted.
            let sql = "DELETE FROM item_changes WHERE seq IN (
                           SELECT seq FROM (
                               SELECT seq, changed_at FROM item_changes
                               WHERE workspace = $1 AND table_name = $2 AND seq <= $3
                               ORDER BY seq LIMIT $4) AS oldest
                           WHERE changed_at < $5)";
            let [workspace, table] = stream;
            let bounds = [Param::Int(passed), Param::Int(limit as i64), Param::Int(a_day_ago)];
            let [passed, limit, a_day_ago] = bounds;
            let gone = tx.execute(sql, &[workspace, table, passed, limit, a_day_ago])?;
            most = most.max(gone as usize);
        }
    }
    Ok(most)
}

/// The workspaces that have changes of a table after the consumer's checkpoint.
pub(super) fn behind(
    tx: &mut Tx<'_>,
    table: &Table,
    consumer: &str,
) -> Result<Vec<Workspace>, DatabaseError> {
    let sql =
        "SELECT 1 FROM item_changes WHERE workspace = $1 AND table_name = $2 AND seq > COALESCE((
                   SELECT seq FROM item_consumers
                   WHERE workspace = $1 AND table_name = $2 AND consumer = $3), 0) LIMIT 1";
    let mut behind = Vec::new();
    for name in workspaces(tx)? {
        let place = [Param::Text(&name), Param::Text(table.name), Param::Text(consumer)];
        // Whatever has another name is no workspace's.
        if !tx.query(sql, &place)?.is_empty()
            && let Ok(workspace) = name.parse()
        {
            behind.push(workspace);
        }
    }
    Ok(behind)
}

/// The workspaces that have changes, each found by one step in the index.
fn workspaces(tx: &mut Tx<'_>) -> Result<Vec<String>, DatabaseError> {
    let sql = "WITH RECURSIVE found (workspace) AS (
                   SELECT min(workspace) FROM item_changes
                   UNION ALL
                   SELECT (SELECT min(workspace) FROM item_changes c WHERE c.workspace > found.workspace)
                   FROM found WHERE found.workspace IS NOT NULL)
               SELECT workspace FROM found WHERE workspace IS NOT NULL";
    tx.query(sql, &[])?.iter().map(|row| row.text(0).map(str::to_owned)).collect()
}
