//! The way of recipients through their states: one statement for all to whom the same happens. Every one says what it
//! assumes, so that of two workers one does it, and that what comes late changes nothing.
//!
//! `attempts` counts the claims, and so it tells a claim from the one before: an answer belongs to the claim that
//! asked for it.

use jiff::Timestamp;
use serde_json::json;
use tidings_access::Cx;
use tidings_delivery::ledger::answers::{LEASE, MOST_REFUSALS};
use tidings_delivery::ledger::tallies;
use tidings_sql::{Among, DatabaseError, Dialect, Param, Row, Tx};

use crate::campaigns::CampaignId;

/// The most characters that are kept of what a provider said.
const MAX_ERROR: usize = 1_000;

/// A recipient as somebody knows him, and what is said of him.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) id: i64,
    pub(super) attempts: i64,
    /// What the provider calls the message, or the kind of failure, or the reason to skip.
    pub(super) word: Option<String>,
    /// What was said, for people.
    pub(super) text: Option<String>,
}

impl Given {
    pub(super) fn new(id: i64, attempts: i64) -> Self {
        Self { id, attempts, word: None, text: None }
    }

    pub(super) fn word(self, word: impl Into<String>) -> Self {
        Self { word: Some(word.into()), ..self }
    }

    pub(super) fn text(self, text: &str) -> Self {
        let short = text.chars().filter(|c| *c != '\0').take(MAX_ERROR).collect();
        Self { text: Some(short), ..self }
    }
}

/// Where a batch is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) campaign: CampaignId,
    pub(super) batch_id: &'a str,
    /// Who sends, and over whom.
    pub(super) claimant: &'a str,
    pub(super) provider: &'a str,
}

/// A recipient whose message the provider has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) id: i64,
    /// As it is now: who was erased has none.
    pub(super) email: Option<String>,
    /// Where the send log has it, or will.
    pub(super) logged_at: Timestamp,
    pub(super) provider_message_id: Option<String>,
}

/// The plus keeps SQLite from its index of a campaign's recipients: it would go through all of them, and not only look up
/// those that are given.
const CLAIM: &str = "UPDATE campaign_recipients
               SET status = 'claimed', claimed_by = $3, claimed_until = $4, handed_at = $5, attempts = attempts + 1,
                   provider = $6, last_error = NULL, fail_reason = NULL, updated_at = $5
               FROM {given}
               WHERE id = of_id AND attempts = of_attempts AND +campaign_id = $1 AND batch_id = $2
                 AND (status IN ('pending', 'queued')
                      OR (status = 'claimed' AND claimed_until <= $5 AND handed_at IS NULL))
                 AND EXISTS (SELECT 1 FROM campaigns c WHERE c.id = $1 AND c.status = 'sending')
               RETURNING id";

/// Claims recipients and says that they are being handed over, in one statement: from here on a crash leaves them
/// uncertain. Tells who they are: nobody, if the campaign is not sending any more; and without those with whom somebody else
/// was faster, and those who were moved to another batch, which would wait for them in vain.
pub(super) fn claim(
    tx: &mut Tx<'_>,
    place: &Place<'_>,
    given: &[Given],
    now: Timestamp,
) -> Result<Vec<i64>, DatabaseError> {
    let until = now.checked_add(LEASE).unwrap_or(Timestamp::MAX);
    let params = [
        Param::Int(place.campaign.get()),
        Param::Text(place.batch_id),
        Param::Text(place.claimant),
        Param::from(until),
        Param::from(now),
        Param::Text(place.provider),
    ];
    run(tx, CLAIM, &params, given)?.iter().map(|row| row.int(0)).collect()
}

/// Lets those go who were claimed in a commit of which nobody heard: so nobody has handed them over. Whoever was claimed
/// by somebody else meanwhile stays so.
pub(super) fn let_go(
    tx: &mut Tx<'_>,
    claimant: &str,
    given: &[Given],
    now: Timestamp,
) -> Result<(), DatabaseError> {
    if tx.dialect() == Dialect::Postgres {
        // That commit may still be under way. It holds their rows, and what is looked up before it is made has not the claims.
        let ids: Vec<i64> = given.iter().map(|one| one.id).collect();
        let sql = "SELECT id FROM campaign_recipients WHERE id {among} ORDER BY id FOR UPDATE";
        tx.query_among(sql, &[], Among::Ints(&ids))?;
    }
    let sql = "UPDATE campaign_recipients
               SET status = 'pending', handed_at = NULL, claimed_by = NULL, claimed_until = NULL, updated_at = $1
               FROM {given}
               WHERE id = of_id AND attempts = of_attempts + 1 AND status = 'claimed' AND claimed_by = $2
               RETURNING id";
    run(tx, sql, &[Param::from(now), Param::Text(claimant)], given).map(drop)
}

/// The provider has them. Their events may have come before this answer, and then know more than it.
pub(super) fn accepted(
    tx: &mut Tx<'_>,
    cx: &Cx,
    given: &[Given],
    now: Timestamp,
) -> Result<Vec<Taken>, DatabaseError> {
    let sql = "UPDATE campaign_recipients
               SET status = CASE WHEN status IN ('claimed', 'uncertain') THEN 'sent' ELSE status END,
                   sent_at = COALESCE(sent_at, $1), logged_at = COALESCE(logged_at, $1),
                   ses_message_id = COALESCE(ses_message_id, word), claimed_by = NULL, claimed_until = NULL,
                   updated_at = $1
               FROM {given}
               WHERE id = of_id AND attempts = of_attempts AND status NOT IN ('pending', 'queued', 'skipped')
               RETURNING id, email, logged_at, ses_message_id, tallied";
    let rows = run(tx, sql, &[Param::from(now)], given)?;
    let mut taken = Vec::with_capacity(rows.len());
    for row in &rows {
        let id = row.int(0)?;
        correct(tx, cx, (id, row.optional_text(4)?))?;
        taken.push(Taken {
            id,
            email: row.optional_text(1)?.map(ToOwned::to_owned),
            logged_at: row.time(2)?,
            provider_message_id: row.optional_text(3)?.map(ToOwned::to_owned),
        });
    }
    Ok(taken)
}

/// They cannot be sent to: the provider refused them for good. `word` is the kind of failure. Tells who they are.
pub(super) fn refused(
    tx: &mut Tx<'_>,
    cx: &Cx,
    given: &[Given],
    now: Timestamp,
) -> Result<Vec<i64>, DatabaseError> {
    let sql = "UPDATE campaign_recipients
               SET status = 'failed', fail_reason = word, last_error = said, claimed_by = NULL, claimed_until = NULL,
                   updated_at = $1
               FROM {given}
               WHERE id = of_id AND attempts = of_attempts AND status IN ('claimed', 'uncertain')
               RETURNING id, tallied";
    let rows = run(tx, sql, &[Param::from(now)], given)?;
    ended(tx, cx, &rows)
}

/// The same for those who were handed to nobody.
pub(super) fn failed(
    tx: &mut Tx<'_>,
    given: &[Given],
    now: Timestamp,
) -> Result<Vec<i64>, DatabaseError> {
    let sql =
        "UPDATE campaign_recipients SET status = 'failed', fail_reason = word, last_error = said,
                   claimed_by = NULL, claimed_until = NULL, updated_at = $1
               FROM {given}
               WHERE id = of_id AND attempts = of_attempts
                 AND (status IN ('pending', 'queued')
                      OR (status = 'claimed' AND claimed_until <= $1 AND handed_at IS NULL))
               RETURNING id";
    run(tx, sql, &[Param::from(now)], given)?.iter().map(|row| row.int(0)).collect()
}

/// They must not be written to; `word` says why. Tells who they are.
pub(super) fn skipped(
    tx: &mut Tx<'_>,
    given: &[Given],
    now: Timestamp,
) -> Result<Vec<i64>, DatabaseError> {
    let sql =
        "UPDATE campaign_recipients SET status = 'skipped', skip_reason = word, claimed_by = NULL,
                   claimed_until = NULL, updated_at = $1
               FROM {given}
               WHERE id = of_id AND attempts = of_attempts
                 AND (status IN ('pending', 'queued')
                      OR (status = 'claimed' AND claimed_until <= $1 AND handed_at IS NULL))
               RETURNING id";
    run(tx, sql, &[Param::from(now)], given)?.iter().map(|row| row.int(0)).collect()
}

/// Who was not taken now: those who are to be tried again, with how often it was so, and those who were tried too often.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NotNow {
    pub(super) again: Vec<(i64, i64)>,
    pub(super) failed: Vec<i64>,
}

/// The provider did not take them now.
pub(super) fn not_now(
    tx: &mut Tx<'_>,
    cx: &Cx,
    given: &[Given],
    now: Timestamp,
) -> Result<NotNow, DatabaseError> {
    let sql = format!(
        "UPDATE campaign_recipients
         SET status = CASE WHEN refusals + 1 >= {MOST_REFUSALS} THEN 'failed' ELSE 'pending' END,
             fail_reason = CASE WHEN refusals + 1 >= {MOST_REFUSALS} THEN 'not_taken' END,
             handed_at = NULL, refusals = refusals + 1, last_error = said, claimed_by = NULL, claimed_until = NULL,
             updated_at = $1
         FROM {{given}}
         WHERE id = of_id AND attempts = of_attempts AND status = 'claimed' RETURNING id, status, refusals"
    );
    let mut not_now = NotNow::default();
    let rows = run(tx, &sql, &[Param::from(now)], given)?;
    for row in &rows {
        match row.text(1)? {
            "failed" => not_now.failed.push(row.int(0)?),
            _ => not_now.again.push((row.int(0)?, row.int(2)?)),
        }
    }
    if rows.len() < given.len() {
        not_now.failed.extend(too_late(tx, cx, given, now)?);
    }
    Ok(not_now)
}

/// The provider takes nothing at all at the moment: as if they had not been tried. Tells who has failed all the same,
/// because the answer came too late.
pub(super) fn back(
    tx: &mut Tx<'_>,
    cx: &Cx,
    given: &[Given],
    now: Timestamp,
) -> Result<Vec<i64>, DatabaseError> {
    let sql = "UPDATE campaign_recipients
               SET status = 'pending', handed_at = NULL, last_error = said, claimed_by = NULL, claimed_until = NULL,
                   updated_at = $1
               FROM {given}
               WHERE id = of_id AND attempts = of_attempts AND status = 'claimed' RETURNING id";
    let rows = run(tx, sql, &[Param::from(now)], given)?;
    if rows.len() < given.len() { too_late(tx, cx, given, now) } else { Ok(Vec::new()) }
}

/// Somebody has called them uncertain, and may have ended their batch, before the provider said that it did not take them.
/// So they failed, and can be tried again like all who failed.
fn too_late(
    tx: &mut Tx<'_>,
    cx: &Cx,
    given: &[Given],
    now: Timestamp,
) -> Result<Vec<i64>, DatabaseError> {
    let sql = "UPDATE campaign_recipients
               SET status = 'failed', fail_reason = 'not_taken', last_error = said, updated_at = $1
               FROM {given}
               WHERE id = of_id AND attempts = of_attempts AND status = 'uncertain' RETURNING id, tallied";
    let rows = run(tx, sql, &[Param::from(now)], given)?;
    ended(tx, cx, &rows)
}

/// The provider was asked and did not answer.
pub(super) fn unanswered(
    tx: &mut Tx<'_>,
    given: &[Given],
    now: Timestamp,
) -> Result<Vec<i64>, DatabaseError> {
    let sql = "UPDATE campaign_recipients
               SET status = 'uncertain', last_error = said, claimed_by = NULL, claimed_until = NULL, updated_at = $1
               FROM {given}
               WHERE id = of_id AND attempts = of_attempts AND status = 'claimed' RETURNING id";
    run(tx, sql, &[Param::from(now)], given)?.iter().map(|row| row.int(0)).collect()
}

/// Whoever claimed them is gone, and nobody knows whether the provider has them.
pub(super) fn given_up(
    tx: &mut Tx<'_>,
    given: &[Given],
    now: Timestamp,
) -> Result<Vec<i64>, DatabaseError> {
    let sql = "UPDATE campaign_recipients
               SET status = 'uncertain', claimed_by = NULL, claimed_until = NULL, updated_at = $1,
                   last_error = 'it was handed over, and the process ended before an answer came'
               FROM {given}
               WHERE id = of_id AND attempts = of_attempts AND status = 'claimed' AND claimed_until <= $1
                 AND handed_at IS NOT NULL
               RETURNING id";
    run(tx, sql, &[Param::from(now)], given)?.iter().map(|row| row.int(0)).collect()
}

fn ended(tx: &mut Tx<'_>, cx: &Cx, rows: &[Row]) -> Result<Vec<i64>, DatabaseError> {
    let mut ids = Vec::with_capacity(rows.len());
    for row in rows {
        let id = row.int(0)?;
        correct(tx, cx, (id, row.optional_text(1)?))?;
        ids.push(id);
    }
    Ok(ids)
}

/// Who was counted already is counted anew.
fn correct(
    tx: &mut Tx<'_>,
    cx: &Cx,
    (id, tallied): (i64, Option<&str>),
) -> Result<(), DatabaseError> {
    match tallied {
        Some(_) => tallies::correct(tx, cx.workspace_id().get(), id),
        None => Ok(()),
    }
}

/// Runs a statement over recipients: `{given}` stands for a table with the columns `of_id`, `of_attempts`, `word` and
/// `said`.
fn run(
    tx: &mut Tx<'_>,
    sql: &str,
    params: &[Param<'_>],
    given: &[Given],
) -> Result<Vec<Row>, DatabaseError> {
    if given.is_empty() {
        return Ok(Vec::new());
    }
    let place = params.len() + 1;
    let mut params = params.to_vec();
    match tx.dialect() {
        Dialect::Sqlite => {
            let list: Vec<_> =
                given.iter().map(|one| json!([one.id, one.attempts, one.word, one.text])).collect();
            let list = json!(list).to_string();
            params.push(Param::Text(&list));
            let table = format!(
                "(SELECT value ->> 0 AS of_id, value ->> 1 AS of_attempts, value ->> 2 AS word, value ->> 3 AS said
                  FROM json_each(${place})) AS given"
            );
            tx.query(&sql.replace("{given}", &table), &params)
        }
        Dialect::Postgres => {
            let ids: Vec<_> = given.iter().map(|one| Some(one.id)).collect();
            let attempts: Vec<_> = given.iter().map(|one| Some(one.attempts)).collect();
            let words: Vec<_> = given.iter().map(|one| one.word.as_deref()).collect();
            let texts: Vec<_> = given.iter().map(|one| one.text.as_deref()).collect();
            params.extend([Param::Ints(&ids), Param::Ints(&attempts)]);
            params.extend([Param::Texts(&words), Param::Texts(&texts)]);
            let table = format!(
                "unnest(${place}::bigint[], ${}::bigint[], ${}::text[], ${}::text[])
                 AS given (of_id, of_attempts, word, said)",
                place + 1,
                place + 2,
                place + 3
            );
            tx.query(&sql.replace("{given}", &table), &params)
        }
    }
}

#[cfg(test)]
mod tests {
    use tidings_sql::{Database, DatabaseError, Param};

    use super::CLAIM;

    /// Whatever a claim costs, it does not cost more with more recipients.
    #[tokio::test]
    async fn a_claim_looks_up_those_that_are_given() {
        let database = Database::memory().await.unwrap();
        let given = "(SELECT value ->> 0 AS of_id, value ->> 1 AS of_attempts FROM json_each('[]')) AS given";
        let sql = format!("EXPLAIN QUERY PLAN {}", CLAIM.replace("{given}", given));
        let read = database.read(move |tx| {
            let rows = tx.query(&sql, &[Param::Int(1); 6])?;
            rows.iter().map(|row| row.text(3).map(str::to_owned)).collect()
        });
        let plan: Result<Vec<String>, DatabaseError> = read.await;
        let plan = plan.unwrap().join("\n");
        assert!(plan.contains("SEARCH campaign_recipients USING INTEGER PRIMARY KEY"), "{plan}");
    }
}
