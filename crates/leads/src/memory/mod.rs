//! What was learned of a person from his timeline: what he bought, likes, prefers and objects to.
//!
//! Each event says what it says by itself (`derive`, and the workspace's own `rules`); what several say is put together so that
//! neither their order nor a repetition matters (`remembered`). Memory can also be stated, by a person or a program, and then
//! that counts until an event says something newer.
//!
//! Here: the memory of one person, as seed 004 keeps it, and who works on it. Not here: numbers (`features`), and
//! who asks: audiences, sequences and templates read the items.

mod derive;
mod forget;
mod hints;
mod names;
mod rebuild;
mod remembered;
pub mod rules;
#[cfg(test)]
mod tests;
mod update;
mod worker;

use jiff::Timestamp;
use serde_json::json;
use tidings_access::{Change, Cx, StorageError};
use tidings_kernel::{Cursor, Expect, Item, Number, Query, StoreError, Txn, Value, tables};

use crate::features::{ask_for_rebuild, changed};
use crate::identity;
pub use derive::{ALL, CERTAIN, Derivation, Derived, MAX_VALUE};
pub use forget::forget;
pub use names::{KeyError, MemoryKey, MemoryType, TypeError};
pub use rebuild::rebuild;
pub use remembered::MAX_EVENTS;
use remembered::{Remembered, Stated, expect};
pub use rules::RuleSet;
pub use update::take;
pub use worker::handler;

/// So many memories one page has at most.
pub const MAX_PAGE: usize = 200;
/// So often others may be faster.
const ATTEMPTS: usize = 8;

/// One thing that is remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    pub memory_type: MemoryType,
    pub key: MemoryKey,
    pub value: Value,
    /// From 0 to 1.
    pub confidence: Number,
    pub source: String,
    /// The newest first.
    pub source_event_ids: Vec<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

/// Some of it, and where to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    pub memories: Vec<Memory>,
    pub next: Option<String>,
}

/// Which part of somebody's memory is wanted.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    pub memory_type: Option<MemoryType>,
    /// At most so many, 100 if it is 0.
    pub limit: usize,
    pub cursor: Option<String>,
}

/// Something to be remembered because somebody says so.
#[derive(Debug, Clone, PartialEq)]
pub struct Remember {
    pub memory_type: MemoryType,
    pub key: MemoryKey,
    pub value: serde_json::Value,
    /// In ten-thousandths.
    pub confidence: i64,
    pub source: String,
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, thiserror::Error)]
pub enum RememberError {
    #[error("there is no such contact")]
    Nobody,
    #[error("a value has at most 4 KB, and nothing in it that cannot be kept")]
    Value,
    #[error("this is past already")]
    Past,
    #[error("the memory cannot be kept")]
    Store(#[from] StorageError),
}

/// What is remembered of whoever a timeline belongs to. `None` if it belongs to nobody.
pub async fn list(
    cx: &Cx,
    lead_organization_id: &str,
    listing: Listing,
) -> Result<Option<Page>, StorageError> {
    let Some(owner) = identity::owner(cx, lead_organization_id).await? else { return Ok(None) };
    let limit = if listing.limit == 0 { 100 } else { listing.limit.min(MAX_PAGE) };
    let mut query = Query::new(&tables::MEMORY, owner.lead_organization_id)
        .limit(limit)
        .after(listing.cursor.map(Cursor::from));
    if let Some(memory_type) = &listing.memory_type {
        query = query.begins_with(format!("{memory_type}#"));
    }
    let page = cx.items().await?.query(query).await?;
    let memories = page.items.iter().filter_map(|item| read(item, cx.now())).collect();
    Ok(Some(Page { memories, next: page.cursor.map(|cursor| cursor.as_str().to_owned()) }))
}

/// One thing.
pub async fn get(
    cx: &Cx,
    lead_organization_id: &str,
    memory_type: &MemoryType,
    key: &MemoryKey,
) -> Result<Option<Memory>, StorageError> {
    let Some(owner) = identity::owner(cx, lead_organization_id).await? else { return Ok(None) };
    let key = tidings_kernel::Key::new(owner.lead_organization_id, names::sort(memory_type, key));
    let found = cx.items().await?.get(&tables::MEMORY, &key).await?;
    Ok(found.as_ref().and_then(|item| read(item, cx.now())))
}

/// Remembers what somebody says, in place of what was said before. What an event says later counts more. If it is said for a while,
/// what events say counts again after it.
pub async fn remember(
    cx: &Cx,
    lead_organization_id: &str,
    cmd: Remember,
) -> Result<Memory, RememberError> {
    let value = derive::kept(&cmd.value).ok_or(RememberError::Value)?;
    if cmd.expires_at.is_some_and(|at| at <= cx.now()) {
        return Err(RememberError::Past);
    }
    let stated = Stated {
        value,
        confidence: cmd.confidence.clamp(0, CERTAIN),
        source: cmd.source,
        at: cx.now().as_millisecond(),
        expires: cmd.expires_at.map(Timestamp::as_second),
    };
    for _ in 0..ATTEMPTS {
        let owner = identity::owner(cx, lead_organization_id)
            .await
            .map_err(StorageError::from)?
            .ok_or(RememberError::Nobody)?;
        let sort = names::sort(&cmd.memory_type, &cmd.key);
        let key = tidings_kernel::Key::new(owner.lead_organization_id.as_str(), sort);
        let items = cx.items().await?;
        let found = items.get(&tables::MEMORY, &key).await.map_err(StorageError::from)?;
        let mut known = found.as_ref().map(Remembered::from_item).unwrap_or_default();
        known.stated = Some(stated.clone());
        let item = known.to_item(&key);
        let expect = expect(found.as_ref(), cx.now());
        // What it says may be anything, and stays out of the log.
        let told = Change::new("memory.remember", "contact", owner.lead_id)
            .after(json!({ "type": cmd.memory_type.as_str(), "key": cmd.key.as_str() }));
        let txn = Txn::new().put(&tables::MEMORY, item.clone(), expect).enqueue(cx.audited(&told));
        let txn = changed(cx, txn, &[&owner.lead_organization_id]).await?;
        match items.transact(txn).await {
            Ok(()) => {
                if settle(cx, &owner.lead_organization_id).await? {
                    return Err(RememberError::Nobody);
                }
                let kept =
                    read(&item, cx.now()).ok_or_else(|| StoreError::Corrupt("no memory".into()));
                return Ok(kept.map_err(StorageError::from)?);
            }
            Err(error) if error.is_condition_failed() => {}
            Err(StoreError::Conflict | StoreError::Cancelled(_)) => {}
            Err(error) => return Err(StorageError::from(error).into()),
        }
    }
    Err(StorageError::from(StoreError::Conflict).into())
}

/// Forgets everything under a timeline.
pub async fn erase(cx: &Cx, lead_organization_id: &str) -> Result<(), StorageError> {
    let items = cx.items().await?;
    loop {
        let query = Query::new(&tables::MEMORY, lead_organization_id).limit(100).and_expired();
        let page = items.query(query).await?;
        let mut txn = Txn::new();
        for item in &page.items {
            let key = tables::MEMORY.key_of(item).map_err(StoreError::from)?;
            txn = txn.delete(&tables::MEMORY, key, Expect::Anything);
        }
        if !txn.writes.is_empty() {
            items.transact(txn).await?;
        }
        if page.cursor.is_none() {
            return Ok(());
        }
    }
}

/// Whose an event is can change between our look and our write, too: then somebody remembers what another one did. Who took
/// them apart has either still to derive both anew, or we find that he did, and ask for it again. Whoever was erased since is
/// forgotten; who only was one with him before is not.
async fn settle_of(cx: &Cx, partition: &str, remembered_by: &str) -> Result<(), StorageError> {
    match identity::owner(cx, partition).await? {
        None if settle(cx, remembered_by).await? => Ok(()),
        None => ask_for_rebuild(cx, remembered_by).await,
        Some(now) if now.lead_organization_id == remembered_by => Ok(()),
        Some(now) => {
            ask_for_rebuild(cx, remembered_by).await?;
            ask_for_rebuild(cx, &now.lead_organization_id).await
        }
    }
}

/// Whoever is erased between our look and our write has a memory more than the erasure saw. So we look once more: either the
/// erasure finds the memory, or we find the erasure. Tells whether he was erased.
async fn settle(cx: &Cx, lead_organization_id: &str) -> Result<bool, StorageError> {
    let is_erased = identity::owner(cx, lead_organization_id).await?.is_none();
    if is_erased {
        erase(cx, lead_organization_id).await?;
    }
    Ok(is_erased)
}

fn read(item: &Item, now: Timestamp) -> Option<Memory> {
    let item = remembered::at(item, now);
    let (memory_type, key) = item.text("memory_type#key")?.split_once('#')?;
    let time = |name: &str| item.text(name).and_then(|at| at.parse().ok());
    let ids = match item.get("source_event_ids") {
        Some(Value::L(ids)) => ids.as_slice(),
        _ => &[],
    };
    Some(Memory {
        memory_type: memory_type.parse().ok()?,
        key: key.parse().ok()?,
        value: item.get("value")?.clone(),
        confidence: item.get("confidence")?.as_number()?,
        source: item.text("source").unwrap_or_default().to_owned(),
        source_event_ids: ids.iter().filter_map(|id| Some(id.as_text()?.to_owned())).collect(),
        created_at: time("created_at")?,
        updated_at: time("updated_at")?,
        // What was stated for a while is over before the item is, if events say something besides.
        expires_at: remembered::gives_way(&item)
            .or_else(|| item.integer("expires_at"))
            .and_then(|at| Timestamp::from_second(at).ok()),
    })
}
