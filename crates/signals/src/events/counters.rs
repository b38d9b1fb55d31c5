//! What is counted of an event, and the numbers that come out.

use serde::Serialize;
use tidings_delivery::counters::SENDS;
use tidings_kernel::Item;

use super::rules::{Class, is_complaint};
use super::{Event, EventKind};

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

/// What was seen of a message before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) opens: i64,
    pub(super) clicks: i64,
    pub(super) human_opens: i64,
    pub(super) human_clicks: i64,
}

impl Seen {
    pub(super) fn of(item: Option<&Item>) -> Self {
        let count = |name| item.and_then(|item| item.integer(name)).unwrap_or(0);
        Self {
            opens: count("openCount"),
            clicks: count("clickCount"),
            human_opens: count("humanOpenCount"),
            human_clicks: count("humanClickCount"),
        }
    }
}

/// The numbers that go up by one. Without a message nothing is unique: there is nothing to be the first of.
pub(super) fn counted(event: &Event, seen: Option<Seen>) -> Vec<&'static str> {
    let human = event.is_human();
    match &event.kind {
        // The send log counts what was sent, whether or not the provider tells of it.
        EventKind::Send => Vec::new(),
        EventKind::Delivery => vec!["deliveryCount"],
        EventKind::Open => {
            let mut names = vec!["openCount"];
            names.extend(seen.filter(|seen| seen.opens == 0).map(|_| "uniqueOpenCount"));
            if human {
                names.push("humanOpenCount");
                let first = seen.filter(|seen| seen.human_opens == 0);
                names.extend(first.map(|_| "uniqueHumanOpenCount"));
            }
            names
        }
        EventKind::Click => {
            let mut names = vec!["clickCount"];
            names.extend(seen.filter(|seen| seen.clicks == 0).map(|_| "uniqueClickCount"));
            if human {
                names.push("humanClickCount");
                let first = seen.filter(|seen| seen.human_clicks == 0);
                names.extend(first.map(|_| "uniqueHumanClickCount"));
            }
            names
        }
        EventKind::Bounce(bounce) => match bounce.class() {
            Class::Hard => vec!["bounceCount", "hardBounceCount"],
            Class::Soft => vec!["bounceCount", "softBounceCount"],
            Class::Content | Class::Unknown => vec!["bounceCount"],
        },
        EventKind::Complaint { .. } if is_complaint(&event.kind) => vec!["complaintCount"],
        EventKind::Complaint { .. } => vec!["notSpamCount"],
        EventKind::Reject { .. } => vec!["rejectCount"],
        EventKind::Reply { automatic: false, .. } => vec!["replyCount"],
        EventKind::Reply { automatic: true, .. } => vec!["autoReplyCount"],
        EventKind::Unsubscribe => vec!["unsubscribeCount"],
        EventKind::Delay { .. } => vec!["delayCount"],
        EventKind::RenderingFailure { .. } => vec!["renderingFailureCount"],
    }
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
