//! Consent: what people have agreed to, how we know, and how it changes.
//!
//! Here: audiences and topics, subscriptions and their states, double opt-in, and the proof of every change. Not here:
//! whether a message may be sent (`delivery::eligibility`), the mail that asks for a confirmation
//! (`delivery::confirmation`), and addresses that must not be written to whatever anyone has agreed to (`suppression`).
//!
//! What somebody took back comes back only if he himself gives it again, or an operator says why. An import or a
//! program that repeats what it knows never weakens it.

pub mod audiences;
mod client;
pub mod confirmations;
mod contact;
pub(crate) mod erased;
mod everything;
pub mod merged;
pub mod preferences;
pub mod proof;
mod rows;
pub mod rules;
pub mod subscriptions;
#[cfg(test)]
mod tests;
pub mod topics;

use std::fmt;
use std::str::FromStr;

use tidings_access::row_ids;
use tidings_kernel::EmailAddress;

pub use crate::contacts::ContactId;
pub use proof::{Act, Line, LineError, Proof};

row_ids! {
    AudienceId
    TopicId
    SubscriptionId
}

/// Who is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// Whoever has this address. Where something is written, he is made if there is nobody.
    Email(EmailAddress),
    Contact(ContactId),
}

/// Who acts. It decides what may be given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// The person: on a page of ours, or on one of the client's.
    Person,
    /// Somebody who works here, and says why.
    Operator,
    /// A program that tells what it knows: an import, a synchronisation.
    Import,
}

/// How a subscription stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Asked for, and not confirmed yet.
    Pending,
    Subscribed,
    Unsubscribed,
}

/// How much somebody takes back, or gives again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Everything that is not transactional.
    Global,
    /// An audience, whoever writes to it.
    Audience(AudienceId),
    /// One client's mail to an audience.
    Client(AudienceId, tidings_access::ClientId),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use {0}")]
pub struct WordError(&'static str);

impl By {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Operator => "operator",
            Self::Import => "import",
        }
    }
}

impl FromStr for By {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        match text {
            "person" => Ok(Self::Person),
            "operator" => Ok(Self::Operator),
            "import" => Ok(Self::Import),
            _ => Err(WordError("person, operator or import")),
        }
    }
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Subscribed => "subscribed",
            Self::Unsubscribed => "unsubscribed",
        }
    }
}

impl FromStr for Status {
    type Err = WordError;

    fn from_str(text: &str) -> Result<Self, WordError> {
        match text {
            "pending" => Ok(Self::Pending),
            "subscribed" => Ok(Self::Subscribed),
            "unsubscribed" => Ok(Self::Unsubscribed),
            _ => Err(WordError("pending, subscribed or unsubscribed")),
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<EmailAddress> for Whom {
    fn from(email: EmailAddress) -> Self {
        Self::Email(email)
    }
}

impl From<ContactId> for Whom {
    fn from(contact: ContactId) -> Self {
        Self::Contact(contact)
    }
}
