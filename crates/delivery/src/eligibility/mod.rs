//! Eligibility: whether a message may go to a person now, and why (not).
//!
//! Here: the one function that is asked when a person is previewed, snapshotted, and again right before sending. Not
//! here: what people agreed to (`people::consent`), and what becomes of a message that may not go: its row is skipped
//! with the reason, or waits (`ledger`).
//!
//! The order is that of the checks in `rules`: the first that stops a message is the reason. Nothing ignores a
//! suppression.

mod claiming;
mod facts;
mod many;
pub mod rules;
pub mod settings;
#[cfg(test)]
mod tests;

use std::str::FromStr;

use jiff::Timestamp;
use tidings_access::{ClientId, Cx, StorageError};
use tidings_kernel::EmailAddress;
use tidings_people::consent::{AudienceId, TopicId};

use self::rules::Cap;

pub use claiming::{Claiming, put_off};
pub use facts::Facts;
pub use many::{
    Answer, Mailing, ManyRelations, Person, check_all, check_all_with, relations_all, skips_all,
};
pub use tidings_people::suppression::Loaded;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// He caused it, and waits for it.
    Transactional,
    Sequence,
    Campaign,
    /// A person has approved it for this person.
    Reminder,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub kind: Kind,
    pub email: EmailAddress,
    pub client: ClientId,
    pub audience: Option<AudienceId>,
    pub topic: Option<TopicId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Send,
    Skip(Reason),
    /// Not now. Ask again then.
    Defer {
        reason: Reason,
        until: Timestamp,
    },
}

/// Why not, as ledger rows and answers have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    HardBounce,
    Complaint,
    Manual,
    Erased,
    GlobalUnsubscribe,
    AudienceUnsubscribe,
    ClientUnsubscribe,
    NotSubscribed,
    TopicOff,
    Unverified,
    InvalidAddress,
    FrequencyCap,
    QuietHours,
}

/// The verdict, and how it came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub verdict: Verdict,
    /// All of them, in their order. The first that does not pass decides.
    pub checks: Vec<Checked>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    pub check: Check,
    pub outcome: Outcome,
    /// What it was decided on, in words. It names no person.
    pub fact: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// It does not matter for such a message.
    NotAsked,
    Stopped(Reason),
    PutOff {
        reason: Reason,
        until: Timestamp,
    },
}

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Check {
    Suppression,
    Erasure,
    GlobalUnsubscribe,
    AudienceUnsubscribe,
    ClientUnsubscribe,
    Subscription,
    Topic,
    Address,
    Verification,
    FrequencyCap,
    QuietHours,
}

/// Whether a message may go now. It reads and changes nothing, so it may be asked at any time.
pub async fn check(cx: &Cx, question: &Question) -> Result<Explanation, StorageError> {
    Ok(check_capped(cx, question).await?.0)
}

/// The same for whoever claims the message then, with the cap that he has to ask about once more (`put_off`), if there is one
/// for such a message.
pub(crate) async fn check_capped(
    cx: &Cx,
    question: &Question,
) -> Result<(Explanation, Option<Cap>), StorageError> {
    let relations = facts::load(cx, question).await?;
    let (facts, policy) = facts::complete(cx, question, relations).await?;
    let cap = policy.cap.filter(|_| question.kind.is_marketing());
    Ok((rules::decide(question, &facts, &policy, cx.now()), cap))
}

impl Kind {
    pub const ALL: [Self; 4] =
        [Self::Transactional, Self::Sequence, Self::Campaign, Self::Reminder];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transactional => "transactional",
            Self::Sequence => "sequence",
            Self::Campaign => "campaign",
            Self::Reminder => "reminder",
        }
    }

    /// Whether it goes to those only who want it.
    pub fn is_marketing(self) -> bool {
        match self {
            Self::Sequence | Self::Campaign => true,
            Self::Transactional | Self::Reminder => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use transactional, sequence, campaign or reminder")]
pub struct KindError;

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, KindError> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(KindError)
    }
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Skip(_) => "skip",
            Self::Defer { .. } => "defer",
        }
    }

    pub fn reason(self) -> Option<Reason> {
        match self {
            Self::Send => None,
            Self::Skip(reason) | Self::Defer { reason, .. } => Some(reason),
        }
    }

    pub fn until(self) -> Option<Timestamp> {
        match self {
            Self::Send | Self::Skip(_) => None,
            Self::Defer { until, .. } => Some(until),
        }
    }
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HardBounce => "hard_bounce",
            Self::Complaint => "complaint",
            Self::Manual => "manual",
            Self::Erased => "erased",
            Self::GlobalUnsubscribe => "global_unsubscribe",
            Self::AudienceUnsubscribe => "audience_unsubscribe",
            Self::ClientUnsubscribe => "client_unsubscribe",
            Self::NotSubscribed => "not_subscribed",
            Self::TopicOff => "topic_off",
            Self::Unverified => "unverified",
            Self::InvalidAddress => "invalid_address",
            Self::FrequencyCap => "frequency_cap",
            Self::QuietHours => "quiet_hours",
        }
    }
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::NotAsked => "not_asked",
            Self::Stopped(_) => "stopped",
            Self::PutOff { .. } => "put_off",
        }
    }
}

impl Check {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Suppression => "suppression",
            Self::Erasure => "erasure",
            Self::GlobalUnsubscribe => "global_unsubscribe",
            Self::AudienceUnsubscribe => "audience_unsubscribe",
            Self::ClientUnsubscribe => "client_unsubscribe",
            Self::Subscription => "subscription",
            Self::Topic => "topic",
            Self::Address => "address",
            Self::Verification => "verification",
            Self::FrequencyCap => "frequency_cap",
            Self::QuietHours => "quiet_hours",
        }
    }
}
