//! The public messages of one inbox as they were at one revision, without their contents, ordered so that counting and
//! finding them needs no look at all of them.
//!
//! Pure. What has expired is left out by the time, whether it was swept or not.

use jiff::Timestamp;

use crate::ids::MessageId;
use crate::keys::Category;
use crate::records::{Public, PublicStats};

/// No category.
const NONE: u16 = u16::MAX;

/// One public message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    seq: i64,
    id: [u8; 17],
    category: u16,
    /// The second from which it is gone.
    expires: i64,
    /// The number of the redaction that took it, or 0.
    redacted: i64,
}

/// One public message, as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known<'a> {
    pub(crate) seq: i64,
    pub(crate) id: MessageId,
    pub(crate) category: Option<&'a Category>,
    pub(crate) expires: Timestamp,
}

/// Which messages somebody asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    after: i64,
    /// The number of a category, or any. Nothing if there is none of the category that was named.
    category: Option<Option<u16>>,
}

impl Wanted {
    fn is(self, entry: &Entry) -> bool {
        let fits = |category: Option<u16>| category.is_none_or(|number| number == entry.category);
        entry.seq > self.after && self.category.is_some_and(fits)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    /// What the counts said when it was made.
    pub(crate) stats: PublicStats,
    categories: Vec<Category>,
    /// Redacted ones too, by `seq`.
    entries: Vec<Entry>,
    /// The positions of those that can be seen, by id.
    by_id: Vec<u32>,
    /// The `seq`s of those that can be seen: all, by category, and without one.
    all: Vec<i64>,
    by_category: Vec<Vec<i64>>,
    without: Vec<i64>,
    /// The second at which it was made: what is gone by then is left out.
    pub(crate) at: i64,
    /// The second from which one of them is gone.
    until: i64,
}

impl Index {
    /// From what the public partition holds. It may be younger than the counts: what came later is left out, and what was
    /// redacted later is still there.
    pub(crate) fn new(
        stats: PublicStats,
        found: impl IntoIterator<Item = Public>,
        now: Timestamp,
    ) -> Self {
        let mut index = Self { stats, ..Self::default() };
        for public in found {
            index.push(&public);
        }
        index.arrange(now);
        index
    }

    /// The same with what came since, which must be all that came since. `None` if it is not.
    pub(crate) fn and(
        &self,
        stats: PublicStats,
        found: impl IntoIterator<Item = Public>,
        now: Timestamp,
    ) -> Option<Self> {
        let (categories, entries) = (self.categories.clone(), self.entries.clone());
        let mut index = Self { stats, categories, entries, ..Self::default() };
        let before = index.entries.len();
        for public in found.into_iter().filter(|public| public.seq > self.stats.issued) {
            index.push(&public);
        }
        let came = i64::try_from(index.entries.len() - before).ok()?;
        let is_all = came == index.stats.issued - self.stats.issued;
        (is_all && index.stats.redactions == self.stats.redactions).then(|| {
            index.arrange(now);
            index
        })
    }

    /// The same at a later time, if anything is gone by then.
    pub(crate) fn at(&self, now: Timestamp) -> Option<Self> {
        if now.as_second() < self.until {
            return None;
        }
        let mut index = Self {
            stats: self.stats.clone(),
            categories: self.categories.clone(),
            entries: self.entries.clone(),
            ..Self::default()
        };
        index.arrange(now);
        Some(index)
    }

    fn push(&mut self, public: &Public) {
        let Ok(id) = public.message.id.as_str().as_bytes().try_into() else { return };
        if public.seq > self.stats.issued {
            return;
        }
        let category = match &public.message.category {
            None => NONE,
            Some(category) => self.number_of(category),
        };
        let redacted = public.redacted.filter(|number| *number <= self.stats.redactions);
        let (seq, expires) = (public.seq, public.message.expires.as_second());
        let redacted = redacted.unwrap_or(0);
        self.entries.push(Entry { seq, id, category, expires, redacted });
    }

    fn number_of(&mut self, category: &Category) -> u16 {
        let known = self.categories.iter().position(|known| known == category);
        let number = known.unwrap_or_else(|| {
            self.categories.push(category.clone());
            self.categories.len() - 1
        });
        u16::try_from(number).unwrap_or(NONE)
    }

    fn arrange(&mut self, now: Timestamp) {
        let now = now.as_second();
        self.at = now;
        self.entries.retain(|entry| entry.expires > now);
        self.entries.sort_unstable_by_key(|entry| entry.seq);
        self.by_category = vec![Vec::new(); self.categories.len()];
        self.until = i64::MAX;
        for (position, entry) in self.entries.iter().enumerate() {
            self.until = self.until.min(entry.expires);
            if entry.redacted > 0 {
                continue;
            }
            self.all.push(entry.seq);
            self.by_category
                .get_mut(usize::from(entry.category))
                .unwrap_or(&mut self.without)
                .push(entry.seq);
            self.by_id.push(u32::try_from(position).unwrap_or(u32::MAX));
        }
        let entries = &self.entries;
        self.by_id.sort_unstable_by_key(|position| entries[*position as usize].id);
    }

    /// The second from which one of them is gone.
    pub(crate) fn until(&self) -> i64 {
        if self.entries.is_empty() { i64::MAX } else { self.until }
    }

    /// How much memory it takes, in messages.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many can be seen whose `seq` is greater.
    pub(crate) fn after(&self, seq: i64) -> i64 {
        later(&self.all, seq)
    }

    /// The categories of those that can be seen, and how many of each have a `seq` greater than what is asked for it.
    pub(crate) fn by_category<'a>(
        &'a self,
        floor: impl Fn(&Category) -> i64 + 'a,
    ) -> impl Iterator<Item = (&'a Category, i64)> {
        let counted = self.categories.iter().zip(&self.by_category);
        let counted = counted.filter(|(_, seqs)| !seqs.is_empty());
        counted.map(move |(category, seqs)| (category, later(seqs, floor(category))))
    }

    /// Whether there is a message of this category.
    pub(crate) fn knows(&self, category: &Category) -> bool {
        self.categories.contains(category)
    }

    /// How many without a category have a greater `seq`.
    pub(crate) fn without_category(&self, seq: i64) -> i64 {
        later(&self.without, seq)
    }

    /// One that can be seen.
    pub(crate) fn find(&self, id: &MessageId) -> Option<Known<'_>> {
        let place = self.place(id);
        let entry = self.entry(place).filter(|entry| entry.id == id.as_str().as_bytes())?;
        Some(self.known(entry))
    }

    /// Those that can be seen with smaller ids, the greatest first. Most of those that are not wanted may be from before somebody
    /// came, so they are passed over before anything is made of them.
    pub(crate) fn below<'a>(
        &'a self,
        id: Option<&MessageId>,
        wanted: Wanted,
    ) -> impl Iterator<Item = Known<'a>> + 'a {
        let end = id.map_or(self.by_id.len(), |id| self.place(id));
        let entries = (0..end).rev().filter_map(|place| self.entry(place));
        entries.filter(move |entry| wanted.is(entry)).map(|entry| self.known(entry))
    }

    /// Those that can be seen with greater ids, the smallest first.
    pub(crate) fn above<'a>(
        &'a self,
        id: &MessageId,
        wanted: Wanted,
    ) -> impl Iterator<Item = Known<'a>> + 'a {
        let place = self.place(id);
        let equal = self.entry(place).is_some_and(|entry| entry.id == id.as_str().as_bytes());
        let begin = place + usize::from(equal);
        let entries = (begin..self.by_id.len()).filter_map(|place| self.entry(place));
        entries.filter(move |entry| wanted.is(entry)).map(|entry| self.known(entry))
    }

    /// Those that came after this `seq`, of a category if one is named.
    pub(crate) fn wanted(&self, after: i64, category: Option<&Category>) -> Wanted {
        let number = |category| self.categories.iter().position(|known| known == category);
        let category = match category {
            None => Some(None),
            Some(category) => {
                number(category).and_then(|number| u16::try_from(number).ok()).map(Some)
            }
        };
        Wanted { after, category }
    }

    /// Those that redactions after this one took, in the order in which they were taken.
    pub(crate) fn redacted_after(&self, number: i64) -> Vec<(i64, MessageId)> {
        let taken = self.entries.iter().filter(|entry| entry.redacted > number);
        let mut taken: Vec<_> = taken.map(|entry| (entry.redacted, id_of(entry))).collect();
        taken.sort_unstable();
        taken
    }

    /// The greatest `seq` of those with smaller ids, or 0.
    pub(crate) fn latest_before(&self, id: &MessageId) -> i64 {
        let before = (0..self.place(id)).filter_map(|place| self.entry(place));
        before.map(|entry| entry.seq).max().unwrap_or(0)
    }

    /// Where an id stands, or would, among those that can be seen.
    fn place(&self, id: &MessageId) -> usize {
        let id = id.as_str().as_bytes();
        self.by_id.partition_point(|position| self.entries[*position as usize].id.as_slice() < id)
    }

    fn entry(&self, place: usize) -> Option<&Entry> {
        self.entries.get(*self.by_id.get(place)? as usize)
    }

    fn known(&self, entry: &Entry) -> Known<'_> {
        Known {
            seq: entry.seq,
            id: id_of(entry),
            category: self.categories.get(usize::from(entry.category)),
            expires: Timestamp::from_second(entry.expires).unwrap_or(Timestamp::MAX),
        }
    }
}

fn id_of(entry: &Entry) -> MessageId {
    let text = std::str::from_utf8(&entry.id).unwrap_or_default();
    text.parse().expect("it was an id when it came")
}

/// How many of these, which are in order, are greater.
fn later(seqs: &[i64], than: i64) -> i64 {
    let rest = seqs.len() - seqs.partition_point(|seq| *seq <= than);
    i64::try_from(rest).unwrap_or(i64::MAX)
}
