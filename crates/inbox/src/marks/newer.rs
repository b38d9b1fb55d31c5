//! Unread messages that came after the one up to which somebody reads: they stay unread.
//!
//! They are found by reading all that stands above that one in the user's partition. What was read is good for as long as his counts
//! are at the same `rev`. Who meets others who change them reads anew, but not forever: then he is told that they are busy.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tidings_access::Cx;
use tidings_kernel::{Condition, Expect, Query, Update, tables};

use super::{MarkError, as_receipt};
use crate::counting::Counting;
use crate::damage::readable;
use crate::ids::MessageId;
use crate::keys::{self, Category};
use crate::public::Known;
use crate::records::{Marks, Receipt, Stored};
use crate::view::View;

/// So many unread messages may be newer than the one up to which is read.
pub const MAX_NEWER: usize = 500;
/// So many items are looked at to find them: read ones and those of other categories are in between, and must not be in the way.
const MAX_LOOKED_AT: usize = 50_000;
/// Who has looked at so many, again and again, gives up.
const MAX_LOOKED_AT_IN_ALL: usize = 2 * MAX_LOOKED_AT;
const PAGE: usize = 500;

/// An unread message that stays unread.
#[derive(Debug, Clone)]
pub(super) struct Newer {
    pub(super) id: MessageId,
    pub(super) category: Option<Category>,
    /// What its receipt has to say if it is a public one.
    pub(super) public: Option<(i64, Timestamp)>,
}

/// Looking for those, as often as it takes.
pub(super) struct Search<'a> {
    cx: &'a Cx,
    counting: &'a Counting<'a>,
    id: &'a MessageId,
    category: Option<&'a Category>,
    found: Option<Above>,
    looked_at: usize,
}

/// What stands above the id in the user's partition.
#[derive(Default)]
struct Above {
    /// His counts were at this `rev` then.
    rev: i64,
    own: Vec<Newer>,
    receipts: BTreeMap<MessageId, Receipt>,
    /// The keys of receipts that nobody can read. Whether they say that something is read, nobody knows.
    unreadable: BTreeSet<String>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        cx: &'a Cx,
        counting: &'a Counting<'a>,
        id: &'a MessageId,
        category: Option<&'a Category>,
    ) -> Self {
        Self { cx, counting, id, category, found: None, looked_at: 0 }
    }

    /// The user's own, and public ones. Nothing of his is read again if nothing of his has changed.
    pub(super) async fn newer(&mut self, view: &View) -> Result<Vec<Newer>, MarkError> {
        let rev = view.balance.stats.rev;
        let above = match self.found.take().filter(|above| above.rev == rev) {
            Some(above) => above,
            None => self.read(view).await?,
        };
        let newer = self.with_publics(view, &above);
        self.found = Some(above);
        newer
    }

    /// The counts are at this `rev` now, and nothing else of his has changed.
    pub(super) fn is_as_of(&mut self, rev: i64) {
        self.found.iter_mut().for_each(|above| above.rev = rev);
    }

    async fn read(&mut self, view: &View) -> Result<Above, MarkError> {
        if self.looked_at >= MAX_LOOKED_AT_IN_ALL {
            return Err(MarkError::Busy);
        }
        let items = self.cx.items().await?;
        let mut above = Above { rev: view.balance.stats.rev, ..Above::default() };
        let (mut cursor, mut looked_at) = (None, 0);
        loop {
            // Nothing stands between the last message and `m$`: the character after # is $.
            let from = format!("{}{}", keys::MESSAGES, self.id);
            let query = Query::new(&tables::INBOX, &self.counting.partition).between(from, "m$");
            let page = items.query(query.limit(PAGE).after(cursor)).await?;
            looked_at += page.items.len();
            self.looked_at += page.items.len();
            for item in &page.items {
                match readable(self.cx, item) {
                    Some(Stored::Own(own)) if own.message.id > *self.id => {
                        let category = own.message.category.clone();
                        let is_wanted = self.wants(category.as_ref());
                        if is_wanted && !view.balance.of_own(&own).is_read() {
                            above.own.push(Newer { id: own.message.id, category, public: None });
                        }
                    }
                    Some(Stored::Receipt(receipt)) => {
                        above.receipts.insert(receipt.id.clone(), receipt);
                    }
                    Some(Stored::Own(_) | Stored::Public(_)) => {}
                    None => above.unreadable.extend(item.text("SK").map(ToOwned::to_owned)),
                }
            }
            cursor = page.cursor;
            let is_too_much = cursor.is_some() && looked_at >= MAX_LOOKED_AT;
            if above.own.len() > MAX_NEWER || is_too_much {
                return Err(MarkError::TooManyNewer(self.id.clone()));
            }
            if cursor.is_none() {
                return Ok(above);
            }
        }
    }

    fn wants(&self, category: Option<&Category>) -> bool {
        self.category.is_none() || self.category == category
    }

    fn with_publics(&self, view: &View, above: &Above) -> Result<Vec<Newer>, MarkError> {
        let mut newer = above.own.clone();
        let wanted = view.index.wanted(view.since(), self.category);
        let publics = view.index.above(self.id, wanted);
        for known in publics.filter(|known| above.is_unread(view, known)) {
            let (category, public) = (known.category.cloned(), Some((known.seq, known.expires)));
            newer.push(Newer { id: known.id, category, public });
            if newer.len() > MAX_NEWER {
                return Err(MarkError::TooManyNewer(self.id.clone()));
            }
        }
        Ok(newer)
    }
}

impl Above {
    fn is_unread(&self, view: &View, known: &Known<'_>) -> bool {
        let key = || format!("{}{}", keys::MESSAGES, known.id);
        if !self.unreadable.is_empty() && self.unreadable.contains(&key()) {
            return false;
        }
        let receipt = self.receipts.get(&known.id);
        let marks = receipt.map_or_else(Marks::default, |receipt| receipt.marks);
        !view.balance.of_public(known.category, known.seq, marks).is_read()
    }
}

impl Newer {
    /// That it is unread in spite of the read-all of this number.
    pub(super) fn flag(&self, counting: &Counting<'_>, number: i64) -> Update {
        let update = Update::new(&tables::INBOX, keys::message(&counting.partition, &self.id));
        let update = update.set("unread", number);
        let unread = Condition::not_exists("readat");
        match self.public {
            Some((seq, expires)) => as_receipt(update, self.category.as_ref(), seq, expires)
                .expect(Expect::That(unread.and(Condition::not_exists("kind")))),
            None => update.expect(Expect::That(unread.and(Condition::exists("kind")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidings_testbed::Bed;

    use super::{MAX_LOOKED_AT_IN_ALL, Search};
    use crate::counting::Counting;
    use crate::marks::MarkError;
    use crate::tests::world::{World, reader};
    use crate::view::look;

    #[tokio::test]
    async fn what_was_read_is_good_while_nothing_changes_and_is_not_read_forever() {
        let bed = Bed::memory().await;
        let world = World::new(&bed);
        let first = world.publish("ada", "").await;
        world.publish("ada", "").await;
        let (cx, ada) = (world.cx().await, reader("ada"));
        let counting = Counting::of_user(cx.workspace(), &ada.inbox, &ada.uid);
        let mut search = Search::new(&cx, &counting, &first, None);
        let found = async |search: &mut Search<'_>| {
            let view = look(&cx, &world.inbox, &ada).await.unwrap();
            search.newer(&view).await.map(|newer| newer.len())
        };
        assert_eq!(found(&mut search).await.unwrap(), 1);
        let looked_at = search.looked_at;
        // One for everyone changes nothing of hers.
        world.publish("", "").await;
        assert_eq!(found(&mut search).await.unwrap(), 2);
        assert_eq!(search.looked_at, looked_at);
        world.publish("ada", "").await;
        assert_eq!(found(&mut search).await.unwrap(), 3);
        assert!(search.looked_at > looked_at);

        search.looked_at = MAX_LOOKED_AT_IN_ALL;
        assert_eq!(found(&mut search).await.unwrap(), 3, "nothing was read for it");
        world.publish("ada", "").await;
        assert!(matches!(found(&mut search).await, Err(MarkError::Busy)));
    }
}
