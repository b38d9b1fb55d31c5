//! Copies that the server did not take with their message: what is known of each, and when it is tried again. Pure but for
//! the two statements at the end.
//!
//! A message is sent when its recipient has it, and is never handed over again because of a copy: a copy that was refused for
//! now goes later, by itself and to nobody else. They are few, so the row of their message has all of them, as JSON. Like
//! the message itself, a copy is claimed before it is handed over, and uncertain if no answer comes. Not here: handing it
//! over (`worker::copies`).

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_kernel::{EmailAddress, SendError};
use tidings_sql::{DatabaseError, Param, Tx};

use super::MessageId;
use super::marks::shortened;
use crate::ledger::answers::{self, LEASE, MOST_REFUSALS, Refusal, until};

/// Somebody to whom the server did not give a copy with the message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateCopy {
    pub to: String,
    pub status: CopyStatus,
    /// What the server said last.
    pub error: Option<String>,
    /// How often it was handed over, with the message and since.
    pub attempts: u32,
    /// How often that was "not now".
    pub refusals: u32,
    /// What waits is not tried before, and what is claimed is so until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CopyStatus {
    Waiting,
    Claimed,
    Sent,
    Failed,
    Skipped,
    /// Handed over without an answer. It is not sent again.
    Uncertain,
}

impl CopyStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Claimed => "claimed",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Uncertain => "uncertain",
        }
    }
}

/// What is to be done about the copies of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next<'a> {
    Nothing,
    Wait(Duration),
    Send(&'a LateCopy),
    /// Whoever claimed it is gone.
    GiveUp(&'a LateCopy),
}

impl LateCopy {
    /// A copy that was refused with its message.
    pub(super) fn refused(to: &EmailAddress, error: &SendError, now: Timestamp) -> Self {
        let claimed = Self {
            to: to.to_string(),
            status: CopyStatus::Claimed,
            error: None,
            attempts: 1,
            refusals: 0,
            until: None,
        };
        match error {
            // The server has the message and did not take this one: it is asked again a little later.
            SendError::Uncertain(_) | SendError::Closed(_) => {
                let error = SendError::Later(error.to_string());
                claimed.answered(Some(&error), now)
            }
            error => claimed.answered(Some(error), now),
        }
    }

    pub(super) fn claimed(self, now: Timestamp) -> Self {
        let until = now.checked_add(LEASE).ok();
        Self { status: CopyStatus::Claimed, attempts: self.attempts + 1, until, ..self }
    }

    /// What becomes of it when the server has answered, with an error or without.
    pub(super) fn answered(self, error: Option<&SendError>, now: Timestamp) -> Self {
        let Some(error) = error else {
            return Self { status: CopyStatus::Sent, error: None, until: None, ..self };
        };
        let after = |wait: Duration| now.checked_add(wait).ok();
        let refusals = self.refusals + 1;
        let (status, refusals, until) = match answers::refused_again(error, self.attempts) {
            Refusal::Failed | Refusal::Bounced => (CopyStatus::Failed, self.refusals, None),
            Refusal::Again if refusals >= MOST_REFUSALS => (CopyStatus::Failed, refusals, None),
            Refusal::Again => {
                (CopyStatus::Waiting, refusals, after(answers::not_now(refusals.into())))
            }
            Refusal::Later(wait) => (CopyStatus::Waiting, self.refusals, after(wait)),
            Refusal::Uncertain => (CopyStatus::Uncertain, self.refusals, None),
        };
        Self { status, error: Some(shortened(&error.to_string())), refusals, until, ..self }
    }

    pub(super) fn ended(self, status: CopyStatus, why: &str) -> Self {
        Self { status, error: Some(shortened(why)), until: None, ..self }
    }

    /// Whether it is the same, as far as anybody could have done something with it.
    fn is_as(&self, before: &Self) -> bool {
        self.to == before.to && self.status == before.status && self.attempts == before.attempts
    }
}

pub(super) fn next(copies: &[LateCopy], now: Timestamp) -> Next<'_> {
    let mut wait = None;
    for copy in copies {
        let due = copy.until.is_none_or(|until| until <= now);
        match copy.status {
            CopyStatus::Waiting if due => return Next::Send(copy),
            CopyStatus::Claimed if due => return Next::GiveUp(copy),
            CopyStatus::Waiting | CopyStatus::Claimed => {
                let after = copy.until.map_or(Duration::ZERO, |at| until(at, now));
                wait = Some(wait.map_or(after, |wait: Duration| wait.min(after)));
            }
            CopyStatus::Sent | CopyStatus::Failed | CopyStatus::Skipped | CopyStatus::Uncertain => {
            }
        }
    }
    wait.map_or(Next::Nothing, Next::Wait)
}

pub(super) fn read(text: Option<&str>) -> Result<Vec<LateCopy>, DatabaseError> {
    let Some(text) = text else { return Ok(Vec::new()) };
    serde_json::from_str(text).map_err(|_| DatabaseError::damaged(0, "late copies"))
}

/// Notes what was refused with the message, of those whom it still names: who was erased meanwhile is not written down
/// again. To be called in the commit that says that the message was sent.
pub(super) fn note(
    tx: &mut Tx<'_>,
    id: MessageId,
    refused: &[LateCopy],
) -> Result<Vec<LateCopy>, DatabaseError> {
    if refused.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT CAST(envelope AS TEXT), late_copies FROM transactional_messages
               WHERE id = $1 AND email IS NOT NULL";
    let rows = tx.query(sql, &[Param::Int(id.get())])?;
    let Some(row) = rows.first() else { return Ok(Vec::new()) };
    // This commit may be made again after nobody heard of it.
    if row.optional_text(1)?.is_some() {
        return read(row.optional_text(1)?);
    }
    let envelope: super::store::Envelope =
        serde_json::from_str(row.text(0)?).map_err(|_| DatabaseError::damaged(0, "an envelope"))?;
    let named: Vec<EmailAddress> =
        envelope.cc.iter().chain(&envelope.bcc).filter_map(|text| text.parse().ok()).collect();
    let is_named =
        |copy: &&LateCopy| copy.to.parse::<EmailAddress>().is_ok_and(|to| named.contains(&to));
    let copies: Vec<LateCopy> = refused.iter().filter(is_named).cloned().collect();
    if !copies.is_empty() {
        write(tx, id, &copies)?;
    }
    Ok(copies)
}

/// Changes one copy that is still as it was. `None` if it is not: somebody else was faster, or he was erased. Otherwise all
/// of them as they are now. Only in a transaction that sees no change of others half-way.
pub(super) fn change(
    tx: &mut Tx<'_>,
    id: MessageId,
    (before, after): (&LateCopy, &LateCopy),
) -> Result<Option<Vec<LateCopy>>, DatabaseError> {
    let sql = "SELECT late_copies FROM transactional_messages WHERE id = $1";
    let rows = tx.query(sql, &[Param::Int(id.get())])?;
    let mut copies = read(rows.first().ok_or(DatabaseError::NoRow)?.optional_text(0)?)?;
    let Some(copy) = copies.iter_mut().find(|copy| copy.is_as(before)) else { return Ok(None) };
    *copy = after.clone();
    write(tx, id, &copies)?;
    Ok(Some(copies))
}

fn write(tx: &mut Tx<'_>, id: MessageId, copies: &[LateCopy]) -> Result<(), DatabaseError> {
    let text = serde_json::to_string(copies)
        .map_err(|error| DatabaseError::Statement(std::sync::Arc::new(error)))?;
    let sql = "UPDATE transactional_messages SET late_copies = $2 WHERE id = $1";
    tx.execute(sql, &[Param::Int(id.get()), Param::Text(&text)]).map(drop)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tidings_kernel::SendError;

    use super::{CopyStatus, LateCopy, Next, next};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn refused(error: &SendError) -> LateCopy {
        LateCopy::refused(&"copy@example.org".parse().unwrap(), error, at(0))
    }

    #[test]
    fn what_was_refused_for_now_waits_and_what_was_for_good_does_not() {
        let why = || "x".to_owned();
        let nobody = SendError::NoSuchAddress { reason: why(), status: "5.1.1".to_owned() };
        for (error, status) in [
            (SendError::Later(why()), CopyStatus::Waiting),
            (SendError::Throttled { reason: why(), retry_after: None }, CopyStatus::Waiting),
            (SendError::Closed(why()), CopyStatus::Waiting),
            (SendError::Refused(why()), CopyStatus::Failed),
            (nobody, CopyStatus::Failed),
        ] {
            assert_eq!(refused(&error).status, status, "{error}");
        }
    }

    #[test]
    fn a_copy_is_tried_when_its_time_has_come_and_given_up_when_its_claim_is_over() {
        let waiting = [refused(&SendError::Later("451".to_owned()))];
        assert!(matches!(next(&waiting, at(59)), Next::Wait(_)));
        assert_eq!(next(&waiting, at(60)), Next::Send(&waiting[0]));
        let claimed = [waiting[0].clone().claimed(at(60))];
        assert!(matches!(next(&claimed, at(179)), Next::Wait(_)));
        assert_eq!(next(&claimed, at(180)), Next::GiveUp(&claimed[0]));
        let sent = [claimed[0].clone().answered(None, at(61))];
        assert_eq!(next(&sent, at(500)), Next::Nothing);
    }

    #[test]
    fn a_copy_that_is_never_taken_has_failed_after_a_day() {
        let error = SendError::Later("451".to_owned());
        let (mut copy, mut now) = (refused(&error), at(0));
        while copy.status == CopyStatus::Waiting {
            now = copy.until.unwrap();
            copy = copy.claimed(now).answered(Some(&error), now);
        }
        assert_eq!((copy.status, copy.attempts), (CopyStatus::Failed, 10));
        assert!(now > at(24 * 60 * 60));
    }
}
