//! The rules of a workspace, as items: one for each set.

use jiff::Timestamp;
use tidings_access::{Cx, Slug, StorageError};
use tidings_kernel::{Expect, Item, Key, Query, Txn, Update, plain, tables};

use super::{Fault, RuleSet, from_json};
use crate::event;

/// So many sets a workspace has at most.
pub const MAX_SETS: usize = 50;
const PARTITION: &str = "MEMORY_RULES";
const PREFIX: &str = "SET#";
/// Where it is counted how often the sets have changed.
const REVISION: &str = "REVISION";

/// A set that is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    pub name: Slug,
    pub set: RuleSet,
    pub updated_at: Timestamp,
}

/// What putting a set does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Added,
    Changed,
    Unchanged,
}

#[derive(Debug, thiserror::Error)]
pub enum PutError {
    #[error("a workspace has at most {MAX_SETS} sets of memory rules")]
    TooMany,
    #[error("the rules cannot be kept")]
    Store(#[from] StorageError),
}

fn key(name: &Slug) -> Key {
    Key::new(PARTITION, format!("{PREFIX}{name}"))
}

/// All of them, in the order of their names.
pub async fn list(cx: &Cx) -> Result<Vec<Kept>, StorageError> {
    let (items, mut all, mut cursor) = (cx.items().await?, Vec::new(), None);
    loop {
        // A page has so many bytes at most, and all sets together may have more.
        let query = Query::new(&tables::MAIN, PARTITION).begins_with(PREFIX).after(cursor);
        let page = items.query(query.limit(2 * MAX_SETS)).await?;
        all.extend(page.items.iter().filter_map(read));
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(all);
        }
    }
}

/// How often the sets have changed.
pub(super) async fn revision(cx: &Cx) -> Result<i64, StorageError> {
    let item = cx.items().await?.get(&tables::MAIN, &Key::new(PARTITION, REVISION)).await?;
    Ok(item.and_then(|item| item.integer("revision")).unwrap_or_default())
}

/// Says with a change that there was one.
fn another_revision() -> Update {
    Update::new(&tables::MAIN, Key::new(PARTITION, REVISION)).add("revision", 1)
}

pub async fn get(cx: &Cx, name: &Slug) -> Result<Option<Kept>, StorageError> {
    let item = cx.items().await?.get(&tables::MAIN, &key(name)).await?;
    Ok(item.as_ref().and_then(read))
}

/// What putting this set would do.
pub async fn change(cx: &Cx, name: &Slug, set: &RuleSet) -> Result<Change, StorageError> {
    Ok(match get(cx, name).await? {
        None => Change::Added,
        Some(kept) if kept.set == *set => Change::Unchanged,
        Some(_) => Change::Changed,
    })
}

/// Keeps a set in place of the one with its name. It counts for events from now on; a rebuild holds the earlier ones
/// against it too.
pub async fn put(cx: &Cx, name: &Slug, set: RuleSet) -> Result<(Kept, Change), PutError> {
    let change = change(cx, name, &set).await?;
    if change == Change::Added && list(cx).await?.len() >= MAX_SETS {
        return Err(PutError::TooMany);
    }
    let kept = Kept { name: name.clone(), set, updated_at: cx.now() };
    if change != Change::Unchanged {
        let definition =
            plain::to_value(&kept.set.to_json()).unwrap_or(tidings_kernel::Value::Null);
        let item = tables::MAIN
            .bare_item(&key(name))
            .with("definition", definition)
            .with("updated_at", event::time(cx.now()));
        let told = tidings_access::Change::new("memory_rules.put", "memory_rules", name)
            .after(kept.set.to_json());
        let txn = Txn::new()
            .put(&tables::MAIN, item, Expect::Anything)
            .update(another_revision())
            .enqueue(cx.audited(&told));
        let items = cx.items().await.map_err(PutError::from)?;
        items.transact(txn).await.map_err(StorageError::from)?;
    }
    Ok((kept, change))
}

/// Tells whether it was there.
pub async fn delete(cx: &Cx, name: &Slug) -> Result<bool, StorageError> {
    let Some(kept) = get(cx, name).await? else { return Ok(false) };
    let told = tidings_access::Change::new("memory_rules.delete", "memory_rules", name)
        .before(kept.set.to_json());
    let txn = Txn::new()
        .delete(&tables::MAIN, key(name), Expect::Present)
        .update(another_revision())
        .enqueue(cx.audited(&told));
    match cx.items().await?.transact(txn).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_condition_failed() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn read(item: &Item) -> Option<Kept> {
    let name = item.text("SK")?.strip_prefix(PREFIX)?.parse().ok()?;
    let definition = plain::from_value(item.get("definition")?);
    let set: Result<RuleSet, Vec<Fault>> = from_json(&definition);
    let updated_at = item.text("updated_at")?.parse().ok()?;
    Some(Kept { name, set: set.ok()?, updated_at })
}
