//! What can happen that others are told of.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Something that happened. The words are for ever: programs of others compare them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    EmailSent,
    EmailDelivered,
    EmailDelayed,
    EmailBounced,
    EmailComplained,
    EmailOpened,
    EmailClicked,
    EmailReplied,
    EmailFailed,
    EmailSkipped,
    EmailSuppressed,
    ContactCreated,
    ContactUpdated,
    ContactDeleted,
    /// Two contacts are one person.
    ContactMerged,
    /// They are not.
    ContactUnmerged,
    ContactSubscribed,
    ContactUnsubscribed,
    ContactResubscribed,
    CampaignStarted,
    CampaignPaused,
    CampaignFinished,
    CampaignCancelled,
    CampaignFailed,
    /// A step of a sequence says so.
    SequenceStep,
    /// Somebody meets the condition of a segment now.
    SegmentEntered,
    SegmentLeft,
    /// A draft of a reminder waits for somebody to approve it.
    ApprovalRequested,
    ApprovalApproved,
    ApprovalRejected,
    ReminderSent,
    ReminderFailed,
}

/// An event that is sent on request, to one endpoint, whatever that wants.
pub(crate) const TEST: &str = "webhook.test";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no event type {0:?}: use a word such as email.sent or contact.created")]
pub struct EventTypeError(String);

/// So much of a word that is no type is told back: it can be as long as a request.
const ECHOED: usize = 40;

impl EventType {
    pub const ALL: [Self; 32] = [
        Self::EmailSent,
        Self::EmailDelivered,
        Self::EmailDelayed,
        Self::EmailBounced,
        Self::EmailComplained,
        Self::EmailOpened,
        Self::EmailClicked,
        Self::EmailReplied,
        Self::EmailFailed,
        Self::EmailSkipped,
        Self::EmailSuppressed,
        Self::ContactCreated,
        Self::ContactUpdated,
        Self::ContactDeleted,
        Self::ContactMerged,
        Self::ContactUnmerged,
        Self::ContactSubscribed,
        Self::ContactUnsubscribed,
        Self::ContactResubscribed,
        Self::CampaignStarted,
        Self::CampaignPaused,
        Self::CampaignFinished,
        Self::CampaignCancelled,
        Self::CampaignFailed,
        Self::SequenceStep,
        Self::SegmentEntered,
        Self::SegmentLeft,
        Self::ApprovalRequested,
        Self::ApprovalApproved,
        Self::ApprovalRejected,
        Self::ReminderSent,
        Self::ReminderFailed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::EmailSent => "email.sent",
            Self::EmailDelivered => "email.delivered",
            Self::EmailDelayed => "email.delayed",
            Self::EmailBounced => "email.bounced",
            Self::EmailComplained => "email.complained",
            Self::EmailOpened => "email.opened",
            Self::EmailClicked => "email.clicked",
            Self::EmailReplied => "email.replied",
            Self::EmailFailed => "email.failed",
            Self::EmailSkipped => "email.skipped",
            Self::EmailSuppressed => "email.suppressed",
            Self::ContactCreated => "contact.created",
            Self::ContactUpdated => "contact.updated",
            Self::ContactDeleted => "contact.deleted",
            Self::ContactMerged => "contact.merged",
            Self::ContactUnmerged => "contact.unmerged",
            Self::ContactSubscribed => "contact.subscribed",
            Self::ContactUnsubscribed => "contact.unsubscribed",
            Self::ContactResubscribed => "contact.resubscribed",
            Self::CampaignStarted => "campaign.started",
            Self::CampaignPaused => "campaign.paused",
            Self::CampaignFinished => "campaign.finished",
            Self::CampaignCancelled => "campaign.cancelled",
            Self::CampaignFailed => "campaign.failed",
            Self::SequenceStep => "sequence.step",
            Self::SegmentEntered => "segment.entered",
            Self::SegmentLeft => "segment.left",
            Self::ApprovalRequested => "approval.requested",
            Self::ApprovalApproved => "approval.approved",
            Self::ApprovalRejected => "approval.rejected",
            Self::ReminderSent => "reminder.sent",
            Self::ReminderFailed => "reminder.failed",
        }
    }
}

impl FromStr for EventType {
    type Err = EventTypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|one| one.as_str() == text);
        found.ok_or_else(|| EventTypeError(text.chars().take(ECHOED).collect()))
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an endpoint wants to be told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum EventTypes {
    /// Also what later versions tell.
    #[default]
    All,
    Only(BTreeSet<EventType>),
}

impl EventTypes {
    pub fn has(&self, one: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(some) => some.iter().any(|wanted| wanted.as_str() == one),
        }
    }

    /// The words in their order. None means all.
    pub fn words(&self) -> Vec<&'static str> {
        match self {
            Self::All => Vec::new(),
            Self::Only(some) => some.iter().map(|one| one.as_str()).collect(),
        }
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::Value::from(self.words()).to_string()
    }

    /// A word that this program does not know, because a newer node has written it, is passed over. What is left may be
    /// nothing, which is not the same as all.
    pub(crate) fn from_json(text: &str) -> Option<Self> {
        let words: Vec<String> = serde_json::from_str(text).ok()?;
        if words.is_empty() {
            return Some(Self::All);
        }
        Some(Self::Only(words.iter().filter_map(|word| word.parse().ok()).collect()))
    }
}

/// None of them means all.
impl FromIterator<EventType> for EventTypes {
    fn from_iter<I: IntoIterator<Item = EventType>>(types: I) -> Self {
        let some: BTreeSet<_> = types.into_iter().collect();
        if some.is_empty() { Self::All } else { Self::Only(some) }
    }
}

#[cfg(test)]
mod tests {
    use super::{EventType, EventTypes};

    #[test]
    fn words_are_stored_and_read_back() {
        for one in EventType::ALL {
            assert_eq!(one.as_str().parse(), Ok(one));
        }
        let some: EventTypes =
            [EventType::ContactCreated, EventType::EmailSent].into_iter().collect();
        assert_eq!(some.to_json(), r#"["email.sent","contact.created"]"#);
        assert_eq!(EventTypes::from_json(&some.to_json()), Some(some));
        assert_eq!(EventTypes::from_json("[]"), Some(EventTypes::All));
        assert_eq!(EventTypes::from_json("email.sent"), None);
    }

    #[test]
    fn a_word_of_a_newer_version_does_not_become_all_of_them() {
        let newer = EventTypes::from_json(r#"["planet.discovered"]"#).unwrap();
        assert!(!newer.has("email.sent"));
        assert!(EventTypes::All.has("planet.discovered"));
    }
}
