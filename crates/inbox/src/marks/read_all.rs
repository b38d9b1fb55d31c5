//! Reading everything at once: one watermark, whatever the number of messages.
//!
//! A read-all covers all that is there, what has expired and was not counted out yet too, so that nobody has to know of it.
//! What came after the message up to which the user has read is taken out of it by a flag on each: `unread` with the
//! read-all's number. Those are few as a rule and go into the same transaction. If they are more, the number is reserved first and they are flagged
//! in steps: a flag means nothing before the read-all of its number, and nothing after it if that never comes.
//!
//! Not here: which those are (`newer`).

use std::collections::{BTreeMap, BTreeSet};

use tidings_access::Cx;
use tidings_kernel::{Condition, Expect, MAX_TXN_WRITES, Query, Txn, tables};

use super::MarkError;
use super::newer::{Newer, Search};
use crate::Inbox;
use crate::counting::{Counting, still};
use crate::horizon::take_in;
use crate::ids::MessageId;
use crate::keys::{self, Category};
use crate::race::{ATTEMPTS, lost};
use crate::records::{Expiring, Watermark};
use crate::timeline;
use crate::view::{Reader, View, look};

/// So many are flagged at once, in transactions of their own.
const FLAGGED: usize = 90;

/// What is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadAll {
    /// Only messages of this category.
    pub category: Option<Category>,
    /// What is newer than this message stays as it is.
    pub up_to: Option<MessageId>,
}

/// Up to where all is read now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadUpTo {
    pub id: MessageId,
}

/// Reads all messages of a user, or all of a category, up to one of them if it is named.
pub async fn read_all(
    cx: &Cx,
    inbox: &Inbox,
    reader: &Reader,
    what: ReadAll,
) -> Result<ReadUpTo, MarkError> {
    let counting = Counting::of_user(cx.workspace(), &reader.inbox, &reader.uid);
    let items = cx.items().await?;
    let is_told = timeline::is_known(cx, &reader.uid).await?;
    let of_id = what.up_to.as_ref();
    let mut search = of_id.map(|id| Search::new(cx, &counting, id, what.category.as_ref()));
    let mut reserved = None;
    for _ in 0..ATTEMPTS {
        let view = look(cx, inbox, reader).await?;
        if view.balance.stats.since.is_none() {
            // There is no such inbox, or not yet.
            return Ok(what.done(cx));
        }
        let newer = match &mut search {
            Some(search) => search.newer(&view).await?,
            None => Vec::new(),
        };
        if what.category.as_ref().is_some_and(|category| !view.knows(category)) {
            // Nothing was ever published in it: there is nothing to read, and nothing to write down.
            return Ok(what.done(cx));
        }
        // Another change since the number was reserved means that somebody may have used it.
        let number = reserved.take().filter(|(_, rev)| *rev == view.balance.stats.rev);
        let plan = Plan { cx, counting: &counting, view: &view, what: &what, newer: &newer };
        let txn = match number {
            Some((number, _)) => {
                if !flag(cx, &counting, &newer, number).await? {
                    continue;
                }
                plan.transaction(number, &[], newest(cx, &counting).await?)
            }
            None if newer.len() <= plan.room() => {
                plan.transaction(view.balance.stats.marks + 1, &newer, newest(cx, &counting).await?)
            }
            None => {
                let (number, rev) = (view.balance.stats.marks + 1, view.balance.stats.rev);
                let update = counting.all().set("marks", number);
                let update = update.expect(Expect::That(still("rev", rev)));
                match items.update(update).await {
                    Ok(_) => {
                        reserved = Some((number, rev + 1));
                        search.iter_mut().for_each(|search| search.is_as_of(rev + 1));
                    }
                    Err(error) if lost(&error) => {}
                    Err(error) => return Err(error.into()),
                }
                continue;
            }
        };
        let txn = if is_told {
            let number = view.balance.stats.rev;
            txn.enqueue(timeline::read_all(cx, reader, &what, number))
        } else {
            txn
        };
        match items.transact(txn).await {
            Ok(()) => {
                inbox.hints.changed(cx.workspace(), &reader.inbox, Some(&reader.uid));
                return Ok(what.done(cx));
            }
            Err(error) if lost(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(MarkError::Busy)
}

impl ReadAll {
    fn done(&self, cx: &Cx) -> ReadUpTo {
        let id = self.up_to.clone().unwrap_or_else(|| MessageId::last_of(cx.now()));
        ReadUpTo { id }
    }
}

/// Flags in transactions of their own, and tells whether all are flagged now: somebody may have read one of them meanwhile, or the user
/// was forgotten, and a flag would be all that is left of him.
async fn flag(
    cx: &Cx,
    counting: &Counting<'_>,
    newer: &[Newer],
    number: i64,
) -> Result<bool, MarkError> {
    let items = cx.items().await?;
    for some in newer.chunks(FLAGGED) {
        let flags = some.iter().map(|newer| newer.flag(counting, number));
        let reserved = Expect::That(Condition::eq("marks", number));
        let txn = Txn::new().check(&tables::INBOX, keys::counts(&counting.partition), reserved);
        match items.transact(flags.fold(txn, Txn::update)).await {
            Ok(()) => {}
            Err(error) if lost(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// The greatest id in the user's partition, of what has expired too: it is counted until it is counted out.
async fn newest(cx: &Cx, counting: &Counting<'_>) -> Result<Option<MessageId>, MarkError> {
    let query = Query::new(&tables::INBOX, &counting.partition).begins_with(keys::MESSAGES);
    let query = query.backward().and_expired();
    let page = cx.items().await?.query(query.limit(1)).await?;
    let sort = page.items.first().and_then(|item| item.text("SK"));
    Ok(sort.and_then(|sort| sort.strip_prefix(keys::MESSAGES)?.parse().ok()))
}

struct Plan<'a> {
    cx: &'a Cx,
    counting: &'a Counting<'a>,
    view: &'a View,
    what: &'a ReadAll,
    newer: &'a [Newer],
}

impl Plan<'_> {
    /// How many flags fit into the transaction beside the counts.
    fn room(&self) -> usize {
        let of_newer = self.newer.iter().filter_map(|newer| newer.category.as_ref());
        let counts = self.view.balance.categories.iter().filter(|(_, stats)| !stats.is_empty());
        let counted: BTreeSet<_> = counts.map(|(category, _)| category).chain(of_newer).collect();
        // One for the counts, and one for the timeline.
        (MAX_TXN_WRITES - 2).saturating_sub(counted.len())
    }

    /// The read-all of this number, together with these flags: those that are not made before.
    fn transaction(&self, number: i64, flags: &[Newer], newest: Option<MessageId>) -> Txn {
        let (view, stats) = (self.view, &self.view.balance.stats);
        let mut unread: BTreeMap<&Category, i64> = BTreeMap::new();
        for category in self.newer.iter().filter_map(|newer| newer.category.as_ref()) {
            *unread.entry(category).or_default() += 1;
        }
        let left = |category: &Category| unread.get(category).copied().unwrap_or(0);
        let flags = flags.iter().map(|newer| newer.flag(self.counting, number));
        let mut txn = flags.fold(Txn::new(), Txn::update);
        let all = self.counting.all().set("marks", number);
        let all = match &self.what.category {
            None => {
                let before = stats.all.as_ref().and_then(|mark| mark.id.clone());
                let mark = self.watermark(number, before, newest);
                // Those that have counts, and those that get some because a public message stays unread.
                let with_counts = view
                    .balance
                    .categories
                    .iter()
                    .filter(|(category, stats)| stats.read != stats.published - left(category));
                for (category, stats) in with_counts {
                    txn = match stats.published - left(category) {
                        0 if stats.published == 0 => self.counting.empty(txn, category, stats),
                        read => txn.update(self.counting.category(category).set("read", read)),
                    };
                }
                for category in
                    unread.keys().filter(|name| !view.balance.categories.contains_key(**name))
                {
                    txn = txn.update(self.counting.category(category).set("read", -left(category)));
                }
                let newer = i64::try_from(self.newer.len()).unwrap_or(i64::MAX);
                all.set("all", mark.to_value()).set("read", stats.published - newer)
            }
            Some(category) => {
                let of_category =
                    view.balance.categories.get(category).cloned().unwrap_or_default();
                let before = of_category.mark.and_then(|mark| mark.id);
                let mark = self.watermark(number, before, newest);
                let read = of_category.published - left(category);
                txn = txn.update(if (of_category.published, read) == (0, 0) {
                    self.counting.only_marked(category, &mark)
                } else {
                    let update = self.counting.category(category);
                    update.set("mark", mark.to_value()).set("read", read)
                });
                match read - of_category.read {
                    0 => all,
                    more => all.add("read", more),
                }
            }
        };
        let publics = self.newer.iter().filter_map(|newer| newer.public.zip(Some(&newer.id)));
        let come = publics.map(|((_, expires), id)| Expiring::new(id, expires)).collect();
        txn.update(take_in(all, still("rev", stats.rev), stats, come))
    }

    /// It covers all that is there, and whatever was there and has expired.
    fn watermark(&self, n: i64, before: Option<MessageId>, newest: Option<MessageId>) -> Watermark {
        let now = self.cx.now();
        let id = before.max(newest).max(Some(MessageId::last_of(now)));
        Watermark { n, id, seq: self.view.index.stats.issued, at: Some(now) }
    }
}
