//! How long what was told is kept, and how it is forgotten when a person is.

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::{SignedDuration, Timestamp};
use sha2::Sha256;
use tidings_access::{Access, Cx};
use tidings_kernel::{EmailAddress, hex};
use tidings_sql::{DatabaseError, Param, Tx};

use crate::fanout::hash;

/// After so many days what was told is deleted. That and when it was told stays for longer.
pub const BODIES_KEPT_DAYS: i64 = 30;
/// After so many days nothing of a delivery is left. An event that is announced again after that is told again.
pub const ROWS_KEPT_DAYS: i64 = 90;
/// A delivery that has been due for so many days and was not tried has lost what should have brought it.
const LOST_AFTER_DAYS: i64 = 3;

/// Forgets what the endpoints were told of an address, in the transaction that erases the person. What was not told yet
/// is not told any more. Tells how many deliveries that were.
pub fn erase(tx: &mut Tx<'_>, cx: &Cx, email: &EmailAddress) -> Result<u64, DatabaseError> {
    let workspace = cx.workspace_id().get();
    if let Some(hash) = secret_hash(tx, workspace, email.as_str())? {
        let sql = "INSERT INTO webhook_erasures (workspace_id, address_hash, erased_at) VALUES ($1, $2, $3)
                   ON CONFLICT (workspace_id, address_hash) DO UPDATE SET erased_at = excluded.erased_at";
        tx.execute(sql, &[Param::Int(workspace), Param::Text(&hash), cx.now().into()])?;
    }
    let about = hash(workspace, email.as_str());
    let params = [Param::Int(workspace), Param::Text(&about)];
    // An endpoint may have answered with what it was told.
    let answers = "UPDATE webhook_attempts SET answer = NULL WHERE delivery_id IN
                       (SELECT id FROM webhook_deliveries WHERE workspace_id = $1 AND about = $2)";
    tx.execute(answers, &params)?;
    let bodies = "UPDATE webhook_deliveries
                  SET body = '', about = NULL, claimed_until = NULL, next_attempt_at = NULL,
                      failure = CASE WHEN status = 'pending' THEN 'erased' ELSE failure END,
                      status = CASE WHEN status = 'pending' THEN 'failed' ELSE status END
                  WHERE workspace_id = $1 AND about = $2";
    tx.execute(bodies, &params)
}

/// When an address was erased last, if that is not long ago. Nothing is known of those that never were here.
pub fn erased_at(
    tx: &mut Tx<'_>,
    workspace: i64,
    email: &str,
) -> Result<Option<Timestamp>, DatabaseError> {
    let Some(hash) = secret_hash(tx, workspace, email)? else { return Ok(None) };
    let sql =
        "SELECT erased_at FROM webhook_erasures WHERE workspace_id = $1 AND address_hash = $2";
    let rows = tx.query(sql, &[Param::Int(workspace), Param::Text(&hash)])?;
    rows.first().map(|row| row.time(0)).transpose()
}

/// As an erasure keeps an address: with the secret of the workspace. `None` if nobody was ever erased there.
fn secret_hash(
    tx: &mut Tx<'_>,
    workspace: i64,
    email: &str,
) -> Result<Option<String>, DatabaseError> {
    let sql = "SELECT secret FROM suppression_keys WHERE workspace_id = $1";
    let rows = tx.query(sql, &[Param::Int(workspace)])?;
    let Some(row) = rows.first() else { return Ok(None) };
    let mut mac = Hmac::<Sha256>::new_from_slice(row.text(0)?.as_bytes())
        .expect("a key of this hash can have any length");
    mac.update(format!("webhook\n{email}").as_bytes());
    Ok(Some(hex(&mac.finalize().into_bytes())))
}

/// Deletes up to `batch` old bodies and up to `batch` old deliveries, in all workspaces, and gives up as many that nobody
/// comes for. Tells how many: if that is not less than `batch`, there may be more.
pub async fn sweep(access: &Access, batch: usize) -> Result<usize, DatabaseError> {
    let now = access.now();
    let batch = i64::try_from(batch).unwrap_or(i64::MAX);
    let swept = access.database().write_committed(move |tx| {
        let bodies = clear_bodies(tx, days_before(now, BODIES_KEPT_DAYS), batch)?;
        let rows = delete_rows(tx, days_before(now, ROWS_KEPT_DAYS), batch)?;
        let lost = give_up_lost(tx, now, batch)?;
        let erased = forget_erasures(tx, days_before(now, ROWS_KEPT_DAYS), batch)?;
        Ok::<_, DatabaseError>(bodies.max(rows).max(lost).max(erased))
    });
    Ok(usize::try_from(swept.await?).unwrap_or(usize::MAX))
}

/// They can be replayed like others that failed.
fn give_up_lost(tx: &mut Tx<'_>, now: Timestamp, batch: i64) -> Result<u64, DatabaseError> {
    let sql = "UPDATE webhook_deliveries
               SET status = 'failed', failure = 'lost', next_attempt_at = NULL, claimed_until = NULL
               WHERE status = 'pending' AND (claimed_until IS NULL OR claimed_until <= $2) AND id IN
                   (SELECT id FROM webhook_deliveries WHERE status = 'pending' AND next_attempt_at < $1
                      AND (claimed_until IS NULL OR claimed_until <= $2) ORDER BY next_attempt_at LIMIT $3)";
    let before = Param::Int(days_before(now, LOST_AFTER_DAYS));
    tx.execute(sql, &[before, now.into(), Param::Int(batch)])
}

fn clear_bodies(tx: &mut Tx<'_>, before: i64, batch: i64) -> Result<u64, DatabaseError> {
    let old = "SELECT id FROM webhook_deliveries
               WHERE created_at < $1 AND body <> '' AND status <> 'pending' ORDER BY created_at LIMIT $2";
    let rows = tx.query(old, &[Param::Int(before), Param::Int(batch)])?;
    let mut cleared = 0;
    for row in &rows {
        let id = Param::Int(row.int(0)?);
        tx.execute("UPDATE webhook_attempts SET answer = NULL WHERE delivery_id = $1", &[id])?;
        let sql = "UPDATE webhook_deliveries SET body = '', about = NULL
                   WHERE id = $1 AND status <> 'pending'";
        cleared += tx.execute(sql, &[id])?;
    }
    Ok(cleared)
}

fn delete_rows(tx: &mut Tx<'_>, before: i64, batch: i64) -> Result<u64, DatabaseError> {
    let old = "SELECT id FROM webhook_deliveries
               WHERE created_at < $1 AND status <> 'pending' ORDER BY created_at, id LIMIT $2";
    let rows = tx.query(old, &[Param::Int(before), Param::Int(batch)])?;
    let mut deleted = 0;
    for row in &rows {
        let id = Param::Int(row.int(0)?);
        tx.execute("DELETE FROM webhook_attempts WHERE delivery_id = $1", &[id])?;
        let sql = "DELETE FROM webhook_deliveries WHERE id = $1 AND status <> 'pending'";
        deleted += tx.execute(sql, &[id])?;
    }
    Ok(deleted)
}

fn forget_erasures(tx: &mut Tx<'_>, before: i64, batch: i64) -> Result<u64, DatabaseError> {
    let old = "SELECT workspace_id, address_hash FROM webhook_erasures
               WHERE erased_at < $1 ORDER BY erased_at LIMIT $2";
    let rows = tx.query(old, &[Param::Int(before), Param::Int(batch)])?;
    let mut deleted = 0;
    for row in &rows {
        let sql = "DELETE FROM webhook_erasures
                   WHERE workspace_id = $1 AND address_hash = $2 AND erased_at < $3";
        let params = [Param::Int(row.int(0)?), Param::Text(row.text(1)?), Param::Int(before)];
        deleted += tx.execute(sql, &params)?;
    }
    Ok(deleted)
}

fn days_before(now: Timestamp, days: i64) -> i64 {
    let before = now.checked_sub(SignedDuration::from_hours(24 * days));
    before.unwrap_or(Timestamp::UNIX_EPOCH).as_millisecond()
}
