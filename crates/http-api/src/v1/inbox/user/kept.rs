//! Pages and counts of inboxes that were made a moment ago. Most of what an app asks for has not changed since it asked last.
//!
//! A page is good for as long as the counts of its inbox have the same `rev`, which every request reads, and none of its
//! messages has expired. So whoever asks gets what is true now, and the messages are read only when they changed.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::http::HeaderValue;
use jiff::{SignedDuration, Timestamp};

/// What all pages of a node may take.
const MAX_BYTES: usize = 32 << 20;
/// What one costs beside its text.
const COST: usize = 400;
/// Messages that are not on a page expire too, and then there may be no next one.
const LONGEST: SignedDuration = SignedDuration::from_secs(60);

/// An answer with the tag by which a browser asks whether it has changed.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) text: Bytes,
    pub(super) tag: HeaderValue,
}

#[derive(Debug)]
struct Page {
    rev: String,
    until: Timestamp,
    answer: Answer,
    /// The number of its last use.
    used: u64,
}

/// Those that were used last. What was not used for longest makes room.
#[derive(Debug, Default)]
pub(in crate::v1) struct Pages(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    pages: HashMap<Arc<str>, Page>,
    /// The names by their last use.
    order: BTreeMap<u64, Arc<str>>,
    uses: u64,
    bytes: usize,
}

impl Pages {
    /// The page of this name, if it is still that of this `rev`.
    pub(super) fn get(&self, name: &str, rev: &str, now: Timestamp) -> Option<Answer> {
        self.lock().get(name, rev, now)
    }

    /// Keeps a page that was made of this `rev` until the first of its messages expires.
    pub(super) fn keep(
        &self,
        name: &str,
        rev: String,
        (now, first_expires): (Timestamp, Option<Timestamp>),
        answer: Answer,
    ) {
        let longest = now.checked_add(LONGEST).unwrap_or(now);
        let until = first_expires.map_or(longest, |expires| expires.min(longest));
        self.lock().keep(name, Page { rev, until, answer, used: 0 });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn get(&mut self, name: &str, rev: &str, now: Timestamp) -> Option<Answer> {
        let page = self.pages.get_mut(name)?;
        if page.rev != rev || now >= page.until {
            return None;
        }
        self.uses += 1;
        let name = self.order.remove(&page.used)?;
        self.order.insert(self.uses, name);
        page.used = self.uses;
        Some(page.answer.clone())
    }

    fn keep(&mut self, name: &str, page: Page) {
        self.forget(name);
        self.uses += 1;
        self.bytes += size(name, &page);
        let name: Arc<str> = name.into();
        self.order.insert(self.uses, Arc::clone(&name));
        self.pages.insert(name, Page { used: self.uses, ..page });
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.order.first_entry().map(|oldest| Arc::clone(oldest.get()))
            else {
                return;
            };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, name: &str) {
        if let Some(page) = self.pages.remove(name) {
            self.order.remove(&page.used);
            self.bytes -= size(name, &page);
        }
    }
}

fn size(name: &str, page: &Page) -> usize {
    name.len() + page.answer.text.len() + COST
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use axum::http::HeaderValue;
    use jiff::{SignedDuration, Timestamp};

    use super::{Answer, COST, MAX_BYTES, Pages, size};

    fn answer(text: &str) -> Answer {
        Answer { text: Bytes::from(text.to_owned()), tag: HeaderValue::from_static("\"a\"") }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn text(pages: &Pages, name: &str, rev: &str, now: i64) -> Option<String> {
        let kept = pages.get(name, rev, at(now))?;
        Some(String::from_utf8(kept.text.to_vec()).unwrap())
    }

    #[test]
    fn a_page_is_good_for_its_rev_until_a_message_of_it_expires() {
        let pages = Pages::default();
        pages.keep("ada", "1.1".into(), (at(100), Some(at(110))), answer("one"));
        assert_eq!(text(&pages, "ada", "1.1", 109).as_deref(), Some("one"));
        assert_eq!(text(&pages, "ada", "1.1", 110), None);
        assert_eq!(text(&pages, "ada", "2.1", 105), None);
        assert_eq!(text(&pages, "bob", "1.1", 105), None);
        pages.keep("ada", "2.1".into(), (at(100), None), answer("two"));
        assert_eq!(text(&pages, "ada", "2.1", 159).as_deref(), Some("two"));
        assert_eq!(text(&pages, "ada", "1.1", 105), None);
        assert_eq!(text(&pages, "ada", "2.1", 160), None, "not for ever");
    }

    #[test]
    fn what_is_used_stays_and_the_memory_is_bounded() {
        let pages = Pages::default();
        let now = (at(0), Some(at(0) + SignedDuration::from_hours(1)));
        pages.keep("used", "1".into(), now, answer("here"));
        let long = "x".repeat(1 << 20);
        for number in 0..100 {
            pages.keep(&format!("{number}"), "1".into(), now, answer(&long));
            assert_eq!(text(&pages, "used", "1", 1).as_deref(), Some("here"), "{number}");
            let kept = pages.lock();
            let bytes: usize = kept.pages.iter().map(|(name, page)| size(name, page)).sum();
            assert!(bytes == kept.bytes && bytes <= MAX_BYTES, "{bytes}");
            assert_eq!(kept.pages.len(), kept.order.len());
        }
        assert_eq!(text(&pages, "0", "1", 1), None);
        assert!(text(&pages, "99", "1", 1).is_some());
    }

    #[test]
    fn all_stay_that_there_is_room_for_however_they_are_used() {
        let pages = Pages::default();
        let now = (at(0), Some(at(0) + SignedDuration::from_hours(1)));
        let long = "x".repeat(10_000);
        let names: Vec<_> = (0..MAX_BYTES / 11_000).map(|number| format!("{number}")).collect();
        names.iter().for_each(|name| pages.keep(name, "1".into(), now, answer(&long)));
        for _ in 0..2 {
            assert!(names.iter().all(|name| text(&pages, name, "1", 1).is_some()));
        }
    }

    #[test]
    fn a_page_that_is_made_anew_counts_once() {
        let pages = Pages::default();
        for number in 0..1_000 {
            pages.keep("one", format!("{number}"), (at(0), None), answer("text"));
        }
        let kept = pages.lock();
        let sizes = (kept.bytes, kept.pages.len(), kept.order.len());
        assert_eq!(sizes, ("one".len() + "text".len() + COST, 1, 1));
    }
}
