//! Pages and counts of inboxes that were made a moment ago. Most of what an app asks for has not changed since it asked last.
//!
//! A page is good for as long as the counts of its inbox have the same `rev`, which every request reads, and none of its
//! messages has expired. So whoever asks gets what is true now, and the messages are read only when they changed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use axum::http::HeaderValue;
use jiff::{SignedDuration, Timestamp};

/// What all pages of a node may take.
const MAX_BYTES: usize = 32 << 20;
/// What one costs beside its text.
const COST: usize = 300;
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
}

/// Those that were used lately, and those that were used before them. When the former fill their half, they become the
/// latter, whose place they take.
#[derive(Debug, Default)]
pub(in crate::v1) struct Pages(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<String, Page>,
    young_bytes: usize,
    old: HashMap<String, Page>,
}

impl Pages {
    /// The page of this name, if it is still that of this `rev`.
    pub(super) fn get(&self, name: &str, rev: &str, now: Timestamp) -> Option<Answer> {
        let mut pages = self.lock();
        if !pages.young.contains_key(name) {
            let (name, page) = pages.old.remove_entry(name)?;
            pages.add(name, page);
        }
        let page = pages.young.get(name)?;
        (page.rev == rev && now < page.until).then(|| page.answer.clone())
    }

    /// Keeps a page that was made of this `rev` until the first of its messages expires.
    pub(super) fn keep(
        &self,
        name: String,
        rev: String,
        (now, first_expires): (Timestamp, Option<Timestamp>),
        answer: Answer,
    ) {
        let longest = now.checked_add(LONGEST).unwrap_or(now);
        let until = first_expires.map_or(longest, |expires| expires.min(longest));
        self.lock().add(name, Page { rev, until, answer });
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn add(&mut self, name: String, page: Page) {
        self.old.remove(&name);
        self.young_bytes += size(&name, &page);
        let length = name.len();
        if let Some(before) = self.young.insert(name, page) {
            self.young_bytes -= length + before.answer.text.len() + COST;
        }
        if self.young_bytes > MAX_BYTES / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
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

    use super::{Answer, COST, MAX_BYTES, Pages};

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
        pages.keep("ada".into(), "1.1".into(), (at(100), Some(at(110))), answer("one"));
        assert_eq!(text(&pages, "ada", "1.1", 109).as_deref(), Some("one"));
        assert_eq!(text(&pages, "ada", "1.1", 110), None);
        assert_eq!(text(&pages, "ada", "2.1", 105), None);
        assert_eq!(text(&pages, "bob", "1.1", 105), None);
        pages.keep("ada".into(), "2.1".into(), (at(100), None), answer("two"));
        assert_eq!(text(&pages, "ada", "2.1", 159).as_deref(), Some("two"));
        assert_eq!(text(&pages, "ada", "1.1", 105), None);
        assert_eq!(text(&pages, "ada", "2.1", 160), None, "not for ever");
    }

    #[test]
    fn what_is_used_stays_and_the_memory_is_bounded() {
        let pages = Pages::default();
        let now = (at(0), Some(at(0) + SignedDuration::from_hours(1)));
        pages.keep("used".into(), "1".into(), now, answer("here"));
        let long = "x".repeat(1 << 20);
        for number in 0..100 {
            pages.keep(format!("{number}"), "1".into(), now, answer(&long));
            assert_eq!(text(&pages, "used", "1", 1).as_deref(), Some("here"), "{number}");
            let kept = pages.lock();
            let all = kept.young.values().chain(kept.old.values());
            let bytes: usize = all.map(|page| page.answer.text.len() + COST).sum();
            assert!(bytes <= MAX_BYTES + long.len(), "{bytes}");
        }
        assert_eq!(text(&pages, "0", "1", 1), None);
        assert!(text(&pages, "99", "1", 1).is_some());
    }

    #[test]
    fn a_page_that_is_made_anew_counts_once() {
        let pages = Pages::default();
        for number in 0..1_000 {
            pages.keep("one".into(), format!("{number}"), (at(0), None), answer("text"));
        }
        let kept = pages.lock();
        assert_eq!(kept.young_bytes, "one".len() + "text".len() + COST);
    }
}
