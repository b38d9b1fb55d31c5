//! The counts of one partition with the read-alls in them: what everything that is marked there is judged by.

use std::collections::BTreeMap;

use tidings_access::{Cx, StorageError};
use tidings_kernel::{Item, Query, StoreError, tables};

use crate::ids::MessageId;
use crate::keys::{self, Category, Sort};
use crate::records::{CategoryStats, Marks, Own, Receipt, Stored, UserStats, Watermark};
use crate::rules::Standing;

/// An inbox has at most 50 categories at a time, and read-alls of others are few, so this is nearly always all. It is few enough for a glance.
const PAGE: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Balance {
    /// Whether anything was ever counted.
    pub(crate) exists: bool,
    pub(crate) stats: UserStats,
    pub(crate) categories: BTreeMap<Category, CategoryStats>,
    /// The counts were as they are when those of everyone were at this `rev`.
    pub(crate) met: i64,
}

impl Balance {
    pub(crate) async fn load(cx: &Cx, partition: &str) -> Result<Self, StorageError> {
        let items = cx.items().await?;
        let (mut balance, mut cursor) = (Self::default(), None);
        loop {
            let query = Query::new(&tables::INBOX, partition).begins_with(keys::COUNTS);
            let page = items.query(query.limit(PAGE).after(cursor)).await?;
            for item in &page.items {
                balance.add(item)?;
            }
            cursor = page.cursor;
            if cursor.is_none() {
                return Ok(balance);
            }
        }
    }

    fn add(&mut self, item: &Item) -> Result<(), StoreError> {
        match item.text("SK").and_then(Sort::parse) {
            Some(Sort::Counts) => {
                self.exists = true;
                self.stats = UserStats::read(Some(item))?;
            }
            Some(Sort::CategoryCounts(category)) => {
                self.categories.insert(category, CategoryStats::read(Some(item))?);
            }
            Some(Sort::Message(_) | Sort::CountedOut(_)) | None => {}
        }
        Ok(())
    }

    /// Categories whose counts say nothing.
    pub(crate) fn empty(&self) -> impl Iterator<Item = (&Category, &CategoryStats)> {
        self.categories.iter().filter(|(_, stats)| stats.is_empty() && stats.mark.is_none())
    }

    pub(crate) fn without_empty(&self) -> Self {
        let mut categories = self.categories.clone();
        categories.retain(|_, stats| !stats.is_empty() || stats.mark.is_some());
        Self { exists: self.exists, stats: self.stats.clone(), categories, met: self.met }
    }

    pub(crate) fn of_own(&self, own: &Own) -> Standing<'_> {
        let (category, id) = (own.message.category.as_ref(), &own.message.id);
        Standing { marks: own.marks, cover: self.cover_of_own(category, id), is_public: false }
    }

    pub(crate) fn of_receipt(&self, receipt: &Receipt) -> Standing<'_> {
        self.of_public(receipt.category.as_ref(), receipt.seq, receipt.marks)
    }

    /// How a public message stands with these marks.
    pub(crate) fn of_public(
        &self,
        category: Option<&Category>,
        seq: i64,
        marks: Marks,
    ) -> Standing<'_> {
        let category = category.and_then(|category| self.categories.get(category));
        let cover = self.stats.covering_seq(category, seq).max_by_key(|mark| mark.n);
        Standing { marks, cover, is_public: true }
    }

    /// The latest read-all that covers a message of the user's own.
    fn cover_of_own(&self, category: Option<&Category>, id: &MessageId) -> Option<&Watermark> {
        let category = category.and_then(|category| self.categories.get(category));
        self.stats.covering_id(category, id).max_by_key(|mark| mark.n)
    }

    /// A message of the user's own that he has not read, with its category: of its end his timeline is told.
    pub(crate) fn unread<'a>(
        &self,
        stored: &'a Stored,
    ) -> Option<(&'a MessageId, Option<&'a Category>)> {
        let Stored::Own(own) = stored else { return None };
        let message = &own.message;
        (!self.of_own(own).is_read()).then_some((&message.id, message.category.as_ref()))
    }

    /// What an item adds to what is published and what is read. What was redacted adds nothing any more, nor does what was past
    /// its time when the counts were put right.
    pub(crate) fn added(&self, stored: &Stored) -> (i64, i64) {
        match stored {
            _ if stored.expires().as_second() <= self.stats.settled => (0, 0),
            Stored::Own(own) => (1, self.of_own(own).counted()),
            Stored::Receipt(receipt) => (0, self.of_receipt(receipt).counted()),
            Stored::Public(public) => (i64::from(public.redacted.is_none()), 0),
        }
    }
}

/// The category of whatever stands under the key of a message.
pub(crate) fn category_of(stored: &Stored) -> Option<&Category> {
    match stored {
        Stored::Own(own) => own.message.category.as_ref(),
        Stored::Public(public) => public.message.category.as_ref(),
        Stored::Receipt(receipt) => receipt.category.as_ref(),
    }
}
