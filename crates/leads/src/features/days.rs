//! The days of a state as they are written: each a short list of numbers, the day first, such as `[20260630,0,2,1]`.
//!
//! Whoever is there every day has 91 of them, read and written with every event: so they are to be small, and quick to read. The
//! order is that of `Day`, and what is nothing at the end is left out. Read are also those that an earlier program wrote: a map by days.

use std::collections::BTreeMap;
use std::fmt;

use jiff::civil::Date;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserializer, Serialize, Serializer};

use super::state::Day;

/// A day and its numbers, which are so many at most.
const NUMBERS: usize = 8;

pub(super) fn serialize<S: Serializer>(
    days: &BTreeMap<Date, Day>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(days.iter().map(|(date, day)| Line(numbers(*date, day))))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<Date, Day>, D::Error> {
    deserializer.deserialize_any(Days)
}

struct Line([Option<i64>; NUMBERS]);

impl Serialize for Line {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_something = |number: &Option<i64>| number.is_some_and(|number| number != 0);
        let length = self.0.iter().rposition(is_something).map_or(0, |last| last + 1);
        serializer.collect_seq(&self.0[..length])
    }
}

fn numbers(date: Date, day: &Day) -> [Option<i64>; NUMBERS] {
    let (year, month, of_month) = (i64::from(date.year()), date.month(), date.day());
    [
        Some((year * 100 + i64::from(month)) * 100 + i64::from(of_month)),
        Some(day.purchases),
        Some(day.opens),
        Some(day.clicks),
        Some(day.moods),
        Some(day.mood_sum),
        day.last_received_at,
        day.last_sent_at,
    ]
}

/// `None` for what is no day, or has more numbers than there are.
fn day(numbers: &[Option<i64>]) -> Option<(Date, Day)> {
    if numbers.len() > NUMBERS {
        return None;
    }
    let at = |place: usize| numbers.get(place).copied().flatten();
    let written = at(0)?;
    let date = Date::new(
        i16::try_from(written / 10_000).ok()?,
        i8::try_from(written / 100 % 100).ok()?,
        i8::try_from(written % 100).ok()?,
    );
    let count = |place: usize| at(place).unwrap_or(0);
    let day = Day {
        purchases: count(1),
        opens: count(2),
        clicks: count(3),
        moods: count(4),
        mood_sum: count(5),
        last_received_at: at(6),
        last_sent_at: at(7),
    };
    Some((date.ok()?, day))
}

struct Days;

impl<'de> Visitor<'de> for Days {
    type Value = BTreeMap<Date, Day>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("days")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut days = BTreeMap::new();
        while let Some(line) = seq.next_element::<Vec<Option<i64>>>()? {
            let (date, day) = day(&line).ok_or_else(|| A::Error::custom("no day"))?;
            days.insert(date, day);
        }
        Ok(days)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut days = BTreeMap::new();
        while let Some((date, day)) = map.next_entry()? {
            days.insert(date, day);
        }
        Ok(days)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::civil::date;
    use serde_json::json;

    use crate::features::state::{Day, State};

    #[test]
    fn a_day_is_a_short_list_and_reads_back() {
        let days = BTreeMap::from([
            (date(2026, 1, 3), Day { opens: 2, clicks: 1, ..Day::default() }),
            (date(2026, 12, 31), Day { last_sent_at: Some(5), ..Day::default() }),
            (date(2027, 2, 1), Day { moods: 1, mood_sum: -3, ..Day::default() }),
        ]);
        let mut state = State::default();
        state.days = days;
        let text = serde_json::to_string(&state).unwrap();
        assert_eq!(
            text,
            r#"{"days":[[20260103,0,2,1],[20261231,0,0,0,0,0,null,5],[20270201,0,0,0,1,-3]]}"#
        );
        assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
    }

    #[test]
    fn days_of_earlier_programs_are_read_and_what_is_none_is_not() {
        let read = |days| serde_json::from_value::<State>(json!({ "days": days }));
        let state = read(json!({"2026-01-03": {"opens": 2, "last_sent_at": 7}})).unwrap();
        let day = Day { opens: 2, last_sent_at: Some(7), ..Day::default() };
        assert_eq!(state.days, BTreeMap::from([(date(2026, 1, 3), day)]));
        for wrong in
            [json!([[20_261_301]]), json!([[]]), json!([[20_260_103, 1, 2, 3, 4, 5, 6, 7, 8]])]
        {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
