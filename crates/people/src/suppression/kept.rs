//! What is kept of somebody's transient bounces, and when they are a row.
//!
//! Pure: times in, a row out. Of the deliveries between two bounces the first and the last are kept, which tells all that
//! matters until another bounce turns up between them; whoever notes that one looks what was next to it (`bounces`).

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use tidings_kernel::{Condition, EmailAddress, Expect, Item, Value, tables};

use super::record::{Kind, Suppression};
use crate::keys;

/// So many in a row suppress.
const ROW: usize = 5;
/// Within so long. Not every provider tells of deliveries, and over years everybody's server is down five times.
const WINDOW: SignedDuration = SignedDuration::from_hours(90 * 24);
/// So many bounces are kept, the newest: whoever had as many without a row is reached again and again.
const KEPT: usize = 50;

/// The item BOUNCES.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kept {
    /// When they happened, and which events they are.
    bounces: BTreeSet<(Timestamp, String)>,
    deliveries: BTreeSet<Timestamp>,
    /// Counts the writes, so that of two at once one loads again.
    version: i64,
}

/// Something to be kept.
#[derive(Clone, Copy)]
pub(super) enum Note<'a> {
    /// The same event counts once.
    Bounce(&'a str, Timestamp),
    Deliveries(&'a [Timestamp]),
}

/// Five bounces without a delivery between.
#[derive(Debug, PartialEq)]
pub(super) struct Row {
    pub(super) first: Timestamp,
    /// When it was complete.
    pub(super) since: Timestamp,
    /// The bounce that was the last: of several at that time always the same one.
    pub(super) source: String,
}

impl Row {
    /// Whether a suppression is because of this one.
    pub(super) fn is_why(&self, current: &Suppression) -> bool {
        current.suppressed_at == self.since && current.source.as_ref() == Some(&self.source)
    }
}

/// Whether it is because of a row at all. One that somebody here calls transient is not ours to take back.
pub(super) fn is_of_row(current: &Suppression) -> bool {
    current.kind == Kind::Transient && current.source.is_some()
}

impl Kept {
    #[must_use]
    pub(super) fn with(mut self, note: Note<'_>) -> Self {
        match note {
            Note::Bounce(event, at) => {
                if !self.bounces.iter().any(|(_, known)| known == event) {
                    self.bounces.insert((at, event.to_owned()));
                }
            }
            Note::Deliveries(times) => self.deliveries.extend(times),
        }
        while self.bounces.len() > KEPT {
            self.bounces.pop_first();
        }
        self.deliveries = self.telling();
        self
    }

    /// The first row, if there is one.
    pub(super) fn row(&self) -> Option<Row> {
        let bounces: Vec<&(Timestamp, String)> = self.bounces.iter().collect();
        let unbroken = |row: &&[&(Timestamp, String)]| {
            let (first, last) = (row[0].0, row[ROW - 1].0);
            last.duration_since(first) <= WINDOW
                && self.deliveries.range(first..=last).next().is_none()
        };
        let row = bounces.windows(ROW).find(unbroken)?;
        let (first, since) = (row[0].0, row[ROW - 1].0);
        let source = self.bounces.iter().find(|(at, _)| *at == since)?.1.clone();
        Some(Row { first, since, source })
    }

    /// From when to when a delivery next to this bounce matters: to the bounces around it.
    pub(super) fn around(&self, at: Timestamp) -> (Timestamp, Timestamp) {
        let times = || self.bounces.iter().map(|(at, _)| *at);
        let (from, to) = (before(at), at.checked_add(WINDOW).unwrap_or(Timestamp::MAX));
        let from = times().filter(|time| *time < at).fold(from, Timestamp::max);
        (from, times().filter(|time| *time > at).fold(to, Timestamp::min))
    }

    /// The deliveries that say which bounces are in a row, and go on saying it if a bounce comes before or after all others.
    fn telling(&self) -> BTreeSet<Timestamp> {
        let times: BTreeSet<Timestamp> = self.bounces.iter().map(|(at, _)| *at).collect();
        let (Some(first), Some(last)) = (times.first(), times.last()) else {
            return BTreeSet::new();
        };
        let mut telling = BTreeSet::new();
        telling.extend(self.deliveries.range(..=*first).next_back());
        telling.extend(self.deliveries.range(*last..).next());
        for (from, to) in times.iter().zip(times.iter().skip(1)) {
            let mut between = self.deliveries.range(*from..=*to);
            telling.extend(between.next());
            telling.extend(between.next_back());
        }
        telling
    }

    pub(super) fn read(item: Option<&Item>) -> Self {
        let list = |name: &str| match item.and_then(|item| item.get(name)) {
            Some(Value::L(list)) => list.clone(),
            _ => Vec::new(),
        };
        let bounce = |value: &Value| {
            let Value::M(map) = value else { return None };
            let at = map.get("at")?.as_text()?.parse().ok()?;
            Some((at, map.get("id")?.as_text()?.to_owned()))
        };
        Self {
            bounces: list("transients").iter().filter_map(bounce).collect(),
            deliveries: list("deliveries")
                .iter()
                .filter_map(|at| at.as_text()?.parse().ok())
                .collect(),
            version: item.and_then(|item| item.integer("version")).unwrap_or(0),
        }
    }

    pub(super) fn expected(&self) -> Expect {
        match self.version {
            0 => Expect::Absent,
            version => Expect::That(Condition::eq("version", version)),
        }
    }

    pub(super) fn to_item(&self, email: &EmailAddress) -> Item {
        let bounces = self.bounces.iter().map(|(at, id)| {
            let map = [("id", id.as_str().into()), ("at", keys::time(*at).into())];
            Value::M(map.map(|(name, value)| (name.to_owned(), value)).into())
        });
        let deliveries = self.deliveries.iter().map(|at| keys::time(*at).into());
        tables::MAIN
            .bare_item(&keys::bounces(email))
            .with("transients", bounces.collect::<Vec<_>>())
            .with("deliveries", deliveries.collect::<Vec<Value>>())
            .with("version", self.version + 1)
    }
}

fn before(at: Timestamp) -> Timestamp {
    at.checked_sub(WINDOW).unwrap_or(Timestamp::MIN)
}
