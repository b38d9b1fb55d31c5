//! The relations of a contact: `leads`, `channel_identities`, `lead_organizations`.

use jiff::Timestamp;
use tidings_access::Cx;
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Param, Tx};

use super::values::ContactId;
use crate::consent::erased;
use crate::news;

/// So many addresses of one person are looked at: marked when he leaves, and cleaned when he is erased.
pub(crate) const MAX_ADDRESSES: i64 = 1000;

/// What the relations say of the person with an address.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) id: ContactId,
    /// The address as somebody wrote it.
    pub(crate) typed: String,
    pub(crate) unsubscribed_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
}

pub(crate) fn find(
    tx: &mut Tx<'_>,
    cx: &Cx,
    email: &EmailAddress,
) -> Result<Option<Known>, DatabaseError> {
    let sql = "SELECT l.id, i.typed_value, l.unsubscribed_at, l.created_at
               FROM channel_identities i JOIN leads l ON l.id = i.lead_id
               WHERE i.workspace_id = $1 AND i.channel = 'email' AND i.value = $2";
    let params = [Param::Int(cx.workspace_id().get()), Param::Text(email.as_str())];
    let rows = tx.query(sql, &params)?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Known {
        id: ContactId::from(row.int(0)?),
        typed: row.text(1)?.to_owned(),
        unsubscribed_at: row.optional_time(2)?,
        created_at: row.time(3)?,
    }))
}

/// Finds the person with an address or makes one, in the caller's transaction. What somebody erased with this address had
/// unsubscribed from and switched off holds for whoever is made.
pub fn ensure(tx: &mut Tx<'_>, cx: &Cx, email: &EmailAddress) -> Result<ContactId, DatabaseError> {
    if let Some(known) = find(tx, cx, email)? {
        return Ok(known.id);
    }
    let (workspace, now) =
        (Param::Int(cx.workspace_id().get()), Param::Int(cx.now().as_millisecond()));
    let lead =
        "INSERT INTO leads (workspace_id, created_at, updated_at) VALUES ($1, $2, $2) RETURNING id";
    let rows = tx.query(lead, &[workspace, now])?;
    let id = rows.first().ok_or(DatabaseError::NoRow)?.int(0)?;
    let identity = "INSERT INTO channel_identities
                        (workspace_id, lead_id, channel, value, typed_value, created_at, updated_at)
                    VALUES ($1, $2, 'email', $3, $4, $5, $5)
                    ON CONFLICT (workspace_id, channel, value) DO NOTHING";
    let (value, typed) = (Param::Text(email.as_str()), Param::Text(email.typed()));
    if tx.execute(identity, &[workspace, Param::Int(id), value, typed, now])? == 0 {
        // Somebody else was faster. A transaction that looks as if it ran alone never comes here, others do.
        tx.execute("DELETE FROM leads WHERE id = $1", &[Param::Int(id)])?;
        return find(tx, cx, email)?.map(|known| known.id).ok_or(DatabaseError::Conflict);
    }
    let organization =
        "INSERT INTO lead_organizations (workspace_id, lead_id, created_at, updated_at)
                        VALUES ($1, $2, $3, $3)";
    tx.execute(organization, &[workspace, Param::Int(id), now])?;
    tidings_webhooks::announce(cx, tx, &news::created(cx, id, email))?;
    let id = ContactId::from(id);
    erased::restore(tx, cx, &[(id, email)])?;
    Ok(id)
}
