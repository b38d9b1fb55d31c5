//! What is stored of reminders, as seed 002 has it, and what we keep besides.
//!
//! Each record is read from an item and written to one here and nowhere else. Times are in whole seconds, as in the seed.

mod account;
mod draft;
mod payment;
mod sent;
mod state;
mod values;

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::Date;
use tidings_kernel::EmailAddress;

use crate::ids::{CustomerId, DraftId, InvoiceId, Kind};
use crate::money::Money;

pub(crate) use account::{Account, Standing, Unclaimed};
pub(crate) use draft::hash_of;
pub(crate) use state::{FOUND_DAYS, Last, Owed, State};
pub(crate) use values::{damaged, time, ttl, whole};

/// Where a draft is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// It waits for whoever approves it.
    Draft,
    /// It will be sent.
    Approved,
    /// It is in the hands of the mail core.
    Sending,
    Sent,
    Failed,
    Rejected,
    /// Nobody decided in time.
    Expired,
    /// Another draft took its place.
    Superseded,
    /// It is not needed any more: the customer paid, or was erased.
    Withdrawn,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use one of {}", Status::ALL.map(Status::as_str).join(", "))]
pub struct StatusError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContentType {
    Text,
    Html,
}

/// An invoice that somebody owes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invoice {
    pub id: InvoiceId,
    /// In the currency of the draft.
    pub amount: Option<Money>,
    pub due: Option<Date>,
}

/// The template that a draft was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateRef {
    pub id: String,
    pub version: i64,
}

/// That somebody has approved exactly this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The person.
    pub by: String,
    /// By which key or command.
    pub actor: String,
    pub at: Timestamp,
    /// The hash and the edition of what was seen.
    pub hash: String,
    pub edition: i64,
}

/// What a draft was before an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edition {
    pub edition: i64,
    pub hash: String,
    /// Who wrote the one after it, and when.
    pub replaced_by: String,
    pub replaced_at: Timestamp,
    pub subject: String,
    pub content: String,
    pub amount: Money,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub id: DraftId,
    pub customer: CustomerId,
    /// These are gone once the person is erased.
    pub name: Option<String>,
    pub email: Option<EmailAddress>,
    pub subject: Option<String>,
    pub content: Option<String>,
    pub content_type: ContentType,
    pub kind: Kind,
    pub status: Status,
    /// Why it is what it is, where somebody or something said so.
    pub reason: Option<String>,
    pub created_at: Timestamp,
    pub created_by: String,
    pub owed: Money,
    pub invoices: Vec<Invoice>,
    pub template: Option<TemplateRef>,
    /// Of all that is approved: to whom, what, how much, for which invoices. 64 hexadecimal digits.
    pub hash: String,
    /// 1, and one more with each edit.
    pub edition: i64,
    pub approvals: Vec<Approval>,
    /// How many different people have to approve it, as it was when the last one did or when it was made.
    pub approvals_needed: u32,
    pub approved_at: Option<Timestamp>,
    pub decided_by: Option<String>,
    pub expires_at: Timestamp,
    /// When the status became what it is.
    pub changed_at: Timestamp,
    /// Its message in the ledger.
    pub message: Option<i64>,
    /// The sort key of the record of its sending.
    pub sent: Option<String>,
    /// Earlier editions, the oldest first.
    pub editions: Vec<Edition>,
    /// What the customer's state said of this kind before this one was sent.
    pub(crate) before: Option<Last>,
    /// As whom it is sent: decided once, so that a second try is the same message.
    pub(crate) client: Option<i64>,
    pub(crate) sender: Option<String>,
    pub(crate) rev: i64,
}

/// What became of a reminder that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Delivery {
    Sent,
    Failed,
    Delivered,
    Bounced,
    Complained,
}

/// A reminder that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Its sort key without `SENT#`.
    pub id: String,
    pub customer: CustomerId,
    pub kind: Kind,
    /// These are gone once the person is erased.
    pub email: Option<String>,
    pub subject: Option<String>,
    pub content: Option<String>,
    pub content_type: ContentType,
    pub sent_at: Timestamp,
    /// The people, in the order in which they did.
    pub approved_by: Vec<String>,
    pub approved_at: Option<Timestamp>,
    pub drafted_at: Timestamp,
    pub owed: Money,
    pub invoices: Vec<InvoiceId>,
    pub draft: DraftId,
    pub message: i64,
    pub provider_message_id: Option<String>,
    pub delivery: Delivery,
}

/// Money that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paid {
    pub customer: CustomerId,
    /// `None` if the customer paid all that he owed.
    pub invoice: Option<InvoiceId>,
    /// What tells it from every other payment of the customer.
    pub reference: String,
    pub money: Option<Money>,
    /// What of it was more than was owed.
    pub over: Option<Money>,
    pub paid_at: Timestamp,
    /// The last reminder before it that named the invoice.
    pub recovered_after: Option<Kind>,
}

impl Status {
    pub const ALL: [Self; 9] = [
        Self::Draft,
        Self::Approved,
        Self::Sending,
        Self::Sent,
        Self::Failed,
        Self::Rejected,
        Self::Expired,
        Self::Superseded,
        Self::Withdrawn,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Approved => "approved",
            Self::Sending => "sending",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// Whether something can still become of it.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Draft | Self::Approved | Self::Sending)
    }
}

impl FromStr for Status {
    type Err = StatusError;

    fn from_str(text: &str) -> Result<Self, StatusError> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or(StatusError)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ContentType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Html => "html",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Text, Self::Html].into_iter().find(|one| one.as_str() == text)
    }
}

impl Delivery {
    pub const ALL: [Self; 5] =
        [Self::Sent, Self::Failed, Self::Delivered, Self::Bounced, Self::Complained];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Delivered => "delivered",
            Self::Bounced => "bounced",
            Self::Complained => "complained",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}
