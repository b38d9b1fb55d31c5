//! Writes units into a database file until it is killed, and tells each one that was acknowledged.
//!
//! `crash-writer FILE FIRST`: unit n is an item with an index, an item with a stream and one step of a counter, all
//! or nothing. Its number goes to
//! standard output once the store has answered. Not here: the test that kills it (`tests/crash.rs`).

#![expect(clippy::print_stdout, reason = "its output is what was acknowledged")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use tidings_kernel::{Expect, Item, ItemEngine, ItemStore, Key, SystemClock, Txn, Update, tables};
use tidings_sql::{Database, SqlItems, SqliteOptions};

const IN_FLIGHT: usize = 32;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let file: PathBuf = arguments.next().context("the file is missing")?.into();
    let first = arguments.next().context("the first number is missing")?.parse()?;
    // A short log makes many checkpoints, so that some kills fall into one.
    let options = SqliteOptions { checkpoint_bytes: 1 << 20, ..SqliteOptions::default() };
    let database = Database::sqlite(&file, options).await?;
    let items = SqlItems::new(database, Arc::new(SystemClock));
    let store = items.open(&"crash".parse()?).await?;
    let next = Arc::new(AtomicU64::new(first));
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (store, next) = (Arc::clone(&store), Arc::clone(&next));
        writers.spawn(async move {
            loop {
                let unit = next.fetch_add(1, Ordering::Relaxed);
                write(&*store, unit).await?;
                println!("{unit}");
            }
        });
    }
    match writers.join_next().await {
        Some(ended) => ended?,
        None => Ok(()),
    }
}

async fn write(store: &dyn ItemStore, unit: u64) -> anyhow::Result<()> {
    let half = |name: &str| {
        let filler = "x".repeat((unit % 7 * 300) as usize);
        let item = Item::new().with("PK", format!("UNIT#{unit}")).with("SK", name);
        item.with("templateKey", "crash").with("filler", filler)
    };
    let counter = Key::new("STATS#crash", "COUNTERS");
    let txn = Txn::new()
        .put(&tables::EVENTS, half("INDEXED"), Expect::Absent)
        .put(&tables::INBOX, half("STREAMED"), Expect::Absent)
        .update(Update::new(&tables::MAIN, counter).add("units", 1));
    Ok(store.transact(txn).await?)
}
