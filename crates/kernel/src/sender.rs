//! The port of a mail provider: a finished message is handed over, and one of a few things is the answer.
//!
//! Not here: how a message is put together (`mail`), who is written to and when (`delivery`).

use std::time::Duration;

use async_trait::async_trait;

use crate::address::EmailAddress;

/// A message as it goes over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// The envelope's sender: where bounces go.
    pub from: EmailAddress,
    /// Everybody who gets it, whatever the headers say.
    pub to: Vec<EmailAddress>,
    /// The whole message: headers and body, RFC 5322.
    pub mime: Vec<u8>,
    /// What the provider gives back with everything it tells of this message: names and values of `A-Za-z0-9_-`.
    pub tags: Vec<(&'static str, String)>,
    pub lane: Lane,
}

/// Who is in a hurry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lane {
    /// Somebody waits for it: transactional mail.
    #[default]
    Transactional,
    /// Everything else. It waits while the other lane waits.
    Campaign,
}

/// Somebody who takes mail.
#[async_trait]
pub trait Sender: Send + Sync {
    /// For logs and the ledger: `smtp`, `ses`, `capture`.
    fn name(&self) -> &'static str;

    /// How many messages it carries at once, if there is a bound; the others wait inside `send`.
    fn at_once(&self) -> Option<usize> {
        None
    }

    /// Hands a message over, once. It never tries again by itself.
    async fn send(&self, mail: &Mail) -> Result<Accepted, SendError>;
}

/// A list of the provider's own of addresses that it does not write to, whatever we hand over.
#[async_trait]
pub trait ProviderSuppressions: Send + Sync {
    /// The provider writes to the address no more. Doing it again changes nothing.
    async fn suppress(&self, email: &EmailAddress, reason: SuppressedFor) -> Result<(), SendError>;

    /// The provider writes to the address again. Nothing happens if it did before.
    async fn lift(&self, email: &EmailAddress) -> Result<(), SendError>;
}

/// Why a provider does not write to an address: no provider knows more reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuppressedFor {
    Bounce,
    Complaint,
}

/// The provider has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accepted {
    /// What the provider calls it, where it does.
    pub provider_id: Option<String>,
    /// Who of those after the first does not get it, and why: the first one decides for the message, and each of the others
    /// for himself.
    pub left_out: Vec<(EmailAddress, SendError)>,
}

impl Accepted {
    /// For everybody whom it goes to.
    pub fn by_all(provider_id: Option<String>) -> Self {
        Self { provider_id, left_out: Vec::new() }
    }
}

/// Why a message was not accepted. What can be done about it is all that differs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The provider has certainly not taken it, and never will: a rejected message.
    #[error("refused for good: {0}")]
    Refused(String),
    /// The same because of the address alone: nobody can be reached there, whatever is sent. `status` is by RFC 3463.
    #[error("refused for good: {reason}")]
    NoSuchAddress { reason: String, status: String },
    /// It has certainly not taken it now: try again.
    #[error("not taken now: {0}")]
    Later(String),
    /// The same, because there were too many: go slower.
    #[error("too many at once: {reason}")]
    Throttled { reason: String, retry_after: Option<Duration> },
    /// The provider takes nothing from us at all (wrong password, sending paused): nothing is wrong with the message.
    #[error("the provider takes no mail from us: {0}")]
    Closed(String),
    /// It was handed over and no answer came: it may be on its way.
    #[error("handed over without an answer: {0}")]
    Uncertain(String),
}
