//! How long messages live: `30d`, `30m`, `600s`, and who decides it.
//!
//! Of the inbox's times the one of the message's category comes first, then the inbox's default, then the tenant's, and
//! then 30 days. In no unit it can be nothing or more than 730 days.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Which of an inbox's times is for every category that has none.
pub const DEFAULT: &str = "default";
/// Nothing lives longer.
pub(crate) const MAX_DAYS: i64 = 730;
const MAX_SECONDS: i64 = MAX_DAYS * 86_400;

/// A time as it was written. `30d` stays `30d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ttl {
    number: i64,
    unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Unit {
    Days,
    Minutes,
    Seconds,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is no time to live: write a number and d (days), m (minutes) or s (seconds), more than nothing and at most 730 days, like 30d"
)]
pub struct TtlError;

impl Ttl {
    /// What holds where nobody has said anything.
    pub const DEFAULT: Self = Self { number: 30, unit: Unit::Days };

    pub const fn days(number: u16) -> Self {
        Self { number: number as i64, unit: Unit::Days }
    }

    pub fn seconds(self) -> i64 {
        self.number * self.unit.seconds()
    }

    /// The time that lies so long after another one.
    pub fn after(self, at: Timestamp) -> Timestamp {
        at.checked_add(SignedDuration::from_secs(self.seconds())).unwrap_or(Timestamp::MAX)
    }

    /// The time that lies so long before another one.
    pub fn before(self, at: Timestamp) -> Timestamp {
        at.checked_sub(SignedDuration::from_secs(self.seconds())).unwrap_or(Timestamp::MIN)
    }
}

/// What holds for a message of this category.
pub fn of(category: Option<&str>, inbox: &BTreeMap<String, Ttl>, tenant: Option<Ttl>) -> Ttl {
    let of_category = category.and_then(|category| inbox.get(category));
    of_category.or_else(|| inbox.get(DEFAULT)).copied().or(tenant).unwrap_or(Ttl::DEFAULT)
}

impl Unit {
    fn seconds(self) -> i64 {
        match self {
            Self::Days => 86_400,
            Self::Minutes => 60,
            Self::Seconds => 1,
        }
    }
}

impl FromStr for Ttl {
    type Err = TtlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unit = match text.bytes().last() {
            Some(b'd') => Unit::Days,
            Some(b'm') => Unit::Minutes,
            Some(b's') => Unit::Seconds,
            _ => return Err(TtlError),
        };
        let digits = &text[..text.len() - 1];
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(TtlError);
        }
        let number: i64 = digits.parse().map_err(|_| TtlError)?;
        match number.checked_mul(unit.seconds()) {
            Some(1..=MAX_SECONDS) => Ok(Self { number, unit }),
            _ => Err(TtlError),
        }
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Unit::Days => 'd',
            Unit::Minutes => 'm',
            Unit::Seconds => 's',
        };
        write!(f, "{}{unit}", self.number)
    }
}

impl TryFrom<String> for Ttl {
    type Error = TtlError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Ttl> for String {
    fn from(ttl: Ttl) -> Self {
        ttl.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Ttl, of};

    #[test]
    fn three_units_are_read_and_written_as_they_came() {
        for (text, seconds) in
            [("30d", 2_592_000), ("30m", 1_800), ("600s", 600), ("730d", 63_072_000), ("1s", 1)]
        {
            let ttl: Ttl = text.parse().unwrap();
            assert_eq!((ttl.seconds(), ttl.to_string().as_str()), (seconds, text));
        }
        assert_eq!("63072000s".parse::<Ttl>().unwrap().seconds(), 63_072_000);
        assert_eq!("1051200m".parse::<Ttl>().unwrap().seconds(), 63_072_000);
    }

    #[test]
    fn nothing_and_more_than_two_years_are_refused_in_every_unit() {
        for bad in [
            "",
            "d",
            "30",
            "0d",
            "0m",
            "0s",
            "731d",
            "1051201m",
            "63072001s",
            "-1d",
            "+1d",
            "1.5d",
            "30 d",
            "30D",
            "30h",
            "99999999999999999999d",
            "9223372036854775807d",
            "３0d",
        ] {
            assert!(bad.parse::<Ttl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_category_decides_before_the_inbox_and_the_inbox_before_the_tenant() {
        fn check(
            category: Option<&str>,
            inbox: &[(&str, &str)],
            tenant: Option<&str>,
            wanted: &str,
        ) {
            let inbox: BTreeMap<String, Ttl> = inbox
                .iter()
                .map(|(name, ttl)| ((*name).to_owned(), ttl.parse().unwrap()))
                .collect();
            let tenant = tenant.map(|ttl| ttl.parse().unwrap());
            assert_eq!(of(category, &inbox, tenant).to_string(), wanted);
        }
        let inbox = [("default", "7d"), ("news", "30m")];
        check(Some("news"), &inbox, Some("90d"), "30m");
        check(Some("other"), &inbox, Some("90d"), "7d");
        check(None, &inbox, Some("90d"), "7d");
        check(Some("other"), &[("news", "30m")], Some("90d"), "90d");
        check(Some("other"), &[], None, "30d");
        check(None, &[], None, "30d");
    }
}
