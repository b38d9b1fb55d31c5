//! Forgetting a user: all that is his in every inbox goes. What is for everyone stays.
//!
//! First it is written down that he was forgotten (`forgotten`): from then on no device of his that was let in before makes anything anew.
//!
//! Posts to users name them on pages, by their places there. On those somebody stands in for him whom nobody is called by, before
//! anything else: a delivery that is under way expects its page to be as it was. What a stream tells later of what he had is older
//! than the counts of whoever comes under the same name, and adds nothing to them (`settled`).

use tidings_access::{Cx, StorageError};
use tidings_kernel::{
    Condition, Cursor, Expect, Item, ItemStore, MAX_TXN_WRITES, Query, StoreError, Txn, Update,
    Value, tables,
};

use crate::forgotten;
use crate::ids::MessageId;
use crate::keys::{self, InboxKey, UserId};
use crate::patrol;
use crate::race::{ATTEMPTS, lost};
use crate::records::{Audience, FORGOTTEN, Post};

/// So many inboxes are looked up at once.
const PAGE: usize = 100;

/// Deletes the messages, receipts and counts of a user in all inboxes of the workspace, and takes his id out of what was posted to him. Tokens
/// that he has are not good any more. It can be cut short and done again. Whatever comes for him later is as if he came new.
pub async fn forget(cx: &Cx, user: &UserId) -> Result<(), StorageError> {
    forgotten::remember(cx, user).await?;
    let mut after = None;
    loop {
        let (inboxes, next) = noted(cx, after).await?;
        for inbox in &inboxes {
            unname(cx, inbox, user).await?;
            empty(cx, inbox, user).await?;
        }
        after = next;
        if after.is_none() {
            return patrol::forget(cx, user).await;
        }
    }
}

/// Some of the inboxes in which anybody can have anything, and where to go on.
pub(crate) async fn noted(
    cx: &Cx,
    after: Option<Cursor>,
) -> Result<(Vec<InboxKey>, Option<Cursor>), StorageError> {
    let query = Query::new(&tables::INBOX, keys::tenant(cx.workspace()))
        .begins_with(keys::NOTED)
        .limit(PAGE)
        .after(after);
    let page = cx.items().await?.query(query).await?;
    let noted = page.items.iter().filter_map(|item| item.text("SK")?.strip_prefix(keys::NOTED));
    Ok((noted.filter_map(|key| key.parse().ok()).collect(), page.cursor))
}

async fn empty(cx: &Cx, inbox: &InboxKey, user: &UserId) -> Result<(), StorageError> {
    let items = cx.items().await?;
    let partition = keys::user(cx.workspace(), inbox, user);
    loop {
        // From the beginning each time: what was there is gone.
        let query = Query::new(&tables::INBOX, partition.as_str()).and_expired();
        let page = items.query(query.limit(MAX_TXN_WRITES)).await?;
        if page.items.is_empty() {
            return Ok(());
        }
        let mut txn = Txn::new();
        for item in &page.items {
            let key = tables::INBOX.key_of(item).map_err(StoreError::from)?;
            txn = txn.delete(&tables::INBOX, key, Expect::Anything);
        }
        items.transact(txn).await?;
    }
}

/// Takes the user's id out of the pages of all posts that are still known, and of those that are being accepted.
async fn unname(cx: &Cx, inbox: &InboxKey, user: &UserId) -> Result<(), StorageError> {
    let items = cx.items().await?;
    let mut after = None;
    loop {
        // Drafts come before posts: one that becomes a post meanwhile is met there.
        let query = Query::new(&tables::INBOX, keys::posts(cx.workspace(), inbox)).and_expired();
        let page = items.query(query.limit(PAGE).after(after)).await?;
        for item in &page.items {
            if let Some(id) = to_users(item) {
                unname_in(cx, inbox, &id, user).await?;
            }
        }
        after = page.cursor;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// What it is the post or the draft of, if that has pages. One that cannot be read stops nobody from being forgotten.
fn to_users(item: &Item) -> Option<MessageId> {
    if let Some(id) = item.text("SK")?.strip_prefix(keys::DRAFTS) {
        return id.parse().ok();
    }
    let post = Post::read(item).ok()?;
    (post.audience == Audience::Users).then_some(post.id)
}

async fn unname_in(
    cx: &Cx,
    inbox: &InboxKey,
    post: &MessageId,
    user: &UserId,
) -> Result<(), StorageError> {
    let items = cx.items().await?;
    let pages = Query::new(&tables::INBOX, keys::all_recipients(cx.workspace(), inbox, post));
    let mut after = None;
    loop {
        // A page of users is large, so that few of them are read at once.
        let page = items.query(pages.clone().and_expired().limit(10).after(after)).await?;
        for item in page.items {
            unname_on(items.as_ref(), item, user).await?;
        }
        after = page.cursor;
        if after.is_none() {
            return Ok(());
        }
    }
}

async fn unname_on(items: &dyn ItemStore, page: Item, user: &UserId) -> Result<(), StorageError> {
    let key = tables::INBOX.key_of(&page).map_err(StoreError::from)?;
    let mut page = Some(page);
    for _ in 0..ATTEMPTS {
        let Some(Value::L(uids)) = page.as_ref().and_then(|page| page.get("uids")) else {
            return Ok(());
        };
        let is_his = |uid: &Value| uid.as_text() == Some(user.as_str());
        let Some(place) = uids.iter().position(is_his) else { return Ok(()) };
        let mut others = uids.clone();
        // Each has another, because a post goes to nobody twice.
        others[place] = format!("forgotten {} {place}", key.sort.as_deref().unwrap_or_default())
            .replace('#', " ")
            .into();
        // Somebody else on the page may be forgotten at the same time.
        let unchanged = Condition::eq("uids", Value::L(uids.clone()));
        let update = Update::new(&tables::INBOX, key.clone()).set("uids", Value::L(others));
        // Whoever delivers to this page right now finds out.
        let update = update.add(FORGOTTEN, 1);
        match items.update(update.expect(Expect::That(unchanged))).await {
            Ok(_) => return Ok(()),
            Err(error) if lost(&error) => page = items.get(&tables::INBOX, &key).await?,
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Conflict.into())
}
