//! What is counted of an event.

use tidings_delivery::ledger::Message;
use tidings_kernel::Item;

use super::rules::{Class, is_complaint};
use super::{Event, EventKind};

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

/// The numbers that go up by one. Without a message nothing is unique: there is nothing to be the first of. One message
/// is delivered once, bounces once and so on, however many get a copy of it; but whoever answers it has answered.
pub(super) fn counted(
    event: &Event,
    message: Option<&Message>,
    seen: Option<Seen>,
) -> Vec<&'static str> {
    let is_reply = matches!(event.kind, EventKind::Reply { .. });
    let of_copy = message.is_some_and(|message| !is_reply && !event.is_of_addressee(message));
    if of_copy || event.is_echo {
        return Vec::new();
    }
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
        EventKind::Reply { unproven: true, .. } => Vec::new(),
        EventKind::Reply { automatic: false, .. } => vec!["replyCount"],
        EventKind::Reply { automatic: true, .. } => vec!["autoReplyCount"],
        EventKind::Unsubscribe => vec!["unsubscribeCount"],
        EventKind::Delay { .. } => vec!["delayCount"],
        EventKind::RenderingFailure { .. } => vec!["renderingFailureCount"],
    }
}
