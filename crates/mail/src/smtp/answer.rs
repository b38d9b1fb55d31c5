//! What a server's answer, or its silence, means for the message.

use std::error::Error as _;

use lettre::transport::smtp::Error;
use tidings_kernel::SendError;

/// How far a message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Connect,
    Login,
    Mail,
    Recipient,
    Data,
    /// The message itself was written, or begun to be.
    Body,
}

impl Step {
    /// Whoever fails here would fail with every message.
    pub(super) fn is_before_message(self) -> bool {
        matches!(self, Self::Connect | Self::Login)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Connect => "the connection",
            Self::Login => "the login",
            Self::Mail => "MAIL",
            Self::Recipient => "RCPT",
            Self::Data => "DATA",
            Self::Body => "the message",
        }
    }
}

pub(super) fn judge(error: &Error, step: Step) -> SendError {
    // Of an answer only the server's words: they are kept with the message.
    let said = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    match error.status() {
        Some(code) => judge_answer(step, u16::from(code), &said),
        // Without an answer. While the message was being written nobody knows how much of it has arrived.
        None if step == Step::Body => SendError::Uncertain(format!("{}: {said}", step.name())),
        // Nothing was said of the message yet, so that nothing can be wrong with it.
        None if step.is_before_message() || error.is_tls() || error.is_client() => {
            SendError::Closed(format!("{}: {said}", step.name()))
        }
        None => SendError::Later(format!("{}: {said}", step.name())),
    }
}

/// A code and the words with it. A server that answers has decided, so this is never uncertain.
pub(super) fn judge_answer(step: Step, code: u16, said: &str) -> SendError {
    let text = format!("{code} {said} to {}", step.name());
    let lower = said.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let shut = matches!(code, 530 | 534 | 535 | 538)
        || says(&[
            "sending paused",
            "sending is paused",
            "account suspended",
            "account is suspended",
            "account disabled",
            "account is disabled",
        ]);
    let too_many = code == 454
        || says(&[
            "throttl",
            "too many",
            "rate limit",
            "rate exceeded",
            "sending rate",
            "quota exceeded",
        ])
        || (said.starts_with("4.7.") && !says(&["greylist", "graylist"]));
    match (code, step) {
        (500.., Step::Connect | Step::Login) => SendError::Closed(text),
        (500.., _) if shut => SendError::Closed(text),
        (500.., _) => SendError::Refused(text),
        (_, Step::Login) => SendError::Closed(text),
        _ if too_many => SendError::Throttled { reason: text, retry_after: None },
        (_, Step::Connect) => SendError::Closed(text),
        _ => SendError::Later(text),
    }
}
