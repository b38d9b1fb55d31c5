//! Which categories an inbox has messages of. There is a bound, because a read-all writes the counts of all of them.
//!
//! A category is noted before its first message. Each post of it leaves a line (`keys::filed`), which goes when the post is taken back
//! and expires with its messages. When there is no room, categories without a line are taken off the list, because there is
//! no message of theirs. A post that meets that expects its category to be on the list still.

use std::collections::BTreeSet;

use tidings_access::{Cx, StorageError};
use tidings_kernel::{Condition, Expect, ItemStore, Key, Query, StoreError, Update, Value, tables};

use super::unchanged;
use crate::keys::{self, Category, InboxKey};
use crate::race::{ATTEMPTS, lost};
use crate::records::Categories;

/// So many categories an inbox can have messages of.
pub const MAX_CATEGORIES: usize = 50;
/// From so many on a post expects its category to be on the list: before, nobody takes one off while it is accepted.
const CROWDED: usize = MAX_CATEGORIES / 2;

/// Whether an inbox can have messages of this category, from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registered {
    Yes,
    /// It can, and there are so many that one may be taken off the list at any time.
    Crowded,
    /// It has messages of as many categories as it can have.
    Full,
}

/// Notes that an inbox has messages, and of which category. It is noted before the first of them, so there may be none.
/// By it an erasure finds all inboxes that somebody may have messages in.
pub(crate) async fn register(
    cx: &Cx,
    inbox: &InboxKey,
    category: Option<&Category>,
    mut known: Categories,
) -> Result<Registered, StorageError> {
    let items = cx.items().await?;
    let key = keys::categories(cx.workspace(), inbox);
    for _ in 0..ATTEMPTS {
        let is_noted = match category {
            Some(category) => known.names.contains(category.as_str()),
            None => known.rev > 0,
        };
        if is_noted {
            return Ok(crowded(&known.names));
        }
        let update = Update::new(&tables::INBOX, key.clone()).add("rev", 1);
        let (update, idle) = match category {
            None => (update, BTreeSet::new()),
            Some(category) if known.names.len() < MAX_CATEGORIES => {
                known.names.insert(category.to_string());
                (noted(update, category.as_str()), BTreeSet::new())
            }
            Some(category) => {
                let idle = idle(cx, inbox, items.as_ref(), &known.names).await?;
                if idle.is_empty() {
                    return Ok(Registered::Full);
                }
                known.names.retain(|name| !idle.contains(name));
                known.names.insert(category.to_string());
                (update.set("categories", Value::texts(known.names.clone())), idle)
            }
        };
        match items.update(update.expect(unchanged(known.rev))).await {
            Ok(_) => {
                put_back(cx, inbox, items.as_ref(), (&key, &idle)).await?;
                return Ok(crowded(&known.names));
            }
            Err(error) if lost(&error) => {
                let found = items.get(&tables::INBOX, &key).await?;
                known = Categories::read(found.as_ref())?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}

/// What a post expects of the list.
pub(crate) fn still_noted(category: &Category) -> Expect {
    Expect::That(Condition::Contains("categories".into(), category.as_str().into()))
}

fn crowded(names: &BTreeSet<String>) -> Registered {
    if names.len() < CROWDED { Registered::Yes } else { Registered::Crowded }
}

fn noted(update: Update, category: &str) -> Update {
    update.add_to_set("categories", Value::texts([category]))
}

/// Those of which there is no message, and will be none.
async fn idle(
    cx: &Cx,
    inbox: &InboxKey,
    items: &dyn ItemStore,
    names: &BTreeSet<String>,
) -> Result<BTreeSet<String>, StorageError> {
    let mut idle = BTreeSet::new();
    for name in names {
        if !has_posts(cx, inbox, items, name).await? {
            idle.insert(name.clone());
        }
    }
    Ok(idle)
}

async fn has_posts(
    cx: &Cx,
    inbox: &InboxKey,
    items: &dyn ItemStore,
    category: &str,
) -> Result<bool, StorageError> {
    let mut cursor = None;
    loop {
        let query = Query::new(&tables::INBOX, keys::all_filed(cx.workspace(), inbox))
            .begins_with(format!("{category}#"));
        let page = items.query(query.limit(1).after(cursor)).await?;
        // What has expired may be passed over one by one.
        if !page.items.is_empty() {
            return Ok(true);
        }
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(false);
        }
    }
}

/// A post may have been accepted after it was looked for and before its category was taken off the list.
async fn put_back(
    cx: &Cx,
    inbox: &InboxKey,
    items: &dyn ItemStore,
    (key, taken_off): (&Key, &BTreeSet<String>),
) -> Result<(), StorageError> {
    for name in taken_off {
        if has_posts(cx, inbox, items, name).await? {
            let update = Update::new(&tables::INBOX, key.clone()).add("rev", 1);
            items.update(noted(update, name)).await?;
        }
    }
    Ok(())
}
