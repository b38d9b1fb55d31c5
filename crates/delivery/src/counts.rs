//! The numbers of a `COUNTERS` item, as they come out.
//!
//! Not here: adding to them (`counters`, `breakdown`), and what an event counts (`signals::events`).

use serde::Serialize;
use tidings_kernel::Item;

use crate::counters::SENDS;

/// Every number of a `COUNTERS` item: the five of the seed, and ours.
pub const COUNTERS: [&str; 21] = [
    SENDS,
    "deliveryCount",
    "openCount",
    "clickCount",
    "bounceCount",
    "complaintCount",
    "replyCount",
    "unsubscribeCount",
    "rejectCount",
    "delayCount",
    "renderingFailureCount",
    "hardBounceCount",
    "softBounceCount",
    "notSpamCount",
    "autoReplyCount",
    "uniqueOpenCount",
    "uniqueClickCount",
    "humanOpenCount",
    "humanClickCount",
    "uniqueHumanOpenCount",
    "uniqueHumanClickCount",
];

/// Numbers by the names of [`COUNTERS`]; a number that is not there is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Messages that a provider has taken.
    pub send_count: i64,
    pub delivery_count: i64,
    pub open_count: i64,
    pub click_count: i64,
    pub bounce_count: i64,
    pub complaint_count: i64,
    pub reply_count: i64,
    pub unsubscribe_count: i64,
    pub reject_count: i64,
    pub delay_count: i64,
    pub rendering_failure_count: i64,
    /// Bounces of addresses that nobody can be reached at.
    pub hard_bounce_count: i64,
    pub soft_bounce_count: i64,
    /// Messages that a person took out of the spam.
    pub not_spam_count: i64,
    /// Absence notes and their like, which are no replies.
    pub auto_reply_count: i64,
    /// Messages that were opened, however often.
    pub unique_open_count: i64,
    pub unique_click_count: i64,
    /// Opens that a person made, as far as can be told.
    pub human_open_count: i64,
    pub human_click_count: i64,
    pub unique_human_open_count: i64,
    pub unique_human_click_count: i64,
}

impl Counts {
    pub fn of(item: &Item) -> Self {
        let mut counts = Self::default();
        for (name, number) in COUNTERS.into_iter().zip(counts.numbers()) {
            *number = item.integer(name).unwrap_or(0);
        }
        counts
    }

    pub fn add(&mut self, mut other: Self) {
        for (number, other) in self.numbers().into_iter().zip(other.numbers()) {
            *number += *other;
        }
    }

    /// What is left without the others. Never less than nothing: they may have been read a moment later.
    pub fn without(mut self, mut others: Self) -> Self {
        for (number, other) in self.numbers().into_iter().zip(others.numbers()) {
            *number = (*number - *other).max(0);
        }
        self
    }

    /// In the order of [`COUNTERS`].
    fn numbers(&mut self) -> [&mut i64; 21] {
        [
            &mut self.send_count,
            &mut self.delivery_count,
            &mut self.open_count,
            &mut self.click_count,
            &mut self.bounce_count,
            &mut self.complaint_count,
            &mut self.reply_count,
            &mut self.unsubscribe_count,
            &mut self.reject_count,
            &mut self.delay_count,
            &mut self.rendering_failure_count,
            &mut self.hard_bounce_count,
            &mut self.soft_bounce_count,
            &mut self.not_spam_count,
            &mut self.auto_reply_count,
            &mut self.unique_open_count,
            &mut self.unique_click_count,
            &mut self.human_open_count,
            &mut self.human_click_count,
            &mut self.unique_human_open_count,
            &mut self.unique_human_click_count,
        ]
    }
}

#[cfg(test)]
mod tests {
    use tidings_kernel::Item;

    use super::{COUNTERS, Counts};

    #[test]
    fn every_number_is_read_under_its_own_name() {
        for (position, name) in COUNTERS.into_iter().enumerate() {
            let counts = Counts::of(&Item::new().with(name, 7));
            let json = serde_json::to_value(&counts).unwrap();
            assert_eq!(json[name], 7, "{name} at {position}");
            let sum: i64 = json.as_object().unwrap().values().map(|n| n.as_i64().unwrap()).sum();
            assert_eq!(sum, 7);
        }
    }
}
