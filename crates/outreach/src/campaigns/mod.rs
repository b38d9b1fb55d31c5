//! Campaigns: one message to many, exactly once each.
//!
//! Here: what a campaign is (this file), writing it down (`draft`, `duplicate`), which moves it can make (`life`), starting and stopping
//! it (`control`), finding its recipients (`snapshot`), handing them on in batches (`batches`, `lost`) as fast as it may (`pace`),
//! and stopping by itself when too much comes back (`brake`) or it is too late (`late`); what came of it (`results`), recipient by recipient
//! (`recipients`), and why somebody got it or not (`why`). Not here: whom a condition means (`audience`), who may be
//! written to (`delivery::eligibility`), and what came back (`signals`).
//!
//! What a campaign does next, its row says: a message in `campaign-steps` only makes a worker look (`steps`). Whoever
//! changes a campaign locks its row first, so that two nodes do it one after the other.

pub mod batches;
pub mod brake;
pub mod broadcast;
pub mod control;
pub mod draft;
pub mod dry_run;
pub mod duplicate;
mod late;
pub mod life;
mod lost;
pub mod named;
mod news;
pub mod pace;
pub mod progress;
pub mod recipients;
pub mod restored;
pub mod results;
pub mod sending;
mod snapshot;
pub mod steps;
pub mod store;
pub mod tallies;
pub mod test_send;
#[cfg(test)]
mod tests;
pub mod variants;
pub mod why;
pub mod written;

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidings_access::ClientId;
pub use tidings_delivery::transactional::Tracking;
use tidings_people::consent::{AudienceId, TopicId};

use crate::audience::Own;

tidings_access::row_ids! {
    CampaignId
    /// A row of `campaign_moves`.
    MoveId
    /// A row of `campaign_recipients`.
    RecipientId
}

/// Where a campaign is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    Draft,
    Scheduled,
    /// Its recipients are being written down.
    Snapshotting,
    Sending,
    Paused,
    Sent,
    Cancelled,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use one of {}", Status::ALL.map(Status::as_str).join(", "))]
pub struct StatusError;

/// A campaign as its row has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Campaign {
    pub id: CampaignId,
    pub workspace: i64,
    pub client: ClientId,
    pub external_key: Option<String>,
    pub name: String,
    pub audience: Option<AudienceId>,
    pub topic: Option<TopicId>,
    /// Whom it means: a condition (`audience`), as JSON. In lists it is empty.
    pub filter: Value,
    pub sender: Sender,
    /// What is sent, where a variant says nothing else. In lists it has no bodies.
    pub content: Content,
    /// None, or at least two.
    pub variants: Vec<Variant>,
    pub test: Option<Test>,
    pub tracking: Tracking,
    /// The caller's own notes.
    pub metadata: Map<String, Value>,
    pub schedule: Option<Schedule>,
    /// The most messages of an hour.
    pub rate_per_hour: Option<i64>,
    /// The most messages of the first day, of the second, and so on.
    pub warmup: Vec<i64>,
    pub status: Status,
    pub status_at: Timestamp,
    /// Why it is paused.
    pub pause_reason: Option<String>,
    /// What it goes on with when it is resumed.
    pub paused_in: Option<Status>,
    /// Why it failed.
    pub last_error: Option<String>,
    pub progress: Progress,
    pub times: Times,
    /// A fingerprint of what was asked for.
    pub(super) request_hash: Option<String>,
}

/// Whom it comes from: named while it is a draft, frozen with its addresses when it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sender {
    /// One of the client's senders; else the template's, else the client's default.
    pub slug: Option<String>,
    pub from_email: Option<String>,
    pub from_name: Option<String>,
    pub reply_to: Option<String>,
}

/// What is sent: a stored template, or a subject with bodies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    pub template: Option<Template>,
    /// With a template, it stands in the place of the template's.
    pub subject: Option<String>,
    pub preview_text: Option<String>,
    pub html: Option<String>,
    pub text: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pub key: String,
    /// Frozen when the campaign starts.
    pub version: Option<i64>,
}

/// One of several contents, of which each person gets one. What it does not say is as in the campaign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    pub name: String,
    /// How many get it, in relation to the others.
    pub weight: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Frozen when the campaign starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_version: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// Only a part gets the variants; the rest gets the one that did best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test {
    /// How many of a hundred are part of the test.
    pub percent: i64,
    pub metric: Metric,
    /// How long after the last of the test the winner is decided.
    pub wait_ms: i64,
}

/// What the best variant has most of, for each message sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    Opens,
    Clicks,
}

/// When it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    At(Timestamp),
    /// When it is that time where each person is.
    Local(DateTime),
}

impl Schedule {
    /// The first moment at which somebody is to get it.
    pub fn due(self) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Local(local) => pace::earliest(local),
        }
    }
}

/// How far it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Everybody it means, those who are skipped too.
    pub recipients: i64,
    pub batches: i64,
    pub snapshot_cursor: Option<String>,
    pub snapshot_done_at: Option<Timestamp>,
    /// Up to which recipient failed ones were collected, while that goes on.
    pub retry_cursor: Option<i64>,
    pub decide_at: Option<Timestamp>,
    /// The place of the variant that did best.
    pub winner: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub scheduled_at: Option<Timestamp>,
    pub started_at: Option<Timestamp>,
    pub sent_at: Option<Timestamp>,
}

impl Campaign {
    /// What its counters, its lines in the send log and its broadcast record are kept under.
    pub fn key(&self) -> String {
        key_of(self.id, self.external_key.as_deref())
    }

    pub(super) fn state(&self, now: Timestamp) -> life::State {
        let due = self.times.scheduled_at.is_none_or(|at| at <= now);
        life::State { status: self.status, paused_in: self.paused_in, due }
    }

    /// What it says of itself to the gate.
    pub(super) fn own(&self) -> Own {
        Own { client: self.client, audience: self.audience, topic: self.topic }
    }

    /// Which variant a recipient gets whose row has this arm: who was not part of a test gets the winner.
    pub fn arm(&self, of_row: Option<i64>) -> Option<i64> {
        if self.variants.is_empty() { None } else { of_row.or(self.progress.winner) }
    }

    /// What a recipient gets whose row has this arm.
    pub fn content_for(&self, of_row: Option<i64>) -> Content {
        let place = self.arm(of_row).and_then(|arm| usize::try_from(arm).ok());
        let Some(variant) = place.and_then(|place| self.variants.get(place)) else {
            return self.content.clone();
        };
        match &variant.template {
            Some(key) => Content {
                template: Some(Template { key: key.clone(), version: variant.template_version }),
                subject: variant.subject.clone(),
                ..Content::default()
            },
            None => Content {
                subject: variant.subject.clone().or_else(|| self.content.subject.clone()),
                ..self.content.clone()
            },
        }
    }
}

/// A campaign's own key, or one that is made from its id.
pub fn key_of(id: CampaignId, external_key: Option<&str>) -> String {
    external_key.map_or_else(|| format!("campaign-{id}"), ToOwned::to_owned)
}

impl Status {
    pub const ALL: [Self; 8] = [
        Self::Draft,
        Self::Scheduled,
        Self::Snapshotting,
        Self::Sending,
        Self::Paused,
        Self::Sent,
        Self::Cancelled,
        Self::Failed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Scheduled => "scheduled",
            Self::Snapshotting => "snapshotting",
            Self::Sending => "sending",
            Self::Paused => "paused",
            Self::Sent => "sent",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// Whether what it says can still be changed.
    pub fn is_editable(self) -> bool {
        matches!(self, Self::Draft | Self::Scheduled)
    }
}

impl FromStr for Status {
    type Err = StatusError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or(StatusError)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use opens or clicks")]
pub struct MetricError;

impl Metric {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Opens => "opens",
            Self::Clicks => "clicks",
        }
    }
}

impl FromStr for Metric {
    type Err = MetricError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "opens" => Ok(Self::Opens),
            "clicks" => Ok(Self::Clicks),
            _ => Err(MetricError),
        }
    }
}
