//! How often each key may be used, and each user of an inbox may ask, counted on this node.
//!
//! A key may use `burst` requests at once and gets `per_second` of them back each second. What is kept of a key is
//! one number: when it will have all of them back. A key that has rested has nothing kept, so the memory is as
//! large as the number of keys in use, whatever happened before.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;

use jiff::Timestamp;
use tidings_access::KeyId;
use tidings_access::keys::Rate;

const SECOND: i64 = 1_000_000;

/// Rested keys are forgotten when there are so many, and again at each doubling of those in use.
const FEW: usize = 1024;

/// By key, or by whatever else tells those who ask apart.
pub(super) struct Quotas<K = KeyId>(Mutex<Kept<K>>);

struct Kept<K> {
    /// In microseconds since 1970.
    rested_at: HashMap<K, i64>,
    forget_at: usize,
}

impl<K> Default for Quotas<K> {
    fn default() -> Self {
        Self(Mutex::new(Kept { rested_at: HashMap::new(), forget_at: 0 }))
    }
}

/// What a key has left, and when it may come again if that is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quota {
    pub(super) limit: u32,
    pub(super) remaining: u32,
    /// Seconds until all of the limit is there again.
    pub(super) reset: u64,
    /// Seconds until a request is let through, if this one is not.
    pub(super) retry_after: Option<u64>,
}

impl<K: Eq + Hash> Quotas<K> {
    /// Takes one request out of a key's quota, if there is one.
    pub(super) fn take(&self, key: K, rate: Rate, now: Timestamp) -> Quota {
        let now = now.as_microsecond();
        let mut kept = self.0.lock().expect("nobody panics with it");
        kept.forget_rested(now);
        let rested_at = kept.rested_at.get(&key).copied().unwrap_or(now);
        let (quota, rested_at) = take(rate, rested_at, now);
        kept.rested_at.insert(key, rested_at);
        quota
    }
}

impl<K> Kept<K> {
    fn forget_rested(&mut self, now: i64) {
        if self.rested_at.len() < self.forget_at.max(FEW) {
            return;
        }
        self.rested_at.retain(|_, at| *at > now);
        self.forget_at = 2 * self.rested_at.len();
    }
}

fn take(rate: Rate, rested_at: i64, now: i64) -> (Quota, i64) {
    let one = SECOND / i64::from(rate.per_second());
    let all = one * i64::from(rate.burst());
    // Never longer than a whole quota takes: a clock that is set back must not lock anybody out.
    let before = rested_at.clamp(now, now + all);
    let after = before + one;
    let is_let_through = after <= now + all;
    let rested_at = if is_let_through { after } else { before };
    let left = (now + all - rested_at) / one;
    let quota = Quota {
        limit: rate.burst(),
        remaining: u32::try_from(left).unwrap_or(u32::MAX),
        reset: seconds(rested_at - now),
        retry_after: (!is_let_through).then(|| seconds(after - now - all).max(1)),
    };
    (quota, rested_at)
}

/// Rounded up: who comes a moment too early is refused again.
fn seconds(micros: i64) -> u64 {
    u64::try_from(micros).unwrap_or(0).div_ceil(SECOND as u64)
}

#[cfg(test)]
mod tests {
    use jiff::{Timestamp, ToSpan};
    use tidings_access::KeyId;
    use tidings_access::keys::Rate;

    use super::{FEW, Quotas};

    #[test]
    fn a_key_gets_its_burst_and_then_its_rate() {
        let (quotas, key) = (Quotas::<KeyId>::default(), KeyId::from(1));
        let rate = Rate::new(2, 3).unwrap();
        let start = Timestamp::from_second(1_800_000_000).unwrap();
        for (millis, remaining, reset, retry_after) in [
            (0, 2, 1, None),
            (0, 1, 1, None),
            (0, 0, 2, None),
            (0, 0, 2, Some(1)),
            (499, 0, 2, Some(1)),
            (500, 0, 2, None),
            (500, 0, 2, Some(1)),
            (2000, 2, 1, None),
            (60_000, 2, 1, None),
            // The clock is set back by a minute.
            (0, 0, 2, Some(1)),
            (500, 0, 2, None),
        ] {
            let quota = quotas.take(key, rate, start + i64::from(millis).milliseconds());
            let found = (quota.remaining, quota.reset, quota.retry_after);
            assert_eq!(found, (remaining, reset, retry_after), "at {millis}");
            assert_eq!(quota.limit, 3);
        }
        assert_eq!(quotas.take(KeyId::from(2), rate, start).remaining, 2);
    }

    #[test]
    fn rested_keys_are_forgotten() {
        let (quotas, rate) = (Quotas::<KeyId>::default(), Rate::default());
        let start = Timestamp::from_second(1_800_000_000).unwrap();
        for number in 0..10 * FEW as i64 {
            quotas.take(KeyId::from(number), rate, start + number.seconds());
        }
        assert!(quotas.0.lock().unwrap().rested_at.len() <= FEW);
    }
}
