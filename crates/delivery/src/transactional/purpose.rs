//! What a message is to the person and what it is part of: who may get it, and which way it goes, follow from that.

use tidings_access::ClientId;
use tidings_kernel::{EmailAddress, Queue, queues};

use crate::eligibility::{Kind, Mailing, Question};
use crate::pace::Lane;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Purpose {
    /// Transactional, or of a sequence that can be left.
    pub(super) kind: Kind,
    pub(super) topic: Option<i64>,
    /// Whose consent counts, if it can be left.
    pub(super) audience: Option<i64>,
    /// By its slug.
    pub(super) sequence: Option<String>,
    pub(super) execution: Option<String>,
    /// As the sequence has it.
    pub(super) step: Option<String>,
    /// The draft of the reminder that it is.
    pub(super) reminder: Option<String>,
}

impl Purpose {
    /// Whether the person may get it.
    pub(super) fn question(&self, client: ClientId, email: EmailAddress) -> Question {
        self.mailing(client).about(email)
    }

    /// The same for whoever may get such a message.
    pub(super) fn mailing(&self, client: ClientId) -> Mailing {
        Mailing {
            kind: self.kind,
            client,
            audience: self.audience.map(Into::into),
            topic: self.topic.map(Into::into),
        }
    }

    pub(super) fn queue(&self) -> &'static Queue {
        queue_of(self.sequence.as_deref())
    }

    /// What can be left goes behind what somebody waits for.
    pub(super) fn lane(&self) -> Lane {
        if self.kind.is_marketing() { Lane::Campaign } else { Lane::Transactional }
    }

    /// Of a sequence, and yet something that somebody waits for.
    pub(super) fn is_awaited_part(&self) -> bool {
        self.sequence.is_some() && !self.kind.is_marketing()
    }
}

/// Who sends it: mail of sequences has a queue of its own.
pub(crate) fn queue_of(sequence: Option<&str>) -> &'static Queue {
    match sequence {
        Some(_) => &queues::SEQUENCE_EMAIL,
        None => &queues::TRANSACTIONAL_EMAIL,
    }
}
