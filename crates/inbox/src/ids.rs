//! The id of a message: 17 characters of upper-case base 36 that sort by time.
//!
//! Five characters are the minutes since 2025, three the milliseconds of the minute by two, and nine tell those of the
//! same two milliseconds apart: they begin by chance, and rise, so that what one process makes sorts as it was made. All
//! who get the same post get it under the same id. It begins again after 114 years.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// 2025-01-01T00:00:00Z, in milliseconds since 1970.
const EPOCH_MS: i64 = 1_735_689_600_000;
const MINUTE_MS: i64 = 60_000;
/// `ZP500` in base 36: the minutes of 114 years.
const ROUND: i64 = 59_959_440;
const LENGTH: usize = 17;
const TIME_LENGTH: usize = 8;
const REST_LENGTH: usize = LENGTH - TIME_LENGTH;
/// How many ids there are of the same time.
const RESTS: u64 = 36u64.pow(REST_LENGTH as u32);
/// From one rest to the next there are at most so many, by chance, so that two processes that have come upon the same
/// one part again. After three thousand million ids they begin anew.
const MOST_STEP: u64 = 1 << 16;
const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MessageId(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is no message id: use its 17 digits and capital letters")]
pub struct MessageIdError;

impl MessageId {
    /// A new one, of a message of this time.
    pub fn new(at: Timestamp) -> Self {
        static REST: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(chance() % RESTS));
        let step = 1 + chance() % MOST_STEP;
        Self::with(at, REST.fetch_add(step, Ordering::Relaxed))
    }

    /// The smallest id of this time: all messages from before have smaller ones.
    pub fn first_of(at: Timestamp) -> Self {
        Self::with(at, 0)
    }

    /// The greatest id of this time: all messages from after it have greater ones.
    pub fn last_of(at: Timestamp) -> Self {
        Self::with(at, RESTS - 1)
    }

    fn with(at: Timestamp, rest: u64) -> Self {
        // Nothing was sent before 2025.
        let since = (at.as_millisecond() - EPOCH_MS).max(0);
        let (minutes, ticks) = (since / MINUTE_MS % ROUND, since % MINUTE_MS / 2);
        let mut text = String::with_capacity(LENGTH);
        push(&mut text, minutes.unsigned_abs(), 5);
        push(&mut text, ticks.unsigned_abs(), 3);
        push(&mut text, rest % RESTS, REST_LENGTH);
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn chance() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the operating system has randomness");
    u64::from_ne_bytes(bytes)
}

/// So many digits, with zeros in front.
fn push(text: &mut String, mut number: u64, length: usize) {
    let mut digits = [b'0'; LENGTH];
    for digit in digits[..length].iter_mut().rev() {
        *digit = DIGITS[(number % 36) as usize];
        number /= 36;
    }
    text.extend(digits[..length].iter().map(|digit| char::from(*digit)));
}

impl FromStr for MessageId {
    type Err = MessageIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = |digit: u8| DIGITS.contains(&digit);
        if text.len() == LENGTH && text.bytes().all(fits) {
            Ok(Self(text.to_owned()))
        } else {
            Err(MessageIdError)
        }
    }
}

impl TryFrom<String> for MessageId {
    type Error = MessageIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<MessageId> for String {
    fn from(id: MessageId) -> Self {
        id.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::{MessageId, ROUND};

    #[test]
    fn the_time_is_written_as_seed_001_writes_it() {
        let id = MessageId::new("2026-07-01T12:34:56.789Z".parse().unwrap());
        assert_eq!(&id.as_str()[..8], "0GV8YLWQ");
        assert_eq!(id.as_str().len(), 17);
        let first = MessageId::first_of("2025-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(first.as_str(), "00000000000000000");
        let last = MessageId::first_of("2025-01-01T00:00:59.999Z".parse().unwrap());
        assert_eq!(&last.as_str()[..8], "00000N5B");
        assert_eq!(i64::from_str_radix("ZP500", 36), Ok(ROUND));
    }

    #[test]
    fn those_of_the_same_time_sort_as_they_were_made() {
        let now = "2026-07-01T12:34:56.789Z".parse().unwrap();
        let other = "2026-07-01T12:34:57Z".parse().unwrap();
        let made: Vec<_> =
            (0..1000).map(|_| (MessageId::new(now), MessageId::new(other)).0).collect();
        // Where the rests begin anew, once in three thousand million.
        let falls = made.windows(2).filter(|two| two[0] >= two[1]).count();
        assert!(falls <= 1, "{falls}");
        assert!(MessageId::first_of(now) <= MessageId::new(now));
        assert!(MessageId::new(now) <= MessageId::last_of(now));
    }

    #[test]
    fn only_what_is_one_is_read() {
        let id = MessageId::new("2026-07-01T12:34:56Z".parse().unwrap());
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        let lower = id.as_str().to_lowercase();
        for bad in ["", "0GV8YLWQ", lower.as_str(), "0GV8YLWQ00000000#", "0GV8YLWQ0000000000"] {
            assert!(bad.parse::<MessageId>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_later_by_a_tick_is_greater(
            at in 0i64..3_500_000_000_000, more in 2i64..100_000_000, a: u64, b: u64,
        ) {
            let at = super::EPOCH_MS + at;
            let time = |ms| Timestamp::from_millisecond(ms).unwrap();
            let (earlier, later) = (MessageId::with(time(at), a), MessageId::with(time(at + more), b));
            prop_assert!(earlier < later, "{earlier} {later}");
            prop_assert_eq!(earlier.as_str().parse(), Ok(earlier.clone()));
        }
    }
}
