//! How far it is known what expires next, so that a look at an inbox need not walk over all of it each time something does.
//!
//! A walk (`overdue`) lists the soonest of what it meets, in `e#next`. The `horizon` is the first second at which something is gone that
//! is not on the list, so a walk is due only then: once for as many as a list has. What is counted in later is gone later as a rule, and
//! past the horizon: nothing is written for it. What is gone before (a code among newsletters) is added to a few in the counts,
//! `early`, which are written anyway, or, if those are full, the horizon comes down to it. It comes down too where it is at no time at all:
//! then the list has everything, so that the walk is short.
//!
//! Nobody else changes the list, whatever comes and goes: all that it says is where to look, and what is gone already is not found there.
//! It changes with the counts, under their `rev`, so that whoever has read both before he changes anything has read what belongs together.
//! Where it is missing, or was never made, `soonest` is the horizon.

use std::collections::BTreeSet;

use tidings_kernel::{Condition, Expect, Update};

use crate::records::{EARLY, Expiring, HORIZON, SOONEST, UserStats};

/// Nothing that is counted expires: no second that anything has is so late.
pub(crate) const NEVER: i64 = 1 << 40;
/// So many are in `early`. With them the counts are no larger than a kilobyte, by which a store may ask for writing them.
const ROOM: usize = if cfg!(test) { 3 } else { 16 };

/// Takes into `c#*` that these are counted from now on. It expects that they are on the side of `soonest` and of the horizon on which they
/// were, and what is said besides. So others who do the same at the same time are not in the way as a rule.
pub(crate) fn take_in(
    all: Update,
    besides: Condition,
    stats: &UserStats,
    mut come: Vec<Expiring>,
) -> Update {
    come.sort();
    let Some(first) = come.first().map(|one| one.second) else {
        return all.expect(Expect::That(besides));
    };
    if stats.rev == 0 && stats.soonest.is_none() {
        // These counts are made by this, and there is nothing else in them.
        let new = besides.and(Condition::not_exists("rev"));
        return all.set(SOONEST, first).expect(Expect::That(new));
    }
    let (all, expected) = lower(all, SOONEST, stats.soonest, first);
    let early = early(stats, &come);
    let all = match early {
        [] => all,
        early => all.add_to_set(EARLY, Expiring::to_value(early)),
    };
    // Those that are in `early` are found wherever the horizon goes.
    let (all, expected) = match come.get(early.len()).map(|one| one.second) {
        Some(beyond) => {
            let (all, side) = lower(all, HORIZON, stats.horizon, beyond);
            (all, expected.and(side))
        }
        None => (all, expected),
    };
    all.expect(Expect::That(besides.and(expected)))
}

/// Those, of all in their order, that go into `early`.
fn early<'a>(stats: &UserStats, come: &'a [Expiring]) -> &'a [Expiring] {
    let horizon = stats.horizon.filter(|horizon| *horizon < NEVER);
    let before = come.partition_point(|one| horizon.is_some_and(|horizon| one.second < horizon));
    &come[..before.min(ROOM.saturating_sub(stats.early.len()))]
}

/// Makes a second no later than another, and tells what that expects of it. One that is not there stays so.
fn lower(all: Update, name: &'static str, before: Option<i64>, second: i64) -> (Update, Condition) {
    match before {
        Some(before) if before <= second => (all, Condition::Le(name.into(), second.into())),
        Some(_) => (all.set(name, second), Condition::Gt(name.into(), second.into())),
        // Whoever looks next finds out.
        None => (all, Condition::not_exists(name)),
    }
}

/// The soonest of all that a walk meets: as many as are listed.
pub(crate) struct Soonest {
    pub(crate) listed: BTreeSet<Expiring>,
    pub(crate) horizon: i64,
    max: usize,
}

impl Soonest {
    pub(crate) fn new(max: usize) -> Self {
        Self { listed: BTreeSet::new(), horizon: NEVER, max }
    }

    pub(crate) fn add(&mut self, second: i64, sort: &str) {
        if second >= self.horizon {
            return;
        }
        self.listed.insert(Expiring { second, sort: sort.to_owned() });
        if self.listed.len() > self.max {
            let last = self.listed.pop_last();
            self.horizon = last.map_or(self.horizon, |last| last.second);
        }
    }

    /// When to look again.
    pub(crate) fn first(&self) -> i64 {
        self.listed.first().map_or(self.horizon, |first| first.second)
    }
}

#[cfg(test)]
mod tests {
    use tidings_kernel::{Condition, Expect, Key, Update, tables};

    use super::{NEVER, ROOM, Soonest, take_in};
    use crate::records::{Expiring, UserStats};

    fn expiring(second: i64) -> Expiring {
        Expiring { second, sort: format!("m#{second}") }
    }

    /// The counts after these have come, as `soonest horizon early`, and whether they came.
    fn after(stats: &UserStats, stored: &UserStats, come: &[i64]) -> (String, bool) {
        let item = |stats: &UserStats| {
            let names = ("acme".parse().unwrap(), "app".parse().unwrap(), "ada".parse().unwrap());
            stats.to_item(&names.0, &names.1, &names.2)
        };
        let update = Update::new(&tables::INBOX, Key::new("t#acmeU#ada#app", "c#*"));
        let come = come.iter().copied().map(expiring).collect();
        let update = take_in(update, Condition::exists("kind"), stats, come);
        let current = item(stored);
        let Expect::That(condition) = &update.expect else { panic!("it expects something") };
        if !condition.holds(&current) {
            return (String::new(), false);
        }
        let after = update.apply(Some(&current)).unwrap().unwrap();
        let after = UserStats::read(Some(&after)).unwrap();
        let told = |second: Option<i64>| match second {
            None => "?".to_owned(),
            Some(NEVER) => "never".to_owned(),
            Some(second) => second.to_string(),
        };
        let early: Vec<_> = after.early.iter().map(|one| one.second.to_string()).collect();
        let told = format!("{} {} [{}]", told(after.soonest), told(after.horizon), early.join(" "));
        (told, true)
    }

    fn stats(soonest: Option<i64>, horizon: Option<i64>, early: &[i64]) -> UserStats {
        let early = early.iter().copied().map(expiring).collect();
        UserStats { rev: 1, soonest, horizon, early, ..UserStats::default() }
    }

    #[test]
    fn what_comes_is_listed_or_past_the_horizon() {
        assert_eq!(ROOM, 3);
        let check = |before: (Option<i64>, Option<i64>, &[i64]), come: &[i64], wanted: &str| {
            let before = stats(before.0, before.1, before.2);
            assert_eq!(after(&before, &before, come), (wanted.to_owned(), true), "{before:?}");
        };
        let (some, never) = (Some(10), Some(NEVER));
        // As a rule what comes later is gone later.
        check((some, Some(50), &[]), &[60], "10 50 []");
        check((some, Some(50), &[]), &[50], "10 50 []");
        check((some, Some(50), &[20]), &[60, 70], "10 50 [20]");
        check((some, Some(50), &[]), &[40], "10 50 [40]");
        check((some, Some(50), &[]), &[5], "5 50 [5]");
        check((some, Some(50), &[]), &[60, 40, 5], "5 50 [5 40]");
        // There is room for three.
        check((some, Some(50), &[20, 30, 40]), &[45], "10 45 [20 30 40]");
        check((some, Some(50), &[20, 30]), &[47, 46, 45], "10 46 [20 30 45]");
        check((some, Some(50), &[20, 30, 40, 41, 42]), &[45], "10 45 [20 30 40 41 42]");
        // All are listed.
        check((some, never, &[]), &[40], "10 40 []");
        check((never, never, &[]), &[40, 50], "40 40 []");
        // There is no list, or nobody knows.
        check((some, None, &[]), &[40], "10 ? []");
        check((some, None, &[]), &[5], "5 ? []");
        check((None, None, &[]), &[5], "? ? []");
        check((some, Some(50), &[]), &[], "10 50 []");
    }

    #[test]
    fn counts_that_begin_have_no_list() {
        let none = UserStats::default();
        let update = Update::new(&tables::INBOX, Key::new("t#acmeU#ada#app", "c#*"));
        let come = vec![expiring(7), expiring(5)];
        let update = take_in(update, Condition::not_exists("all"), &none, come);
        let made = UserStats::read(update.apply(None).unwrap().as_ref()).unwrap();
        assert_eq!((made.soonest, made.horizon), (Some(5), None));
    }

    #[test]
    fn who_comes_at_the_same_time_is_in_the_way_only_on_another_side() {
        let loaded = stats(Some(10), Some(50), &[]);
        let check = |now: UserStats, come: i64, wanted: Option<&str>| {
            let (told, came) = after(&loaded, &now, &[come]);
            assert_eq!(came.then_some(told.as_str()), wanted, "{now:?}");
        };
        check(stats(Some(10), Some(70), &[]), 60, None);
        check(stats(Some(10), Some(40), &[]), 60, Some("10 40 []"));
        check(stats(Some(10), Some(70), &[]), 45, Some("10 70 [45]"));
        check(stats(Some(10), Some(40), &[45]), 45, Some("10 40 [45]"));
        check(stats(Some(60), Some(70), &[]), 45, None);
        check(stats(None, None, &[]), 60, None);
    }

    #[test]
    fn a_walk_lists_the_soonest() {
        let check = |met: &[i64], wanted: (&[i64], i64, i64)| {
            let mut soonest = Soonest::new(3);
            for second in met {
                soonest.add(*second, &format!("m#{second}"));
            }
            let listed: Vec<_> = soonest.listed.iter().map(|one| one.second).collect();
            assert_eq!((listed.as_slice(), soonest.first(), soonest.horizon), wanted);
        };
        check(&[], (&[], NEVER, NEVER));
        check(&[3, 1, 2], (&[1, 2, 3], 1, NEVER));
        check(&[3, 1, 2, 4], (&[1, 2, 3], 1, 4));
        check(&[4, 3, 1, 2, 9, 8], (&[1, 2, 3], 1, 4));
        check(&[9, 8, 7, 6, 5], (&[5, 6, 7], 5, 8));
        let mut same = Soonest::new(2);
        for number in 0..5 {
            same.add(7, &format!("m#{number}"));
        }
        assert_eq!((same.listed.len(), same.first(), same.horizon), (2, 7, 7));
    }
}
