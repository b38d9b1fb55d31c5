//! Taking out what has expired as soon as somebody looks, so that counts are exact also before the store removes it.
//!
//! `soonest` in the counts says from which second on something may be past its time; before, nothing is looked at. Then what is
//! past its time goes, with what it had added to the counts, and `soonest` is what is next. Up to the horizon it is known what that is
//! (`horizon`), and nothing else is looked at. Past it the user's items are walked over once, page by page, and it is written down what
//! is next. A store that removes items only days later so makes no count wrong. What it removes before anybody looks is
//! counted out by `expiry`, which leaves `soonest` as it is: most users do not come back for each message, and to whoever does, a look for
//! what is gone costs no more than one for what is there. No more than a page is held, however many there are.

use std::collections::{BTreeMap, BTreeSet};

use tidings_access::Cx;
use tidings_kernel::{Expect, Item, Key, Page, Query, StoreError, Txn, Update, tables};

use crate::Inbox;
use crate::balance::category_of;
use crate::counting::{Counting, still};
use crate::damage::readable;
use crate::horizon::{NEVER, Soonest};
use crate::ids::MessageId;
use crate::keys::{self, Category};
use crate::race::lost;
use crate::records::{CategoryStats, EARLY, Expiring, HORIZON, SOONEST};
use crate::rules::Difference;
use crate::timeline::{self, Fate};
use crate::view::{LookError, Reader, View};

const PAGE: usize = 500;

/// How many messages and receipts that expire there are at a time. Tests have fewer, so that they need few messages to have too many.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Are taken out at once.
    pub together: usize,
    /// Are on the list of what expires next.
    pub listed: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            // With perhaps a category and a word to the timeline for each they are one transaction.
            together: 30,
            // Some 8 kB, read for each second in which something expires. A walk over thousands of messages, once for so many, comes to as much.
            listed: 256,
        }
    }
}

/// What is kept of an item that is past its time.
struct Expired {
    key: Key,
    category: Option<Category>,
    /// What it had added to what is published and what is read.
    added: (i64, i64),
    /// Its id, if it is a message of the user's own that he has not read.
    unread: Option<MessageId>,
}

/// What is known of what is next, once everything that is past its time is out.
enum Next {
    /// The list is as it was, and these are left beside it.
    Listed { first: i64, early: BTreeSet<Expiring> },
    /// All was walked over.
    Walked(Soonest),
}

/// Takes out what is past its time, and writes down when to look again. Where somebody else changes the inbox meanwhile it ends early: whoever looks
/// then does the rest.
pub(crate) async fn take_out(
    cx: &Cx,
    inbox: &Inbox,
    reader: &Reader,
    view: &View,
) -> Result<(), LookError> {
    let mut taking = Taking::new(cx, inbox, reader, view);
    let next = match taking.listed().await? {
        Some(listed) => taking.look_up(&listed).await?,
        None => taking.walk().await?,
    };
    if let Some(next) = next {
        // The last of them have waited for what is next.
        let last = std::mem::take(&mut taking.expired);
        taking.these(&last, Some(next)).await?;
    }
    taking.tell();
    Ok(())
}

/// The counts of a user, while things are taken out of them.
struct Taking<'a> {
    cx: &'a Cx,
    inbox: &'a Inbox,
    reader: &'a Reader,
    view: &'a View,
    counting: Counting<'a>,
    rev: i64,
    categories: BTreeMap<Category, CategoryStats>,
    /// What was met and is not taken out yet.
    expired: Vec<Expired>,
    /// Whether the user has a timeline, once somebody had to know.
    is_told: Option<bool>,
    /// Whether anything was taken out.
    has_changed: bool,
}

impl<'a> Taking<'a> {
    fn new(cx: &'a Cx, inbox: &'a Inbox, reader: &'a Reader, view: &'a View) -> Self {
        Self {
            cx,
            inbox,
            reader,
            view,
            counting: Counting::of_user(cx.workspace(), &reader.inbox, &reader.uid),
            rev: view.balance.stats.rev,
            categories: view.balance.categories.clone(),
            expired: Vec::new(),
            is_told: None,
            has_changed: false,
        }
    }

    /// What is known to expire next. Nothing if the horizon has come, or the list has run dry: then it is gone itself. One that
    /// cannot be read is as good as none.
    async fn listed(&self) -> Result<Option<BTreeSet<Expiring>>, LookError> {
        let stats = &self.view.balance.stats;
        let reaches = |horizon| stats.soonest.is_some() && horizon > self.view.second(self.cx);
        if !stats.horizon.is_some_and(reaches) {
            return Ok(None);
        }
        let key = keys::expiring(&self.counting.partition);
        let found = self.cx.items().await?.get(&tables::INBOX, &key).await?;
        let listed = found.and_then(|list| Expiring::read_list(&list).ok());
        Ok(listed.map(|mut listed| {
            listed.extend(stats.early.iter().cloned());
            listed
        }))
    }

    /// Looks for what is past its time by what is known. Nothing if somebody was faster.
    async fn look_up(&mut self, listed: &BTreeSet<Expiring>) -> Result<Option<Next>, LookError> {
        let (stats, now) = (&self.view.balance.stats, self.view.second(self.cx));
        let seconds = listed.iter().map(|one| one.second).chain(stats.horizon);
        let first = seconds.filter(|second| *second > now).min().unwrap_or(NEVER);
        // What was gone before the soonest was taken out before.
        let due =
            listed.iter().filter(|one| one.second <= now && Some(one.second) >= stats.soonest);
        let due: BTreeSet<&str> = due.map(|one| one.sort.as_str()).collect();
        if !self.find(&due.into_iter().collect::<Vec<_>>()).await? {
            return Ok(None);
        }
        let early = stats.early.iter().filter(|one| one.second > now).cloned().collect();
        Ok(Some(Next::Listed { first, early }))
    }

    /// Meets what stands at these keys, which are in order. Only a query finds what is past its time. Those that stand side by side, as what
    /// came together does, are found together: as long as there is nothing between them, the next query asks for twice as many.
    async fn find(&mut self, mut due: &[&str]) -> Result<bool, LookError> {
        let mut limit = 1;
        while let (Some(first), Some(last)) = (due.first(), due.last()) {
            let query = Query::new(&tables::INBOX, &self.counting.partition);
            let query = query.between(*first, *last).and_expired().limit(limit);
            let page = self.cx.items().await?.query(query).await?;
            let later = self.meet(&page)?;
            if !self.relieve().await? {
                return Ok(false);
            }
            let last = page.items.last().and_then(|item| item.text("SK"));
            let Some(last) = last.filter(|_| page.cursor.is_some()) else { break };
            due = &due[due.partition_point(|sort| *sort <= last)..];
            limit = if later.is_empty() { PAGE.min(2 * limit) } else { 1 };
        }
        Ok(true)
    }

    /// Looks for what is past its time everywhere. Nothing if somebody was faster.
    async fn walk(&mut self) -> Result<Option<Next>, LookError> {
        let items = self.cx.items().await?;
        let (mut soonest, mut cursor) = (Soonest::new(self.inbox.bounds.listed), None);
        loop {
            let query = Query::new(&tables::INBOX, &self.counting.partition);
            let query = query.begins_with(keys::MESSAGES).and_expired();
            let page = items.query(query.limit(PAGE).after(cursor)).await?;
            for (second, sort) in self.meet(&page)? {
                soonest.add(second, sort);
            }
            if !self.relieve().await? {
                return Ok(None);
            }
            cursor = page.cursor;
            if cursor.is_none() {
                return Ok(Some(Next::Walked(soonest)));
            }
        }
    }

    /// Keeps what is past its time to take it out, and tells what is not: when it is, and its sort key.
    fn meet<'p>(&mut self, page: &'p Page) -> Result<Vec<(i64, &'p str)>, StoreError> {
        let mut later = Vec::new();
        for item in &page.items {
            let Some(second) = tables::INBOX.expires_at(item) else { continue };
            if second <= self.view.second(self.cx) {
                let expired = self.expired(item)?;
                self.expired.extend(expired);
            } else {
                later.extend(item.text("SK").map(|sort| (second, sort)));
            }
        }
        Ok(later)
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

    /// Takes out what is more than one transaction. Tells whether nobody was faster.
    async fn relieve(&mut self) -> Result<bool, LookError> {
        let together = self.inbox.bounds.together;
        while self.expired.len() > together {
            let later = self.expired.split_off(together);
            let some = std::mem::replace(&mut self.expired, later);
            if !self.these(&some, None).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes some out, and writes down what is next if they are the last. Tells whether nobody was faster.
    async fn these(&mut self, some: &[Expired], next: Option<Next>) -> Result<bool, LookError> {
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
        let (txn, all) = match next {
            Some(next) => next.write(&self.counting.partition, txn, all),
            None => (txn, all),
        };
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

    fn tell(&self) {
        if self.has_changed {
            let Reader { inbox: key, uid, .. } = self.reader;
            self.inbox.hints.changed(self.cx.workspace(), key, Some(uid));
        }
    }
}

impl Next {
    fn write(self, partition: &str, txn: Txn, all: Update) -> (Txn, Update) {
        match self {
            Self::Listed { first, early } if early.is_empty() => {
                (txn, all.set(SOONEST, first).remove(EARLY))
            }
            Self::Listed { first, early } => {
                (txn, all.set(SOONEST, first).set(EARLY, Expiring::to_value(&early)))
            }
            Self::Walked(soonest) => {
                let txn = match Expiring::to_list(partition, &soonest.listed) {
                    Some(list) => txn.put(&tables::INBOX, list, Expect::Anything),
                    None => {
                        let key = keys::expiring(partition);
                        txn.delete(&tables::INBOX, key, Expect::Anything)
                    }
                };
                let all = all.set(SOONEST, soonest.first()).set(HORIZON, soonest.horizon);
                (txn, all.remove(EARLY))
            }
        }
    }
}
