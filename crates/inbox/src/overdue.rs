//! Taking out what has expired as soon as somebody looks, so that counts are exact also before the store removes it.
//!
//! `soonest` in the counts says from which second on something may be past its time; before, nothing is looked at. Then the
//! user's items are walked over once, page by page: what is past its time goes, with what it had added to the counts, and `soonest` is
//! what is next. A store that removes items only days later so makes no count wrong. What it removes before anybody looks is counted out by
//! `expiry`. No more than a page is held, however many there are.

use std::collections::BTreeMap;

use tidings_access::Cx;
use tidings_kernel::{Expect, Item, Key, Query, StoreError, Txn, tables};

use crate::Inbox;
use crate::balance::category_of;
use crate::counting::{Counting, still};
use crate::damage::readable;
use crate::ids::MessageId;
use crate::keys::{self, Category};
use crate::race::lost;
use crate::records::{CategoryStats, SOONEST};
use crate::rules::Difference;
use crate::timeline::{self, Fate};
use crate::view::{LookError, Reader, View};

/// Nothing that is counted expires: no second that anything has is so late.
pub(crate) const NEVER: i64 = 1 << 40;
const PAGE: usize = 500;
/// So many are taken out at once: with perhaps a category and a word to the timeline for each they are one transaction.
const TOGETHER: usize = 30;

/// What is kept of an item that is past its time.
struct Expired {
    key: Key,
    category: Option<Category>,
    /// What it had added to what is published and what is read.
    added: (i64, i64),
    /// Its id, if it is a message of the user's own that he has not read.
    unread: Option<MessageId>,
}

/// Takes out what is past its time, and writes down when to look again. Where somebody else changes the inbox meanwhile it ends early: whoever looks
/// then does the rest.
pub(crate) async fn take_out(
    cx: &Cx,
    inbox: &Inbox,
    reader: &Reader,
    view: &View,
) -> Result<(), LookError> {
    let items = cx.items().await?;
    let mut taking = Taking::new(cx, reader, view);
    let (mut expired, mut next, mut cursor) = (Vec::new(), NEVER, None);
    loop {
        let query = Query::new(&tables::INBOX, &taking.counting.partition);
        let query = query.begins_with(keys::MESSAGES).and_expired();
        let page = items.query(query.limit(PAGE).after(cursor)).await?;
        for item in &page.items {
            let Some(expires) = tables::INBOX.expires_at(item) else { continue };
            if expires > view.second(cx) {
                next = next.min(expires);
            } else {
                expired.extend(taking.expired(item)?);
            }
        }
        cursor = page.cursor;
        // The last of them wait for what is next.
        while expired.len() > TOGETHER {
            let later = expired.split_off(TOGETHER);
            if !taking.these(&expired, None).await? {
                taking.tell(inbox);
                return Ok(());
            }
            expired = later;
        }
        if cursor.is_none() {
            break;
        }
    }
    taking.these(&expired, Some(next)).await?;
    taking.tell(inbox);
    Ok(())
}

/// The counts of a user, while things are taken out of them.
struct Taking<'a> {
    cx: &'a Cx,
    reader: &'a Reader,
    view: &'a View,
    counting: Counting<'a>,
    rev: i64,
    categories: BTreeMap<Category, CategoryStats>,
    /// Whether the user has a timeline, once somebody had to know.
    is_told: Option<bool>,
    /// Whether anything was taken out.
    has_changed: bool,
}

impl<'a> Taking<'a> {
    fn new(cx: &'a Cx, reader: &'a Reader, view: &'a View) -> Self {
        Self {
            cx,
            reader,
            view,
            counting: Counting::of_user(cx.workspace(), &reader.inbox, &reader.uid),
            rev: view.balance.stats.rev,
            categories: view.balance.categories.clone(),
            is_told: None,
            has_changed: false,
        }
    }

    /// Nothing if nobody can read it.
    fn expired(&self, item: &Item) -> Result<Option<Expired>, StoreError> {
        let Some(stored) = readable(self.cx, item) else { return Ok(None) };
        let balance = &self.view.balance;
        Ok(Some(Expired {
            key: tables::INBOX.key_of(item)?,
            category: category_of(&stored).cloned(),
            added: balance.added(&stored),
            unread: balance.unread(&stored).map(|(id, _)| id.clone()),
        }))
    }

    /// Takes some out, and writes down when to look again if they are the last. Tells whether nobody was faster.
    async fn these(&mut self, some: &[Expired], next: Option<i64>) -> Result<bool, LookError> {
        let is_told = !some.is_empty() && self.is_told().await?;
        let to = (&self.reader.inbox, &self.reader.uid);
        let (mut txn, mut difference) = (Txn::new(), Difference::default());
        for Expired { key, category, added: (published, read), unread } in some {
            difference.add(category.as_ref(), -published, -read);
            txn = txn.delete(&tables::INBOX, key.clone(), Expect::Present);
            if let Some(id) = unread.as_ref().filter(|_| is_told) {
                let message = (id, category.as_ref());
                txn = txn.enqueue(timeline::befell(self.cx, to, message, Fate::Expired));
            }
        }
        let all = self.counting.all().expect(Expect::That(still("rev", self.rev)));
        let all = next.into_iter().fold(all, |all, next| all.set(SOONEST, next));
        let txn = self.counting.add(txn, &difference, all, &self.categories);
        match self.cx.items().await?.transact(txn).await {
            Ok(()) => {}
            Err(error) if lost(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        self.rev += 1;
        self.has_changed |= !some.is_empty();
        for (category, published, read) in difference.changed() {
            let stats = self.categories.entry(category.clone()).or_default();
            (stats.published, stats.read) = (stats.published + published, stats.read + read);
        }
        Ok(true)
    }

    async fn is_told(&mut self) -> Result<bool, LookError> {
        if self.is_told.is_none() {
            self.is_told = Some(timeline::is_known(self.cx, &self.reader.uid).await?);
        }
        Ok(self.is_told == Some(true))
    }

    fn tell(&self, inbox: &Inbox) {
        if self.has_changed {
            let Reader { inbox: key, uid, .. } = self.reader;
            inbox.hints.changed(self.cx.workspace(), key, Some(uid));
        }
    }
}
