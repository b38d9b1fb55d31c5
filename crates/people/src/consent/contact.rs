//! The person whose consent it is.

use jiff::Timestamp;
use tidings_access::Cx;
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Param, Tx};

use super::Whom;
use crate::contacts::{self, ContactId, MAX_ADDRESSES};

/// What consent needs to know of a contact.
#[derive(Debug, Clone)]
pub(super) struct Contact {
    pub(super) id: ContactId,
    /// Since when nothing but transactional mail is wanted, as the relation has it.
    pub(super) left_at: Option<Timestamp>,
    /// By whose address or id he was named, of those whom he is put together from. `None` where that cannot be told: his id is
    /// that of the whole person.
    pub(super) named: Option<ContactId>,
}

/// Whoever has the address is found or made.
pub(super) fn found_or_made(
    tx: &mut Tx<'_>,
    cx: &Cx,
    whom: &Whom,
) -> Result<Option<Contact>, DatabaseError> {
    if let Some(contact) = find(tx, cx, whom)? {
        return Ok(Some(contact));
    }
    match whom {
        Whom::Contact(_) => Ok(None),
        Whom::Email(email) => {
            let id = contacts::ensure(tx, cx, email)?;
            find(tx, cx, &Whom::Contact(id.get().into()))
        }
    }
}

/// Whoever is meant, as he is known now: who was merged is the one that he was merged into.
pub(super) fn find(
    tx: &mut Tx<'_>,
    cx: &Cx,
    whom: &Whom,
) -> Result<Option<Contact>, DatabaseError> {
    let workspace = Param::Int(cx.workspace_id().get());
    let rows = match whom {
        Whom::Email(email) => {
            let sql = "SELECT l.id, l.unsubscribed_at, coalesce(i.home_lead_id, i.lead_id)
                       FROM channel_identities i
                       JOIN leads l ON l.workspace_id = i.workspace_id AND l.id = i.lead_id
                       WHERE i.workspace_id = $1 AND i.channel = 'email' AND i.value = $2";
            tx.query(sql, &[workspace, Param::Text(email.as_str())])?
        }
        Whom::Contact(id) => {
            let sql = "WITH RECURSIVE way (id, up, left_at) AS (
                           SELECT id, merged_into_id, unsubscribed_at FROM leads
                           WHERE workspace_id = $1 AND id = $2
                           UNION SELECT l.id, l.merged_into_id, l.unsubscribed_at
                           FROM leads l JOIN way w ON l.id = w.up)
                       SELECT id, left_at, CASE WHEN id = $2 THEN NULL ELSE $2 END
                       FROM way WHERE up IS NULL";
            tx.query(sql, &[workspace, Param::Int(id.get())])?
        }
    };
    let Some(row) = rows.first() else { return Ok(None) };
    let named = row.optional_int(2)?.map(ContactId::from);
    Ok(Some(Contact { id: ContactId::from(row.int(0)?), left_at: row.optional_time(1)?, named }))
}

pub(super) fn addresses(
    tx: &mut Tx<'_>,
    cx: &Cx,
    contact: ContactId,
) -> Result<Vec<EmailAddress>, DatabaseError> {
    let sql = "SELECT value FROM channel_identities
               WHERE workspace_id = $1 AND lead_id = $2 AND channel = 'email' ORDER BY id LIMIT $3";
    let params =
        [Param::Int(cx.workspace_id().get()), Param::Int(contact.get()), Param::Int(MAX_ADDRESSES)];
    tx.query(sql, &params)?.iter().map(|row| row.parsed(0, "an e-mail address")).collect()
}
