//! The filter `date`. There is no "now" in a template: the same version with the same variables gives the same mail.

use jiff::civil::{Date, DateTime};
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::Value;

use super::value::{Val, in_words};

/// The longest format.
const MAX_FORMAT: usize = 200;

/// Times are told in UTC. What is no time stays as it is.
pub(super) fn date(v: Val, format: &str) -> Val {
    if format.is_empty() || format.len() > MAX_FORMAT {
        return v;
    }
    let Some(time) = read(&v.value) else { return v };
    match strtime::format(format, &time) {
        Ok(text) => Val::new(text),
        Err(_) => v,
    }
}

fn read(value: &Value) -> Option<Zoned> {
    if let Some(seconds) = value.as_i64() {
        return Some(Timestamp::from_second(seconds).ok()?.to_zoned(TimeZone::UTC));
    }
    let text = in_words(value);
    let text = text.trim();
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time.to_zoned(TimeZone::UTC));
    }
    let civil = text.parse::<DateTime>().or_else(|_| text.parse::<Date>().map(DateTime::from));
    civil.ok()?.to_zoned(TimeZone::UTC).ok()
}
