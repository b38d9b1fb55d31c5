//! Transactional mail: one message to one person, asked for by an application and sent once.
//!
//! Here: what can be asked for (`request`), writing it down once however often it is asked (`accept`), the worker
//! that hands it over (`worker`), looking at it and cancelling it (`manage`), and what a person decides
//! about what nobody knows (`settle`). Not here: what came back (`signals`), how a provider is spoken to (`mail`), and who may be written to (`eligibility`).

mod accept;
mod copies;
mod in_flight;
mod letter;
mod manage;
mod marks;
mod named;
mod news;
mod purpose;
mod reminder;
mod request;
mod rules;
mod sequence;
mod settle;
mod store;
mod test_send;
#[cfg(test)]
mod tests;
mod worker;

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tidings_access::ClientId;

pub use accept::{AcceptError, Accepted, Messages, Preview};
pub use copies::{CopyStatus, LateCopy};
pub(crate) use manage::envelope;
pub use manage::{
    CancelError, Find, FindError, Found, Happened, List, MAX_REASON, cancel, cancel_queued_of,
    history, list, show, uncertain,
};
pub(crate) use purpose::queue_of;
pub(crate) use reminder::tell as tell_reminder;
pub use request::{
    Calendar, Content, Disposition, Lines, MAX_CONTENT_BYTES, MAX_CONTEXT_BYTES, MAX_COPIES,
    MAX_DEPTH, MAX_EXECUTION, MAX_HEADERS, MAX_KEY, MAX_LINE, MAX_METADATA_BYTES, MAX_PART_CHARS,
    MAX_PARTS, Part, PartBody, PartKind, PartOf, Send, Tracking, Wrong, check_key,
};
pub use settle::{Settle, SettleError, Settled, settle};
pub use test_send::{MAX_TEST, TestSend, Tested};
pub use worker::{Settings, Worker};

/// The most messages of one batch.
pub const MAX_BATCH: usize = 100;

tidings_access::row_ids! {
    MessageId
}

/// Where a message is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    Queued,
    Claimed,
    Sent,
    Failed,
    Skipped,
    Cancelled,
    /// Handed over without an answer. It is not sent again by itself.
    Uncertain,
    Delivered,
    Bounced,
    Complained,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use one of {}", Status::ALL.map(Status::as_str).join(", "))]
pub struct StatusError;

/// A message as the ledger has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub id: MessageId,
    pub client: ClientId,
    pub contact: i64,
    /// `None` once the person is erased.
    pub email: Option<String>,
    /// `None` if the caller gave none, or if it named somebody who was erased.
    pub idempotency_key: Option<String>,
    pub template_key: Option<String>,
    pub template_version: Option<i64>,
    pub from_email: Option<String>,
    pub from_name: Option<String>,
    pub reply_to: Option<String>,
    /// As it was sent, or will be.
    pub subject: Option<String>,
    pub metadata: Map<String, Value>,
    /// The sequence that it is part of.
    pub sequence_id: Option<String>,
    /// And whose walk through it.
    pub execution_id: Option<String>,
    /// And of which of its steps, as the sequence has it.
    pub sequence_step: Option<String>,
    /// The draft of the reminder that it is.
    pub reminder: Option<String>,
    pub status: Status,
    pub skip_reason: Option<String>,
    pub last_error: Option<String>,
    pub attempts: i64,
    pub provider: Option<String>,
    pub provider_message_id: Option<String>,
    pub open_count: i64,
    pub click_count: i64,
    /// Those to whom the server did not give a copy with it, and what became of them.
    pub late_copies: Vec<LateCopy>,
    pub times: Times,
}

/// When what happened, for the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub scheduled_at: Option<Timestamp>,
    pub handed_at: Option<Timestamp>,
    pub sent_at: Option<Timestamp>,
    pub delivered_at: Option<Timestamp>,
    pub bounced_at: Option<Timestamp>,
    pub complained_at: Option<Timestamp>,
    pub first_opened_at: Option<Timestamp>,
    pub first_clicked_at: Option<Timestamp>,
    pub unsubscribed_at: Option<Timestamp>,
}

impl Status {
    pub const ALL: [Self; 10] = [
        Self::Queued,
        Self::Claimed,
        Self::Sent,
        Self::Failed,
        Self::Skipped,
        Self::Cancelled,
        Self::Uncertain,
        Self::Delivered,
        Self::Bounced,
        Self::Complained,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Claimed => "claimed",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::Uncertain => "uncertain",
            Self::Delivered => "delivered",
            Self::Bounced => "bounced",
            Self::Complained => "complained",
        }
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
