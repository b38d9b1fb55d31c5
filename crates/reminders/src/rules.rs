//! When a reminder may be sent: the one function that is asked when it is drafted, when it is sent, and by whoever wants to
//! know.
//!
//! A reminder is not repeated within some days, and a later one follows an earlier one after some days. Earlier ones count
//! from the last time on that nothing was owed: whoever has paid everything begins with a first one again.

use jiff::{SignedDuration, Timestamp};

use crate::ids::Kind;

/// How many days lie between reminders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Days {
    /// No other first one within these days.
    pub first_again: u32,
    pub second_again: u32,
    /// A second one is so many days after the first at the earliest.
    pub second_after_first: u32,
    pub final_again: u32,
    pub final_after_second: u32,
}

/// When a customer was sent what for the last time, or is being sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct History {
    pub first: Option<Timestamp>,
    pub second: Option<Timestamp>,
    pub last: Option<Timestamp>,
    /// When nothing was owed any more, for the last time.
    pub settled: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Allowed,
    /// From then on.
    NotBefore(Timestamp),
    /// This one has to be sent before.
    Needs(Kind),
}

impl Default for Days {
    /// Those of seed 002.
    fn default() -> Self {
        Self {
            first_again: 7,
            second_again: 5,
            second_after_first: 7,
            final_again: 3,
            final_after_second: 5,
        }
    }
}

impl Days {
    pub fn again(&self, kind: Kind) -> u32 {
        match kind {
            Kind::First => self.first_again,
            Kind::Second => self.second_again,
            Kind::Final => self.final_again,
        }
    }

    pub fn after_the_one_before(&self, kind: Kind) -> u32 {
        match kind {
            Kind::First => 0,
            Kind::Second => self.second_after_first,
            Kind::Final => self.final_after_second,
        }
    }
}

impl History {
    pub fn of(&self, kind: Kind) -> Option<Timestamp> {
        match kind {
            Kind::First => self.first,
            Kind::Second => self.second,
            Kind::Final => self.last,
        }
    }
}

/// Whether a reminder of this kind may be sent now.
pub fn ask(history: &History, days: &Days, kind: Kind, now: Timestamp) -> Answer {
    let mut from = Timestamp::MIN;
    if let Some(before) = kind.before() {
        let counts = |at: &Timestamp| history.settled.is_none_or(|settled| *at > settled);
        match history.of(before).filter(counts) {
            Some(at) => from = from.max(later(at, days.after_the_one_before(kind))),
            None => return Answer::Needs(before),
        }
    }
    if let Some(at) = history.of(kind) {
        from = from.max(later(at, days.again(kind)));
    }
    if from <= now { Answer::Allowed } else { Answer::NotBefore(from) }
}

/// The one that comes next: after a final one, another final one.
pub fn next(history: &History) -> Kind {
    let counts = |at: Timestamp| history.settled.is_none_or(|settled| at > settled);
    let sent = |kind: Kind| history.of(kind).is_some_and(counts);
    if sent(Kind::Second) {
        Kind::Final
    } else if sent(Kind::First) {
        Kind::Second
    } else {
        Kind::First
    }
}

pub(crate) fn later(at: Timestamp, days: u32) -> Timestamp {
    at.saturating_add(SignedDuration::from_hours(24 * i64::from(days))).unwrap_or(Timestamp::MAX)
}
