//! People as a product calls its users. Here: whose id it is, and learning it. Not here: what else is known of somebody.

use jiff::Timestamp;
use tidings_access::Cx;
use tidings_kernel::EmailAddress;
use tidings_sql::{DatabaseError, Param};

use super::store;

/// The longest id of a user, in characters.
pub const MAX_USER_ID: usize = 255;

/// The address of whoever a product calls so, if anybody has told us.
pub async fn of_user_id(cx: &Cx, user_id: &str) -> Result<Option<EmailAddress>, DatabaseError> {
    let (workspace, user_id) = (cx.workspace_id().get(), user_id.to_owned());
    let read = cx.database().read(move |tx| {
        let sql = "SELECT e.value FROM channel_identities u
                   JOIN channel_identities e ON e.lead_id = u.lead_id AND e.channel = 'email'
                   WHERE u.workspace_id = $1 AND u.channel = 'user_id' AND u.value = $2
                   ORDER BY e.id LIMIT 1";
        let rows = tx.query(sql, &[Param::Int(workspace), Param::Text(&user_id)])?;
        rows.first().map(|row| row.parsed(0, "an address")).transpose()
    });
    read.await
}

/// Writes down that a product calls the person with this address so. If it was another person's id it is his from now on,
/// unless that was said later than this. Nothing happens if nobody has the address.
pub async fn learn_user_id(
    cx: &Cx,
    email: &EmailAddress,
    user_id: &str,
    at: Timestamp,
) -> Result<(), DatabaseError> {
    let (within, email, user_id) = (cx.clone(), email.clone(), user_id.to_owned());
    let write = cx.database().write(move |tx| {
        let Some(known) = store::find(tx, &within, &email)? else { return Ok(()) };
        let sql = "INSERT INTO channel_identities
                       (workspace_id, lead_id, channel, value, typed_value, created_at, updated_at)
                   VALUES ($1, $2, 'user_id', $3, $3, $4, $4)
                   ON CONFLICT (workspace_id, channel, value)
                   DO UPDATE SET lead_id = excluded.lead_id, updated_at = excluded.updated_at
                   WHERE channel_identities.lead_id <> excluded.lead_id
                     AND channel_identities.updated_at <= excluded.updated_at";
        let params = [
            Param::Int(within.workspace_id().get()),
            Param::Int(known.id.get()),
            Param::Text(&user_id),
            Param::from(at),
        ];
        tx.execute(sql, &params).map(drop)
    });
    write.await
}
