//! `items put` and `delete`.

use std::collections::HashSet;
use std::io::{BufReader, IsTerminal as _, stdin};
use std::sync::Arc;

use anyhow::Context as _;
use tidings_kernel::{Delete, Expect, Item, ItemStore, Key, Put, StoreError, Table};
use tokio::task::JoinSet;

use super::trail::Trail;
use super::{OneItem, PutArgs};
use crate::failure::Failure;
use crate::output::{Layout, Output, say};

/// Writes under way at the same time: one by one, each would wait for its own fsync.
const IN_FLIGHT: usize = 256;

pub(super) async fn put(
    items: Arc<dyn ItemStore>,
    args: PutArgs,
    trail: Trail,
) -> Result<(), Failure> {
    let expect = if args.if_absent { Expect::Absent } else { Expect::Anything };
    let mut putter = Putter::new(items, args.table, expect);
    let read = feed(&mut putter, &args.item, &trail).await;
    // What was begun is finished and counted, whatever came after it.
    putter.finish(read).await
}

/// Hands over the item of the argument, or all that stdin has.
async fn feed(putter: &mut Putter, argument: &str, trail: &Trail) -> Result<(), Failure> {
    if argument != "-" {
        let item = serde_json::from_str(argument).context("the argument is no item");
        let item = item.map_err(read_failure)?;
        let key = putter.key_of(&item, 1)?;
        let before = putter.items.get(putter.table, &key).await?;
        trail.put(putter.table, &key, before.as_ref(), &item).await?;
        return putter.take(key, item, 1).await;
    }
    if stdin().is_terminal() {
        say("reading items from the terminal; end with Ctrl-D");
    }
    let input = BufReader::new(stdin());
    let items = serde_json::Deserializer::from_reader(input).into_iter::<Item>();
    for (item, number) in items.zip(1..) {
        let item = item.with_context(|| format!("item {number} cannot be read"));
        let item = item.map_err(read_failure)?;
        let key = putter.key_of(&item, number)?;
        if number == 1 {
            trail.put_many(putter.table).await?;
        }
        putter.take(key, item, number).await?;
    }
    Ok(())
}

fn read_failure(error: anyhow::Error) -> Failure {
    Failure::from(error).hint("an item is a JSON object with its key: `tidings help items`")
}

/// Puts items, many at a time, but never two under the same key: the later one must win.
struct Putter {
    items: Arc<dyn ItemStore>,
    table: &'static Table,
    expect: Expect,
    running: JoinSet<(Key, usize, Result<(), StoreError>)>,
    keys: HashSet<Key>,
    stored: u64,
    already_there: u64,
}

impl Putter {
    fn new(items: Arc<dyn ItemStore>, table: &'static Table, expect: Expect) -> Self {
        let (running, keys) = (JoinSet::new(), HashSet::new());
        Self { items, table, expect, running, keys, stored: 0, already_there: 0 }
    }

    fn key_of(&self, item: &Item, number: usize) -> Result<Key, Failure> {
        let key = self.table.key_of(item).with_context(|| {
            format!("item {number} cannot be stored in table {}", self.table.name)
        });
        Ok(key?)
    }

    async fn take(&mut self, key: Key, item: Item, number: usize) -> Result<(), Failure> {
        while self.running.len() >= IN_FLIGHT || self.keys.contains(&key) {
            self.wait_for_one().await?;
        }
        self.keys.insert(key.clone());
        let items = Arc::clone(&self.items);
        let put = Put::new(self.table, item).expect(self.expect.clone());
        self.running.spawn(async move { (key, number, items.put(put).await.map(drop)) });
        Ok(())
    }

    async fn wait_for_one(&mut self) -> Result<(), Failure> {
        let Some(done) = self.running.join_next().await else { return Ok(()) };
        let (key, number, outcome) = done.context("a write broke off")?;
        self.keys.remove(&key);
        match outcome {
            Ok(()) => self.stored += 1,
            Err(error) if error.is_condition_failed() => {
                self.already_there += 1;
                say(&format!("already there: {key}"));
            }
            Err(error) => {
                let message = format!("item {number} ({key}) could not be stored");
                return Err(anyhow::Error::new(error).context(message).into());
            }
        }
        Ok(())
    }

    /// Waits for all that are under way, and tells how many there were.
    async fn finish(mut self, mut outcome: Result<(), Failure>) -> Result<(), Failure> {
        while !self.running.is_empty() {
            let one = self.wait_for_one().await;
            outcome = outcome.and(one);
        }
        if outcome.is_ok() || self.stored > 0 {
            say(&format!("stored {}", count(self.stored)));
        }
        outcome?;
        match self.already_there {
            0 => Ok(()),
            there => Err(Failure::failed(format!("{} left alone, already there", count(there)))),
        }
    }
}

fn count(items: u64) -> String {
    if items == 1 { "1 item".to_owned() } else { format!("{items} items") }
}

/// Prints what it deletes, so that a mistake can be put back.
pub(super) async fn delete(
    items: &dyn ItemStore,
    one: &OneItem,
    trail: &Trail,
    layout: Layout,
) -> Result<(), Failure> {
    let key = one.key()?;
    if let Some(item) = items.get(one.table, &key).await? {
        trail.delete(one.table, &key, &item).await?;
    }
    match items.delete(Delete::new(one.table, key.clone())).await? {
        Some(item) => {
            let mut out = Output::new(layout);
            out.json(&item)?;
            out.finish()?;
            say("deleted 1 item");
        }
        None => say(&format!("there was no item {key} in table {}", one.table.name)),
    }
    Ok(())
}
