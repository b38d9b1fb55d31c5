//! Taking out what has expired as soon as somebody looks, so that counts are exact also before the store removes it.
//!
//! `soonest` in the counts says from which second on something may be past its time; before, nothing is looked at. Then the
//! user's items are walked over once: what is past its time goes, with what it had added to the counts, and `soonest` is what is
//! next. A store that removes items only days later so makes no count wrong. What it removes before anybody looks is counted out by `expiry`.

use std::ops::ControlFlow;

use tidings_access::Cx;
use tidings_kernel::{Expect, Key, Query, StoreError, Txn, tables};

use crate::Inbox;
use crate::balance::category_of;
use crate::counting::{Counting, still};
use crate::damage::readable;
use crate::keys;
use crate::race::lost;
use crate::records::{SOONEST, Stored};
use crate::rules::Difference;
use crate::timeline::{self, Fate};
use crate::view::{LookError, Reader, View};

/// Nothing that is counted expires: no second that anything has is so late.
pub(crate) const NEVER: i64 = 1 << 40;
const PAGE: usize = 500;
/// So many are taken out at once: with perhaps a category and a word to the timeline for each they are one transaction.
const TOGETHER: usize = 30;

/// What a user's items say of time.
struct Walked {
    expired: Vec<(Key, Stored)>,
    /// The second from which the first of the others is gone.
    next: i64,
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
    let counting = Counting::of_user(cx.workspace(), &reader.inbox, &reader.uid);
    let Walked { expired, next } = walk(cx, &counting.partition, view.second(cx)).await?;
    let to = (&reader.inbox, &reader.uid);
    let is_told = !expired.is_empty() && timeline::is_known(cx, &reader.uid).await?;
    let mut rev = view.balance.stats.rev;
    let (mut left, mut categories) = (expired.as_slice(), view.balance.categories.clone());
    loop {
        let (now, later) = left.split_at(left.len().min(TOGETHER));
        let (mut txn, mut difference) = (Txn::new(), Difference::default());
        for (key, stored) in now {
            let (published, read) = view.balance.added(stored);
            difference.add(category_of(stored), -published, -read);
            txn = txn.delete(&tables::INBOX, key.clone(), Expect::Present);
            if let Some(message) = view.balance.unread(stored).filter(|_| is_told) {
                txn = txn.enqueue(timeline::befell(cx, to, message, Fate::Expired));
            }
        }
        let all = counting.all().expect(Expect::That(still("rev", rev)));
        let all = if later.is_empty() { all.set(SOONEST, next) } else { all };
        let txn = counting.add(txn, &difference, all, &categories);
        match written(items.transact(txn).await)? {
            ControlFlow::Break(()) => return Ok(()),
            ControlFlow::Continue(()) => (rev, left) = (rev + 1, later),
        }
        for (category, published, read) in difference.changed() {
            let stats = categories.entry(category.clone()).or_default();
            (stats.published, stats.read) = (stats.published + published, stats.read + read);
        }
        if left.is_empty() {
            break;
        }
    }
    if !expired.is_empty() {
        inbox.hints.changed(cx.workspace(), &reader.inbox, Some(&reader.uid));
    }
    Ok(())
}

fn written(outcome: Result<(), StoreError>) -> Result<ControlFlow<()>, LookError> {
    match outcome {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if lost(&error) => Ok(ControlFlow::Break(())),
        Err(error) => Err(error.into()),
    }
}

async fn walk(cx: &Cx, partition: &str, now: i64) -> Result<Walked, LookError> {
    let items = cx.items().await?;
    let mut walked = Walked { expired: Vec::new(), next: NEVER };
    let mut cursor = None;
    loop {
        let query = Query::new(&tables::INBOX, partition).begins_with(keys::MESSAGES).and_expired();
        let page = items.query(query.limit(PAGE).after(cursor)).await?;
        for item in &page.items {
            let Some(expires) = tables::INBOX.expires_at(item) else { continue };
            if expires > now {
                walked.next = walked.next.min(expires);
            } else if let Some(stored) = readable(cx, item) {
                let key = tables::INBOX.key_of(item).map_err(StoreError::from)?;
                walked.expired.push((key, stored));
            }
        }
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(walked);
        }
    }
}
