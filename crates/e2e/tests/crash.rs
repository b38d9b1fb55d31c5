//! `kill -9` at any moment: what was acknowledged is there whole, and nothing is there by halves.
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use tidings_kernel::{ItemEngine, ItemStore, Key, Query, Scan, SystemClock, Table, tables};
use tidings_sql::{Database, SqlItems, SqliteOptions};

const KILLS: usize = 50;

#[tokio::test]
async fn acknowledged_units_survive_kill_9_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidings.db");
    let mut acknowledged = BTreeSet::new();
    let (mut first, mut streamed) = (0, 0);
    for kill in 0..KILLS {
        // Every tenth dies at once, while it opens the file.
        let wanted = if kill % 10 == 0 { 0 } else { fastrand::usize(1..400) };
        let answered = write_until_killed(&file, first, wanted);
        assert!(answered.len() >= wanted, "round {kill}: it ended by itself");
        acknowledged.extend(answered);

        let found = units_in(&file, &mut streamed).await;

        let missing: Vec<_> = acknowledged.difference(&found).collect();
        assert!(missing.is_empty(), "round {kill}: acknowledged and gone: {missing:?}");
        first = found.last().map_or(0, |last| last + 1);
    }
}

/// Runs the writer and kills it after so many answers, mostly in the middle of the next ones.
fn write_until_killed(file: &Path, first: u64, wanted: usize) -> Vec<u64> {
    let mut writer = Command::new(env!("CARGO_BIN_EXE_crash-writer"))
        .arg(file)
        .arg(first.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(writer.stdout.take().unwrap()).lines();
    let mut answered: Vec<u64> = Vec::new();
    for line in output.by_ref().take(wanted) {
        answered.push(line.unwrap().parse().unwrap());
    }
    writer.kill().unwrap(); // SIGKILL
    writer.wait().unwrap();
    // What it told before it died was acknowledged too. Each line is one write to the pipe, so none is cut.
    answered.extend(output.map(|line| line.unwrap().parse::<u64>().unwrap()));
    answered
}

/// The units in the file; each must be whole, and counter, index and stream must know as many as there are.
async fn units_in(file: &Path, streamed: &mut usize) -> BTreeSet<u64> {
    let database = Database::sqlite(file, SqliteOptions::default()).await.unwrap();
    let items = SqlItems::new(database.clone(), Arc::new(SystemClock));
    let store = items.open(&"crash".parse().unwrap()).await.unwrap();
    let units = units_of(&*store, &tables::EVENTS).await;
    assert_eq!(units, units_of(&*store, &tables::INBOX).await, "a unit is there by halves");
    let counter = store.get(&tables::MAIN, &Key::new("STATS#crash", "COUNTERS")).await.unwrap();
    let counted = counter.and_then(|item| item.integer("units")).unwrap_or(0);
    assert_eq!(counted, units.len() as i64, "the counter and the items disagree");
    let index = Query::new(&tables::EVENTS, "crash").index("TemplateIndex");
    assert_eq!(
        store.count(index).await.unwrap(),
        units.len() as u64,
        "the index and the items disagree"
    );
    *streamed += read_stream(&*store).await;
    assert_eq!(*streamed, units.len(), "the stream and the items disagree");
    database.close().await;
    units
}

/// How many changes are new, acknowledged.
async fn read_stream(store: &dyn ItemStore) -> usize {
    let mut read = 0;
    loop {
        let batch = store.changes(&tables::INBOX, "reader", 100).await.unwrap();
        let Some(position) = batch.position else { return read };
        read += batch.changes.len();
        store.acknowledge(&tables::INBOX, "reader", &position).await.unwrap();
    }
}

async fn units_of(store: &dyn ItemStore, table: &'static Table) -> BTreeSet<u64> {
    let mut units = BTreeSet::new();
    let mut cursor = None;
    loop {
        let page = store.scan(Scan::new(table).limit(1000).after(cursor)).await.unwrap();
        let keys = page.items.iter().filter_map(|item| item.text("PK")?.strip_prefix("UNIT#"));
        units.extend(keys.map(|unit| unit.parse::<u64>().unwrap()));
        cursor = page.cursor;
        if cursor.is_none() {
            return units;
        }
    }
}
