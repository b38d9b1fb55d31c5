//! The way of a row through its states, one statement each. Every one says what it assumes, so that of two workers
//! one does it, and that what comes late changes nothing.
//!
//! `attempts` counts the claims, and so it tells a claim from the one before: an answer belongs to the claim that
//! asked for it.

use jiff::Timestamp;
use tidings_kernel::Outgoing;
use tidings_sql::{DatabaseError, Param, Tx};

use super::copies::{self, LateCopy};
use super::manage::envelope;
use super::store::Sendable;
use super::{MessageId, Status};
use crate::ledger::answers::{LEASE, MOST_REFUSALS, Refusal, not_now};

/// The most characters that are kept of what a provider said.
const MAX_ERROR: usize = 1_000;

/// What is handed over, frozen with the claim.
pub(super) struct Frozen<'a> {
    pub(super) subject: &'a str,
    pub(super) html: Option<&'a str>,
    pub(super) text: &'a str,
    pub(super) message_id: &'a str,
}

/// What a row says after the provider has taken its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Taken {
    /// As it is now: who was erased has none.
    pub(super) email: Option<String>,
    /// Where the send log has it, or will.
    pub(super) logged_at: Timestamp,
    /// Those who did not get a copy with it.
    pub(super) late_copies: Vec<LateCopy>,
}

/// Claims the message and says that it is being handed over, in one commit: from here on a crash leaves it uncertain.
/// `false` if somebody else was faster, or it is not to be sent any more.
pub(super) fn claim(
    tx: &mut Tx<'_>,
    row: &Sendable,
    node: &str,
    frozen: &Frozen<'_>,
    now: Timestamp,
) -> Result<bool, DatabaseError> {
    // What was rendered once stays: a second try says the same.
    let sql = "UPDATE transactional_messages
               SET status = 'claimed', claimed_by = $3, claimed_until = $4, handed_at = $5, attempts = attempts + 1,
                   subject = $6, html_body = $7, text_body = $8, message_id = $9,
                   rendered_at = COALESCE(rendered_at, $5), last_error = NULL, updated_at = $5
               WHERE id = $1 AND attempts = $2
                 AND (status = 'queued' OR (status = 'claimed' AND claimed_until <= $5 AND handed_at IS NULL))";
    let until = now.checked_add(LEASE).unwrap_or(Timestamp::MAX);
    let params = [
        Param::Int(row.id.get()),
        Param::Int(row.attempts),
        Param::Text(node),
        Param::Int(until.as_millisecond()),
        Param::Int(now.as_millisecond()),
        Param::Text(frozen.subject),
        frozen.html.map_or(Param::Null, Param::Text),
        Param::Text(frozen.text),
        Param::Text(frozen.message_id),
    ];
    Ok(tx.execute(sql, &params)? == 1)
}

/// The provider has it, and these copies it did not take. Its event may have come before this answer, and then knows more than it. `None` if
/// this is not the answer that the row waits for.
pub(super) fn accepted(
    tx: &mut Tx<'_>,
    row: &Sendable,
    (provider, provider_id, refused): (&str, Option<&str>, &[LateCopy]),
    now: Timestamp,
) -> Result<Option<Taken>, DatabaseError> {
    if let Some(mut taken) = accepted_while(tx, row, "<>", (provider, provider_id), now)? {
        taken.late_copies = copies::note(tx, row.id, refused)?;
        return Ok(Some(taken));
    }
    let mut taken = accepted_while(tx, row, "=", (provider, provider_id), now)?;
    if let Some(taken) = &mut taken {
        taken.late_copies = copies::note(tx, row.id, refused)?;
        // Whoever called it uncertain has acknowledged its message in the queue. If we die now, somebody else logs it.
        let body = envelope(row.id, row.client, &row.key)?;
        let message = Outgoing::new(row.purpose.queue(), body);
        tx.enqueue(&message, now)?;
    }
    Ok(taken)
}

/// While its status is, or is not, `uncertain`.
fn accepted_while(
    tx: &mut Tx<'_>,
    row: &Sendable,
    uncertain: &str,
    (provider, provider_id): (&str, Option<&str>),
    now: Timestamp,
) -> Result<Option<Taken>, DatabaseError> {
    let sql = format!(
        "UPDATE transactional_messages
         SET status = CASE WHEN status IN ('claimed', 'uncertain') THEN 'sent' ELSE status END,
             sent_at = COALESCE(sent_at, $3), logged_at = COALESCE(logged_at, $3),
             ses_message_id = COALESCE(ses_message_id, $4), provider = $5,
             claimed_by = NULL, claimed_until = NULL, updated_at = $3
         WHERE id = $1 AND attempts = $2 AND status NOT IN ('queued', 'skipped', 'cancelled')
           AND status {uncertain} 'uncertain'
         RETURNING email, logged_at"
    );
    let params = [
        Param::Int(row.id.get()),
        Param::Int(row.attempts + 1),
        Param::Int(now.as_millisecond()),
        provider_id.map_or(Param::Null, Param::Text),
        Param::Text(provider),
    ];
    let rows = tx.query(&sql, &params)?;
    let Some(row) = rows.first() else { return Ok(None) };
    let email = row.optional_text(0)?.map(str::to_owned);
    Ok(Some(Taken { email, logged_at: row.time(1)?, late_copies: Vec::new() }))
}

/// The provider does not have it, or did not say. Tells what became of the row and how often it was "not now", or `None` if
/// this is not the answer that it waits for.
pub(super) fn refused(
    tx: &mut Tx<'_>,
    row: &Sendable,
    refusal: &Refusal,
    (provider, error): (&str, &str),
    now: Timestamp,
) -> Result<Option<(Status, i64)>, DatabaseError> {
    let answer = (provider, error);
    if let Some(became) = refused_while(tx, (row, Status::Claimed), refusal, answer, now)? {
        return Ok(Some(became));
    }
    let became = refused_while(tx, (row, Status::Uncertain), refusal, answer, now)?;
    if became.is_some_and(|(status, _)| status == Status::Queued) {
        // Whoever called it uncertain has acknowledged its message in the queue, so it needs another one.
        let body = envelope(row.id, row.client, &row.key)?;
        let message = Outgoing::new(row.purpose.queue(), body);
        tx.enqueue(&message, now)?;
    }
    Ok(became)
}

fn refused_while(
    tx: &mut Tx<'_>,
    (row, status): (&Sendable, Status),
    refusal: &Refusal,
    (provider, error): (&str, &str),
    now: Timestamp,
) -> Result<Option<(Status, i64)>, DatabaseError> {
    let again =
        format!("CASE WHEN refusals + 1 >= {MOST_REFUSALS} THEN 'failed' ELSE 'queued' END");
    let (becomes, handed, refusals) = match refusal {
        Refusal::Failed => ("'failed'", "handed_at", 0),
        Refusal::Bounced => ("'bounced'", "handed_at", 0),
        Refusal::Again => (again.as_str(), "NULL", 1),
        Refusal::Later(_) => ("'queued'", "NULL", 0),
        Refusal::Uncertain => ("'uncertain'", "handed_at", 0),
    };
    let bounced = match refusal {
        Refusal::Bounced => "COALESCE(bounced_at, $5)",
        Refusal::Failed | Refusal::Again | Refusal::Later(_) | Refusal::Uncertain => "bounced_at",
    };
    let sql = format!(
        "UPDATE transactional_messages
         SET status = {becomes}, handed_at = {handed}, refusals = refusals + {refusals}, last_error = $3,
             bounced_at = {bounced}, provider = $4, claimed_by = NULL, claimed_until = NULL, updated_at = $5
         WHERE id = $1 AND attempts = $2 AND status = '{status}' RETURNING status, refusals"
    );
    let error = shortened(error);
    let params = [
        Param::Int(row.id.get()),
        Param::Int(row.attempts + 1),
        Param::Text(&error),
        Param::Text(provider),
        Param::Int(now.as_millisecond()),
    ];
    let rows = tx.query(&sql, &params)?;
    let Some(changed) = rows.first() else { return Ok(None) };
    let (became, times): (Status, i64) = (changed.parsed(0, "a status")?, changed.int(1)?);
    let wait = match refusal {
        Refusal::Again => Some(not_now(times)),
        Refusal::Later(after) => Some(*after),
        Refusal::Failed | Refusal::Bounced | Refusal::Uncertain => None,
    };
    if let (Status::Queued, Some(wait)) = (became, wait) {
        let sql = "UPDATE transactional_messages SET not_before = $2 WHERE id = $1";
        let at = now.checked_add(wait).unwrap_or(now);
        tx.execute(sql, &[Param::Int(row.id.get()), Param::from(at)])?;
    }
    Ok(Some((became, times)))
}

/// It cannot be sent as it is, and was not handed to anybody.
pub(super) fn failed(
    tx: &mut Tx<'_>,
    row: &Sendable,
    error: &str,
    now: Timestamp,
) -> Result<bool, DatabaseError> {
    let sql =
        "UPDATE transactional_messages SET status = 'failed', last_error = $3, updated_at = $4
               WHERE id = $1 AND attempts = $2 AND status = 'queued'";
    let error = shortened(error);
    let params = [
        Param::Int(row.id.get()),
        Param::Int(row.attempts),
        Param::Text(&error),
        Param::Int(now.as_millisecond()),
    ];
    Ok(tx.execute(sql, &params)? == 1)
}

/// Its queue gave it up before it was handed to anybody. If it is put back it is sent after all, but for a reminder: whoever
/// is told that one has failed drafts another.
pub(super) fn given_up(
    tx: &mut Tx<'_>,
    id: MessageId,
    why: &str,
    now: Timestamp,
) -> Result<bool, DatabaseError> {
    let sql = "UPDATE transactional_messages
               SET status = 'failed', last_error = $2, updated_at = $3,
                   given_up_at = CASE WHEN reminder IS NULL THEN $3 ELSE given_up_at END
               WHERE id = $1 AND status = 'queued'";
    let why = shortened(why);
    let params = [Param::Int(id.get()), Param::Text(&why), Param::Int(now.as_millisecond())];
    Ok(tx.execute(sql, &params)? == 1)
}

/// What the queue gave up waits again.
pub(super) fn revived(
    tx: &mut Tx<'_>,
    row: &Sendable,
    now: Timestamp,
) -> Result<bool, DatabaseError> {
    let sql = "UPDATE transactional_messages SET status = 'queued', given_up_at = NULL, not_before = NULL, updated_at = $2
               WHERE id = $1 AND status = 'failed' AND given_up_at IS NOT NULL AND email IS NOT NULL";
    let params = [Param::Int(row.id.get()), Param::Int(now.as_millisecond())];
    Ok(tx.execute(sql, &params)? == 1)
}

/// The person must not be written to.
pub(super) fn skipped(
    tx: &mut Tx<'_>,
    row: &Sendable,
    reason: &str,
    now: Timestamp,
) -> Result<bool, DatabaseError> {
    let sql =
        "UPDATE transactional_messages SET status = 'skipped', skip_reason = $3, updated_at = $4
               WHERE id = $1 AND attempts = $2 AND status = 'queued'";
    let params = [
        Param::Int(row.id.get()),
        Param::Int(row.attempts),
        Param::Text(reason),
        Param::Int(now.as_millisecond()),
    ];
    Ok(tx.execute(sql, &params)? == 1)
}

/// Whoever claimed it is gone, and nobody knows whether the provider has it.
pub(super) fn uncertain(
    tx: &mut Tx<'_>,
    row: &Sendable,
    now: Timestamp,
) -> Result<bool, DatabaseError> {
    let sql = "UPDATE transactional_messages
               SET status = 'uncertain', claimed_by = NULL, claimed_until = NULL, updated_at = $3,
                   last_error = 'it was handed over, and the process ended before an answer came'
               WHERE id = $1 AND attempts = $2 AND status = 'claimed' AND claimed_until <= $3
                 AND handed_at IS NOT NULL";
    let params =
        [Param::Int(row.id.get()), Param::Int(row.attempts), Param::Int(now.as_millisecond())];
    Ok(tx.execute(sql, &params)? == 1)
}

/// When the send log has it, decided once: what an event says later of `sent_at` must not make a second line.
pub(super) fn logged(
    tx: &mut Tx<'_>,
    row: &Sendable,
    now: Timestamp,
) -> Result<Timestamp, DatabaseError> {
    let sql =
        "UPDATE transactional_messages SET logged_at = COALESCE(logged_at, sent_at, handed_at, $2)
               WHERE id = $1 RETURNING logged_at";
    let rows = tx.query(sql, &[Param::Int(row.id.get()), Param::Int(now.as_millisecond())])?;
    rows.first().ok_or(DatabaseError::NoRow)?.time(0)
}

pub(super) fn shortened(text: &str) -> String {
    text.chars().filter(|c| *c != '\0').take(MAX_ERROR).collect()
}
