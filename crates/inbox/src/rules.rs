//! What the marks of a user amount to: whether a message is read, and what it adds to the counts.
//!
//! Pure. A message is read because it was marked, or because a read-all covers it that came after it was last marked unread.
//! What is counted as read differs from what is read in one way: a public message that a read-all covers is taken out of
//! the public ones that can be unread at all, so it adds nothing when it is read, and takes one away when it is not.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::keys::Category;
use crate::records::{Marks, Watermark};

/// What a user can do to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Read,
    /// An archived message comes back by it: what is archived is never unread.
    Unread,
    Seen,
    /// Reads it too.
    Archive,
    Unarchive,
}

/// A message as one user has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'a> {
    pub(crate) marks: Marks,
    /// The latest of the read-alls that cover it.
    pub(crate) cover: Option<&'a Watermark>,
    pub(crate) is_public: bool,
}

impl Standing<'_> {
    pub(crate) fn is_read(&self) -> bool {
        self.marks.is_read(self.cover)
    }

    /// Since when it is read.
    pub(crate) fn read_at(&self) -> Option<Timestamp> {
        let covered = self.cover.filter(|_| self.is_read()).and_then(|cover| cover.at);
        self.marks.read.or(covered)
    }

    /// What it adds to `read`.
    pub(crate) fn counted(&self) -> i64 {
        let covered_public = self.is_public && self.cover.is_some();
        i64::from(self.is_read()) - i64::from(covered_public)
    }

    /// Its marks after one more, given how many read-alls there were.
    pub(crate) fn marked(&self, mark: Mark, now: Timestamp, read_alls: i64) -> Marks {
        let before = self.marks;
        match mark {
            Mark::Read | Mark::Archive => {
                let read = if self.is_read() {
                    before
                } else {
                    let seen = before.seen.or(Some(now));
                    Marks { read: Some(now), seen, unread: None, ..before }
                };
                let archived = match mark {
                    Mark::Archive => before.archived.or(Some(now)),
                    _ => before.archived,
                };
                Marks { archived, ..read }
            }
            Mark::Unread if self.is_read() => {
                let unread = self.cover.map(|_| read_alls);
                Marks { read: None, archived: None, unread, ..before }
            }
            Mark::Unread | Mark::Unarchive => Marks { archived: None, ..before },
            Mark::Seen => Marks { seen: before.seen.or(Some(now)), ..before },
        }
    }
}

/// What changes in the counts of a user: in all, and by category.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Difference {
    pub(crate) published: i64,
    pub(crate) read: i64,
    pub(crate) categories: BTreeMap<Category, (i64, i64)>,
}

impl Difference {
    /// Adds to what is published and what is read, of a message with or without a category.
    pub(crate) fn add(&mut self, category: Option<&Category>, published: i64, read: i64) {
        self.published += published;
        self.read += read;
        if let Some(category) = category {
            let sums = self.categories.entry(category.clone()).or_default();
            sums.0 += published;
            sums.1 += read;
        }
    }

    /// Those categories in which anything changes.
    pub(crate) fn changed(&self) -> impl Iterator<Item = (&Category, i64, i64)> {
        let changed = self.categories.iter().filter(|(_, sums)| **sums != (0, 0));
        changed.map(|(category, (published, read))| (category, *published, *read))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::{Mark, Standing};
    use crate::records::{Marks, Watermark};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn cover(n: i64) -> Watermark {
        Watermark { n, id: None, seq: 5, at: Some(at(n)) }
    }

    /// `r` read, `s` seen, `a` archived, `u2` unread in spite of read-all 2.
    fn told(marks: Marks) -> String {
        let mut told = String::new();
        for (set, letter) in [(marks.read, 'r'), (marks.seen, 's'), (marks.archived, 'a')] {
            if set.is_some() {
                told.push(letter);
            }
        }
        if let Some(number) = marks.unread {
            told.push_str(&format!("u{number}"));
        }
        told
    }

    fn marks(text: &str) -> Marks {
        let (letters, number) = text.split_once('u').unwrap_or((text, ""));
        let when = |letter| letters.contains(letter).then(|| at(1));
        Marks { read: when('r'), seen: when('s'), archived: when('a'), unread: number.parse().ok() }
    }

    /// What was marked, the read-all that covers it (or 0), and then what each mark makes of it, with three read-alls.
    #[track_caller]
    fn check(before: &str, covered: i64, expected: [&str; 5]) {
        let watermark = cover(covered);
        let cover = (covered > 0).then_some(&watermark);
        let standing = Standing { marks: marks(before), cover, is_public: false };
        let all = [Mark::Read, Mark::Unread, Mark::Seen, Mark::Archive, Mark::Unarchive];
        let after = all.map(|mark| told(standing.marked(mark, at(9), 3)));
        assert_eq!(after, expected, "{before:?} covered by {covered}");
    }

    #[test]
    fn marks_follow_from_those_before() {
        check("", 0, ["rs", "", "s", "rsa", ""]);
        check("s", 0, ["rs", "s", "s", "rsa", "s"]);
        check("rs", 0, ["rs", "s", "rs", "rsa", "rs"]);
        check("rsa", 0, ["rsa", "s", "rsa", "rsa", "rs"]);
        check("", 2, ["", "u3", "s", "a", ""]);
        check("rs", 2, ["rs", "su3", "rs", "rsa", "rs"]);
        check("u2", 2, ["rs", "u2", "su2", "rsa", "u2"]);
        check("u1", 2, ["u1", "u3", "su1", "au1", "u1"]);
    }

    #[test]
    fn a_covered_public_message_counts_only_when_it_is_unread() {
        let count = |text: &str, covered: i64, is_public| {
            let watermark = cover(covered);
            let cover = (covered > 0).then_some(&watermark);
            Standing { marks: marks(text), cover, is_public }.counted()
        };
        assert_eq!(["", "r", "u2"].map(|marks| count(marks, 0, false)), [0, 1, 0]);
        assert_eq!(["", "r", "u2", "u1"].map(|marks| count(marks, 2, false)), [1, 1, 0, 1]);
        assert_eq!(["", "r"].map(|marks| count(marks, 0, true)), [0, 1]);
        assert_eq!(["", "r", "u2", "u1"].map(|marks| count(marks, 2, true)), [0, 0, -1, 0]);
    }

    #[test]
    fn the_first_read_is_the_one_that_is_told() {
        let watermark = cover(2);
        let standing =
            |text: &str| Standing { marks: marks(text), cover: Some(&watermark), is_public: true };
        assert_eq!(standing("r").read_at(), Some(at(1)));
        assert_eq!(standing("").read_at(), Some(at(2)));
        assert_eq!(standing("u2").read_at(), None);
    }

    fn any_mark() -> impl Strategy<Value = Mark> {
        prop_oneof![
            Just(Mark::Read),
            Just(Mark::Unread),
            Just(Mark::Seen),
            Just(Mark::Archive),
            Just(Mark::Unarchive)
        ]
    }

    proptest! {
        /// Whatever is marked in whatever order: a mark twice is a mark once, reading reads, and the count follows.
        #[test]
        fn marks_do_what_they_say(
            steps in proptest::collection::vec((any_mark(), any::<bool>()), 1..12), is_public: bool,
        ) {
            let (mut marks, mut covers, mut latest) = (Marks::default(), 0, None);
            for (mark, cover_first) in steps {
                if cover_first {
                    covers += 1;
                    latest = Some(cover(covers));
                }
                let standing = |marks| Standing { marks, cover: latest.as_ref(), is_public };
                let before = standing(marks);
                let after = standing(before.marked(mark, at(9), covers));
                prop_assert_eq!(after.marked(mark, at(10), covers), after.marks);
                match mark {
                    Mark::Read | Mark::Archive => prop_assert!(after.is_read()),
                    Mark::Unread => prop_assert!(!after.is_read()),
                    Mark::Seen | Mark::Unarchive => prop_assert_eq!(after.is_read(), before.is_read()),
                }
                let changed = i64::from(after.is_read()) - i64::from(before.is_read());
                prop_assert_eq!(after.counted() - before.counted(), changed);
                prop_assert_eq!(after.marks.archived.is_some() && !after.is_read(), false);
                marks = after.marks;
            }
        }
    }
}
