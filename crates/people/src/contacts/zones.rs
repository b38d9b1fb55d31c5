//! Where somebody's clock is: the time zone of a contact. Waits until a time of day and quiet hours are by it.

use serde_json::json;
use tidings_access::{Actor, Change, Cx, StorageError};
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Param};

use crate::news;

/// The name of the time zone where whoever has the address is, if it is known.
pub async fn timezone(cx: &Cx, email: &EmailAddress) -> Result<Option<String>, StorageError> {
    let (workspace, email) = (cx.workspace_id().get(), email.clone());
    let find = cx.database().read(move |tx| {
        let sql = "SELECT l.timezone FROM channel_identities i JOIN leads l ON l.id = i.lead_id
                   WHERE i.workspace_id = $1 AND i.channel = 'email' AND i.value = $2";
        let rows = tx.query(sql, &[Param::Int(workspace), Param::Text(email.as_str())])?;
        let zone = rows.first().map(|row| row.optional_text(0)).transpose()?.flatten();
        Ok::<_, DatabaseError>(zone.map(ToOwned::to_owned))
    });
    Ok(find.await?)
}

/// Sets or clears it for whoever has the address. One that is so already changes nothing.
pub(super) async fn set(
    cx: &Cx,
    email: &EmailAddress,
    zone: Option<String>,
) -> Result<(), DatabaseError> {
    let (within, email) = (cx.clone(), email.clone());
    let write = cx.database().write(move |tx| {
        let sql = "UPDATE leads SET timezone = $3, updated_at = $4
                   WHERE timezone IS DISTINCT FROM $3 AND id = (
                       SELECT lead_id FROM channel_identities
                       WHERE workspace_id = $1 AND channel = 'email' AND value = $2)
                   RETURNING id";
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Text(email.as_str()),
            zone.as_deref().map_or(Param::Null, Param::Text),
            Param::Int(within.now().as_millisecond()),
        ];
        let rows = tx.query(sql, &params)?;
        let Some(contact) = rows.first().map(|row| row.int(0)).transpose()? else { return Ok(()) };
        tidings_webhooks::announce(&within, tx, &news::updated(&within, contact, &email))?;
        // What workers do for others is in the log of those.
        if *within.actor() == Actor::Worker {
            return Ok(());
        }
        let change = Change::new("contact.update", "contact", contact);
        within.record_change(tx, &change.after(json!({ "fields": ["timezone"] })))
    });
    write.await
}
