//! The features that there are: what each is computed of, which events touch it, and whether time does.
//!
//! Here: pure functions of a state and a moment. A feature that says nothing (nobody has bought anything yet) is not there.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use tidings_kernel::{Number, Value};

use super::kinds::{
    BOUNCED, CLICKED, INBOX_ARCHIVED, INBOX_GONE, INBOX_PUBLISHED, INBOX_READ, INBOX_READ_ALL,
    INBOX_UNREAD, LEFT, OPENED, OVERDUE, PURCHASED, RECEIVED, REFUNDED, REPLIED, SENT, SETTLED,
    WROTE, is_his_own,
};
use super::reading::{decimal, mood};
use super::score::{self, Part};
use super::state::{State, day_of, days_between};
use crate::canonical::canonical;
use crate::event::StoredEvent;

/// Without engagement for so long, what was received was ignored.
const IGNORED_DAYS: i32 = 7;

/// One feature.
pub struct Feature {
    pub name: &'static str,
    pub doc: &'static str,
    /// The canonical names of the events that change it.
    pub touched_by: &'static [&'static [&'static str]],
    /// Whether everything that the person does himself changes it.
    pub by_activity: bool,
    /// Whether every event that has a mood changes it.
    pub by_mood: bool,
    /// Whether it changes although nothing happens.
    pub by_time: bool,
    compute: fn(&State, Today) -> Option<Value>,
}

/// The moment for which features are computed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Today {
    pub(super) date: Date,
}

impl Today {
    pub(super) fn at(moment: Timestamp) -> Self {
        Self { date: day_of(moment) }
    }

    /// How many days ago, by the calendar.
    pub(super) fn since(self, millis: i64) -> Option<i64> {
        let day = day_of(Timestamp::from_millisecond(millis).ok()?);
        Some(i64::from(days_between(day, self.date).max(0)))
    }
}

/// All of them, in the order of their names.
pub static ALL: [Feature; 14] = [
    Feature {
        name: "campaign_ignored",
        doc: "Whether a marketing mail was delivered 7 days ago or earlier (90 at most), and he has neither opened, clicked, replied, read in the inbox nor written since. Where nothing tells of deliveries, a mail that was sent and did not come back was delivered.",
        touched_by: &[
            SENT,
            RECEIVED,
            BOUNCED,
            OPENED,
            CLICKED,
            REPLIED,
            INBOX_READ,
            INBOX_READ_ALL,
            INBOX_ARCHIVED,
            WROTE,
        ],
        by_activity: false,
        by_mood: false,
        by_time: true,
        compute: |state, today| Some(campaign_ignored(state, today).into()),
    },
    Feature {
        name: "clicks_30d",
        doc: "How often he clicked in mails in the last 30 days.",
        touched_by: &[CLICKED],
        by_activity: false,
        by_mood: false,
        by_time: true,
        compute: |state, today| Some(clicks(state, today).into()),
    },
    Feature {
        name: "days_since_last_purchase",
        doc: "How many days ago he last bought something.",
        touched_by: &[PURCHASED],
        by_activity: false,
        by_mood: false,
        by_time: true,
        compute: |state, today| today.since(state.last_purchase_at?).map(Value::from),
    },
    Feature {
        name: "engagement_score",
        doc: "From 0 to 100. Each part of it is explained.",
        // What he does himself touches it anyway; the rest is what `campaign_ignored` and leaving rest on.
        touched_by: &[PURCHASED, SENT, RECEIVED, BOUNCED, LEFT],
        by_activity: true,
        by_mood: false,
        by_time: true,
        compute: |state, today| Some(score::total(&score::parts(state, today)).into()),
    },
    Feature {
        name: "frequency_purchases_90d",
        doc: "How often he bought something in the last 90 days.",
        touched_by: &[PURCHASED],
        by_activity: false,
        by_mood: false,
        by_time: true,
        compute: |state, today| Some(purchases(state, today).into()),
    },
    Feature {
        name: "has_purchased",
        doc: "Whether he ever bought anything.",
        touched_by: &[PURCHASED],
        by_activity: false,
        by_mood: false,
        by_time: false,
        compute: |state, _| Some((state.purchases > 0).into()),
    },
    Feature {
        name: "monetary_total",
        doc: "What he paid in all, without what he got back, in the currency of his first purchase.",
        touched_by: &[PURCHASED, REFUNDED],
        by_activity: false,
        by_mood: false,
        by_time: false,
        compute: |state, _| Some(monetary_total(state).into()),
    },
    Feature {
        name: "monetary_total_by_currency",
        doc: "The same in each currency.",
        touched_by: &[PURCHASED, REFUNDED],
        by_activity: false,
        by_mood: false,
        by_time: false,
        compute: |state, _| by_currency(&state.spent),
    },
    Feature {
        name: "opens_30d",
        doc: "How often he opened mails in the last 30 days.",
        touched_by: &[OPENED],
        by_activity: false,
        by_mood: false,
        by_time: true,
        compute: |state, today| Some(opens(state, today).into()),
    },
    Feature {
        name: "overdue_amount",
        doc: "What he owes and should have paid, in the currency of his first purchase, or in the only one that there is.",
        touched_by: &[OVERDUE, SETTLED, PURCHASED],
        by_activity: false,
        by_mood: false,
        by_time: false,
        compute: |state, _| Some(overdue_amount(state).into()),
    },
    Feature {
        name: "overdue_amount_by_currency",
        doc: "The same in each currency.",
        touched_by: &[OVERDUE, SETTLED],
        by_activity: false,
        by_mood: false,
        by_time: false,
        compute: |state, _| by_currency(&overdue(state)),
    },
    Feature {
        name: "recency_days",
        doc: "How many days ago he last did something himself.",
        touched_by: &[],
        by_activity: true,
        by_mood: false,
        by_time: true,
        compute: |state, today| today.since(state.last_active_at?).map(Value::from),
    },
    Feature {
        name: "sentiment_avg_30d",
        doc: "The mood of what he wrote and did in the last 30 days, from -1 to 1.",
        touched_by: &[],
        by_activity: false,
        by_mood: true,
        by_time: true,
        compute: |state, today| sentiment(state, today).map(Value::from),
    },
    Feature {
        name: "unread_inbox",
        doc: "How many of the newest 200 messages to him in his inboxes he has not read. Messages to everybody do not count.",
        touched_by: &[
            INBOX_PUBLISHED,
            INBOX_UNREAD,
            INBOX_READ,
            INBOX_READ_ALL,
            INBOX_ARCHIVED,
            INBOX_GONE,
        ],
        by_activity: false,
        by_mood: false,
        by_time: false,
        compute: |state, _| i64::try_from(state.unread()).ok().map(Value::from),
    },
];

impl Feature {
    /// Whether an event changes it.
    pub fn is_touched_by(&self, event: &StoredEvent) -> bool {
        let name = canonical(&event.event_type);
        (self.by_activity && is_his_own(event))
            || (self.by_mood && mood(&event.payload).is_some())
            || self.touched_by.iter().any(|types| types.contains(&&*name))
    }
}

/// Those that change although nothing happens.
pub fn by_time() -> impl Iterator<Item = &'static Feature> {
    ALL.iter().filter(|feature| feature.by_time)
}

/// Computes some features anew, and leaves the others as they are.
pub(super) fn compute(
    values: &mut BTreeMap<String, Value>,
    some: impl Iterator<Item = &'static Feature>,
    state: &State,
    now: Timestamp,
) {
    for feature in some {
        match (feature.compute)(state, Today::at(now)) {
            Some(value) => drop(values.insert(feature.name.to_owned(), value)),
            None => drop(values.remove(feature.name)),
        }
    }
}

/// How the score came about.
pub(super) fn explain(state: &State, now: Timestamp) -> Vec<Part> {
    score::parts(state, Today::at(now))
}

pub(super) fn opens(state: &State, today: Today) -> i64 {
    state.last_days(today.date, 30).map(|day| day.opens).sum()
}

pub(super) fn clicks(state: &State, today: Today) -> i64 {
    state.last_days(today.date, 30).map(|day| day.clicks).sum()
}

pub(super) fn purchases(state: &State, today: Today) -> i64 {
    state.last_days(today.date, 90).map(|day| day.purchases).sum()
}

/// By whole days, so that it changes when the day does.
pub(super) fn campaign_ignored(state: &State, today: Today) -> bool {
    state.days.iter().any(|(day, bucket)| {
        let age = days_between(*day, today.date);
        let unanswered = state
            .received_at(bucket)
            .is_some_and(|received| state.last_engaged_at.is_none_or(|engaged| engaged < received));
        (IGNORED_DAYS..=90).contains(&age) && unanswered
    })
}

pub(super) fn sentiment(state: &State, today: Today) -> Option<Number> {
    let (mut sum, mut count) = (0, 0);
    for day in state.last_days(today.date, 30) {
        sum += day.mood_sum;
        count += day.moods;
    }
    // Rounded to the nearest, away from zero in the middle.
    (count > 0).then(|| decimal((2 * sum + count * sum.signum()) / (2 * count), 4))
}

fn monetary_total(state: &State) -> Number {
    let main = state.first_purchase.as_ref().map(|first| first.currency.as_str());
    main.and_then(|main| state.spent.get(main)).copied().unwrap_or(Number::ZERO)
}

fn by_currency(sums: &BTreeMap<String, Number>) -> Option<Value> {
    let sums = sums.iter().map(|(currency, sum)| (currency.clone(), Value::N(*sum)));
    let sums: BTreeMap<_, _> = sums.collect();
    (!sums.is_empty()).then_some(Value::M(sums))
}

/// What is open in each currency in which anything is.
fn overdue(state: &State) -> BTreeMap<String, Number> {
    let mut sums = BTreeMap::<String, Number>::new();
    for invoice in state.invoices.values() {
        let sum = sums.entry(invoice.currency.clone()).or_insert(Number::ZERO);
        *sum = sum.checked_add(invoice.open).unwrap_or(*sum);
    }
    sums.retain(|_, sum| *sum != Number::ZERO);
    sums
}

fn overdue_amount(state: &State) -> Number {
    let sums = overdue(state);
    let main = state.first_purchase.as_ref().map(|first| first.currency.as_str());
    match main.and_then(|main| sums.get(main)) {
        Some(sum) => *sum,
        None if sums.len() == 1 => sums.into_values().next().unwrap_or(Number::ZERO),
        None => Number::ZERO,
    }
}
