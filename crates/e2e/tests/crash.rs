//! `kill -9` at any moment: what was acknowledged is there whole, and nothing is there by halves.
#![expect(clippy::unwrap_used, reason = "what a test relies on may fail the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use tidings_kernel::{ItemEngine, ItemStore, Key, Scan, SystemClock, tables};
use tidings_sql::{Database, SqlItems, SqliteOptions};

const KILLS: usize = 50;

#[tokio::test]
async fn acknowledged_units_survive_kill_9_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidings.db");
    let mut acknowledged = BTreeSet::new();
    let mut first = 0;
    for kill in 0..KILLS {
        let answered = write_until_killed(&file, first);
        assert!(!answered.is_empty(), "round {kill}: nothing was acknowledged before the kill");
        acknowledged.extend(answered);

        let found = units_in(&file).await;

        let missing: Vec<_> = acknowledged.difference(&found).collect();
        assert!(missing.is_empty(), "round {kill}: acknowledged and gone: {missing:?}");
        first = found.last().expect("some were acknowledged") + 1;
    }
}

/// Runs the writer and kills it after a random number of answers, mostly in the middle of the next ones.
fn write_until_killed(file: &Path, first: u64) -> Vec<u64> {
    let mut writer = Command::new(env!("CARGO_BIN_EXE_crash-writer"))
        .arg(file)
        .arg(first.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(writer.stdout.take().unwrap()).lines();
    let wanted = fastrand::usize(1..400);
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

/// The units in the file; each must be whole, and the counter must know how many there are.
async fn units_in(file: &Path) -> BTreeSet<u64> {
    let database = Database::sqlite(file, SqliteOptions::default()).await.unwrap();
    let items = SqlItems::new(database.clone(), Arc::new(SystemClock));
    let store = items.open(&"crash".parse().unwrap()).await.unwrap();
    let halves = halves(&*store).await;
    let counter = store.get(&tables::MAIN, &Key::new("STATS#crash", "COUNTERS")).await.unwrap();
    let counted = counter.and_then(|item| item.integer("units")).unwrap_or(0);
    database.close().await;
    for (unit, halves) in &halves {
        assert_eq!(*halves, 2, "unit {unit} is there by halves");
    }
    assert_eq!(counted, halves.len() as i64, "the counter and the items disagree");
    halves.into_keys().collect()
}

async fn halves(store: &dyn ItemStore) -> BTreeMap<u64, usize> {
    let mut halves = BTreeMap::new();
    let mut cursor = None;
    loop {
        let page = store.scan(Scan::new(&tables::MAIN).limit(1000).after(cursor)).await.unwrap();
        for item in &page.items {
            let unit = item.text("PK").and_then(|key| key.strip_prefix("UNIT#"));
            if let Some(unit) = unit {
                *halves.entry(unit.parse().unwrap()).or_insert(0) += 1;
            }
        }
        cursor = page.cursor;
        if cursor.is_none() {
            return halves;
        }
    }
}
