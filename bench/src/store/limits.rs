//! The limits: what the disk can do, and what SQLite can do when nothing stands between it and the statements.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction, params};

use super::workload::Unit;

const PER_COMMIT: usize = 1024;

/// How often a second 4 KiB can be appended and made durable.
pub(super) fn fsyncs_per_second(folder: &Path) -> anyhow::Result<f64> {
    let path = folder.join("fsync");
    let mut file = OpenOptions::new().create_new(true).write(true).open(&path)?;
    let block = [7u8; 4096];
    let started = Instant::now();
    let mut count = 0;
    while started.elapsed() < Duration::from_secs(1) {
        file.write_all(&block)?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) / started.elapsed().as_secs_f64())
}

/// The statements that the engine makes for the same units, one thread, one commit for every 1,024 of them, all
/// JSON made beforehand: first until so many items are stored, then measured.
pub(super) fn raw_sqlite(path: &Path, stored: u64, span: Duration) -> anyhow::Result<f64> {
    let mut connection = set_up(path)?;
    let mut next = 0;
    while next * 2 < stored {
        next = commit_next(&mut connection, &prepare(next))?;
    }
    let mut busy = Duration::ZERO;
    let first = next;
    while busy < span {
        let units = prepare(next);
        let started = Instant::now();
        next = commit_next(&mut connection, &units)?;
        busy += started.elapsed();
    }
    Ok((next - first) as f64 / busy.as_secs_f64())
}

fn set_up(path: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA page_size = 4096;
         PRAGMA journal_mode = wal;
         PRAGMA synchronous = full;
         PRAGMA cache_size = -65536;
         PRAGMA wal_autocheckpoint = 32768;
         CREATE TABLE items_main (workspace TEXT NOT NULL, pk TEXT NOT NULL, sk TEXT NOT NULL,
             expires_at BIGINT, item TEXT NOT NULL, PRIMARY KEY (workspace, pk, sk));
         CREATE INDEX items_main_expiry ON items_main (expires_at) WHERE expires_at IS NOT NULL;
         CREATE TABLE items_events (workspace TEXT NOT NULL, pk TEXT NOT NULL, sk TEXT NOT NULL,
             expires_at BIGINT, index1_pk TEXT, index1_sk TEXT, index2_pk TEXT, index2_sk TEXT,
             item TEXT NOT NULL, PRIMARY KEY (workspace, pk, sk));
         CREATE INDEX items_events_index1 ON items_events (workspace, index1_pk, index1_sk)
             WHERE index1_pk IS NOT NULL;
         CREATE INDEX items_events_index2 ON items_events (workspace, index2_pk, index2_sk)
             WHERE index2_pk IS NOT NULL;",
    )?;
    Ok(connection)
}

struct Rows {
    next: u64,
    /// (key, expiry, JSON)
    dedupes: Vec<(String, i64, String)>,
    /// (key, sort, template, sequence, JSON)
    events: Vec<[String; 5]>,
    /// How much each counter grows. The engine, too, writes a counter once a batch.
    counters: HashMap<String, i64>,
}

fn prepare(first: u64) -> Rows {
    let next = first + PER_COMMIT as u64;
    let mut rows = Rows { next, dedupes: Vec::new(), events: Vec::new(), counters: HashMap::new() };
    for unit in (first..next).map(Unit::number) {
        let text = |item: &tidings_kernel::Item, name: &str| {
            item.text(name).unwrap_or_default().to_owned()
        };
        let json = |item: &tidings_kernel::Item| serde_json::to_string(item).unwrap_or_default();
        let expiry = unit.dedupe.integer("ttl").unwrap_or_default();
        rows.dedupes.push((text(&unit.dedupe, "PK"), expiry, json(&unit.dedupe)));
        let event = &unit.event;
        let columns = ["PK", "SK", "templateKey", "sequenceId"].map(|name| text(event, name));
        let [pk, sk, template, sequence] = columns;
        rows.events.push([pk, sk, template, sequence, json(event)]);
        for key in unit.counters {
            *rows.counters.entry(key.partition).or_default() += 1;
        }
    }
    // The engine, too, writes in the order of the keys.
    rows.dedupes.sort();
    rows.events.sort();
    rows
}

fn commit_next(connection: &mut Connection, rows: &Rows) -> anyhow::Result<u64> {
    let tx = connection.transaction()?;
    for (pk, expiry, json) in &rows.dedupes {
        select(&tx, "items_main", pk, "DEDUPE")?;
        upsert_main(&tx, pk, "DEDUPE", Some(*expiry), json)?;
    }
    for [pk, sk, template, sequence, json] in &rows.events {
        select(&tx, "items_events", pk, sk)?;
        tx.prepare_cached(
            "INSERT INTO items_events (workspace, pk, sk, expires_at, item, index1_pk, index1_sk, index2_pk, index2_sk)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
             ON CONFLICT (workspace, pk, sk) DO UPDATE SET expires_at = excluded.expires_at, item = excluded.item,
                 index1_pk = excluded.index1_pk, index1_sk = excluded.index1_sk,
                 index2_pk = excluded.index2_pk, index2_sk = excluded.index2_sk",
        )?
        .execute(params!["bench", pk, sk, None::<i64>, json, template, sk, sequence, sk])?;
    }
    for (pk, growth) in &rows.counters {
        let json = select(&tx, "items_main", pk, "COUNTERS")?;
        let before: i64 = json
            .as_deref()
            .and_then(|json| {
                json.strip_prefix("{\"deliveryCount\":")?.split([',', '}']).next()?.parse().ok()
            })
            .unwrap_or(0);
        let json = format!("{{\"deliveryCount\":{}}}", before + growth);
        upsert_main(&tx, pk, "COUNTERS", None, &json)?;
    }
    tx.commit()?;
    Ok(rows.next)
}

fn select(tx: &Transaction<'_>, table: &str, pk: &str, sk: &str) -> anyhow::Result<Option<String>> {
    let sql = format!("SELECT item FROM {table} WHERE workspace = $1 AND pk = $2 AND sk = $3");
    let mut statement = tx.prepare_cached(&sql)?;
    let mut rows = statement.query(params!["bench", pk, sk])?;
    Ok(match rows.next()? {
        Some(row) => Some(row.get(0)?),
        None => None,
    })
}

fn upsert_main(
    tx: &Transaction<'_>,
    pk: &str,
    sk: &str,
    expiry: Option<i64>,
    json: &str,
) -> anyhow::Result<()> {
    tx.prepare_cached(
        "INSERT INTO items_main (workspace, pk, sk, expires_at, item) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (workspace, pk, sk) DO UPDATE SET expires_at = excluded.expires_at, item = excluded.item",
    )?
    .execute(params!["bench", pk, sk, expiry, json])?;
    Ok(())
}
