//! How times are written: how long (`2 days 4 hours`), what time of the day (`09:00`), which day, where.

use std::ops::RangeInclusive;
use std::time::Duration;

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::fields::{Fields, Node, Reader};

const HOUR: u64 = 60;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;
/// Each with its minutes. The first name of each is how it is written in an object.
const UNITS: [(&[&str], u64); 4] = [
    (&["weeks", "week", "w"], 7 * DAY),
    (&["days", "day", "d"], DAY),
    (&["hours", "hour", "h"], HOUR),
    (&["minutes", "minute", "min", "m"], 1),
];

/// How long something may take.
pub(super) struct Bounds {
    /// In minutes.
    within: RangeInclusive<u64>,
    /// What to do instead of nothing.
    instead: &'static str,
}

pub(super) const OF_WAIT: Bounds = Bounds {
    within: 1..=5 * YEAR,
    instead: "a wait takes 1 minute at least; leave the step out to go on at once",
};
pub(super) const OF_WAIT_FOR: Bounds = Bounds {
    within: 1..=5 * YEAR,
    instead: "the event gets 1 minute at least; leave the step out to go on at once",
};
pub(super) const OF_TIMEOUT: Bounds =
    Bounds { within: 1..=10 * YEAR, instead: "it is 1 minute at least; leave it out for 1 year" };
pub(super) const OF_REENTRY: Bounds = Bounds {
    within: 1..=10 * YEAR,
    instead: "it is 1 minute at least; use reentry: restart to let everybody in again at once",
};

impl Reader {
    pub(super) fn duration(&mut self, node: &Node<'_>, bounds: &Bounds) -> Option<Duration> {
        let minutes = match node.value {
            Value::String(text) => self.told(read_duration(text), &node.pointer)?,
            Value::Object(_) => {
                let names: Vec<_> = UNITS.iter().map(|(names, _)| names[0]).collect();
                let before = self.faults.len();
                let fields = self.object(node, &names, "how long")?;
                let minutes = self.units(&fields)?;
                // What is misspelt is not nothing.
                if self.faults.len() > before {
                    return None;
                }
                minutes
            }
            Value::Number(_) => {
                return self.wrong(&node.pointer, "say the unit too, such as 2 days or 30 minutes");
            }
            Value::Null | Value::Bool(_) | Value::Array(_) => {
                return self.wrong(&node.pointer, "use how long, such as 2 days or 4 hours");
            }
        };
        if minutes == 0 {
            return self.wrong(&node.pointer, bounds.instead);
        }
        if !bounds.within.contains(&minutes) {
            let years = bounds.within.end() / YEAR;
            return self.wrong(&node.pointer, format!("use at most {years} years"));
        }
        Some(Duration::from_secs(minutes * 60))
    }

    fn units(&mut self, fields: &Fields<'_>) -> Option<u64> {
        let mut minutes = 0_u64;
        for (names, unit) in UNITS {
            let Some(node) = fields.get(names[0]) else { continue };
            let Some(count) = node.value.as_u64() else {
                return self.wrong(&node.pointer, "use a whole number that is not negative");
            };
            minutes = minutes.saturating_add(count.saturating_mul(unit));
        }
        Some(minutes)
    }

    /// A time of the day.
    pub(super) fn time(&mut self, node: &Node<'_>) -> Option<Time> {
        let text = self.text(node)?.trim();
        match read_time(text) {
            Some(time) => Some(time),
            None if text == "24:00" => self.wrong(&node.pointer, "use \"00:00\" for midnight"),
            None => self.wrong(&node.pointer, "use a time such as \"09:00\""),
        }
    }

    pub(super) fn weekday(&mut self, node: &Node<'_>) -> Option<Weekday> {
        let text = self.text(node)?.trim().to_ascii_lowercase();
        let found = WEEKDAYS.iter().find(|(short, long, _)| text == *short || text == *long);
        match found {
            Some((_, _, day)) => Some(*day),
            None => self.wrong(&node.pointer, "use mon, tue, wed, thu, fri, sat or sun"),
        }
    }

    /// That of `zone`, or UTC.
    pub(super) fn zone(&mut self, fields: &Fields<'_>) -> Option<TimeZone> {
        let Some(node) = fields.get("zone") else { return Some(TimeZone::UTC) };
        let text = self.text(&node)?;
        let zone = if text.len() <= 64 { TimeZone::get(text).ok() } else { None };
        match zone.filter(|zone| zone.iana_name().is_some()) {
            Some(zone) => Some(zone),
            None => self.wrong(&node.pointer, "use a zone of the IANA list, such as Europe/Berlin"),
        }
    }
}

const WEEKDAYS: [(&str, &str, Weekday); 7] = [
    ("mon", "monday", Weekday::Monday),
    ("tue", "tuesday", Weekday::Tuesday),
    ("wed", "wednesday", Weekday::Wednesday),
    ("thu", "thursday", Weekday::Thursday),
    ("fri", "friday", Weekday::Friday),
    ("sat", "saturday", Weekday::Saturday),
    ("sun", "sunday", Weekday::Sunday),
];

/// As it is written: `mon`.
pub(in crate::definition) fn written_weekday(day: Weekday) -> &'static str {
    WEEKDAYS[usize::try_from(day.to_monday_zero_offset()).unwrap_or(0)].0
}

/// As it is written: `09:00`.
pub(in crate::definition) fn written_time(time: Time) -> String {
    format!("{:02}:{:02}", time.hour(), time.minute())
}

/// As it is written: `2 days 4 hours`. Reading gives whole minutes.
pub(in crate::definition) fn written_duration(duration: Duration) -> String {
    let mut minutes = duration.as_secs() / 60;
    let mut parts = Vec::new();
    for (names, unit) in &UNITS[1..] {
        let count = minutes / unit;
        minutes %= unit;
        match count {
            0 => {}
            1 => parts.push(format!("1 {}", names[1])),
            _ => parts.push(format!("{count} {}", names[0])),
        }
    }
    if parts.is_empty() { "0 minutes".to_owned() } else { parts.join(" ") }
}

fn read_time(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str, lengths: RangeInclusive<usize>| {
        let plain = lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if plain { text.parse::<i8>().ok() } else { None }
    };
    Time::new(number(hour, 1..=2)?, number(minute, 2..=2)?, 0, 0).ok()
}

/// In minutes.
fn read_duration(text: &str) -> Result<u64, &'static str> {
    const REMEDY: &str = "use how long, such as 2 days, 4 hours or 2 days 4 hours";
    let mut rest = text.trim();
    let (mut minutes, mut smallest) = (0_u64, u64::MAX);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (count, after) = rest.split_at(digits);
        let count: u64 = count.parse().map_err(|_| REMEDY)?;
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (name, after) = after.split_at(letters);
        let name = name.to_ascii_lowercase();
        let Some((_, unit)) = UNITS.iter().find(|(names, _)| names.contains(&name.as_str())) else {
            return Err(match name.as_str() {
                "month" | "months" => "a month has no fixed length; use days or weeks",
                "year" | "years" | "y" => "a year has no fixed length; use days or weeks",
                "second" | "seconds" | "s" | "sec" => {
                    "nothing is shorter than a minute; use minutes"
                }
                _ if after.starts_with('.') => {
                    "use whole numbers, such as 36 hours for a day and a half"
                }
                _ => REMEDY,
            });
        };
        // The larger first, and none twice: `2 hours 1 day 2 hours` is a slip.
        if *unit >= smallest {
            return Err(REMEDY);
        }
        smallest = *unit;
        minutes = minutes.saturating_add(count.saturating_mul(*unit));
        rest = after.trim_start();
    }
    if smallest == u64::MAX { Err(REMEDY) } else { Ok(minutes) }
}
