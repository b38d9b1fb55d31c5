//! A clock that stands still until a test moves it.

use std::sync::{Arc, Mutex};

use jiff::{Span, SpanRelativeTo, Timestamp};
use tidings_kernel::Clock;

/// Shared by the test and by what it tests.
#[derive(Debug)]
pub struct FakeClock(Mutex<Timestamp>);

impl FakeClock {
    pub fn at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self(Mutex::new(now)))
    }

    pub fn set(&self, now: Timestamp) {
        *self.0.lock().unwrap() = now;
    }

    /// Days are 24 hours here: the clock runs in UTC.
    pub fn advance(&self, span: Span) {
        let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).unwrap();
        let mut now = self.0.lock().unwrap();
        *now = now.checked_add(duration).unwrap();
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;
    use tidings_kernel::Clock;

    use super::FakeClock;

    #[test]
    fn time_passes_only_by_hand() {
        let clock = FakeClock::at("2025-07-01T00:00:00Z".parse().unwrap());
        clock.advance(2.days().hours(3));
        assert_eq!(clock.now().to_string(), "2025-07-03T03:00:00Z");
        clock.set("2025-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(clock.now().to_string(), "2025-01-01T00:00:00Z");
    }
}
