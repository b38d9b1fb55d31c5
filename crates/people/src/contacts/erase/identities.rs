//! What erased people were known by, as a keyed hash of each, and when they were erased: what was heard of them before and is
//! still on its way must not bring them back.
//!
//! It is kept with the addresses that webhooks are not to tell, for as long as anything can be on its way, and swept with them.

use jiff::Timestamp;
use tidings_access::Cx;
use tidings_kernel::EmailAddress;
use tidings_sql::{Among, DatabaseError, Param, Tx};

use super::super::{ContactId, KnownBy};
use crate::suppression::memory::Secret;

/// Writes it down, before the identities go.
pub(super) fn remember(
    tx: &mut Tx<'_>,
    cx: &Cx,
    family: &[ContactId],
    secret: &Secret,
) -> Result<(), DatabaseError> {
    let ids: Vec<i64> = family.iter().map(|one| one.get()).collect();
    let sql = "SELECT channel, value FROM channel_identities WHERE lead_id {among}";
    for row in &tx.query_among(sql, &[], Among::Ints(&ids))? {
        let hash = hash(secret, row.text(0)?, row.text(1)?);
        let sql = "INSERT INTO webhook_erasures (workspace_id, address_hash, erased_at) VALUES ($1, $2, $3)
                   ON CONFLICT (workspace_id, address_hash) DO UPDATE SET erased_at = excluded.erased_at";
        let workspace = Param::Int(cx.workspace_id().get());
        tx.execute(sql, &[workspace, Param::Text(&hash), cx.now().into()])?;
    }
    Ok(())
}

/// Whether somebody who was known by this was erased after something was heard of him.
pub fn was_erased_since(
    tx: &mut Tx<'_>,
    cx: &Cx,
    known_by: KnownBy<'_>,
    heard_at: Timestamp,
) -> Result<bool, DatabaseError> {
    let Some(secret) = Secret::find(tx, cx)? else { return Ok(false) };
    let hash = hash(&secret, known_by.channel, known_by.value);
    let sql = "SELECT 1 FROM webhook_erasures
               WHERE workspace_id = $1 AND address_hash = $2 AND erased_at > $3";
    let workspace = Param::Int(cx.workspace_id().get());
    Ok(!tx.query(sql, &[workspace, Param::Text(&hash), heard_at.into()])?.is_empty())
}

/// Whether an address was this contact's, who is erased: both went in one transaction, at one time.
pub fn was_address_of(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
    email: &EmailAddress,
) -> Result<bool, DatabaseError> {
    let Some(secret) = Secret::find(tx, cx)? else { return Ok(false) };
    let hash = hash(&secret, "email", email.as_str());
    let sql = "SELECT 1 FROM webhook_erasures e
               JOIN leads l ON l.workspace_id = e.workspace_id AND l.erased_at = e.erased_at
               WHERE e.workspace_id = $1 AND e.address_hash = $2 AND l.id = $3";
    let workspace = Param::Int(cx.workspace_id().get());
    let params = [workspace, Param::Text(&hash), Param::Int(contact.get())];
    Ok(!tx.query(sql, &params)?.is_empty())
}

/// No line of an address begins like this, so no webhook takes it for one.
fn hash(secret: &Secret, channel: &str, value: &str) -> String {
    secret.hash_text(&format!("identity\n{channel}\n{value}"))
}
