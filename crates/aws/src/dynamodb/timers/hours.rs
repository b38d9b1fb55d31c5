//! Hours that have timers: which they are is noted under `TIMERS`, each in an item of its own.
//!
//! A node notes an hour before it puts the first timer into it, and remembers that it did. A note is taken away
//! when its hour has been over for another one and is empty, so that no node can still be writing to it, unless
//! their clocks are more than an hour apart. Then a node may trust in a note that another has taken away. So once
//! an hour every node also looks at past hours that have no note: two days of them when it first fires.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use tidings_kernel::{Delete, Key, Put, Query, SortRange, StoreError, Write, tables::MAIN};

use super::AT_ONCE;
use crate::dynamodb::store::Store;

const PARTITION: &str = "TIMERS";
const SECONDS: i64 = 60 * 60;
/// How many hours are looked at without a note. Who fires nothing for longer than that needs the notes.
const LOOK_BACK: i64 = 48;
/// How many hours before the last look are looked at again, for nodes whose clocks are behind.
const LOOK_AGAIN: i64 = 6;
/// Dues are spread over a year or so; what is forgotten is noted again.
const REMEMBERED: usize = 20_000;
/// Threads that read the clock one after the other may tell of it in another order.
const STEP_BACK: SignedDuration = SignedDuration::from_mins(1);

/// An hour of UTC, counted from 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Hour(i64);

impl Hour {
    pub(super) fn of(time: Timestamp) -> Self {
        Self(time.as_second().div_euclid(SECONDS))
    }

    /// Whether it ended more than an hour before.
    pub(super) fn is_long_over(self, now: Timestamp) -> bool {
        Self::of(now).0 - self.0 > 1
    }
}

impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = Timestamp::from_second(self.0 * SECONDS).expect("it is the hour of a time");
        write!(f, "{}", start.strftime("%Y-%m-%dT%H"))
    }
}

/// The hours that this process has noted.
#[derive(Default)]
pub(in crate::dynamodb) struct NotedHours(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    hours: HashSet<Hour>,
    latest: Timestamp,
    /// In which hour this process last looked at those without a note.
    looked_back: Option<Hour>,
}

impl NotedHours {
    /// Those that are not known to be noted. If the clock has gone back, none is: in the time that it tells for
    /// the second time, others may have taken the notes away.
    pub(super) fn unknown(
        &self,
        hours: impl Iterator<Item = Hour>,
        now: Timestamp,
    ) -> HashSet<Hour> {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now < noted.latest - STEP_BACK || noted.hours.len() > REMEMBERED {
            noted.hours.clear();
            noted.latest = now;
        }
        noted.latest = noted.latest.max(now);
        hours.filter(|hour| !noted.hours.contains(hour)).collect()
    }

    fn remember(&self, hour: Hour) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).hours.insert(hour);
    }

    /// The hours to look at without a note, once in every hour: those since the last look and some before, at most
    /// two days. If the clock has gone back, it is as if there had been none.
    fn look_back(&self, present: Hour) -> std::ops::Range<i64> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = present.0 - LOOK_BACK;
        match noted.looked_back {
            Some(last) if last == present => present.0..present.0,
            Some(last) if last < present => earliest.max(last.0 - LOOK_AGAIN)..present.0,
            _ => earliest..present.0,
        }
    }

    fn looked_back(&self, present: Hour) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).looked_back = Some(present);
    }

    fn forget(&self, hour: Hour) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).hours.remove(&hour);
    }
}

impl Store {
    pub(super) async fn note_hour(&self, hour: Hour) -> Result<(), StoreError> {
        let item = MAIN.bare_item(&note_key(hour)).with("hour", hour.0);
        self.write(Write::Put(Put::new(&MAIN, item))).await?;
        self.hours.remember(hour);
        Ok(())
    }

    /// The hours up to now that may have timers, the earliest first. The present one is always among them: a node
    /// with a clock that is ahead may have taken its note away.
    pub(super) async fn hours_to_look_at(&self, now: Timestamp) -> Result<Vec<Hour>, StoreError> {
        let present = Hour::of(now);
        let query = Query::new(&MAIN, PARTITION).range(SortRange::Lt(present.to_string()));
        let mut hours = Vec::new();
        let mut cursor = None;
        loop {
            let page = self.query_page(&query.clone().limit(1_000).after(cursor)).await?;
            hours.extend(page.items.iter().filter_map(|item| item.integer("hour")).map(Hour));
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
        hours.extend(self.look_back(present, &hours).await?);
        hours.sort_unstable();
        self.hours.looked_back(present);
        hours.push(present);
        Ok(hours)
    }

    /// The hours that have timers and no note. They get one again.
    async fn look_back(&self, present: Hour, noted: &[Hour]) -> Result<Vec<Hour>, StoreError> {
        let past = self.hours.look_back(present).map(Hour);
        let looks = past.filter(|hour| !noted.contains(hour)).map(|hour| async move {
            if self.is_empty(hour).await? {
                return Ok(None);
            }
            self.note_hour(hour).await?;
            Ok::<_, StoreError>(Some(hour))
        });
        let looks = stream::iter(looks).buffer_unordered(AT_ONCE);
        looks.try_filter_map(|found| async move { Ok(found) }).try_collect().await
    }

    /// Takes away the note of an hour that is long over and was found empty.
    pub(super) async fn close_hour(&self, hour: Hour) -> Result<(), StoreError> {
        self.hours.forget(hour);
        self.write(Write::Delete(Delete::new(&MAIN, note_key(hour)))).await.map(drop)
    }
}

fn note_key(hour: Hour) -> Key {
    Key::new(PARTITION, hour.to_string())
}

#[cfg(test)]
mod tests {
    use jiff::{Timestamp, ToSpan};

    use super::{Hour, NotedHours};

    fn at(time: &str) -> Timestamp {
        format!("2026-11-16T{time}Z").parse().unwrap()
    }

    #[test]
    fn an_hour_is_long_over_after_another_one() {
        let hour = Hour::of(at("06:59:59"));
        assert_eq!(hour.to_string(), "2026-11-16T06");
        assert!(!hour.is_long_over(at("06:30:00")));
        assert!(!hour.is_long_over(at("07:59:59")));
        assert!(hour.is_long_over(at("08:00:00")));
        assert!(!hour.is_long_over(at("01:00:00")));
        assert_eq!(Hour::of(Timestamp::UNIX_EPOCH - 1.second()).to_string(), "1969-12-31T23");
    }

    #[test]
    fn an_hour_is_noted_once_unless_the_clock_goes_back() {
        let noted = NotedHours::default();
        let hour = Hour::of(at("09:00:00"));
        let unknown = |now: &str| noted.unknown([hour].into_iter(), at(now)).len();
        assert_eq!(unknown("06:00:00"), 1);
        noted.remember(hour);
        assert_eq!(unknown("06:30:00"), 0);
        assert_eq!(unknown("06:29:30"), 0);
        assert_eq!(unknown("06:20:00"), 1);
        noted.remember(hour);
        assert_eq!(unknown("06:20:01"), 0);
    }
    #[test]
    fn hours_without_a_note_are_looked_at_once_an_hour() {
        let noted = NotedHours::default();
        let look = |now: &str| {
            let present = Hour::of(at(now));
            let hours = noted.look_back(present);
            noted.looked_back(present);
            hours.count()
        };
        assert_eq!(look("06:00:00"), 48);
        assert_eq!(look("06:59:59"), 0);
        assert_eq!(look("07:00:00"), 7);
        assert_eq!(look("09:00:00"), 8);
        assert_eq!(look("06:00:00"), 48);
    }
}
